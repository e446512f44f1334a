"""The commands: a training from its first step to its summary, and an evaluation."""

from __future__ import annotations

import json
import math
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

import torch_batchsim
from torch_batchsim import WorldFault

from . import baseline, checkpoint
from .evaluation import EndlessEpisode, check_faults, evaluate, measure
from .finite import NotFinite
from .networks import ActorCritic
from .options import Options, UsageError, parse_env_options, tuned
from .ppo import Config, Trainer, num_agents
from .report import CURVE_STARTS, Report, draw_curve, show_picture, text_curve
from .video import Recorder, has_pictures

EVALUATION_SEED_OFFSET = 1_000_000
"""Keeps the episodes of the evaluation apart from those of the training."""


class RunError(Exception):
    """A training or an evaluation has failed; says why in one sentence."""


def train(env_id: str, options: Options, contents: dict[str, Any] | None) -> bool:
    """Trains from the start, or from the contents of a checkpoint. False if a signal ended it early.

    Whatever happens in the evaluation, the outcome of the training has been written before it.
    """
    env_options = contents["env_options"] if contents else parse_env_options(options.env_option)
    _check_writable(options.summary, options.video)
    options = _with_whole_worlds(env_id, options, env_options)
    env = _make_env(env_id, options, env_options, num_envs=options.config.num_envs)
    _check_pictures(env_id, env, options)
    if options.tune:
        _tune(env)
    with _user_errors():
        trainer = Trainer(env, options.config)
        if contents:
            trainer.load_state_dict(contents["trainer"])
    if trainer.iteration == trainer.num_iterations:
        raise UsageError(f"{options.resume} is the end of a training; there is nothing to resume")
    folder = _run_folder(env_id, options)
    run = {"env": env_id, "env_options": env_options, "curve": [], "train_seconds": 0.0}
    if contents:
        run |= {name: contents[name] for name in ("curve", "train_seconds", "random")}
    else:
        run["random"] = _random(env_id, options, env_options)
    judged = measure(env)
    _tell_random(run["random"], judged)
    if judged == "return" and getattr(env, "team", None) is not None:
        print("The teams share one policy. A mean over teams hides who wins: see charts/episodic_return/agent_<i>.")

    print(f"Training {env_id} for {trainer.num_iterations * trainer.batch_size:,} steps on {env.device}.")
    fault = _learn(trainer, run, folder, options.checkpoint_every)
    env.close()
    finished = trainer.iteration == trainer.num_iterations
    picture, title = folder / "learning_curve.png", f"{env_id}, seed {trainer.config.seed}"
    draw = partial(draw_curve, run["curve"], title=title, path=picture, measure=judged, random=run["random"]["mean"])
    draw(evaluation=None)
    print(text_curve(run["curve"], random=run["random"]["mean"]))
    print(f"trained         {trainer.global_step:,} steps in {run['train_seconds']:.2f} s")
    print(f"learning curve  {picture}")
    saved = (folder / "checkpoint.pt").exists()
    print(f"checkpoint      {folder / 'checkpoint.pt' if saved else 'none: there is nothing to go on from'}")
    evaluation = {}
    if finished and not fault:
        evaluation = _evaluate(env_id, options, env_options, trainer.agent, trainer.config.seed)
        draw(evaluation=evaluation.get(f"eval_{judged}_mean"))
        _write_summary(options.summary, _summary(run, trainer.config, trainer.global_step, evaluation, judged))
    if options.show and (problem := show_picture(picture)):
        print(problem)
    if not finished and saved:
        print(f"Stopped early. Go on with --resume {folder / 'checkpoint.pt'}")
    if fault:
        reason = fault.faults[0] if isinstance(fault, WorldFault) else fault
        raise RunError(f"training failed after {trainer.global_step:,} steps: {reason}") from fault
    _raise_if_failed(evaluation)
    return finished


def evaluate_checkpoint(env_id: str, options: Options, contents: dict[str, Any]) -> None:
    """Evaluates the policy of a checkpoint; writes the outcome beside it, or where the summary should go."""
    summary = options.summary or options.eval.with_name("eval.json")
    _check_writable(summary, options.video)
    trained, env_options = contents["trainer"], contents["env_options"]
    config = Config(**trained["config"])
    env = _make_env(env_id, options, env_options, num_worlds=1)
    _check_pictures(env_id, env, options)
    agent, judged = agent_of(trained, env), measure(env)
    env.close()
    evaluation = _evaluate(env_id, options, env_options, agent, options.config.seed)
    _write_summary(summary, _summary(contents, config, contents["steps"], evaluation, judged))
    print(f"summary         {summary}")
    _raise_if_failed(evaluation)


def agent_of(trained: dict[str, Any], env: VectorEnv) -> ActorCritic:
    """The networks of a checkpoint's trainer, for an environment as it was trained in."""
    config, spaces = Config(**trained["config"]), (env.single_observation_space, env.single_action_space)
    agent = ActorCritic(*spaces, config.hidden_sizes, config.seed, env.device, config.activation)
    agent.load_state_dict(trained["agent"])
    return agent


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


def _learn(
    trainer: Trainer, run: dict[str, Any], folder: Path, checkpoint_every: int
) -> WorldFault | NotFinite | None:
    """Iterates to the end or until a signal or a fault; extends the run's curve and seconds, leaves a checkpoint.

    After a fault, or where there is NaN to learn from, which is returned, the checkpoint has the networks of the last
    whole iteration and new episodes. Parameters that are not finite are never saved: the checkpoint before stays.
    """
    total_steps = trainer.num_iterations * trainer.batch_size
    report = Report(folder, total_steps, trainer.global_step, run["curve"], measure(trainer.env))
    seconds_before = run["train_seconds"]

    def save() -> None:
        report.read()
        run["train_seconds"] = seconds_before + time.perf_counter() - start
        contents = run | {"steps": trainer.global_step, "trainer": trainer.state_dict()}
        checkpoint.save(folder / "checkpoint.pt", contents)

    with closing(report), _stop_on_signal() as stopped:
        start = time.perf_counter()
        failure = None
        try:
            while trainer.iteration < trainer.num_iterations and not stopped():
                metrics = trainer.iterate()
                to_save = trainer.iteration % checkpoint_every == 0 and trainer.iteration < trainer.num_iterations
                if report.log(trainer.global_step, metrics) or to_save:
                    trainer.check_finite()
                if to_save:
                    save()
            check_faults(trainer.env)
            trainer.check_finite()
        except (WorldFault, NotFinite) as fault:
            failure = _cause(trainer, fault)
            with suppress(WorldFault):
                trainer.begin_new_episodes()
        if trainer.parameters.isfinite().all():
            save()
    return failure


def _cause(trainer: Trainer, fault: WorldFault | NotFinite) -> WorldFault | NotFinite:
    """What was not finite, if that was before: a policy that sees NaN may well choose actions that are a fault."""
    try:
        trainer.check_finite()
    except NotFinite as cause:
        return cause
    return fault


@contextmanager
def _stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Lets Ctrl-C and SIGTERM end the training after an iteration; a second one ends it at once."""
    received = []

    def receive(number: int, frame: object) -> None:
        received.append(number)
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---- evaluation and summary ------------------------------------------------------------------------------


def _evaluate(
    env_id: str, options: Options, env_options: dict[str, Any], agent: ActorCritic, seed: int
) -> dict[str, Any]:
    """Evaluates in worlds of its own; returns what the summary says of it, also of a failure."""
    if not options.eval_episodes:
        return {"eval_episodes": 0}
    # For a video, worlds that have ended stand still, so that there is a last picture.
    drawn = {"render_mode": "rgb_array", "autoreset_mode": AutoresetMode.DISABLED} if options.video else {}
    env = _make_env(env_id, options, env_options, num_worlds=options.eval_episodes, **drawn)
    judged = measure(env)
    recorder = Recorder(env) if options.video else None
    try:
        returns, lengths = evaluate(env, agent, seed + EVALUATION_SEED_OFFSET, not options.eval_stochastic, recorder)
    except (EndlessEpisode, WorldFault) as error:
        reason = error.faults[0] if isinstance(error, WorldFault) else error
        return {"eval_episodes": options.eval_episodes, "eval_error": str(reason)}
    finally:
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
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torch_batchsim": torch_batchsim.__version__,
            "gymnasium": gymnasium.__version__,
        },
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
    if options.checks:
        own["checks"] = True
    with _user_errors():
        return gymnasium.make_vec(env_id, **others, **own, **env_options)


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
        name = env_id.rpartition("/")[2].rpartition("-v")[0].lower()
        folder = Path("runs") / f"{name}-seed{options.config.seed}-{datetime.now():%Y%m%d-%H%M%S}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"folder {folder} cannot be made: {error.strerror}") from error
    return folder


def _check_writable(*paths: Path | None) -> None:
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
