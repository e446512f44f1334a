"""Pictures as files that browsers read."""

from __future__ import annotations

import struct
import zlib

import numpy as np


def png(picture: np.ndarray, effort: int = 9) -> bytes:
    """``uint8 [height, width, 3]`` as a PNG file; ``effort`` from 0 to 9 makes it smaller, and takes longer."""
    height, width, _ = picture.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 1:] = picture.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), effort)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
