"""What checks on a device put into texts."""

from pathlib import Path

from torch_batchsim.build.device_checks import with_looks
from torch_batchsim.read.cpp_text import read_source


def instrumented(text: str) -> str:
    text = f"{{{text}}}"
    for place, own in reversed(with_looks(read_source(Path("a.h"), text))):
        text = text[:place] + own + text[place:]
    return text[1:-1]


def test_what_a_device_looks_at_is_found_in_a_text():
    for text, expected in {
        "u64 free[cells], reached[cells]; Cell *q[n], *r[n]; const f32 x[n] = {}, y[n] = {}; grid::Rows<2> s[n];": None,
        "void f(const f32 (&a)[n], Cell *b[n], u8 c[n]); struct S { u8 a[n], b[n]; }; auto [a, b] = c;": None,
        "const auto f = [n](i32 x) -> i32 { return x; }; u8 x [[maybe_unused]] = a[3]; delete[] a; a / 2 % 3;": None,
        "x = a[i], y = b[j];": "x = (TBS_LOOK(9) a)[i], y = (TBS_LOOK(19) b)[j];",
        "f(a * b[i], c & d[i], e > g[i], h(k)[i]);":
            "f(a * (TBS_LOOK(11) b)[i], c & (TBS_LOOK(21) d)[i], e > (TBS_LOOK(31) g)[i], (TBS_LOOK(40) h(k))[i]);",
        "return {a * b[i], b[i]};": "return {a * (TBS_LOOK(17) b)[i], (TBS_LOOK(23) b)[i]};",
        "for (; i * b[j] < n;) if (a < b[i] && c > d[i]) x = a * b[i];":
            "for (; i * (TBS_LOOK(16) b)[j] < n;) if (a < (TBS_LOOK(35) b)[i] && c > (TBS_LOOK(47) d)[i]) "
            "x = a * (TBS_LOOK(61) b)[i];",
        "a.b[c[i]][j] = 1;": "(TBS_LOOK(13) (TBS_LOOK(10) a.b)[(TBS_LOOK(9) c)[i]])[j] = 1;",
        "if (p) p->x = world.find<A, B>(e)->y;":
            "if (p) (TBS_LOOK_BEHIND(10) p)->x = (TBS_LOOK_BEHIND(35) world.find<A, B>(e))->y;",
        "x = a / b * c % (d + e); x /= y + 1;":
            "x = a / TBS_BY(8) b * c % TBS_BY(16) (d + e); x /= TBS_BY_ALL(29) y + 1;",
    }.items():  # fmt: skip
        assert instrumented(text) == (expected or text)
