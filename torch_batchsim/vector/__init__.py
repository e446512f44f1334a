"""Environments as gymnasium and trainers want them: rows of agents, infos, wrappers, groups of worlds, registration.

It owns ``TorchVectorEnv`` and its relatives, the names of outputs by row, and the registry. It must not import
anything of ``build``.
"""
