"""PufferLib's own PPO on CartPole. Prints the mean return: 500 after 11 seconds of one core.

Its trainer needs a library that the wheel has only for CUDA 12; PufferLib's source is compiled in its place, which
takes half a minute.
"""

import sys
from pathlib import Path

import pufferlib
from torch.utils.cpp_extension import load

sources = [str(Path(pufferlib.__file__).parent / "extensions" / "pufferlib.cpp")]
pufferlib._C = sys.modules["pufferlib._C"] = load("_C", sources)

import pufferlib.models  # noqa: E402
import pufferlib.pufferl  # noqa: E402, which imports that library
import pufferlib.vector  # noqa: E402

from torch_batchsim.adapters.pufferlib import PufferLibEnv  # noqa: E402

vecenv = pufferlib.vector.make(
    PufferLibEnv,
    env_args=["torch_batchsim/CartPole-v0"],
    env_kwargs={"num_envs": 256},
    backend=pufferlib.vector.Serial,
)
config = {
    "env": "CartPole",
    "seed": 0,
    "device": "cpu",
    "cpu_offload": False,
    "precision": "float32",
    "compile": False,
    "torch_deterministic": True,
    "total_timesteps": 1_000_000,
    "batch_size": "auto",
    "bptt_horizon": 32,
    "minibatch_size": 4096,
    "max_minibatch_size": 4096,
    "update_epochs": 4,
    "optimizer": "adam",
    "learning_rate": 1e-2,
    "anneal_lr": True,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_eps": 1e-8,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_coef": 0.2,
    "vf_coef": 0.5,
    "vf_clip_coef": 10.0,
    "ent_coef": 0.01,
    "max_grad_norm": 0.5,
    "prio_alpha": 0.8,
    "prio_beta0": 0.2,
    "vtrace_rho_clip": 1.0,
    "vtrace_c_clip": 1.0,
    "use_rnn": False,
    "checkpoint_interval": 1000,
    "data_dir": "runs/pufferlib",
}
trainer = pufferlib.pufferl.PuffeRL(config, vecenv, pufferlib.models.Default(vecenv))
while trainer.global_step < config["total_timesteps"]:
    trainer.evaluate()
    logs = trainer.train()
print(logs["environment/episode_return"])
trainer.close()
