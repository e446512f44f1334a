"""Writes the policy of a checkpoint as a file of torch.export, which torch loads and runs without this package.

``python -m torch_batchsim.train.export runs/... --output policy.pt2``
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torch_batchsim.base.extras import command_needs
from torch_batchsim.command_line import Parser, UsageError

from .policies.encoders import Observation
from .policies.networks import ActorCritic
from .rollouts.rollout import map_leaves
from .run_folder import checkpoint
from .run_folder.loading import agents_of, env_of

PROGRAM = "python -m torch_batchsim.train.export"
ABOUT = "torch_batchsim.json"
"""The extra file within an exported one that describes its arguments and results."""


class Exported(nn.Module):
    """The likeliest actions of a policy, for any number of rows N, from observations as the environment shows them:
    scaled, normalised and read in here, as in the training.

    Takes the observation (a tensor `[N, ...]`, or a dict of them), an action mask bool `[N, n]` if the environment has
    one, and, of a policy with a memory, its state float32 `[N, state_size]`, zeros at the beginning of an episode.
    Returns actions as the environment takes them; with a memory also the next state.
    """

    def __init__(self, agent: ActorCritic, masked: bool) -> None:
        super().__init__()
        self.agent, self.masked = agent, masked

    def forward(self, observation: Observation, *others: Tensor) -> Any:
        given = list(others)
        mask = given.pop(0) if self.masked else None
        inputs = self.agent.encode(observation)
        if not self.agent.state_size:
            return self._actions(self.agent.outputs(inputs), mask)
        outputs, state = self.agent.step(inputs, given.pop(0))
        return self._actions(outputs, mask), state

    def _actions(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        policy = self.agent.policy
        return policy.to_env(policy.likeliest(outputs, mask))


def exported(agent: ActorCritic, observation: Observation, mask: Tensor | None) -> torch.export.ExportedProgram:
    """A policy's program, on the CPU, given an observation of 2 or more rows."""
    acting = deepcopy(agent)
    del acting.critic  # which does not act
    module = Exported(acting, mask is not None).eval()
    rows = len(next(iter(observation.values())) if isinstance(observation, dict) else observation)
    others = [] if mask is None else [mask.clone()]
    others += [agent.hidden(rows)] if agent.state_size else []
    seen = map_leaves(torch.Tensor.clone, observation)
    each = {0: torch.export.Dim("rows")}
    shapes = dict.fromkeys(seen, each) if isinstance(seen, dict) else each
    dynamic = (shapes, tuple(each for _ in others)) if others else (shapes,)
    with torch.no_grad():
        return torch.export.export(module, (seen, *others), dynamic_shapes=dynamic)


def export(contents: dict[str, Any], output: Path, named: str | None = None) -> list[Path]:
    """Writes the policies of a checkpoint's contents: one file, or one for each team, `-team0` behind its stem.

    `named` is the environment as a user names it, where this package does not have it: `module:id` or `file.py`.

    Returns the files. Raises OSError where one cannot be written, ValueError where the environment cannot be made.
    """
    env = env_of(contents, named, num_worlds=3)
    observation, infos = env.reset(seed=0)
    mask, agents = infos.get("action_mask"), agents_of(contents["trainer"], env)
    env.close()
    written = []
    for team, agent in [(None, agents)] if isinstance(agents, ActorCritic) else agents.items():
        path = output if team is None else output.with_stem(f"{output.stem}-team{team}")
        about = {
            "env": contents["env"],
            "env_options": contents["env_options"],
            "team": team,
            "observation": _described(observation),
            "action_mask": None if mask is None else _described(mask),
            "state_size": agent.state_size,
        }
        whole = io.BytesIO()  # torch says RuntimeError of a file that it cannot write
        torch.export.save(exported(agent, observation, mask), whole, extra_files={ABOUT: json.dumps(about)})
        path.write_bytes(whole.getvalue())
        written.append(path)
    return written


def _described(shown: Any) -> Any:
    """Shapes of a row, and types."""
    if isinstance(shown, dict):
        return {name: _described(leaf) for name, leaf in shown.items()}
    return {"shape": list(shown.shape[1:]), "dtype": str(shown.dtype).removeprefix("torch.")}


def main(arguments: Sequence[str] | None = None) -> None:
    """Export, and print the files. Raises UsageError."""
    parser = Parser(PROGRAM, description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="a run's folder, a checkpoint, or latest: the newest in runs/")
    parser.add_argument("--output", type=Path, help="the file, .pt2; policy.pt2 beside the checkpoint if not given")
    parser.add_argument("--env", metavar="NAME", help=checkpoint.HELP_OF_ENV)
    options = parser.parse_args(arguments)
    output = options.output
    try:
        path = checkpoint.find(options.checkpoint, None)
        output = output or path.with_name("policy.pt2")
        if output.suffix != ".pt2":
            raise ValueError(f"--output writes .pt2, but {output} was given")
        output.parent.mkdir(parents=True, exist_ok=True)
        for file in export(checkpoint.load(path, None), output, options.env):
            print(f"policy          {file}")
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror or error}") from None


if __name__ == "__main__":
    command_needs("tyro", "tqdm", "tensorboard", "matplotlib", "PIL")
    main()
