"""Mistakes that type checkers must see in users' code: a check that cannot fail would show nothing."""

import torch_batchsim as tbs

tbs.make_vec("cartpole", num_envs="8")
number: str = tbs.make_vec("cartpole", 8).num_envs
tbs.make_vecs("cartpole")
env: tbs.AgentsVectorEnv = tbs.make_vec("cartpole", 8)
