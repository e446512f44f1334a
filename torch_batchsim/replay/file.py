"""The file of a recording: a line that names the format, then blocks, each with its length and checksum.

The first block describes the run. Each of the others has a list of moments in JSON, and their arrays. The last one
says that the file is whole.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch

MAGIC = b"torch_batchsim recording "
FORMAT = 2
"""Raised whenever the contents change their meaning."""
_HEAD = struct.Struct("<4sII")  # kind, bytes, CRC-32 of kind and payload
_KINDS = (b"HEAD", b"PART", b"ENDS")


class RecordingError(ValueError):
    """A recording that cannot be written, read or played again, and the reason in one sentence."""


def write_block(file: BinaryIO, kind: bytes, contents: Any, data: bytes = b"") -> None:
    """Write JSON ``contents`` with bytes behind them, compressed."""
    text = json.dumps(contents, separators=(",", ":")).encode()
    payload = zlib.compress(struct.pack("<I", len(text)) + text + data, 9)
    file.write(_HEAD.pack(kind, len(payload), zlib.crc32(kind + payload)) + payload)


def read_blocks(path: Path) -> Iterator[tuple[bytes, Any, bytes]]:
    """Kind, contents and bytes of all blocks. Raises RecordingError where the file is not whole."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror or error}") from error
    line, _, rest = whole.partition(b"\n")
    if not whole.startswith(MAGIC):
        raise RecordingError(f"{path} is not a recording of torch_batchsim")
    if line != MAGIC + str(FORMAT).encode():
        theirs = line.removeprefix(MAGIC).decode(errors="replace")[:20]
        raise RecordingError(f"{path} has format {theirs}, and this version reads format {FORMAT}")
    at, kind = 0, b""
    while at < len(rest):
        if kind == b"ENDS":
            raise RecordingError(f"{path} is damaged: {len(rest) - at} bytes follow its end")
        if at + _HEAD.size > len(rest):
            break
        kind, size, checksum = _HEAD.unpack_from(rest, at)
        payload = rest[at + _HEAD.size : at + _HEAD.size + size]
        if kind not in _KINDS:
            raise RecordingError(f"{path} is damaged: its bytes from {at + len(line) + 1:,} on are not a block")
        if len(payload) < size:
            kind = b""
            break
        if zlib.crc32(kind + payload) != checksum:
            raise RecordingError(f"{path} is damaged: the block at byte {at + len(line) + 1:,} has another checksum")
        unpacked = zlib.decompress(payload)
        (length,) = struct.unpack_from("<I", unpacked)
        yield kind, json.loads(unpacked[4 : 4 + length]), unpacked[4 + length :]
        at += _HEAD.size + size
    if kind != b"ENDS":
        raise RecordingError(f"{path} is truncated: it lacks its last block, which the recorder's close() writes")


def packed(value: Any) -> bytes:
    """Dicts, lists, numbers, texts and tensors as bytes."""
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def unpacked(data: bytes) -> Any:
    """The value of ``packed``. It runs no code of the file's author."""
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
