"""The networks: encoders of observations, memories, and the distributions that actions are drawn from.

It owns `ActorCritic` and all that is saved as its state, running means and deviations included.
It must not know rollouts or learning.
"""
