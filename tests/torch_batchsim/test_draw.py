import numpy as np
import pytest

from torch_batchsim.draw import Canvas, Scene, Sprite, text_width

BLACK, RED = (0, 0, 0), (200, 0, 0)


def covered(canvas):
    """How many pixels' worth have been drawn in black on white."""
    return (255 - canvas.pixels[..., 0].astype(float)).sum() / 255


def written(canvas):
    return ["".join("#" if dark else "." for dark in row) for row in canvas.pixels[..., 0] == 0]


@pytest.mark.parametrize(
    ("corners", "area"),
    [
        ([(10, 10), (40, 10), (40, 30), (10, 30)], 600),
        ([(10, 30), (40, 30), (40, 10), (10, 10)], 600),  # the other way round
        ([(5, 5), (45, 20), (10, 40)], 662.5),
        ([(10, 10), (40, 10), (40, 40), (25, 20), (10, 40)], 600),  # not convex
        ([(10, 10), (40, 40), (40, 10), (10, 40)], 450),  # edges that cross
    ],
)
def test_a_polygon_covers_its_area(corners, area):
    canvas = Canvas(50, 50)
    canvas.polygon(corners, BLACK)
    assert covered(canvas) == pytest.approx(area, rel=0.01)


def test_what_is_behind_a_polygon_shows_through():
    canvas = Canvas(50, 50)
    canvas.polygon([(5, 5), (45, 20), (10, 40)], BLACK, opacity=0.25)
    assert covered(canvas) == pytest.approx(662.5 / 4, rel=0.02)
    canvas.polygon([(5, 5), (45, 20), (10, 40)], RED, 0.5)
    assert canvas.pixels[20, 20].tolist() == [196, 96, 96]  # of 191 and the colour, half each


def test_pictures_have_the_layers_that_are_shown():
    def drawn(*layers):
        scene = Scene(20, 20)
        for x, layer in enumerate(layers):
            scene.layer(*layer)
            scene.rectangle((4 * x, 0), (4 * x + 4, 20), BLACK)
        return [bool(dark) for dark in scene.pixels[10, 2::4, 0] == 0][: len(layers)]

    assert drawn(("a",), ("b", False), (), ("b", False), ("", False)) == [True, False, True, False, True]


def test_a_polygon_is_a_rectangle_where_it_is_one():
    ours, theirs = Canvas(20, 20), Canvas(20, 20)
    ours.polygon([(3, 4), (12, 4), (12, 15), (3, 15)], RED)
    theirs.rectangle((3, 4), (12, 15), RED)
    assert np.array_equal(ours.pixels, theirs.pixels)


def test_a_polygon_needs_three_corners():
    with pytest.raises(ValueError, match="a polygon needs at least 3 corners, got 2"):
        Canvas(9, 9).polygon([(0, 0), (5, 5)], RED)


def test_drawings_outside_are_clipped():
    canvas = Canvas(10, 10)
    canvas.polygon([(-5, -5), (5, -5), (5, 5), (-5, 5)], BLACK)
    assert covered(canvas) == 25
    before = canvas.pixels.copy()
    canvas.polygon([(float("nan"), 0), (5, 5), (0, 5)], BLACK)
    for place in ((-30, 5), (5, -30), (30, 5), (5, 30)):
        canvas.text(place, "8", BLACK)
        canvas.stamp(Sprite(4, 4, lambda empty: empty.circle((2, 2), 2, BLACK)), place)
    assert np.array_equal(canvas.pixels, before)
    canvas.text((-3, 10), "H", BLACK)
    assert written(canvas)[6:] == [".#........"] * 3 + ["##........"]


def test_text_is_written_in_dots():
    canvas = Canvas(11, 7)
    canvas.text((0, 3.5), "t1", BLACK)
    assert written(canvas) == [
        "#####...#..",
        "..#....##..",
        "..#.....#..",
        "..#.....#..",
        "..#.....#..",
        "..#.....#..",
        "..#....###.",
    ]


def test_all_letters_differ_but_those_that_look_alike():
    def picture(sign):
        canvas = Canvas(5, 7)
        canvas.text((0, 3.5), sign, BLACK)
        return canvas.pixels.tobytes()

    signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-*/.,:!?()%=_<>#~ "
    assert len({picture(sign) for sign in signs}) == len(signs) - 1  # O and 0
    assert picture("~") == picture("\N{PILE OF POO}")  # a box for what is not known


@pytest.mark.parametrize(("align", "left"), [(0, 50), (0.5, 50 - 17), (1, 50 - 34)])
def test_text_is_aligned_and_scaled(align, left):
    canvas = Canvas(100, 40)
    canvas.text((50, 20), "HHH", BLACK, scale=2, align=align)
    rows, columns = np.nonzero(canvas.pixels[..., 0] == 0)
    assert (columns.min(), columns.max()) == (left, left + text_width("HHH", 2) - 1)
    assert (rows.min(), rows.max()) == (13, 26)


def test_empty_text_is_nothing():
    canvas = Canvas(10, 10)
    canvas.text((5, 5), "", BLACK)
    assert text_width("") == covered(canvas) == 0


def test_a_sprite_looks_as_if_drawn_there():
    def draw(canvas, x, y):
        canvas.circle((x, y), 6.3, RED)
        canvas.polygon([(x - 7, y), (x, y - 4), (x + 7, y)], BLACK)

    ground = np.random.default_rng(1).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    stamped, drawn = Canvas(50, 40), Canvas(50, 40)
    stamped.pixels, drawn.pixels = ground.copy(), ground.copy()
    sprite = Sprite(20, 20, lambda canvas: draw(canvas, 10, 10))
    for x, y in ((25, 20), (3, 5), (49, 39)):
        stamped.stamp(sprite, (x, y))
        draw(drawn, x, y)
    difference = np.abs(stamped.pixels.astype(int) - drawn.pixels)
    assert difference.max() <= 2
    assert (stamped.pixels != ground).any()


def test_a_colour_is_three_numbers() -> None:
    scene = Scene(20, 10)
    for colour in ("#eeeeee", (1, 2, 3, 4)):
        with pytest.raises(ValueError, match=r"a colour is \(red, green, blue\), each from 0 to 255, got"):
            scene.rectangle((0, 0), (5, 5), colour)  # type: ignore[arg-type]
    assert not scene.shapes


def test_a_pixel_finds_the_row_in_front():
    scene = Scene(100, 100)
    scene.rectangle((0, 0), (100, 100), BLACK)  # of no row
    scene.row("Floor")
    scene.rectangle((90, 10), (10, 60), RED)
    scene.row("Ship", 2)
    scene.circle((30, 30), 10, RED)
    scene.line((60, 20), (80, 40), 1, RED)
    scene.row("Drone", 5)
    scene.polygon([(20, 40), (40, 40), (30, 20)], RED)
    scene.stamp(Sprite(10, 20, lambda canvas: None), (70, 80))
    scene.text((50, 90), "abc", RED, scale=2, align=0.5)
    scene.row()
    scene.rectangle((0, 0), (100, 12), BLACK)  # in front, of no row
    scene.layer("more", shown=False)
    scene.row("Hidden")
    scene.rectangle((0, 0), (100, 100), BLACK)
    found = {
        (5, 50): None, (50, 50): ("Floor", 0), (22, 28): ("Ship", 2), (30, 30): ("Drone", 5), (30, 45): ("Floor", 0),
        (71, 30): ("Ship", 2), (75, 30): ("Floor", 0), (74, 71): ("Drone", 5), (76, 80): None, (34, 90): ("Drone", 5),
        (32, 90): None, (50, 11): ("Floor", 0),
    }  # fmt: skip
    assert {place: scene.hit(*place) for place in found} == found
    assert scene.has_rows and not Scene(3, 3).has_rows and Scene(3, 3).hit(1, 1) is None
