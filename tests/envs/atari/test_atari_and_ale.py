"""Games in lockstep with ale-py: RAM, pictures, rewards, lives and ends, from the reference's starts."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_roms import AS_ALE, ale_of
from played import HOLDS, SCRIPTS, held_actions, scripted_actions
from support import assert_same_bits, of_today, snapshot
from torch_batchsim.envs.atari.env import Atari
from torch_batchsim.envs.atari.games import GAMES

import torch_batchsim
from torch_batchsim import Simulator

ale_py = pytest.importorskip("ale_py")
roms = pytest.importorskip("ale_py.roms")

FAST = "pong riverraid asterix montezuma_revenge robotank crossbow klax adventure wizard_of_wor pitfall2".split()

ONE = {"num_worlds": 1, "num_threads": 1, "autoreset_mode": "Disabled", "obs": "ram"}


TODAY = int(os.environ.get("ATARI_SEED", date.today().toordinal()))  # full tests compare other episodes each day


def settings_of(name: str, seed: int) -> tuple[int, int]:
    """A mode and a difficulty. Of Adventure the first: others begin after frames that ale-py draws in each episode."""
    chosen, facts = random.Random(f"mode {name} {seed}"), GAMES[name]
    mode = facts.modes[0] if name == "adventure" else chosen.choice(facts.modes)
    return int(mode), int(chosen.choice(facts.difficulties.split()))


def known(name: str, settings: tuple[int, int]) -> tuple[int, int] | tuple[()]:
    """Settings that ale-py takes; () leaves its own: Backgammon begins with difficulty 0, which cannot be chosen."""
    return settings if str(settings[1]) in GAMES[name].difficulties.split() else ()


def actions_of(name: str, seed: int) -> Any:
    """The game's own actions, each held for 1 to 15 frames."""
    chosen = random.Random(f"{name} {seed}")
    while True:
        action = int(chosen.choice(GAMES[name].minimal_actions))
        yield from [action] * chosen.randint(1, 15)


def lockstep(
    names: list[str],
    frames: int,
    seed: int,
    with_modes: bool = False,
    played: Mapping[str, Iterator[int]] | None = None,
) -> dict[str, bool]:
    """A world for each game, beside a console of ale-py's; with modes and difficulties by the seed, or the first.

    Random actions, or those ``played``, then none. Returns which games had a reward.
    """
    options = {"num_worlds": len(names), "num_threads": 1, "autoreset_mode": "Disabled", "obs": "ram", "pictures": True}
    env = torch_batchsim.make_vec(Atari, game=names, **options, **AS_ALE)
    settings = [settings_of(name, seed) if with_modes else (GAMES[name].modes[0], 0) for name in names]
    chosen = [known(name, each) for name, each in zip(names, settings, strict=True)]
    ales = [ale_of(roms.get_rom_path(name), 0.0, *each) for name, each in zip(names, chosen, strict=True)]
    shown = [GAMES[name].selected_mode(mode) for name, (mode, _) in zip(names, settings, strict=True)]
    env.sim.tensor("Plugs.games.mode")[:] = torch.tensor(shown)
    env.sim.tensor("Plugs.games.difficulty")[:] = torch.tensor([difficulty for _, difficulty in settings])
    actions = [actions_of(name, seed) if played is None else played[name] for name in names]
    rewarded = dict.fromkeys(names, False)
    env.reset(seed=0)
    tensor = env.sim.tensor
    for frame in range(frames):
        over = torch.tensor([ale.game_over() for ale in ales])
        if over.any():
            env.reset(options={"reset_mask": over})
            for ale in (ale for ale in ales if ale.game_over()):
                ale.reset_game()
        pressed = [next(each, 0) for each in actions]
        rams, pictures, now = tensor("Ram.bytes"), tensor("Picture.pixels"), tensor("Tia.picture")
        for world, (name, ale) in enumerate(zip(names, ales, strict=True)):
            where = f"{name}, mode and difficulty {settings[world]}, seed {seed}, frame {frame}"
            np.testing.assert_array_equal(rams[world], ale.getRAM(), f"RAM: {where}")
            if frame % 7 == 0:
                picture = pictures[world, int(now[world]), : GAMES[name].lines]
                np.testing.assert_array_equal(picture, ale.getScreen(), f"picture: {where}")
        theirs = [ale.act(ale_py.Action(action)) for ale, action in zip(ales, pressed, strict=True)]
        _, rewards, terminations, _, infos = env.step(torch.tensor(pressed))
        for world, (name, ale) in enumerate(zip(names, ales, strict=True)):
            found = float(rewards[world]), bool(terminations[world]), int(infos["lives"][world])
            expected = theirs[world], ale.game_over(), ale.lives()
            assert found == expected, f"{name} {settings[world]}, seed {seed}, frame {frame}"
            rewarded[name] |= found[0] != 0
    env.close()
    return rewarded


def test_games_as_in_ale() -> None:
    lockstep(FAST, 60, 0)


@pytest.mark.full
@pytest.mark.parametrize("mode", [1, 2])
def test_first_episodes_of_adventures_other_modes(mode: int) -> None:
    env = torch_batchsim.make_vec(Atari, game="adventure", **ONE, **AS_ALE, mode=mode)
    theirs = ale_of(roms.get_rom_path("adventure"), 0.0, mode)
    env.reset(seed=0)
    for frame, action in zip(range(1000), actions_of("adventure", mode), strict=False):
        np.testing.assert_array_equal(env.sim.tensor("Ram.bytes")[0], theirs.getRAM(), f"frame {frame}")
        assert theirs.act(ale_py.Action(action)) == env.step(torch.tensor([action]))[1][0] and not theirs.game_over()
    env.close()


@pytest.mark.full
def test_adventures_other_modes_begin_after_a_number_of_frames_that_each_world_draws() -> None:
    env = torch_batchsim.make_vec(Atari, game="adventure", mode=2, num_worlds=16, num_threads=1, obs="ram", noop_max=0)
    env.reset(seed=0)
    rams = env.sim.tensor("Ram.bytes")
    assert (rams[:, 0xDD & 0x7F] >> 1 & 3 == 2).all() and len({bytes(ram.tolist()) for ram in rams}) == 16
    env.close()


ALL = list(GAMES)
GROUPS = [ALL[first : first + 26] for first in range(0, len(ALL), 26)]


@pytest.mark.full
@pytest.mark.parametrize("names", GROUPS, ids=lambda names: f"{names[0]}..{names[-1]}")
def test_all_games_as_in_ale(names: list[str]) -> None:
    """In modes and difficulties of today."""
    lockstep(names, 250, TODAY, with_modes=True)


@pytest.mark.full
@pytest.mark.parametrize("names", [ALL[:52], ALL[52:]], ids=lambda names: f"{names[0]}..{names[-1]}")
def test_games_for_long(names: list[str]) -> None:
    """10,000 frames: of a game in each half, which changes from day to day; ``ATARI_GAMES=all``: of all."""
    some = names if os.environ.get("ATARI_GAMES") == "all" else [names[TODAY % len(names)]]
    lockstep(some, 10_000, TODAY, with_modes=True)


LENGTHS = sorted({-(-frames // 500) * 500 for *_, frames in HOLDS.values()})


@pytest.mark.parametrize("frames", of_today(LENGTHS, 3))  # all in two days
def test_rewards_that_random_play_seldom_earns(frames: int) -> None:
    plays = {name: held_actions(name, *how[:2]) for name, how in HOLDS.items() if frames - 500 < how[2] <= frames}
    reached = lockstep(list(plays), frames, 0, played=plays)
    assert all(reached.values()), reached


@pytest.mark.parametrize("name", of_today(sorted(path.stem for path in SCRIPTS.glob("*.txt")), 4))
def test_rewards_that_take_a_plan(name: str) -> None:
    """A key, a chalice, criminals in jail, a side of the cube, checkmate: scripts that were searched."""
    actions = scripted_actions(name)
    assert lockstep([name], len(actions) + 10, 0, played={name: iter(actions)})[name]


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 2])
def test_pictures_of_a_game_that_thinks_for_several_frames(seed: int) -> None:
    """Frames without VSYNC end at a write of any register, up to which the beam has drawn."""
    lockstep(["tic_tac_toe_3d"], 1500, seed, with_modes=True)


@pytest.mark.full
def test_the_end_of_freeway() -> None:
    """After 2 min 16 s of play: 8,192 frames."""
    env, theirs = torch_batchsim.make_vec(Atari, game="freeway", **ONE, **AS_ALE), ale_of(roms.get_rom_path("freeway"))
    env.reset(seed=0)
    frames, rewarded = 0, 0.0
    while not theirs.game_over():
        reward = theirs.act(ale_py.Action.UP)
        _, rewards, terminations, _, infos = env.step(torch.tensor([2]))
        assert (float(rewards[0]), bool(terminations[0])) == (reward, theirs.game_over()), f"frame {frames}"
        assert int(infos["lives"][0]) == theirs.lives()
        np.testing.assert_array_equal(env.sim.tensor("Ram.bytes")[0], theirs.getRAM(), f"frame {frames}")
        frames, rewarded = frames + 1, rewarded + reward
    assert 8000 < frames < 8300 and rewarded > 10
    env.close()


@pytest.mark.full
def test_games_play_in_a_checked_build() -> None:
    """A cartridge of each kind: no index is out of its range, and bits are those of an ordinary build."""
    made = Atari(game=[name for name in FAST if name != "pong"], start="cached", sticky_actions=0.25)
    sims = [Simulator(made, 2 * len(made.games), num_threads=1, checks=checks) for checks in (True, False)]
    generator = torch.Generator().manual_seed(0)
    for sim in sims:
        sim.reset(seed=0)
    for _ in range(40):
        actions = torch.randint(0, 18, (sims[0].num_worlds, 1), generator=generator)
        for sim in sims:
            sim.tensor("Console.Choice.action")[:] = actions
            sim.step()
    assert_same_bits(*(snapshot(sim) for sim in sims))


@pytest.mark.full
@pytest.mark.parametrize("name", ["breakout", "seaquest"])
def test_ale_pys_sticky_actions(name: str) -> None:
    """What sticks is decided before each frame: the action given counts, or the last frame's, in an episode's first
    frame NOOP. Decided as ale-py does, by two draws a frame, of which the second is another player's."""
    sticky, env = ale_of(roms.get_rom_path(name), 0.25), torch_batchsim.make_vec(Atari, game=name, **ONE, **AS_ALE)
    stays = np.random.RandomState(1).randint(0, 2**32, 2 * 1700, np.uint32)[::2] < 2**30
    env.reset(seed=0)
    held, episodes = 0, 0
    for frame, (given, stay) in enumerate(zip(actions_of(name, 2), stays, strict=False)):
        held = held if stay else given
        assert sticky.act(ale_py.Action(given)) == env.step(torch.tensor([held]))[1][0]
        np.testing.assert_array_equal(env.sim.tensor("Ram.bytes")[0], sticky.getRAM(), f"{name}, frame {frame}")
        if sticky.game_over():
            sticky.reset_game()
            env.reset(options={"reset_mask": torch.tensor([True])})
            held, episodes = 0, episodes + 1
    assert episodes > 0
    env.close()


@pytest.mark.full
def test_sticky_actions_are_drawn_for_each_frame_and_world() -> None:
    options = {**AS_ALE, "full_action_set": True, "sticky_actions": 0.25}
    env = torch_batchsim.make_vec(Atari, game="pong", **{**ONE, "num_worlds": 64}, **options)
    plain = ale_of(roms.get_rom_path("pong"))
    env.reset(seed=1)
    legal = torch.tensor([int(action) for action in GAMES["pong"].minimal_actions])
    before, played = torch.zeros(64, dtype=torch.int64), []
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        given = legal[torch.randint(0, len(legal), (64,), generator=generator)]
        env.step(given)
        now = env.sim.tensor("Session.action").long()
        assert ((now == given) | (now == before)).all()
        played.append((given != before, now != given))
        before = now.clone()
        plain.act(ale_py.Action(int(now[0])))
        np.testing.assert_array_equal(env.sim.tensor("Ram.bytes")[0], plain.getRAM())
    shows, stayed = (torch.stack(each) for each in zip(*played, strict=True))
    again = shows[1:] & shows[:-1] & stayed[:-1]  # after one that stayed
    for where, found in ((shows, stayed), (again, stayed[1:])):
        deviation = (0.25 * 0.75 / int(where.sum())) ** 0.5
        assert abs(float(found[where].float().mean()) - 0.25) < 4 * deviation < 0.04
    env.close()


@pytest.mark.full
def test_sticky_actions_and_frame_skip_do_what_they_say() -> None:
    env = torch_batchsim.make_vec(Atari, game="pong", obs="ram", num_worlds=64, num_threads=1, sticky_actions=0.25)
    env.reset(seed=1)
    actions = np.random.default_rng(0).integers(0, 6, (50, 64))
    kept = 0
    for step, chosen in enumerate(actions):
        env.step(torch.from_numpy(chosen))
        pressed = torch.tensor([int(action) for action in GAMES["pong"].minimal_actions])[torch.from_numpy(chosen)]
        kept += int((env.sim.tensor("Session.action") != pressed).sum())
        assert (env.sim.tensor("Session.frames") == 4 * (step + 1)).all()
    # The last of four frames keeps an older action with probability 0.25^4, and then that differs in most cases.
    assert 0 < kept < 64 * 50 * 3 * 0.25**4
    env.close()


@pytest.mark.full
def test_lost_lives_end_episodes_and_the_game_goes_on() -> None:
    options = {"obs": "ram", "num_worlds": 4, "num_threads": 1, "episodic_life": True, "noop_max": 0}
    env = torch_batchsim.make_vec(Atari, game="breakout", **options)
    env.reset(seed=0)
    lives, seen = torch.full((4,), 5), set()
    for _ in range(800):
        _, _, terminations, _, infos = env.step(torch.ones(4, dtype=torch.int64))
        for world in terminations.nonzero()[:, 0].tolist():
            left = int(infos["final_info"]["lives"][world])
            assert left == int(lives[world]) - 1
            seen.add(left)
            assert int(infos["lives"][world]) == (left or 5)  # the game goes on, or another one begins
        lives = infos["lives"].long().clone()
    assert seen == {0, 1, 2, 3, 4}
    env.close()


@pytest.mark.full
def test_episodes_begin_differently() -> None:
    env = torch_batchsim.make_vec(Atari, game="ms_pacman", obs="ram", num_worlds=32, num_threads=1)
    env.reset(seed=0)
    assert len({bytes(ram.tolist()) for ram in env.sim.tensor("Ram.bytes")}) > 16  # of at most 30 in its reference
    env.close()


@pytest.mark.full
def test_episodes_are_truncated_after_their_frames() -> None:
    options = {"obs": "ram", "num_worlds": 2, "num_threads": 1, "max_episode_frames": 18, "autoreset_mode": "Disabled"}
    env = torch_batchsim.make_vec(Atari, game="freeway", **options)
    env.reset(seed=0)
    ends = [env.step(torch.zeros(2, dtype=torch.int64))[3].tolist() for _ in range(5)]
    assert ends == [[False, False]] * 4 + [[True, True]]
    assert env.sim.tensor("Session.frames").tolist() == [18, 18]
    env.close()


@pytest.mark.full
@pytest.mark.parametrize("skip", [2, 4])
def test_pictures_do_not_depend_on_which_frames_are_drawn(skip: int) -> None:
    """The last two pictures of a step are those of a console that draws each frame."""
    games, keywords = ("breakout", "seaquest"), {"num_worlds": 4, "num_threads": 1, "noop_max": 0, "obs": "gray"}
    some = torch_batchsim.make_vec(Atari, game=games, frame_skip=skip, **keywords)
    every = torch_batchsim.make_vec(Atari, game=games, frame_skip=1, **keywords)
    for env in (some, every):
        env.reset(seed=0)
    pictures = []
    for _ in range(30):
        actions = torch.randint(0, 4, (4,))
        some.step(actions)
        for _ in range(skip):
            every.step(actions)
        tensors = [env.sim.tensor("Picture.pixels") for env in (some, every)]
        now = [env.sim.tensor("Tia.picture").long() for env in (some, every)]
        pictures.append(tensors[0].clone())
        worlds = torch.arange(4)
        for turn in (0, 1):
            assert torch.equal(tensors[0][worlds, now[0] ^ turn], tensors[1][worlds, now[1] ^ turn])
    assert len({picture.numpy().tobytes() for picture in pictures}) > 10
    for env in (some, every):
        env.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"game": "pongg"}, "did you mean 'pong'"),
        ({"game": "combat"}, "combat"),
        ({"game": "pong", "mode": 7}, "pong has no mode 7; it has 0, 1"),
        ({"game": "pong", "difficulty": 9}, "pong has no difficulty 9"),
        ({"game": "pong", "rom": roms.get_rom_path("breakout")}, "is the ROM of breakout, not of pong"),
        ({"game": "pong", "rom": __file__}, "is not the ROM of pong, or damaged"),
        ({"game": []}, "game must be one name or a list of at least one"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        torch_batchsim.make_vec(Atari, num_worlds=1, **options)


@pytest.mark.full
def test_the_example_of_the_page_runs() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "atari.md").read_text()
    found: dict[str, Any] = {}
    exec(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], found)
    observations = found["observations"]
    assert observations.shape == (256, 4, 84, 84) and observations.dtype == torch.uint8
    assert all(len(each.unique()) > 2 for each in observations)  # not blank
    found["env"].close()
