"""How observations enter the networks: one vector for each row, and the parts of it that are read as pictures, sets or
small integers.

Everything here takes any leading shape, written `...`: `[N]` in a rollout, `[T, N]` over a whole one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

Observation = Tensor | dict[str, Tensor]

KINDS = ("flat", "conv", "attention", "embedding")
MOST_EMBEDDED = 65_536
"""Rows of a table of embeddings: more of them are not small integers."""
CHANNELS = (32, 64)
"""Of the convolutions, 3 x 3 each."""
EMBEDDING_SIZE = 16
"""Numbers that stand for a small integer."""
ATTENTION_SIZE, HEADS = 64, 4
"""Numbers that stand for an entity, and heads of the attention over them."""
LARGE_PICTURE = 16
"""Convolutions move by 2 where both sides are at least this long, else by 1."""


# ---- one vector ------------------------------------------------------------------------------------------


class Encoder:
    """Turns an observation into one float32 vector for each row.

    A Box is flattened; a Dict of Boxes is flattened and concatenated in the order of the space. Bytes that
    use their whole range, as pictures do, are scaled to 0..1; everything else is taken as it is. Of several spaces the
    vectors stand one behind the other.
    """

    def __init__(self, *several: gymnasium.Space) -> None:
        self.boxes: dict[str, spaces.Box] = {}
        for space in several:
            self.boxes |= dict(space.spaces) if isinstance(space, spaces.Dict) else {"": space}
            if not all(isinstance(box, spaces.Box) for box in self.boxes.values()):
                raise ValueError(f"observation space is {space}, but the trainer takes Box or a Dict of Box")
        self.sizes = {name: math.prod(box.shape) for name, box in self.boxes.items()}
        self.size = sum(self.sizes.values())

    def __call__(self, observation: Observation) -> Tensor:
        """Tensor `[..., *shape]`, or a dict of them, to float32 `[..., size]`; a view if nothing changes."""
        leaves = observation if isinstance(observation, dict) else {"": observation}
        vectors = [_vector(leaves[name], box) for name, box in self.boxes.items()]
        return vectors[0] if len(vectors) == 1 else torch.cat(vectors, dim=-1)

    @property
    def is_bytes(self) -> bool:
        """Whether it is one Box of bytes that are taken as they are."""
        (box, *others) = self.boxes.values()
        return not others and box.dtype == np.uint8 and not _is_scaled(box)

    def takes_as_it_is(self, dtype: torch.dtype) -> bool:
        """Whether it is one Box, whose numbers, of this dtype, are taken as they are."""
        return len(self.boxes) == 1 and (dtype == torch.float32 or (dtype == torch.uint8 and self.is_bytes))

    def flat(self, observation: Tensor) -> Tensor:
        """Tensor `[..., *shape]` of the only Box to `[..., size]`, of the same dtype; a view."""
        return _flat(observation, *self.boxes.values())

    def split(self, inputs: Tensor) -> dict[str, Tensor]:
        """The parts of `[..., size]` by name, views float32 `[..., n]`."""
        return dict(zip(self.sizes, inputs.split(list(self.sizes.values()), dim=-1), strict=True))


def _flat(leaf: Tensor, box: spaces.Box) -> Tensor:
    if len(box.shape) == 0:
        return leaf.unsqueeze(-1)
    return leaf.flatten(-len(box.shape)) if len(box.shape) > 1 else leaf


def _vector(leaf: Tensor, box: spaces.Box) -> Tensor:
    leaf = _flat(leaf, box)
    return leaf.float() / 255 if leaf.dtype == torch.uint8 and _is_scaled(box) else leaf.float()


def _is_scaled(box: spaces.Box) -> bool:
    return bool((box.high == 255).all())


# ---- parts that are read in a way of their own ---------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """How one part of the observation is read: `name=kind`, or `name=attention:mask` with the part that marks
    existing entities."""

    name: str
    kind: str
    mask: str = ""


def readings(texts: Iterable[str], encoder: Encoder) -> dict[str, Reading]:
    """The readings of parts of an observation, by name; all other parts are flat.

    `conv` for the only part of a Box is `=conv`, or `conv`. Raises ValueError, which names the allowed ones.
    """
    found: dict[str, Reading] = {}
    for text in texts:
        name, _, kind = text.rpartition("=")
        kind, _, mask = kind.partition(":")
        names = [repr(known) for known in encoder.boxes]
        where = f"encoders has {text!r}"
        if name not in encoder.boxes:
            known = f"its parts are {', '.join(names)}" if names != ["''"] else "it is one Box: write only the kind"
            lacks = f"has no part {name!r}" if name else "is a dict: write name=kind"
            raise ValueError(f"{where}, but the observation {lacks}; {known}")
        if kind not in KINDS:
            raise ValueError(f"{where}, but a part is read as one of {', '.join(KINDS)}")
        if name in found:
            raise ValueError(f"{where}, but {name!r} was given before: {found[name].kind}")
        if mask and kind != "attention":
            raise ValueError(f"{where}, but only attention takes a mask")
        _require_fit(where, name, kind, mask, encoder)
        found[name] = Reading(name, kind, mask)
    return found


def _require_fit(where: str, name: str, kind: str, mask: str, encoder: Encoder) -> None:
    box = encoder.boxes[name]
    shape = list(box.shape)
    if kind == "conv" and len(shape) not in (2, 3):
        raise ValueError(f"{where}, but conv takes [height, width] or [height, width, channels], not {shape}")
    if kind == "attention" and len(shape) != 2:
        raise ValueError(f"{where}, but attention takes [entities, features], not {shape}")
    if mask and (mask not in encoder.boxes or list(encoder.boxes[mask].shape) != shape[:1]):
        has = list(encoder.boxes[mask].shape) if mask in encoder.boxes else "no such part"
        raise ValueError(f"{where}, but the mask must be a part of shape {shape[:1]}, one for each entity, not {has}")
    if kind != "embedding":
        return
    if box.dtype.kind not in "iub" or _is_scaled(box):
        raise ValueError(f"{where}, but embedding takes integers with declared bounds, not {box.dtype} {shape}")
    rows = int(box.high.max()) - int(box.low.min()) + 1
    if rows > MOST_EMBEDDED:
        raise ValueError(f"{where}, but it has {rows:,} values from low to high, of {MOST_EMBEDDED:,} that are allowed")


class Trunk(nn.Module):
    """The first layers: reads parts of the vector float32 `[..., encoder.size]` as pictures, sets or small integers,
    and joins the results with the flat parts, to `[..., size]`.

    - conv: layers of 3 x 3 over `[height, width, channels]` with ReLU, flattened at the end.
    - attention: over the entities of all parts read so, as Baker et al. (2020, "Emergent tool use from multi-agent
      autocurricula", appendix B): each entity, and the flat parts beside it, make a vector; one masked residual
      self-attention; the mean over the existing entities (zero if all are missing).
    - embedding: each value chooses a row of a table, which all values of a part share.
    """

    def __init__(
        self,
        encoder: Encoder,
        read: Mapping[str, Reading],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.kinds = {name: read[name].kind if name in read else "flat" for name in encoder.boxes}
        masks = {reading.mask for reading in read.values() if reading.mask}
        for mask in masks:
            self.kinds[mask] = "mask"
        self.flat = [name for name, kind in self.kinds.items() if kind == "flat"]
        flat_size = sum(encoder.sizes[name] for name in self.flat)
        self.size = flat_size
        self.convs, self.tables = nn.ModuleDict(), nn.ModuleDict()
        for name, kind in self.kinds.items():
            box = encoder.boxes[name]
            if kind == "conv":
                self.convs[_key(name)] = part = Convolutions(box.shape, CHANNELS, generator)
                self.size += part.size
            elif kind == "embedding":
                self.tables[_key(name)] = part = Embedding(box, EMBEDDING_SIZE, generator)
                self.size += part.size
        sets = {name: encoder.boxes[name].shape for name, kind in self.kinds.items() if kind == "attention"}
        masks_of = {name: read[name].mask for name in sets}
        self.attention = None
        if sets:
            self.attention = Attention(sets, masks_of, flat_size, ATTENTION_SIZE, HEADS, generator)
            self.size += ATTENTION_SIZE

    def forward(self, inputs: Tensor) -> Tensor:
        parts = self.encoder.split(inputs)
        found = [parts[name] for name in self.flat]
        for name, kind in self.kinds.items():
            if kind == "conv":
                found.append(self.convs[_key(name)](parts[name]))
            elif kind == "embedding":
                found.append(self.tables[_key(name)](parts[name]))
        if self.attention is not None:
            beside = torch.cat([parts[name] for name in self.flat], dim=-1) if self.flat else None
            found.append(self.attention(parts, beside))
        return torch.cat(found, dim=-1)


def _key(name: str) -> str:
    """A name that a module may have: no dots, not empty, none of a module's own."""
    return "part_" + name.replace(".", "/")


class Convolutions(nn.Module):
    """`[..., height * width * channels]` as a picture, to `[..., size]`."""

    def __init__(self, shape: Sequence[int], channels: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        height, width, first = (*shape, 1)[:3]
        self.picture = height, width, first
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise([first, *channels]):
            stride = 2 if min(height, width) >= LARGE_PICTURE else 1
            layer = nn.utils.skip_init(nn.Conv2d, fan_in, fan_out, 3, stride=stride, padding=1)
            orthogonal(layer, math.sqrt(2), generator)
            layers += [layer, nn.ReLU()]
            height, width = -(-height // stride), -(-width // stride)
        self.layers = nn.Sequential(*layers)
        self.size = height * width * channels[-1]

    def forward(self, flat: Tensor) -> Tensor:
        pictures = flat.reshape(-1, *self.picture).permute(0, 3, 1, 2)  # channels last, as they are in memory
        return self.layers(pictures).reshape(*flat.shape[:-1], self.size)


class Embedding(nn.Module):
    """Integers `[..., n]` from a Box with bounds, to `[..., n * embedding_size]`.

    Values beyond the bounds, which no environment should show, are taken as the nearest.
    """

    def __init__(self, box: spaces.Box, embedding_size: int, generator: torch.Generator) -> None:
        super().__init__()
        self.low, self.high = int(box.low.min()), int(box.high.max())
        self.table = nn.Parameter(torch.randn(self.high - self.low + 1, embedding_size, generator=generator))
        self.size = math.prod(box.shape) * embedding_size

    def forward(self, values: Tensor) -> Tensor:
        rows = values.clamp(self.low, self.high).long() - self.low
        return functional.embedding(rows, self.table).flatten(-2)


class Attention(nn.Module):
    """Parts `[..., entities * features]` by name, and a vector beside them, to `[..., size]`."""

    def __init__(
        self,
        sets: Mapping[str, Sequence[int]],
        masks: Mapping[str, str],
        beside: int,
        size: int,
        heads: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.sets = {name: tuple(shape) for name, shape in sets.items()}
        self.masks, self.size, self.heads = dict(masks), size, heads
        gain = math.sqrt(2)
        self.entities = nn.ModuleDict({_key(name): linear(n, size, gain, generator) for name, (_, n) in sets.items()})
        self.beside = linear(beside, size, gain, generator) if beside else None
        self.queries_keys_values = linear(size, 3 * size, 1.0, generator)
        self.out = linear(size, size, 1.0, generator)
        self.norm = nn.LayerNorm(size)

    def forward(self, parts: Mapping[str, Tensor], beside: Tensor | None) -> Tensor:
        made, present = zip(*self._entities(parts), strict=True)
        entities, there = torch.cat(made, dim=-2), torch.cat(present, dim=-1)  # [..., entities, size], [..., entities]
        if beside is not None and self.beside is not None:
            entities = entities + self.beside(beside).unsqueeze(-2)
        entities = entities.relu()
        leading, count = entities.shape[:-2], entities.shape[-2]
        entities, there = entities.reshape(-1, count, self.size), there.reshape(-1, count)
        heads = self.queries_keys_values(entities).view(-1, count, 3, self.heads, self.size // self.heads)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)
        # A row without entities attends to all, which is finite, and is not counted in the mean.
        seen = there | ~there.any(-1, keepdim=True)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=seen[:, None, None, :])
        mixed = self.norm(entities + self.out(mixed.transpose(1, 2).reshape(-1, count, self.size)))
        total = torch.where(there.unsqueeze(-1), mixed, 0.0).sum(-2)
        return (total / there.sum(-1, keepdim=True).clamp(min=1)).view(*leading, self.size)

    def _entities(self, parts: Mapping[str, Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        for name, shape in self.sets.items():
            rows = parts[name].unflatten(-1, shape)
            mask = self.masks[name]
            there = parts[mask] > 0 if mask else torch.ones(rows.shape[:-1], dtype=torch.bool, device=rows.device)
            yield self.entities[_key(name)](torch.where(there.unsqueeze(-1), rows, 0.0)), there


# ---- first values of layers ------------------------------------------------------------------------------


def linear(fan_in: int, fan_out: int, gain: float, generator: torch.Generator) -> nn.Linear:
    return orthogonal(nn.utils.skip_init(nn.Linear, fan_in, fan_out), gain, generator)


def orthogonal(layer: nn.Linear, gain: float, generator: torch.Generator) -> nn.Linear:
    """Orthogonal weights and no bias; `skip_init` before leaves the global generator unchanged."""
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer

