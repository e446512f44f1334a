"""The types of numbers in one table: fields, the reader of C++, generated units and messages take theirs from here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Number:
    """A type of numbers.

    Attributes:
        name: the type of a field in Python.
        spelling: the type in the messages of g++.
        dtype: of the tensor of a field.
    """

    name: str
    spelling: str
    dtype: torch.dtype

    @property
    def c_type(self) -> str:
        """The name in namespace tbs, or C++'s own."""
        return self.spelling if self.dtype == torch.bool else self.name

    @property
    def definition(self) -> str:
        """The type of the standard library that ``c_type`` names."""
        is_integer = not self.dtype.is_floating_point and self.dtype != torch.bool
        return f"std::{str(self.dtype).removeprefix('torch.')}_t" if is_integer else self.spelling

    @property
    def infinity(self) -> int:
        """The bits of infinity, of a float: those of its exponent."""
        bits = torch.tensor([float("inf")], dtype=self.dtype).view(torch.uint8)
        return int.from_bytes(bytes(bits.tolist()), "little")


NUMBERS = {
    number.name: number
    for number in (
        Number("f32", "float", torch.float32),
        Number("f64", "double", torch.float64),
        Number("i8", "signed char", torch.int8),
        Number("i16", "short int", torch.int16),
        Number("i32", "int", torch.int32),
        Number("i64", "long int", torch.int64),
        Number("u8", "unsigned char", torch.uint8),
        Number("u16", "short unsigned int", torch.uint16),
        Number("u32", "unsigned int", torch.uint32),
        Number("u64", "long unsigned int", torch.uint64),
        Number("boolean", "bool", torch.bool),
    )
}
BY_DTYPE = {number.dtype: number for number in NUMBERS.values()}
SPELLINGS = {number.spelling: number.c_type for number in NUMBERS.values()} | {
    "long long int": "i64",
    "long long unsigned int": "u64",
}
"""Names of C++ types by their spellings in messages of g++."""

CPP_WORDS = frozenset(
    {
        *(word for number in NUMBERS.values() for word in (number.name, *number.spelling.split())),
        *(number.definition.removeprefix("std::") for number in NUMBERS.values()),
        "auto",
        "size_t",
    }
)
"""Words of the types of numbers in a C++ text."""


def definitions() -> Iterator[str]:
    """C++ aliases for namespace tbs. One that differs from that of ``csrc/tbs/platform.h`` does not compile."""
    for number in NUMBERS.values():
        if number.c_type != number.definition:
            yield f"using {number.c_type} = {number.definition};"


_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def where(mask: torch.Tensor, values: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """``torch.where`` of two tensors of one dtype, which torch 2.11 does not have for unsigned integers."""
    signed = _SIGNED.get(values.dtype)
    if signed is None:
        return torch.where(mask, values, others)
    return torch.where(mask, values.view(signed), others.view(signed)).view(values.dtype)
