"""A picture of many worlds side by side, or an animation: ``python -m torch_batchsim.gallery cartpole --worlds 60``.

Worlds take random legal actions, those of a policy of the environment, or of ``torch_batchsim.train``. After an episode
the next one begins, so that worlds show different moments.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from .base.extras import command_needs
from .command_line import Parser, long_env_options, parse_env_options, refuse_unknown
from .declare.policies import policies_of
from .draw import tiled
from .errors import MissingExtra, WorldFault
from .vector.registration import environment_class, find_id, option_names

PROGRAM = "python -m torch_batchsim.gallery"
Policy = Callable[[Any, dict[str, Any]], Any]
"""Observations and infos of the whole batch to its actions."""
MOST_WORLDS = 4096
MOST_FRAMES = 2000
SAID_OTHERWISE = {
    "id": "the first argument",
    "num_envs": "--worlds",
    "num_worlds": "--worlds",
    "render_mode": "--out",
    "render_worlds": "--worlds",
}
"""Options of this command by the names of ``gymnasium.make_vec``."""


class GalleryError(Exception):
    """The reason why a command cannot make its picture or recording, in one sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 when the picture is written, 1 after a world's fault, 2 for a mistake in the command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parser().parse_args(long_arguments(given, _OWN, PROGRAM))
        _check(options)
        with torch.no_grad():
            size = _run(options)
    except GalleryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except WorldFault as fault:
        print(f"error: {fault.faults[0]}", file=sys.stderr)
        return 1
    print(f"{options.out}: {options.worlds} worlds, {size[1]} x {size[0]} pixels, {options.out.stat().st_size:,} bytes")
    return 0


_OWN = ("worlds", "columns", "steps", "every", "policy", "width", "gap", "colours", "seed", "env_option", "out", "help")


def long_arguments(given: list[str], own: Sequence[str], program: str) -> list[str]:
    """The arguments, with ``--preset walls`` as ``--env-option preset=walls``; rejects unknown options."""
    if not given or given[0].startswith("-"):
        return given
    name, *rest = given
    try:
        known = [option for option in option_names(id_of(name)) if option not in own]
    except ImportError as error:
        raise GalleryError(f"{name} cannot be imported: {error}") from error
    rest = long_env_options(rest, known)
    refuse_unknown(rest, own, known, f"{program} {name}")
    return [name, *rest]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(PROGRAM, description=__doc__)
    parser.add_argument("environment", help="one that defines render(): cartpole, an id, module:id or file.py")
    taken = "taken before the picture, or shown by the animation"
    add_play(parser, worlds=(64, "how many are drawn"), steps=(100, taken))
    parser.add_argument("--columns", type=int, metavar="N", help="worlds side by side (default: about a square)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of an animation, steps from one picture to "
                        "the next (default: 1)")  # fmt: skip
    parser.add_argument("--width", type=int, default=1200, metavar="PIXELS", help="of the whole picture, at most; "
                        "worlds are not drawn larger than render() does (default: 1200)")  # fmt: skip
    parser.add_argument("--gap", type=int, default=4, metavar="PIXELS", help="between worlds (default: 4)")
    parser.add_argument("--colours", type=int, default=256, metavar="N", help="of a .png, 2 to 256; 0: all of them "
                        "(default: 256)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("gallery.png"), metavar="FILE",
                        help=".png for a picture; .gif, .webp or .mp4 for an animation (gallery.png)")  # fmt: skip
    return parser


def _check(options: argparse.Namespace) -> None:
    """Reject options before anything is compiled."""
    limits = {"worlds": (1, MOST_WORLDS), "columns": (1, None), "steps": (0, None), "every": (1, None)}
    check_limits(options, {**limits, "width": (1, 20_000), "gap": (0, 100)})
    if options.colours != 0 and not 2 <= options.colours <= 256:
        raise GalleryError(f"--colours must be 0 or from 2 to 256, got {options.colours}")
    kinds = (".png", ".gif", ".webp", ".mp4")
    if options.out.suffix.lower() not in kinds:
        raise GalleryError(f"--out must end in {', '.join(kinds)}, got {options.out}")
    check_out(options)
    frames = options.steps // options.every + 1
    if options.out.suffix.lower() != ".png" and frames > MOST_FRAMES:
        raise GalleryError(f"an animation has at most {MOST_FRAMES:,} pictures, got {frames:,}: "
                           "use fewer --steps, or a larger --every")  # fmt: skip


# ---- options that commands share -----------------------------------------------------------------------------------


def add_play(parser: argparse.ArgumentParser, worlds: tuple[int, str], steps: tuple[int, str]) -> None:
    """Options of a command that plays: defaults and texts of two of them, and those of ``add_environment``."""
    for name, (default, text) in (("--worlds", worlds), ("--steps", steps)):
        parser.add_argument(name, type=int, default=default, metavar="N", help=f"{text} (default: {default})")
    parser.add_argument("--policy", default="random", metavar="P", help="random; one that the environment offers; or a "
                        "run of torch_batchsim.train: its folder or its checkpoint.pt (default: random)")  # fmt: skip
    add_environment(parser)


def add_environment(parser: argparse.ArgumentParser) -> None:
    """Options of a command that makes an environment."""
    parser.add_argument("--seed", type=int, default=1, help="of worlds and actions (default: 1)")
    parser.add_argument("--env-option", action="append", default=[], metavar="KEY=VALUE",
                        help="an option of the environment; --key value is short for it")  # fmt: skip


def check_limits(options: argparse.Namespace, limits: Mapping[str, tuple[int, int | None]]) -> None:
    """Raise GalleryError for an option outside of its limits, of which a seed has its own; None: without an end."""
    for name, (least, most) in {**limits, "seed": (0, 2**63 - 1)}.items():
        value = getattr(options, name)
        if value is not None and (value < least or (most is not None and value > most)):
            allowed = f"at least {least}" if most is None else f"from {least} to {most}"
            raise GalleryError(f"--{name} must be {allowed}, got {value}")


def check_out(options: argparse.Namespace) -> None:
    """Raise GalleryError if ``out`` cannot be a file."""
    if options.out.is_dir() or not options.out.parent.is_dir():
        raise GalleryError(f"--out must be a file in an existing folder, got {options.out}")


def _run(options: argparse.Namespace) -> tuple[int, ...]:
    """Make the picture. Returns its shape."""
    from .train.run_folder import video

    try:
        video.check_needs(options.out)
    except MissingExtra as error:
        raise GalleryError(str(error)) from None
    contents = checkpoint_of(options, run_of(options))
    env = made_environment(options, contents)
    act = play_of(options, env, contents)
    if not video.has_pictures(env):
        raise GalleryError(f"{env.spec.id} does not define render()")
    small = _Fitted(env, options)
    if options.out.suffix.lower() == ".png":
        for _ in _moments(env, act, options.seed, options.steps, options.steps or 1):
            pass
        picture = small.picture()
        _write(picture, options)
        return picture.shape
    pictures = [small.picture() for _ in _moments(env, act, options.seed, options.steps, options.every)]
    fps = env.metadata.get("render_fps", 30) / options.every
    video.write_animation(options.out, pictures, fps)
    return pictures[0].shape


def _moments(env: Any, act: Policy, seed: int, steps: int, every: int) -> Iterator[None]:
    """Play. Yields after the reset and after every ``every`` steps."""
    observations, infos = env.reset(seed=seed)
    yield
    for step in range(1, steps + 1):
        observations, *_, infos = env.step(act(observations, infos))
        if step % every == 0:
            yield


# ---- environments and policies -------------------------------------------------------------------------------------


def run_of(options: argparse.Namespace) -> str | None:
    """A command's ``policy`` if it is a run of the trainer: a file or folder, or the name of one."""
    given, path = options.policy, Path(options.policy)
    has_run = path.is_file() or (path / "checkpoint.pt").is_file()
    if given not in ("", "random") and (has_run or path.name != given or path.suffix == ".pt"):
        return given
    check_policy(options, "random", of_train="a run of torch_batchsim.train")
    return None


def check_policy(options: argparse.Namespace, *others: str, of_train: str) -> None:
    """Raise GalleryError for a policy that is none of ``others`` nor of the environment, before that is built."""
    try:
        offered = environment_class(id_of(options.environment)).policies
    except (ValueError, gymnasium.error.Error):
        return
    if isinstance(offered, Mapping) and options.policy not in (*others, *offered):
        names = ", ".join((*others, *offered))
        given = options.policy or "''"
        raise GalleryError(f"--policy must be {names}, or {of_train}, got {given}")


def checkpoint_of(options: argparse.Namespace, run: str | None, option: str = "--policy") -> dict[str, Any] | None:
    """The contents of a run's checkpoint, None without one. Raises GalleryError."""
    if run is None:
        return None
    from .train.run_folder import checkpoint

    path = Path(run)
    path = path / "checkpoint.pt" if path.is_dir() else path
    if options.env_option:
        raise GalleryError(f"--env-option is not allowed with a trained {option}, whose checkpoint has the options")
    try:
        return checkpoint.load(path, id_of(options.environment))
    except checkpoint.CheckpointError as error:
        raise GalleryError(str(error)) from error


def id_of(name: str) -> str:
    try:
        return find_id(name)
    except ValueError as error:
        raise GalleryError(str(error)) from error


def made_environment(
    options: argparse.Namespace, contents: dict[str, Any] | None, render_mode: str | None = "rgb_array"
) -> Any:
    """The environment of a command, with the options of its checkpoint. Raises GalleryError."""
    try:
        given = parse_env_options(options.env_option, SAID_OTHERWISE) if contents is None else contents["env_options"]
        return gymnasium.make_vec(
            id_of(options.environment), num_worlds=options.worlds, render_mode=render_mode, **given
        )
    except (TypeError, ValueError, RuntimeError, MemoryError, OSError, gymnasium.error.Error) as error:
        if render_mode and "rgb_array" in str(error):
            raise GalleryError(f"{options.environment} does not define render()") from error
        raise GalleryError(str(error)) from error


def offered_by(env: Any) -> dict[str, Policy]:
    """The policies that an environment offers, by name. Raises GalleryError."""
    try:
        return dict(policies_of(env.unwrapped.environment))
    except ValueError as error:
        raise GalleryError(str(error)) from error


def play_of(options: argparse.Namespace, env: Any, contents: dict[str, Any] | None) -> Policy:
    """A command's ``policy``, by the contents of its checkpoint or by name. Raises GalleryError."""
    if contents is not None:
        return trained_play(env, contents, options.seed)
    if options.policy == "random":
        return random_play(env, options.seed)
    offered = offered_by(env)
    if options.policy not in offered:
        names = ", ".join(("random", *offered))
        raise GalleryError(f"--policy must be {names}, or a run of torch_batchsim.train, got {options.policy}")
    return offered[options.policy]


def random_play(env: Any, seed: int) -> Policy:
    """Random legal actions."""
    env.action_space.seed(seed)
    return lambda observations, infos: env.sample_actions()


def trained_play(env: Any, contents: dict[str, Any], seed: int) -> Policy:
    """Draws actions from the policy, so that worlds in equal states may part."""
    from .train.rollouts.acting import acting
    from .train.run_folder.loading import agents_of

    everyone = acting(agents_of(contents["trainer"], env), env.num_envs, getattr(env, "team", None))
    policy, generator = everyone[0].agent.policy, torch.Generator().manual_seed(seed)
    actions = policy.empty_actions(env.num_envs)

    def act(observations: Any, infos: dict[str, Any]) -> torch.Tensor:
        for each in everyone:
            if "_final_obs" in infos:
                each.ended(infos["_final_obs"])
            outputs = each.outputs(observations, infos.get("active"))
            each.sample(outputs, policy.noise((len(outputs),), generator), actions, infos.get("action_mask"))
        return policy.to_env(actions)

    return act


# ---- pictures ------------------------------------------------------------------------------------------------------


class _Fitted:
    """Draws all worlds, each small enough that all of them fit."""

    def __init__(self, env: Any, options: argparse.Namespace) -> None:
        self.env, self.options = env, options
        self.columns = min(options.columns or 0, options.worlds)

    def picture(self) -> np.ndarray:
        """uint8 ``[height, width, 3]``."""
        worlds, gap = self.options.worlds, self.options.gap
        first = np.asarray(self.env.unwrapped.render_world(0))
        height, width = first.shape[:2]
        columns = self.columns or max(1, min(worlds, round(math.sqrt(worlds * height / width))))
        scale = min(1.0, (self.options.width - (columns - 1) * gap) / (columns * width))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        if columns * size[0] + (columns - 1) * gap > max(self.options.width, columns * (1 + gap)):
            size = size[0] - 1, size[1]  # because of rounding
        drawn = [_smaller(first, size)]
        drawn += [_smaller(np.asarray(self.env.unwrapped.render_world(world)), size) for world in range(1, worlds)]
        return tiled(drawn, columns, gap)


def _smaller(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The picture with this width and height, each pixel the mean of those that it covers."""
    from PIL import Image

    if (picture.shape[1], picture.shape[0]) == size:
        return picture
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))


def _write(picture: np.ndarray, options: argparse.Namespace) -> None:
    from PIL import Image

    image = Image.fromarray(picture)
    if options.colours:
        image = image.quantize(options.colours, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    image.save(options.out, optimize=True)


if __name__ == "__main__":
    command_needs("PIL", "tyro", "tqdm", "tensorboard", "matplotlib")
    sys.exit(main())
