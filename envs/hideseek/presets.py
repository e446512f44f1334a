"""Games beside the full one: what holds for options that are not given."""

from typing import Any

# Cones are narrow and agents turn slowly: a hider can stay out of sight, and a seeker can find it again.
_ONE_AGAINST_ONE = {
    "hiders": 1, "seekers": 1, "flat": True, "see_all": True, "half_size": 10.0, "cone_angle": 30.0, "torque": 4.0,
    "min_boxes": 0, "max_boxes": 0, "min_long_boxes": 0, "ramps": 0, "box_rows": 1, "ramp_rows": 1,
}  # fmt: skip

PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "empty-room": {
        **_ONE_AGAINST_ONE, "min_walls": 0, "max_walls": 0, "min_doors": 0, "max_doors": 0, "preparation_steps": 12,
    },
    "walls": {
        **_ONE_AGAINST_ONE, "max_walls": 2, "min_doors": 0, "max_doors": 0, "narrow_door": 0.3, "wide_door": 0.4,
        "preparation_steps": 24,
    },
}  # fmt: skip
