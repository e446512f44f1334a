"""The memory of a batch of worlds: columns, dynamic tables, outputs, rows from outside, saved and held values.

It owns every tensor of a simulator, checks the arguments that name worlds, rows and values, and saves and restores
states. It must not call a step.
"""
