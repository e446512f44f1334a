"""Other public libraries beside ours, measured in one run on one machine.

Missing ones are left out with a note; ``pip install gymnax envpool`` brings those of CartPole,
``pip install jaxmarl overcooked-ai`` those of Overcooked (the latter needs ``"numpy<2"``), ``pip install jaxmarl
open_spiel hanabi-learning-environment`` those of Hanabi. All step with autoreset and deliver observations, rewards and
flags. A world is one CartPole; or one kitchen (cramped_room, 400 steps) with two chefs, who are both observed; or one
game of Hanabi (all colours and ranks) for two, with observations of both or of the one to move, as the name says; its
steps include drawing a legal move. JaxMARL's kitchen has only the old dynamics, so ours has them too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..testing import random_actions
from .throughput import measure

# From a number of worlds: a function of one batch of actions, such batches, and the number of steps in a call.
Prepare = Callable[[int], tuple[Callable[[Any], Any], Sequence[Any], int]]
_SCAN_STEPS = 64


@dataclass(frozen=True)
class Peer:
    prepare: Prepare
    most_worlds: int | None = None


def measure_peers(environment: str, batch_sizes: Sequence[int], seconds: float, runs: int) -> list[dict[str, Any]]:
    """World steps per second of every library at every number of worlds up to its greatest."""
    rows = []
    for name, peer in PEERS[environment].items():
        for worlds in batch_sizes:
            if peer.most_worlds is not None and worlds > peer.most_worlds:
                print(f"{name}: {worlds} worlds left out (more than {peer.most_worlds} are not measured)")
                continue
            try:
                step, actions, steps = peer.prepare(worlds)
            except ImportError as error:
                print(f"{name}: left out ({error})")
                break
            rate = measure(step, actions, worlds * steps, seconds, runs)
            rows.append({"library": name, "num_worlds": worlds, "world_steps_per_second": rate.median})
    return rows


def _ours(env_id: str, worlds: int, **env_options: Any) -> tuple[Callable[[Any], Any], Sequence[Any], int]:
    import gymnasium

    env = gymnasium.make_vec(env_id, num_worlds=worlds, **env_options)
    env.reset(seed=0)
    return env.step, random_actions(env), 1


def _drawn(choices: int, shape: tuple[int, ...], batches: int = 16, dtype: type = np.int64) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.integers(0, choices, shape).astype(dtype) for _ in range(batches)]


# ---- CartPole ------------------------------------------------------------------------------------------------------


def _gymnasium(worlds: int) -> tuple[Callable[[Any], Any], Sequence[Any], int]:
    import gymnasium

    env = gymnasium.make_vec("CartPole-v1", num_envs=worlds, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    return env.step, _drawn(2, (worlds,)), 1


def _envpool(worlds: int) -> tuple[Callable[[Any], Any], Sequence[Any], int]:
    import envpool

    env = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=worlds)
    env.reset()
    return env.step, _drawn(2, (worlds,), dtype=np.int32), 1


def _gymnax(worlds: int) -> tuple[Callable[[Any], Any], Sequence[Any], int]:
    import gymnax

    env, parameters = gymnax.make("CartPole-v1")
    step = _compiled(worlds, partial(env.reset, params=parameters), partial(env.step, params=parameters))
    return step, _drawn(2, (_SCAN_STEPS, worlds), 4, np.int32), _SCAN_STEPS


# ---- Overcooked ----------------------------------------------------------------------------------------------------


def _jaxmarl(worlds: int) -> tuple[Callable[[Any], Any], Sequence[Any], int]:
    import jaxmarl

    env = jaxmarl.make("overcooked")
    drawn = _drawn(6, (len(env.agents), _SCAN_STEPS, worlds), 4, np.int32)
    actions = [dict(zip(env.agents, batch, strict=True)) for batch in drawn]
    return _compiled(worlds, env.reset, env.step), actions, _SCAN_STEPS


def _overcooked_ai(worlds: int) -> tuple[Callable[[Any], Any], Sequence[Any], int]:
    """The reference, one kitchen after the other."""
    from overcooked_ai_py.mdp.actions import Action
    from overcooked_ai_py.mdp.overcooked_env import OvercookedEnv
    from overcooked_ai_py.mdp.overcooked_mdp import OvercookedGridworld

    kitchen = OvercookedGridworld.from_layout_name("cramped_room")
    envs = [OvercookedEnv.from_mdp(kitchen, horizon=400, info_level=0) for _ in range(worlds)]

    def step(actions: np.ndarray) -> list[Any]:
        results = []
        for env, joint in zip(envs, actions, strict=True):
            _, reward, done, _ = env.step([Action.INDEX_TO_ACTION[action] for action in joint])
            if done:
                env.reset()
            results.append((kitchen.lossless_state_encoding(env.state), reward, done))
        return results

    return step, _drawn(6, (worlds, 2)), 1


# ---- Hanabi --------------------------------------------------------------------------------------------------------


def _jaxmarl_hanabi(worlds: int) -> tuple[Callable[[Any], Any], Sequence[Any], int]:
    import jax
    import jaxmarl

    env = jaxmarl.make("hanabi")

    def step(key: Any, state: Any, _: Any) -> Any:
        drawing, stepping = jax.random.split(key)
        scores = jax.random.uniform(drawing, (env.num_agents, env.num_moves), minval=0.1)
        legal = env.get_legal_moves(state)
        moves = {agent: (legal[agent] * own).argmax() for agent, own in zip(env.agents, scores, strict=True)}
        return env.step(stepping, state, moves)

    return _compiled(worlds, env.reset, step), [np.zeros((_SCAN_STEPS, worlds), np.int8)], _SCAN_STEPS


def _open_spiel(worlds: int) -> tuple[Callable[[Any], Any], Sequence[Any], int]:
    """The reference's games by OpenSpiel, one after the other."""
    import pyspiel

    game, draw = pyspiel.load_game("hanabi"), random.Random(0)

    def dealt(state: Any) -> Any:
        while state.is_chance_node():
            cards, weights = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(draw.choices(cards, weights)[0])
        return state

    states = [dealt(game.new_initial_state()) for _ in range(worlds)]

    def step(_: Any) -> list[Any]:
        results = []
        for i, state in enumerate(states):
            state.apply_action(draw.choice(state.legal_actions()))
            rewards, done = dealt(state).rewards(), state.is_terminal()
            if done:
                states[i] = dealt(game.new_initial_state())
            results.append((states[i].observation_tensor(), rewards, done))
        return results

    return step, [None], 1


def _rl_env(worlds: int) -> tuple[Callable[[Any], Any], Sequence[Any], int]:
    """The reference by its own environment in Python, one game after the other."""
    from hanabi_learning_environment import rl_env

    envs, draw = [rl_env.make("Hanabi-Full", 2) for _ in range(worlds)], random.Random(0)
    seen = [env.reset() for env in envs]

    def step(_: Any) -> list[Any]:
        results = []
        for i, env in enumerate(envs):
            moves = seen[i]["player_observations"][seen[i]["current_player"]]["legal_moves_as_int"]
            seen[i], reward, done, _ = env.step(draw.choice(moves))
            if done:
                seen[i] = env.reset()
            results.append((seen[i], reward, done))
        return results

    return step, [None], 1


# ---- libraries in jax ----------------------------------------------------------------------------------------------


def _compiled(worlds: int, reset: Callable[..., Any], step: Callable[..., Any]) -> Callable[[Any], Any]:
    """Many steps in one compiled call, as users of jax run them; a call for each step is slower at most sizes.

    ``reset`` and ``step`` are of one world; the result takes actions of ``_SCAN_STEPS`` steps of all worlds.
    """
    import jax

    step_all = jax.vmap(step)

    def advance(carry: Any, actions: Any) -> Any:
        key, sub = jax.random.split(carry[0])
        # Versions differ in what follows the state: reward and end, as one flag or two, and infos.
        observations, state, *rest = step_all(jax.random.split(sub, worlds), carry[1], actions)
        return (key, state), (observations, rest[:-1])

    rollout = jax.jit(lambda carry, actions: jax.lax.scan(advance, carry, actions))
    key = jax.random.PRNGKey(0)
    held = (key, jax.jit(jax.vmap(reset))(jax.random.split(key, worlds))[1])

    def call(actions: Any) -> Any:
        nonlocal held
        held, outputs = jax.block_until_ready(rollout(held, actions))
        return outputs

    return call


PEERS: Mapping[str, Mapping[str, Peer]] = {
    "cartpole": {
        "torch_batchsim": Peer(partial(_ours, "torch_batchsim/CartPole-v0")),
        "gymnasium CartPoleVectorEnv": Peer(_gymnasium),
        "gymnax, jitted": Peer(_gymnax),
        "envpool": Peer(_envpool, 16384),  # the most that its own threads can run
    },
    "overcooked": {
        "torch_batchsim": Peer(partial(_ours, "torch_batchsim/Overcooked-v0", old_dynamics=True)),
        "jaxmarl, jitted": Peer(_jaxmarl, 16384),  # its observations of one call are 1 GB
        "overcooked_ai": Peer(_overcooked_ai, 64),  # the same at any number
    },
    "hanabi": {
        "torch_batchsim, to move": Peer(partial(_ours, "torch_batchsim/Hanabi-v0")),
        "torch_batchsim, both": Peer(partial(_ours, "torch_batchsim/Hanabi-v0", turns="all")),
        "jaxmarl, jitted, both": Peer(_jaxmarl_hanabi, 4096),  # its observations of one call are 1.4 GB
        "open_spiel, to move": Peer(_open_spiel, 64),
        "rl_env, both": Peer(_rl_env, 64),
    },
}
