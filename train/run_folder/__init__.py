"""The folder of a run: checkpoints, curves, tables, videos, provenance, and the loop that writes them while it trains.

It owns the names and formats of all files, and loads a policy from them.
It must not know options of a command.
"""
