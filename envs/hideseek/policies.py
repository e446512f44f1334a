"""A scripted policy: seekers run at the nearest hider that they see, hiders away from the nearest seeker."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi
from typing import Any

import torch
from torch import Tensor

_STILL, _MOST, _MOST_TURN = 5, 5, 2
_TURN = 3.0  # steps of the torque's choice for each radian
_NEAR = 0.2  # of the lidar's range: a wall or a thing in the way


def chase(parts: Mapping[str, Any]) -> Tensor:
    """Actions int64 ``[rows, 5]`` from the parts of the observation, tensors.

    A seeker that sees no hider turns as it walks, or where it stands if something is near ahead. A hider that sees no
    seeker stays. Nobody grabs or locks; nobody remembers what it saw.
    """
    own, others = parts["self"], parts["agents"]
    is_seeker = own[:, 8] > 0.5
    sought = (parts["sees_agents"] > 0.5) & ((others[..., 8] > 0.5) != is_seeker[:, None])
    place = others[..., :2]
    distance = torch.where(sought, place.norm(dim=-1), torch.inf)
    nearest, sees = distance.argmin(dim=1), sought.any(dim=1)
    x, y = place[torch.arange(len(own), device=own.device), nearest].unbind(-1)
    angle = torch.atan2(-x, y)  # from forward, to the left
    away = torch.remainder(angle + 2 * pi, 2 * pi) - pi
    turn = torch.round(_TURN * torch.where(is_seeker, angle, away)).clamp(-_MOST_TURN, _MOST_TURN)
    searches = ~sees & is_seeker
    turn = torch.where(sees, turn, torch.where(searches, float(_MOST), 0.0))
    beams = parts["lidar"].shape[1]
    ahead = [i % beams for i in range(-(beams // 15), beams // 15 + 1)]  # within 24 degrees
    blocked = parts["lidar"][:, ahead].amin(dim=1) < _NEAR
    actions = torch.zeros(len(own), 5, dtype=torch.int64, device=own.device)
    actions[:, 0] = _STILL
    actions[:, 1] = torch.where(sees | (searches & ~blocked), _STILL + _MOST, _STILL)
    actions[:, 2] = _STILL + turn.long()
    return actions
