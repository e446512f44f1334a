"""Thin adapters to other libraries' interfaces, one module each; ``docs/use_with.md`` has the shortest script for each.

Each module needs its library, which the extra of that name brings, and is imported by its full name. ``records`` lists
them all; no other package but ``bench`` imports an adapter::

    from torch_batchsim.adapters.torchrl import TorchRLEnv
"""
