"""Thin adapters to other libraries' interfaces, one module each; ``docs/use_with.md`` has the shortest script for each.

Each module needs the library that it is for, which the extra of that name brings, and is imported by its full name::

    from torch_batchsim.adapters.torchrl import TorchRLEnv
"""
