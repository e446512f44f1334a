"""Runs what was built: the simulator, its steps, interrupts, faults, traces, tuning, logs, one system at a time.

It owns ``Simulator`` and the call of a step, and turns the codes that a step returns into errors. It must not know
gymnasium's vector environments, agents' rows or wrappers.
"""
