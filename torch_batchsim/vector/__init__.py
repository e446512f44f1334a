"""Environments as gymnasium and trainers want them: rows of agents, infos, wrappers, groups of worlds, registration.

It owns ``TorchVectorEnv`` and its relatives, the validation of actions, bound outputs, and the registry. It must not
reach into C++ or the build: the simulator's public calls are what it stands on.
"""
