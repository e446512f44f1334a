"""Steps of environments: the storage of a rollout, who acts for which rows, evaluations, checks of numbers.

It owns past policies (`league`), rollouts as CUDA graphs (`captured`) and the random policy (`baseline`).
It must not know losses, optimisers or files.
"""
