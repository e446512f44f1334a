"""The commands: a training from its first step to its summary, and an evaluation."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

import torch_batchsim
from torch_batchsim import WorldFault, command_line

from ..algorithms.trainer import Trainer, critic_space_of, num_agents
from ..base.config import Config
from ..base.ranks import RankFailed, RankLost, Ranks
from ..policies.networks import ActorCritic
from ..rollouts import baseline
from ..rollouts.evaluation import UNMEASURED, evaluate, measure
from ..rollouts.groups import Agents
from ..run_folder import checkpoint, disk, provenance
from ..run_folder.filming import Filming
from ..run_folder.learning import Hook, forget_later, learn
from ..run_folder.report import CURVE_STARTS, draw_curve, show_picture, text_curve
from ..run_folder.tracking import Tracker, trackers
from ..run_folder.video import Recorder, has_pictures
from . import processes, settings_file
from .options import Options, UsageError, parse_env_options, tuned

EVALUATION_SEED_OFFSET = 1_000_000
"""Keeps the episodes of the evaluation apart from those of the training."""


DRAWN = {"render_mode": "rgb_array", "autoreset_mode": AutoresetMode.DISABLED}
"""Of an environment for a video: worlds that have ended stand still, so that there is a last picture."""


class RunError(Exception):
    """A training or an evaluation has failed; says why in one sentence."""


@disk.errors()
def train(
    env_id: str,
    options: Options,
    contents: dict[str, Any] | None,
    hooks: Sequence[Hook] = (),
) -> bool:
    """Trains from the start, or from the contents of a checkpoint. False if a signal or a hook ended it early.

    With `--load` only the networks are those of the checkpoint. Of several processes the first has the random policy,
    the files and the evaluation.

    Whatever happens in the evaluation, the outcome of the training has been written before it.
    """
    resumed = None if options.load else contents
    env_options = resumed["env_options"] if resumed else parse_env_options(options.env_option)
    check_writable(options.summary, options.video)
    with _lost():
        ranks, options = processes.meet(options)
        with ranks.together():
            options = _with_whole_worlds(env_id, options, env_options)
            env = _make_part(env_id, options, env_options, ranks)
            _check_pictures(env_id, env, options)
    if told := command_line.unheard(env, options.log):
        print(told)
    if options.tune:
        _tune(env)
    with _user_errors(), _lost():
        trainer = Trainer(env, options.config, ranks)
        if resumed:
            trainer.load_state_dict(resumed["trainer"])
        elif contents:
            _take_networks(trainer, options.load, contents)
    if trainer.iteration >= trainer.num_iterations:
        raise UsageError(
            f"{options.resume} is the end of a training of {trainer.global_step:,} steps; more --total-steps go on"
        )
    run = {"env": env_id, "env_options": env_options, "curve": [], "train_seconds": 0.0}
    folder, tracked, films = None, [], []
    with _lost(), ranks.together():
        if ranks.first:
            folder = _run_folder(env_id, options)
            tracked = _begin(env_id, options, folder, trainer, run, resumed)
    if options.video_every and ranks.first:
        make_env = partial(_make_env, env_id, options, env_options, num_worlds=1, **DRAWN)
        seed = trainer.config.seed + EVALUATION_SEED_OFFSET
        films = [Filming(make_env, options.video, options.video_every, seed, not options.eval_stochastic)]
    fault = learn(trainer, run, folder, options.checkpoint_every, tracked, [*hooks, *films])
    env.close()
    if isinstance(fault, RankLost):
        processes.let_an_error_be_told()
    else:
        processes.leave(ranks)
    if not ranks.first:
        if isinstance(fault, RankLost):
            raise RunError(f"training failed after {trainer.global_step:,} steps: {fault}") from fault
        return True  # the first tells what has become of it
    return _conclude(env_id, options, trainer, run, folder, tracked, fault)


def _conclude(
    env_id: str,
    options: Options,
    trainer: Trainer,
    run: dict[str, Any],
    folder: Path,
    tracked: Sequence[Tracker],
    fault: BaseException | None,
) -> bool:
    """Draw the curve, evaluate what was trained to its end, and tell; false if a signal or a hook ended it early."""
    if isinstance(fault, disk.NotWritten):
        raise RunError(f"training stopped after {trainer.global_step:,} steps: {fault}") from fault
    finished = trainer.iteration == trainer.num_iterations
    judged = measure(trainer.env)
    picture, title = folder / "learning_curve.png", f"{env_id}, seed {trainer.config.seed}"
    told = {"measure": judged, "random": run["random"]["mean"], "steps": trainer.global_step}
    draw = partial(draw_curve, run["curve"], title=title, path=picture, **told)
    draw(evaluation=None)
    print(text_curve(run["curve"], random=run["random"]["mean"]))
    print(f"trained         {trainer.global_step:,} steps in {run['train_seconds']:.2f} s")
    print(f"learning curve  {picture}")
    saved = (folder / "checkpoint.pt").exists()
    print(f"checkpoint      {folder / 'checkpoint.pt' if saved else 'none: there is nothing to go on from'}")
    evaluation = {}
    if finished and not fault:
        evaluation = _evaluate(env_id, options, run["env_options"], trainer.agents, trainer.config.seed)
        draw(evaluation=evaluation.get(f"eval_{judged}_mean"))
        _write_summary(options.summary, _summary(run, trainer.config, trainer.global_step, evaluation, judged))
    outcome = {name: value for name, value in evaluation.items() if name.endswith(("_mean", "_std", "_min"))}
    for tracker in tracked:
        tracker.close({name: value for name, value in outcome.items() if value is not None})
    if options.show and (problem := show_picture(picture)):
        print(problem)
    if not finished and saved:
        print(f"Stopped early. Go on with --resume {folder / 'checkpoint.pt'}")
    if fault:
        reason = fault.faults[0] if isinstance(fault, WorldFault) else fault
        if isinstance(fault, RankLost) and saved:
            steps = checkpoint.load(folder / "checkpoint.pt", env_id)["steps"]
            reason = f"{reason}; the last checkpoint is of {steps:,} steps"
        raise RunError(f"training failed after {trainer.global_step:,} steps: {reason}") from fault
    _raise_if_failed(evaluation)
    return finished


def _begin(
    env_id: str,
    options: Options,
    folder: Path,
    trainer: Trainer,
    run: dict[str, Any],
    resumed: dict[str, Any] | None,
) -> list[Tracker]:
    """Measure the random policy, if that has not been done, tell what will be trained, and write it down."""
    if resumed:
        run |= {name: resumed[name] for name in ("curve", "train_seconds", "random")}
    else:
        run["random"] = _random(env_id, options, run["env_options"])
    judged = measure(trainer.env)
    _tell_random(run["random"], judged)
    if judged == "return" and getattr(trainer.env, "team", None) is not None:
        print("A mean over teams hides who wins: see charts/episodic_return/agent_<i>.")
    steps, count = trainer.num_iterations * trainer.batch_size, trainer.ranks.count
    among = f" in {count} processes" if count > 1 else ""
    print(f"Training {env_id} for {steps:,} steps on {trainer.device}{among}.")
    forget_later(folder, trainer.global_step)
    described = _describe(folder, env_id, options, run["env_options"], trainer)
    return [tracker(folder, described, trainer.global_step) for tracker in trackers(options.track)]


OF_NETWORKS = (
    "hidden_sizes", "encoders", "conv_channels", "embedding_size", "attention_size", "attention_heads", "memory",
    "memory_size", "central_critic", "norm_obs", "norm_returns", "policies",
)  # fmt: skip
"""Settings on which names and shapes of the networks' parameters depend."""


def _take_networks(trainer: Trainer, path: Path | None, contents: dict[str, Any]) -> None:
    """Begin with the networks of another run."""
    try:
        for group, state in zip(trainer.groups, contents["trainer"]["groups"], strict=True):
            group.agent.load_state_dict(state["agent"])
    except (RuntimeError, ValueError) as error:  # names or shapes of layers, the number of policies
        shown = f"--load {path}: its networks are not those of these settings"
        made = contents["trainer"]["config"]
        changed = [name for name in OF_NETWORKS if made.get(name) != getattr(trainer.config, name)]
        if changed:
            told = " and ".join(f"{name} {made.get(name)}, not {getattr(trainer.config, name)}" for name in changed)
            raise UsageError(f"{shown}: they were made with {told}") from error
        raise UsageError(f"{shown}, or of this environment with other options") from error


def _describe(
    folder: Path, env_id: str, options: Options, env_options: dict[str, Any], trainer: Trainer
) -> dict[str, Any]:
    """Write what the run is into its folder; returns the settings."""
    settings_file.write(folder / "config.toml", env_id, options, env_options)
    told = folder / "run.json"
    before = json.loads(told.read_text())["runs"] if options.resume and told.exists() else []
    facts = provenance.facts(trainer.device) | {"from_step": trainer.global_step, "processes": trainer.ranks.count}
    told.write_text(json.dumps({"env": env_id, "runs": [*before, facts]}, indent=2) + "\n")
    options_of_env = {f"env.{name}": value for name, value in env_options.items()}
    return {"env": env_id, **asdict(trainer.config), **options_of_env}


@disk.errors()
def evaluate_checkpoint(env_id: str, options: Options, contents: dict[str, Any]) -> None:
    """Evaluates the policy of a checkpoint; writes the outcome beside it, or where the summary should go."""
    summary = options.summary or options.eval.with_name("eval.json")
    check_writable(summary, options.video)
    trained, env_options = contents["trainer"], contents["env_options"]
    config = Config(**trained["config"])
    env = _make_env(env_id, options, env_options, num_worlds=1)
    _check_pictures(env_id, env, options)
    agents, judged = agents_of(trained, env), measure(env)
    env.close()
    evaluation = _evaluate(env_id, options, env_options, agents, options.config.seed)
    _write_summary(summary, _summary(contents, config, contents["steps"], evaluation, judged))
    print(f"summary         {summary}")
    _raise_if_failed(evaluation)


def env_of(contents: Mapping[str, Any], named: str | None, **others: Any) -> VectorEnv:
    """The environment that a checkpoint was trained in.

    Args:
        contents: of the checkpoint.
        named: the environment as a user names it, `module:id` or `file.py`, where this package does not have it. A
            checkpoint does not say what to import, for it runs no code.
        others: more arguments of `gymnasium.make_vec`.

    Raises ValueError where there is no such environment, where `named` is another one, and where it cannot be made.
    """
    env_id = contents["env"]
    if named is not None and (found := torch_batchsim.find_id(named)) != env_id:
        raise ValueError(f"--env {named} is {found}, but what was trained is of {env_id}")
    try:
        return gymnasium.make_vec(env_id, **others, **contents["env_options"])
    except gymnasium.error.UnregisteredEnv as error:
        raise ValueError(
            f"{env_id} is not registered: name the module or the file that registers it by --env module:{env_id} or "
            f"--env file.py:{env_id}"
        ) from error
    except (TypeError, RuntimeError, OSError, gymnasium.error.Error) as error:
        raise ValueError(str(error)) from error


def agents_of(trained: dict[str, Any], env: VectorEnv) -> Agents:
    """The networks of a checkpoint's trainer, for an environment as it was trained in."""
    config, found = Config(**trained["config"]), {}
    for group in trained["groups"]:
        spaces = env.single_observation_space, env.single_action_space
        agent = ActorCritic(*spaces, config, env.device, critic_space_of(env))
        agent.load_state_dict(group["agent"])
        found[group["team"]] = agent
    return found.get(None, found)  # one for all rows has no team


# ---- training --------------------------------------------------------------------------------------------


def _random(env_id: str, options: Options, env_options: dict[str, Any]) -> baseline.Baseline:
    """What the random policy reaches, in worlds of its own, so that it changes nothing of the training."""
    env = _make_env(env_id, options, env_options, num_worlds=baseline.WORLDS)
    try:
        return baseline.random_policy(env, options.config.seed)
    finally:
        env.close()


def _tell_random(random: baseline.Baseline, judged: str) -> None:
    if random["error"]:
        print(f"random policy   not measured: {random['error']}")
    else:
        print(f"random policy   mean {judged} {random['mean']:.2f}, {random['episodes']} episodes")


# ---- evaluation and summary ------------------------------------------------------------------------------


def _evaluate(
    env_id: str, options: Options, env_options: dict[str, Any], agents: Agents, seed: int
) -> dict[str, Any]:
    """Evaluates in worlds of its own; returns what the summary says of it, also of a failure."""
    if not options.eval_episodes:
        return {"eval_episodes": 0}
    drawn = DRAWN if options.video else {}
    env = _make_env(env_id, options, env_options, num_worlds=options.eval_episodes, **drawn)
    judged = measure(env)
    recorder = Recorder(env) if options.video else None
    try:
        returns, lengths = evaluate(env, agents, seed + EVALUATION_SEED_OFFSET, not options.eval_stochastic, recorder)
    except UNMEASURED as error:
        reason = error.faults[0] if isinstance(error, WorldFault) else error
        return {"eval_episodes": options.eval_episodes, "eval_error": str(reason)}
    finally:
        if lines := command_line.noted(env):
            print(f"logs of the evaluation:\n{lines}")
        env.close()
    counted = lengths > 0  # who took part
    agents, agent_returns = num_agents(env), returns
    returns, lengths = returns[counted], lengths[counted]
    if not returns.isfinite().all():  # of which there is no mean, and JSON has no NaN
        reason = f"{judged}s are not finite in {int((~returns.isfinite()).sum()):,} of {len(returns):,} episodes"
        return {"eval_episodes": options.eval_episodes, "eval_error": reason}
    how = "drawn actions" if options.eval_stochastic else "likeliest actions"
    print(f"evaluation      mean {judged} {returns.mean():.2f}, {options.eval_episodes} episodes, {how}")
    told = dict.fromkeys([f"eval_{judged}_mean", f"eval_{judged}_std", f"eval_{judged}_min", "eval_length_mean"])
    if counted.any():  # else there is no mean, and JSON has no NaN
        numbers = returns.mean(), returns.std(correction=0), returns.min(), lengths.mean()
        told = {name: number.item() for name, number in zip(told, numbers, strict=True)}
    by_agent = {}
    if agents > 1 and not env.metadata.get("score"):
        means = [agent_returns[i::agents][counted[i::agents]].mean().item() for i in range(agents)]
        print(f"  by agent      {', '.join(f'{mean:.2f}' for mean in means)}")
        by_agent = {"eval_return_mean_by_agent": [None if math.isnan(mean) else mean for mean in means]}
    return {
        **told,
        **by_agent,
        **_write_video(recorder, options.video),
        "eval_episodes": options.eval_episodes,
        "eval_seed": seed,
        "eval_deterministic": not options.eval_stochastic,
    }


def _write_video(recorder: Recorder | None, path: Path | None) -> dict[str, str]:
    """What the summary says of it: only if it failed, for the outcome of the evaluation is not to be lost."""
    if recorder is None:
        return {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        recorder.write(path)
    except OSError as error:
        return {"video_error": f"{path} cannot be written: {error.strerror or error}"}
    print(f"video           {path}")
    return {}


def _raise_if_failed(evaluation: dict[str, Any]) -> None:
    for what, key in (("evaluation", "eval_error"), ("video", "video_error")):
        if key in evaluation:
            raise RunError(f"{what} failed: {evaluation[key]}")


def _summary(
    run: dict[str, Any], config: Config, steps: int, evaluation: dict[str, Any], judged: str
) -> dict[str, Any]:
    """`judged` is what episodes are judged by, "return" or "score": the names of the numbers say it too."""
    random = run.get("random")  # a checkpoint of an older version has none
    return {
        "env": run["env"],
        "env_options": run["env_options"],
        "seed": config.seed,
        "steps": steps,
        "train_seconds": run["train_seconds"],
        "measure": judged,
        "curve_starts": CURVE_STARTS,
        "curve_first_step": run["curve"][0][0] if run["curve"] else None,
        f"random_{judged}_mean": random and random["mean"],
        "random_episodes": random["episodes"] if random else 0,
        **({"random_error": random["error"]} if random and random["error"] else {}),
        f"eval_{judged}_mean": None,  # unless the evaluation says more
        **evaluation,
        "versions": provenance.versions(),
    }


def _write_summary(path: Path | None, summary: dict[str, Any]) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(summary, indent=2) + "\n")


# ---- environments, folders, mistakes ---------------------------------------------------------------------


def _make_env(env_id: str, options: Options, env_options: dict[str, Any], **others: Any) -> VectorEnv:
    own = {"device": options.device}  # threads are torch's
    if options.executor is not None:  # which environments of others need not know
        own["executor"] = options.executor
    own |= command_line.simulator_arguments(options)
    with _user_errors():
        return gymnasium.make_vec(env_id, **others, **own, **env_options)


def _make_part(env_id: str, options: Options, env_options: dict[str, Any], ranks: Ranks) -> VectorEnv:
    """The worlds of this process, of those of all."""
    agents = 1
    if ranks.count > 1:
        probe = _make_env(env_id, options, env_options, num_worlds=1)
        agents = num_agents(probe)
        probe.close()
    own = processes.part_of_worlds(ranks, options.config.num_envs, agents)
    return _make_env(env_id, options, env_options, **own)


def _tune(env: VectorEnv) -> None:
    """Let the simulator find out how its steps are run best; a reset with a seed then begins afresh."""
    tune = getattr(env.unwrapped, "tune", None)
    if tune is None:
        raise UsageError("--tune is for environments of torch_batchsim; this one has no method tune()")
    with _user_errors():
        env.reset(seed=0)
        print(f"{tune()}\n")


def _with_whole_worlds(env_id: str, options: Options, env_options: dict[str, Any]) -> Options:
    """The default number of rows, if the agents of a world do not divide it, is lowered.

    Until they do, and minibatches divide the rollout.
    """
    config, rows = options.config, tuned(env_id, options.env_option).config.num_envs
    if config.num_envs != rows:
        return options
    env = _make_env(env_id, options, env_options, num_worlds=1)
    agents = num_agents(env)
    env.close()
    if rows % agents == 0:
        return options
    fitting = (n for n in range(rows, 0, -1) if n % agents == 0 and n * config.num_steps % config.num_minibatches == 0)
    return replace(options, config=replace(config, num_envs=next(fitting, agents)))


def _run_folder(env_id: str, options: Options) -> Path:
    if options.run_dir:
        folder = options.run_dir
        if (folder / "checkpoint.pt").exists() and not options.resume:
            raise UsageError(f"folder {folder} has the checkpoint of another run; resume it or name another folder")
    elif options.resume:
        folder = options.resume.parent
    else:
        folder = Path("runs") / f"{short_name(env_id)}-seed{options.config.seed}-{datetime.now():%Y%m%d-%H%M%S}"
    return made(folder)


def short_name(env_id: str) -> str:
    """Of an environment, for names of folders."""
    return env_id.rpartition("/")[2].rpartition("-v")[0].lower()


def made(folder: Path) -> Path:
    """The folder, which is made if it is not there. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"folder {folder} cannot be made: {error.strerror}") from error
    return folder


def check_writable(*paths: Path | None) -> None:
    """Better before a training than after it. Folders that are not there are made when there is something to write."""
    for path in filter(None, paths):
        if path.is_dir():
            raise UsageError(f"{path} cannot be written: it is a folder")
        nearest = next(folder for folder in path.absolute().parents if folder.exists())
        if not nearest.is_dir():
            raise UsageError(f"{path} cannot be written: {nearest} is not a folder")
        if not os.access(nearest, os.W_OK):
            raise UsageError(f"{path} cannot be written: folder {nearest} is read-only")


def _check_pictures(env_id: str, env: VectorEnv, options: Options) -> None:
    """By drawing one."""
    if options.video and not has_pictures(env):
        raise UsageError(f"--video needs an environment that defines render(), and {env_id} does not")
    if options.video:
        with _user_errors():
            env.reset(seed=0)
            Recorder(env)(torch.ones(env.num_envs, dtype=torch.bool))


@contextmanager
def _user_errors() -> Iterator[None]:
    """What an environment or the trainer refuses to be made with is a mistake of the user's."""
    try:
        yield
    except WorldFault as fault:
        raise RunError(str(fault.faults[0])) from fault
    except (TypeError, ValueError, RuntimeError, OSError, gymnasium.error.Error) as error:
        raise UsageError(str(error)) from error


@contextmanager
def _lost() -> Iterator[None]:
    """Without the other processes there is nothing to begin with."""
    try:
        yield
    except RankLost as error:
        processes.let_an_error_be_told()
        raise RunError(str(error)) from error
    except RankFailed as error:
        raise RunError(str(error)) from error
