"""MaskablePPO of sb3-contrib on a small Hanabi: it finds the masks of legal moves."""

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy

from torch_batchsim.adapters.stable_baselines3 import StableBaselinesVecEnv

env = StableBaselinesVecEnv("torch_batchsim/Hanabi-v0", num_envs=128, preset="Hanabi-Very-Small")
settings = {"n_steps": 32, "batch_size": 512, "n_epochs": 4, "gamma": 1.0, "seed": 1, "device": "cpu"}
network = {"net_arch": [128, 128]}
model = MaskablePPO("MlpPolicy", env, learning_rate=2e-3, ent_coef=0.03, policy_kwargs=network, **settings)
random, _ = evaluate_policy(model, env, n_eval_episodes=512, deterministic=False)  # 0.05 of 5 points
model.learn(150_000)
mean, _ = evaluate_policy(model, env, n_eval_episodes=512)  # 2.0
