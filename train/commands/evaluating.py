"""The evaluation behind a training or of a checkpoint, the random policy's, and the summary."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from torch_batchsim import RecordingError, WorldFault, command_line

from ..algorithms import config_of
from ..base.config import Config
from ..base.errors import RunError
from ..rollouts import baseline
from ..rollouts.acting import Agents
from ..rollouts.environment import measure, num_agents
from ..rollouts.evaluation import SEED_OFFSET, UNMEASURED, evaluate
from ..run_folder import disk, provenance
from ..run_folder.disk import check_writable
from ..run_folder.loading import agents_of
from ..run_folder.report import CURVE_STARTS
from ..run_folder.tape import Tape
from ..run_folder.video import Recorder
from .environments import DRAWN, STANDS, check_outputs, make_env
from .options import Options


@disk.errors()
def evaluate_checkpoint(env_id: str, options: Options, contents: dict[str, Any]) -> None:
    """Evaluates the policy of a checkpoint; writes the outcome beside it, or where the summary should go."""
    summary = options.summary or options.eval.with_name("eval.json")
    check_writable(summary, options.video, options.record)
    trained, env_options = contents["trainer"], contents["env_options"]
    config = config_of(trained["config"])
    env = make_env(env_id, options, env_options, num_worlds=1)
    check_outputs(env_id, env, options)
    agents, judged = agents_of(trained, env), measure(env)
    env.close()
    evaluation = evaluated(env_id, options, env_options, agents, options.config.seed)
    write_summary(summary, summary_of(contents, config, contents["steps"], evaluation, judged))
    print(f"summary         {summary}")
    raise_if_failed(evaluation)


def random_baseline(env_id: str, options: Options, env_options: dict[str, Any]) -> baseline.Baseline:
    """The result of the random policy, in worlds of its own, so that the training stays the same."""
    env = make_env(env_id, options, env_options, num_worlds=baseline.WORLDS)
    try:
        return baseline.random_policy(env, options.config.seed)
    finally:
        env.close()


def evaluated(
    env_id: str, options: Options, env_options: dict[str, Any], agents: Agents, seed: int
) -> dict[str, Any]:
    """Evaluates in worlds of its own; returns the entries of the summary, also of a failure."""
    if not options.eval_episodes:
        return {"eval_episodes": 0}
    how_ended = DRAWN if options.video else STANDS if options.record else {}
    env = make_env(env_id, options, env_options, num_worlds=options.eval_episodes, **how_ended)
    tape = Tape(env) if options.record else None
    judged = measure(env)
    recorder = Recorder(env) if options.video else None
    try:
        returns, lengths = evaluate(tape or env, agents, seed + SEED_OFFSET, not options.eval_stochastic, recorder)
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
    if not returns.isfinite().all():  # a mean is undefined then, and JSON lacks NaN
        reason = f"{judged}s are not finite in {int((~returns.isfinite()).sum()):,} of {len(returns):,} episodes"
        return {"eval_episodes": options.eval_episodes, "eval_error": reason}
    how = "drawn actions" if options.eval_stochastic else "likeliest actions"
    print(f"evaluation      mean {judged} {returns.mean():.2f}, {options.eval_episodes} episodes, {how}")
    figures = dict.fromkeys([f"eval_{judged}_mean", f"eval_{judged}_std", f"eval_{judged}_min", "eval_length_mean"])
    if counted.any():  # else a mean is undefined, and JSON lacks NaN
        numbers = returns.mean(), returns.std(correction=0), returns.min(), lengths.mean()
        figures = {name: number.item() for name, number in zip(figures, numbers, strict=True)}
    by_agent = {}
    if agents > 1 and not env.metadata.get("score"):
        means = [agent_returns[i::agents][counted[i::agents]].mean().item() for i in range(agents)]
        print(f"  by agent      {', '.join(f'{mean:.2f}' for mean in means)}")
        by_agent = {"eval_return_mean_by_agent": [None if math.isnan(mean) else mean for mean in means]}
    return {
        **figures,
        **by_agent,
        **_write_video(recorder, options.video),
        **_write_tape(tape, env_id, options, env_options),
        "eval_episodes": options.eval_episodes,
        "eval_seed": seed,
        "eval_deterministic": not options.eval_stochastic,
    }


def _write_video(recorder: Recorder | None, path: Path | None) -> dict[str, str]:
    """The entry of the summary, only if it failed: the outcome of the evaluation must not be lost."""
    if recorder is None:
        return {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        recorder.write(path)
    except OSError as error:
        return {"video_error": f"{path} cannot be written: {error.strerror or error}"}
    print(f"video           {path}")
    return {}


def _write_tape(
    tape: Tape | None, env_id: str, options: Options, env_options: dict[str, Any]
) -> dict[str, str]:
    """As `_write_video`."""
    if tape is None:
        return {}
    path = options.record
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tape.write(path, lambda worlds: make_env(env_id, options, env_options, num_worlds=worlds, **STANDS))
    except (OSError, RecordingError) as error:
        return {"record_error": f"{path} cannot be written: {getattr(error, 'strerror', None) or error}"}
    print(f"recording       {path}: {tape.worlds} worlds, {path.stat().st_size:,} bytes")
    return {}


def raise_if_failed(evaluation: dict[str, Any]) -> None:
    for part, key in (("evaluation", "eval_error"), ("video", "video_error"), ("recording", "record_error")):
        if key in evaluation:
            raise RunError(f"{part} failed: {evaluation[key]}")


def summary_of(
    run: dict[str, Any], config: Config, steps: int, evaluation: dict[str, Any], judged: str
) -> dict[str, Any]:
    """`judged` is the measure of episodes, "return" or "score", and part of the names of the numbers."""
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
        "evaluations": run["evaluations"],
        f"eval_{judged}_mean": None,  # unless the evaluation says more
        **evaluation,
        "versions": provenance.versions(),
    }


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    disk.write_text(path, json.dumps(summary, indent=2) + "\n")
