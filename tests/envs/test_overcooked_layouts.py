"""Layouts of Overcooked: what the reference makes of them, what it does not know, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_batchsim.envs.overcooked import Layout, layout_names, read_layout

GOLDEN = json.loads((Path(__file__).parent / "golden" / "overcooked_layouts.json").read_text())
SHIPPED = Path(__file__).parents[2] / "envs" / "overcooked" / "layouts"
SYMBOLS = " PXOTDS"  # a cell's code is its place here
ITEMS = ("", "onion", "tomato", "dish", "soup")
DIRECTIONS = [[0, -1], [0, 1], [1, 0], [-1, 0]]
GRID = """
    XXPXX
    O  2T
    X1  X
    XDXSX
"""
BOTH, ONIONS = {"ingredients": ["tomato", "onion"]}, {"ingredients": ["onion"] * 3}


def kitchen(grid: str = GRID, **overrides: Any) -> Layout:
    return read_layout(grid, **overrides)


def rows_of(layout: Layout) -> list[str]:
    return ["".join(SYMBOLS[code] for code in row) for row in layout.terrain.T]


def recipes_up_to(most: int) -> list[tuple[int, int]]:
    return [(total - tomatoes, tomatoes) for total in range(1, most + 1) for tomatoes in range(total + 1)]


# ---- what the reference knows --------------------------------------------------------------------------------------


def test_every_layout_of_the_reference_comes_with_the_package() -> None:
    names = layout_names()
    assert names == sorted(names)
    assert names == [record["layout"] for record in GOLDEN if not record["overrides"]]
    assert len(names) == 45


@pytest.mark.parametrize("record", GOLDEN, ids=lambda r: f"{r['layout']}-{'-'.join(r['overrides']) or 'itself'}")
def test_a_layout_means_what_the_reference_makes_of_it(record: dict[str, Any]) -> None:
    layout = read_layout(record["layout"], **record["overrides"])
    recipes = recipes_up_to(record["max_ingredients"])

    assert layout.name == record["layout"]
    assert layout.terrain.dtype == np.uint8
    assert rows_of(layout) == record["terrain"]
    assert layout.max_ingredients == record["max_ingredients"]
    for table, dtype, key in ((layout.values, np.float32, "values"), (layout.cook_times, np.int32, "times")):
        assert table.shape == (8, 8)
        assert table.dtype == dtype
        assert [table[recipe] for recipe in recipes] == np.array(record[key], dtype).tolist()
        others = np.ones((8, 8), bool)
        others[tuple(zip(*recipes, strict=True))] = False
        assert not table[others].any()
    assert sorted(map(list, layout.orders)) == sorted(record["orders"])
    assert sorted(map(list, layout.bonus_orders)) == sorted(record["bonus_orders"])
    assert [layout.placement_reward, layout.dish_reward, layout.soup_reward] == record["shaping"]

    assert [list(place) for place in layout.starts] == record["starts"]
    assert [DIRECTIONS[facing] for facing in layout.facings] == record["orientations"]
    assert layout.timestep == record["timestep"]
    assert list(layout.held) == [(ITEMS.index(h[0]), *h[1:]) if h else (0, 0, 0) for h in record["held"]]
    assert list(layout.items) == [(x, y, ITEMS.index(name), *rest) for x, y, name, *rest in record["items"]]


# ---- where a layout comes from -------------------------------------------------------------------------------------


def same(one: Layout, other: Layout) -> bool:
    return all(np.array_equal(value, vars(other)[key]) for key, value in vars(one).items() if key != "name")


def test_a_name_a_path_and_a_text_give_the_same(tmp_path: Path) -> None:
    text = (SHIPPED / "soup_coordination.layout").read_text()
    path = tmp_path / "mine.layout"
    path.write_text(f"\ufeff# a comment\n{text}", encoding="utf-8")
    named = read_layout("soup_coordination")
    for source, name in ((path, "mine"), (str(path), "mine"), (text, "unnamed_layout"), (f"\n  {text}", None)):
        layout = read_layout(source)
        assert same(named, layout)
        assert layout.name == (name or "unnamed_layout")
    assert same(read_layout(named), named)
    assert read_layout(named) is named


def test_a_file_may_be_just_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "kitchen.txt"
    path.write_text(GRID.replace("\n", "\r\n"))
    assert same(read_layout(path), kitchen())


def test_names(tmp_path: Path) -> None:
    text = "{'grid': '''XXPX\n O12S\n XDXX''', 'layout_name': 'galley'}"
    path = tmp_path / "mine.layout"
    path.write_text(text)
    assert read_layout(text).name == "galley"
    assert read_layout(text, layout_name=None).name == "unnamed_layout"
    assert read_layout(path).name == "mine"
    for source in (text, path, "cramped_room", GRID):
        assert read_layout(source, layout_name="mess").name == "mess"


def test_a_layout_cannot_be_changed() -> None:
    layout = kitchen()
    with pytest.raises(ValueError, match="read-only"):
        layout.terrain[0, 0] = 0
    with pytest.raises(AttributeError):
        layout.name = "another"  # type: ignore[misc]


# ---- what the reference does not know ------------------------------------------------------------------------------


def test_stars_are_players_after_the_numbered_ones() -> None:
    layout = kitchen("XPXXX\nO* *X\nX2*1S\nXXDXX")
    assert layout.starts == ((3, 2), (1, 2), (1, 1), (3, 1), (2, 2))
    assert kitchen("XPX\nO*S\nO*X\nXDX").starts == ((1, 1), (1, 2))
    assert layout.facings == (0,) * 5
    assert layout.held == ((0, 0, 0),) * 5


def test_forty_players_may_start() -> None:
    grid = "\n".join(["XPSDO" + "X" * 17, *["X" + "*" * 20 + "X"] * 2, "X" * 22])
    assert len(kitchen(grid).starts) == 40


def test_infinity_may_be_written_as_a_call() -> None:
    text = "{'grid': '''XXPX\n O12S\n XDXX''', 'start_bonus_orders': [{'ingredients': ('onion',)}], 'order_bonus': %s}"
    assert read_layout(text % "float('inf')").values[1, 0] == np.inf
    assert read_layout(text % "-3").values[1, 0] == -60
    assert read_layout(text % "+2.5").values[1, 0] == 50
    assert read_layout(text % "float('1e1')").values[1, 0] == 200


def test_numbers_and_lists_may_be_numpys() -> None:
    layout = kitchen(
        start_all_orders=[BOTH, ONIONS],
        recipe_values=np.array([1.5, 2]),
        cook_time=np.int8(100),
        max_num_ingredients=np.int64(4),
        start_player_positions=np.array([[2, 1]]),
    )
    assert (layout.values[1, 1], layout.cook_times[4, 0], layout.starts) == (1.5, 100, ((2, 1),))


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 12), st.data())
@settings(deadline=None)
def test_a_drawn_grid_comes_back(width: int, height: int, players: int, data: st.DataObject) -> None:
    """Also with spaces and empty lines around it, which do not count."""
    cells = [(x, y) for x in range(1, width + 1) for y in range(1, height + 1)]
    border = [(x, y) for x in range(width + 2) for y in range(height + 2) if (x, y) not in cells]
    grid = {cell: data.draw(st.sampled_from(SYMBOLS)) for cell in cells}
    grid |= {cell: data.draw(st.sampled_from(SYMBOLS[1:])) for cell in border}
    needed = data.draw(st.permutations(border))[:4]
    grid |= dict(zip(needed, ("P", "S", "D", data.draw(st.sampled_from("OT"))), strict=True))
    starts = data.draw(st.permutations(cells))[:players]
    numbered = data.draw(st.integers(0, min(9, len(starts))))
    starts[numbered:] = sorted(starts[numbered:], key=lambda cell: cell[::-1])
    marks = [str(number) for number in range(1, numbered + 1)] + ["*"] * (len(starts) - numbered)
    drawn = grid | dict(zip(starts, marks, strict=True))
    rows = ["".join(drawn[x, y] for x in range(width + 2)) for y in range(height + 2)]
    around = st.text(" \t", max_size=3)
    text = "\n\n" + "\n".join(data.draw(around) + row + data.draw(around) for row in rows) + "\n \n"

    layout = read_layout(text)
    empty = grid | dict.fromkeys(starts, " ")
    assert rows_of(layout) == ["".join(empty[x, y] for x in range(width + 2)) for y in range(height + 2)]
    assert layout.starts == tuple(starts)
    assert same(read_layout(repr({"grid": text})), layout)


shipped_text = st.sampled_from(layout_names()).map(lambda name: (SHIPPED / f"{name}.layout").read_text())


@given(shipped_text, st.integers(0), st.integers(0, 30), st.text(max_size=5))
@settings(deadline=None)
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_a_broken_file_gives_a_layout_or_a_value_error(text: str, at: int, cut: int, put: str) -> None:
    at %= len(text)
    try:
        layout = read_layout("{" + (text[:at] + put + text[at + cut :])[1:])
    except ValueError as error:
        assert str(error).startswith("layout '")
    else:
        assert isinstance(layout, Layout)


@pytest.mark.parametrize("hostile", ["[" * 5000, "-" * 100_000, "1" + "+1" * 100_000, "\0", "\ud800"])
def test_hostile_text_gives_a_value_error(hostile: str) -> None:
    with pytest.raises(ValueError, match=r"layout 'unnamed_layout': .*a layout is a grid or a dict literal"):
        read_layout("{'grid': " + hostile + "}")


# ---- what is refused -----------------------------------------------------------------------------------------------


def refused(match: str, source: Any = GRID, **overrides: Any) -> None:
    with pytest.raises(ValueError, match=match):
        read_layout(source, **overrides)


def test_a_bad_source_is_refused(tmp_path: Path) -> None:
    refused(r"unknown layout 'cramped_rom' \(did you mean 'cramped_room'.*layout_names\(\) gives all 45", "cramped_rom")
    refused("unknown layout ''", "")
    refused("is already read; give cook_time", kitchen(), cook_time=3)
    with pytest.raises(TypeError, match="a layout must be a name, a path, a text or a Layout, got 3"):
        read_layout(3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_layout("nowhere.layout")
    path = tmp_path / "odd.layout"
    path.write_bytes(b"XX\xff\n")
    refused(r"layout '.*odd.layout': it is not a text in UTF-8", path)
    path.write_text("X?X\n")
    refused(r"layout '.*odd.layout': '\?' in row 1, column 2", path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{'grid': open('x')}", "line 1, column 10: not allowed here; .*float"),
        ("\n\n{'grid':\n a}", "line 4, column 2: not allowed here"),
        ("{'grid': f'{1}'}", "line 1, column 10: not allowed here"),
        ("{'grid': 'X' * 9}", "line 1, column 10: not allowed here"),
        ("{'grid': {1, 2}}", "line 1, column 10: not allowed here"),
        ("{'grid': float('x')}", "line 1, column 10: not allowed here"),
        ("{'grid': float(3)}", "line 1, column 10: not allowed here"),
        ("{'grid': -True}", "line 1, column 10: not allowed here"),
        ("{'grid': 1j}", "line 1, column 10: not allowed here"),
        ("{'grid': b'X'}", "line 1, column 10: not allowed here"),
        ("{'grid': [x for x in 'X']}", "line 1, column 10: not allowed here"),
        ("{\n**{}}", "line 2: a key that is not a text"),
        ("{3: 4}", "line 1: a key that is not a text"),
        ("{'grid': 'X',\n 'grid': 'X'}", "line 2: the key 'grid' occurs twice"),
        ("{'grid'\n: 'X'", "line 1: .*never closed; a layout is a grid or a dict literal"),
        ("{'grid'}", "line 1: not a dict"),
        ("{'grid': 'X'}.keys()", "line 1: not a dict"),
        ("{}", "a layout file must have 'grid'"),
        ("{'grid': None}", "its grid must be a text of rows, got None"),
        ("{'grid': ['XX']}", "its grid must be a text of rows, got "),
    ],
)
def test_a_bad_file_is_refused(text: str, match: str) -> None:
    refused(f"layout 'unnamed_layout': {match}", text)


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ("", "its grid is empty"),
        ("XPX O1S X#X XDX", r"'#' in row 3, column 2 \(x=1, y=2\); allowed are space \(floor\), P X O T D S, 1 to 9"),
        ("XPX O1S X0X XDX", "'0' in row 3, column 2"),
        ("XPX o1S XXX XDX", "'o' in row 2, column 1"),
        ("XPX O1SX XDX", "row 2 of its grid has 4 cells, but the first has 3"),
        ("XPX O1S  XDX", "row 3 of its grid has 0 cells, but the first has 3"),
        ("XPX O1_ XDX", "row 2 of its grid has 2 cells, but the first has 3 .*spaces around a row do not count"),
        ("XP_X O1_S XDXX", r"floor on the border in row 1, column 3 \(x=2, y=0\); allowed there are X, P, O, T, D and"),
        ("XPX O1S X_X XD1", "start '1' on the border in row 4, column 3"),
        ("XPX O1S *_X XDX", r"start '\*' on the border in row 3, column 1"),
        ("XXX O1S XDX", r"its grid has no pot \('P'\)"),
        ("XPX O1X XDX", r"its grid has no serving place \('S'\)"),
        ("XPX O1S XXX", r"its grid has no dish dispenser \('D'\)"),
        ("XPX X1S XDX", r"its grid has no onion or tomato dispenser \('O' or 'T'\)"),
        ("XPXX O11S XDXX", r"player 1 starts in row 2, column 2 \(x=1, y=1\) and in row 2, column 3"),
        ("XPXX O13S XDXX", "its grid has a player 3 but no player 2; numbers go 1, 2, 3"),
        ("XPXX O*2S XDXX", "its grid has a player 2 but no player 1"),
        ("XPX O_S XDX", r"the number of starting places \(1 to 9, \*\) in its grid must be 1 to 40, got 0"),
        (f"XPSDO{'X' * 38} X{'*' * 41}X {'X' * 43}", "the number of starting places .* must be 1 to 40, got 41"),
        (" ".join(["X" * 65] * 64), "its grid is of 65 x 64 cells; 4096 cells at most are allowed"),
    ],
)
def test_a_bad_grid_is_refused(rows: str, match: str) -> None:
    """``rows`` with a space between them, and ``_`` for floor."""
    text = rows.replace(" ", "\n").replace("_", " ")
    refused(f"layout 'unnamed_layout': {match}", text + "\n")
    refused(match, repr({"grid": text}))


def test_an_unknown_key_is_refused() -> None:
    refused(r"'cook_tim' is unknown in a layout file \(did you mean 'cook_time'", "{'grid': 'X', 'cook_tim': 3}")
    refused(r"'all_orders' is unknown in the options of a layout \(did you mean 'start_all_orders'", all_orders=[])
    refused("'horizon' is unknown in the options of a layout.*; known are start_all_orders, .*start_state", horizon=3)
    refused("must not replace its grid", grid=GRID)
    refused(
        "'start_player_positions' is unknown in a layout file", repr({"grid": GRID, "start_player_positions": [[1, 1]]})
    )


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        ({"start_all_orders": 3}, "start_all_orders must be a list, got 3"),
        ({"start_all_orders": [["onion"]]}, r"order 1 of start_all_orders must be as \{'ingredients': .*, got"),
        ({"start_all_orders": [BOTH, {"ingredients": "onion"}]}, "ingredients of order 2 .* must be a list, got"),
        ({"start_all_orders": [{"ingredients": ["onion", "dish"]}]}, "order 1 of start_all_orders has the unknown"),
        ({"start_all_orders": [{"ingredients": []}]}, "order 1 of start_all_orders has 0 ingredients; 1 to 3 are"),
        ({"start_all_orders": [{"ingredients": ["onion"] * 4}]}, "order 1 .* has 4 ingredients; 1 to 3 are allowed"),
        ({"start_all_orders": [ONIONS], "max_num_ingredients": 2}, "order 1 .* has 3 ingredients; 1 to 2 are allowed"),
        ({"start_all_orders": [BOTH, {"ingredients": ["onion", "tomato"]}]}, "order 2 of start_all_orders is the same"),
        ({"start_all_orders": [ONIONS], "start_bonus_orders": [BOTH]}, "every bonus order must be one of all orders,"),
        ({"start_bonus_orders": [BOTH, BOTH]}, "order 2 of start_bonus_orders is the same as order 1"),
        ({"max_num_ingredients": 8}, "max_num_ingredients must be a whole number from 1 to 7, got 8"),
        ({"max_num_ingredients": True}, "max_num_ingredients must be a whole number from 1 to 7, got True"),
        ({"num_items_for_soup": 2}, "num_items_for_soup is 2, but even the reference does not use it;"),
        ({"layout_name": 3}, "layout_name must be a text, got 3"),
        ({"rew_shaping_params": 3}, "rew_shaping_params must be a dict, got 3"),
        ({"rew_shaping_params": {"DISH_PICKUP_REW": 3}}, r"'DISH_PICKUP_REW' is unknown in rew_shaping_params \(did"),
        ({"rew_shaping_params": {"DISH_PICKUP_REWARD": 3}}, "rew_shaping_params must have 'PLACEMENT_IN_POT_REW',"),
        (
            {"rew_shaping_params": {"DISH_PICKUP_REWARD": "x", "PLACEMENT_IN_POT_REW": 1, "SOUP_PICKUP_REWARD": 1}},
            "DISH_PICKUP_REWARD of rew_shaping_params must be a number that is finite",
        ),
        ({"start_player_positions": []}, "start_player_positions must be 1 to 40, got 0"),
        ({"start_player_positions": [[1, 2], [0, 1]]}, r"player 2 of start_player_positions is in row 2.* not floor"),
        ({"start_player_positions": [[1, 1], [1, 1]]}, "player 2 of .* is where player 1 of start_player_positions is"),
        ({"start_player_positions": [[-1, 1]]}, r"position of player 1 .* is \(-1, 1\), outside of the grid of 5 x 4"),
        ({"start_player_positions": [[1, 1.5]]}, r"must be two whole numbers \(x, y\), got \[1, 1.5\]"),
    ],
)
def test_a_bad_setting_is_refused(overrides: dict[str, Any], match: str) -> None:
    name = overrides.get("layout_name", "unnamed_layout")
    refused(f"layout {name!r}: .*{match}", **overrides)


def test_shaping_that_pays_nothing_must_be_zero() -> None:
    read = {"PLACEMENT_IN_POT_REW": 1, "DISH_PICKUP_REWARD": 2, "SOUP_PICKUP_REWARD": 3}
    assert kitchen(rew_shaping_params={**read, "POT_DISTANCE_REW": 0}).soup_reward == 3
    refused(
        "POT_DISTANCE_REW of rew_shaping_params must be 0: not even the reference pays it",
        rew_shaping_params={**read, "POT_DISTANCE_REW": 0.1},
    )


@pytest.mark.parametrize(
    ("whole", "listed", "onion", "tomato"),
    [
        ("delivery_reward", "recipe_values", "onion_value", "tomato_value"),
        ("cook_time", "recipe_times", "onion_time", "tomato_time"),
    ],
)
def test_rules_exclude_each_other(whole: str, listed: str, onion: str, tomato: str) -> None:
    orders = {"start_all_orders": [BOTH, ONIONS]}
    of_each = {onion: 4, tomato: 5}
    refused(f"{onion} is given without {tomato}", **{onion: 4})
    refused(f"{tomato} is given without {onion}", **{tomato: 4})
    refused(f"{whole} and {onion} exclude each other", **of_each, **{whole: 3})
    refused(
        f"{whole} and {listed} exclude each other.* {listed}=None, removes", **orders, **{whole: 3, listed: [1, 2]}
    )
    refused(f"{listed} and {onion} exclude each other", **orders, **of_each, **{listed: [1, 2]})
    refused(f"{listed} must have one number for each .* these are 2, and it has 1", **orders, **{listed: [1]})
    refused(f"{listed} must have one number for each .* these are 0, and it has 1", **{listed: [1]})
    refused(f"{listed} must be a list, got 3", **orders, **{listed: 3})
    refused(rf"{listed}\[1\] must be a", **orders, **{listed: [1, "x"]})
    for key, rule in ((whole, {whole: 0}), (onion, {onion: 0, tomato: 1}), (tomato, {onion: 1, tomato: 0})):
        refused(f"{key} must not be 0: the reference takes a 0 for 'not given'.* {listed} may hold 0", **rule)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39, "20", True, [1]])
def test_a_value_must_be_finite(value: Any) -> None:
    refused("delivery_reward must be a number that is finite as a 32-bit float", delivery_reward=value)


@pytest.mark.parametrize("time", [-1, 2.0, 32768, True, "20"])
def test_a_time_must_be_a_count_of_steps(time: Any) -> None:
    refused("cook_time must be a whole number from 0 to 32767", cook_time=time)
    refused(r"recipe_times\[0\] must be a whole", start_all_orders=[BOTH], recipe_times=[time])


def test_times_and_values_must_fit_the_tables() -> None:
    refused(
        "cook time of the soup of 3 onions and 0 tomatoes must be a whole number from 0 to 32767, got 32769",
        onion_time=10923,
        tomato_time=1,
    )
    refused(
        "value of the soup of 0 onions and 1 tomatoes must be a number that is finite",
        delivery_reward=2e38,
        start_bonus_orders=[{"ingredients": ["tomato"]}],
    )
    assert kitchen(onion_time=1, tomato_time=10922).cook_times[0, 3] == 32766


def test_infinity_times_nothing_is_refused() -> None:
    bonus = {"start_all_orders": [BOTH], "start_bonus_orders": [BOTH], "order_bonus": float("inf")}
    refused(
        "order_bonus is infinite, but the soup of 1 onions and 1 tomatoes, .* has the value 0",
        **bonus,
        recipe_values=[0],
    )
    assert kitchen(**bonus).values[1, 1] == np.inf
    for bad in (float("nan"), -float("inf"), "2", np.ones(2)):
        refused("order_bonus must be a number", order_bonus=bad)


# ---- a bad state at the start --------------------------------------------------------------------------------------


def chef(x: int, y: int, **more: Any) -> dict[str, Any]:
    return {"position": [x, y], "orientation": [0, 1], **more}


def thing(name: str, x: int, y: int) -> dict[str, Any]:
    return {"name": name, "position": [x, y]}


def soup(x: int, y: int, onions: int = 1, **more: Any) -> dict[str, Any]:
    return {**thing("soup", x, y), "_ingredients": [thing("onion", x, y)] * onions, **more}


def state(*objects: Any, players: Any = None, **more: Any) -> dict[str, Any]:
    return {"players": [chef(1, 1)] if players is None else players, "objects": list(objects), **more}


def test_a_state_says_how_the_game_begins() -> None:
    """In the pot at (2, 0) a soup that cooks; a ready one on a counter."""
    start = state(
        soup(2, 0, cooking_tick=19), soup(0, 0, cooking_tick=20), players=[chef(2, 2), chef(1, 1), chef(3, 1)]
    )
    layout = kitchen(start_state=start)
    assert layout.starts == ((2, 2), (1, 1), (3, 1))
    assert layout.facings == (1, 1, 1)
    assert layout.items == ((2, 0, 4, 1, 0, 1), (0, 0, 4, 1, 0, 0))
    assert len(layout.orders) == 9


def test_the_orders_of_a_state_count() -> None:
    """Also where it has none: every soup is paid for then, and none has a bonus, as in the reference."""
    mine = {"start_all_orders": [ONIONS], "start_bonus_orders": [ONIONS]}
    layout = kitchen(**mine, start_state=state())
    assert (len(layout.orders), layout.bonus_orders, layout.values[3, 0]) == (9, (), 20)
    layout = kitchen(**mine, start_state=state(all_orders=[BOTH], bonus_orders=[BOTH]))
    assert (layout.orders, layout.bonus_orders) == (((1, 1),), ((1, 1),))
    assert (layout.values[1, 1], layout.values[3, 0]) == (40, 0)


@pytest.mark.parametrize(
    ("start", "match"),
    [
        (3, "start_state must be a dict, got 3"),
        ({"players": []}, "start_state must have 'objects'"),
        (state(bonus=[]), "'bonus' is unknown in start_state; known are players, objects, all_orders, bonus_orders"),
        (state(timestep=-1), "timestep of start_state must be a whole number from 0 to 2147483646, got -1"),
        (state(all_orders=[BOTH, BOTH]), "order 2 of start_state's all_orders is the same as order 1"),
        (state(all_orders=[BOTH], bonus_orders=[ONIONS]), "every bonus order must be one of all orders"),
        (state(players=[]), "players in start_state must be 1 to 40, got 0"),
        (state(players=[3]), "player 1 of start_state must be a dict, got 3"),
        (state(players=[{"position": [1, 1]}]), "player 1 of start_state must have 'orientation'"),
        (state(players=[chef(1, 1, name="x")]), "'name' is unknown in player 1 of start_state"),
        (state(players=[chef(1, 1), chef(0, 1)]), r"player 2 of start_state is in row 2, column 1 .*, which is not"),
        (state(players=[chef(1, 1), chef(1, 1)]), "player 2 of start_state is where player 1 of start_state is, in"),
        (state(players=[chef(7, 1)]), r"position of player 1 of start_state is \(7, 1\), outside of the grid of 5 x 4"),
        (state(players=[{**chef(1, 1), "orientation": [1, 1]}]), r"orientation of player 1 .* must be \(0, -1\)"),
        (state(players=[chef(1, 1, held_object=thing("pan", 1, 1))]), "held_object of player 1 .* 'name' of onion,"),
        (state(players=[chef(1, 1, held_object=thing("dish", 2, 1))]), r"held_object .* is at \[2, 1\], but the"),
        (state(players=[chef(1, 1, held_object=soup(1, 1))]), "held_object of player 1 .* is a soup that is not ready"),
        (state(thing("onion", 2, 1)), r"object 1 .* is in row 2, column 3 \(x=2, y=1\), which is neither a counter"),
        (state(thing("onion", 1, 3)), "object 1 of start_state is in row 4, column 2 .* neither a counter nor a pot"),
        (state(thing("onion", 9, 3)), r"position of object 1 of start_state is \(9, 3\), outside of the grid"),
        (state(thing("onion", 2, 0)), "object 1 of start_state, no soup, is in a pot in row 1, column 3"),
        (state(thing("onion", 0, 0), thing("dish", 0, 0)), "object 2 of start_state is where another object is, in"),
        (state(soup(0, 0, cooking_tick=19)), "object 1 of start_state, a soup that is not ready, is on a counter in"),
        (state(soup(2, 0, onions=0)), "object 1 of start_state is a soup of 0 ingredients; 1 to 3 are allowed"),
        (state(soup(2, 0, onions=4)), "object 1 of start_state is a soup of 4 ingredients; 1 to 3 are allowed"),
        (state(soup(2, 0, cooking_tick=21)), "cooking_tick of object 1 .* must be a whole number from -1 to 20, got"),
        (state(soup(2, 0, _cooking_tick=3)), "'_cooking_tick' of 3, but what counts, .* is 'cooking_tick', -1 here"),
        (state({**thing("soup", 2, 0), "state": ("onion", 3, 0)}), "a soup with a 'state', an old form"),
        (state(soup(2, 0, tick=3)), "'tick' is unknown in object 1 of start_state"),
        (state({**thing("soup", 2, 0), "_ingredients": [thing("dish", 2, 0)]}), "has the unknown ingredient 'dish'"),
        (state({**thing("soup", 2, 0), "_ingredients": [thing("onion", 2, 1)]}), r"is at \(2, 0\), but an ingredient"),
        (state({"name": "dish"}), "object 1 of start_state must have 'position'"),
    ],
)
def test_a_bad_state_is_refused(start: Any, match: str) -> None:
    refused(f"layout 'unnamed_layout': .*{match}", start_state=start)
