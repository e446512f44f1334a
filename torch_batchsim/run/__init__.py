"""Runs what was built: the simulator, its steps, interrupts, faults, traces, tuning, logs, one system at a time.

It owns ``Simulator`` and the call of a step, checks actions, and turns the result of a step into errors. It must not
know gymnasium's vector environments, agents' rows or wrappers.
"""
