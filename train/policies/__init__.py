"""The networks: how an observation enters them, what they remember, and the distributions that actions are drawn from.

It owns `ActorCritic` and all that is saved as its state, running means and deviations included.
It must not know how a rollout is made, or how a policy learns.
"""
