"""PNG files of 8 bits a channel: written and read with zlib, or read with Pillow if it is there.

Source: the PNG specification (W3C, third edition), sections 5 (chunks), 9 (filters), 11 (IHDR).
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np

__all__ = ["PngError", "decode", "encode"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # of a colour type

Array = np.ndarray[Any, np.dtype[np.uint8]]


class PngError(ValueError):
    """The bytes are no PNG file that is understood here."""


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def encode(image: Array) -> bytes:
    """Write a grey image ``(H, W)`` of bytes."""
    height, width = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = np.zeros((height, width + 1), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = image
    data = _chunk(b"IDAT", zlib.compress(rows.tobytes()))
    return _SIGNATURE + _chunk(b"IHDR", header) + data + _chunk(b"IEND", b"")


def decode(data: bytes, decoder: str = "zlib") -> Array:
    """Read an image as grey values ``(H, W)``; colours are averaged, transparency is left out.

    Args:
        data: The file.
        decoder: ``"pil"`` reads it with Pillow, ``"zlib"`` here.

    Raises:
        PngError: It is damaged, or has a form that only Pillow reads.
    """
    if decoder == "pil":
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(io.BytesIO(data)) as image:
                return np.asarray(image.convert("L"))
        except (UnidentifiedImageError, OSError, SyntaxError) as error:
            raise PngError(f"no image: {error}") from None
    try:
        return _decode(data)
    except (struct.error, zlib.error, IndexError) as error:
        raise PngError(f"a damaged PNG file: {error}") from None


def _decode(data: bytes) -> Array:
    if not data.startswith(_SIGNATURE):
        raise PngError("no PNG file")
    at, packed, header = len(_SIGNATURE), b"", b""
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(kind + body) != check:
            raise PngError(f"chunk {kind.decode('latin-1')} is damaged")
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", header)
    if depth != 8 or colour not in _CHANNELS or interlace:
        raise PngError(f"{depth} bits, colour type {colour}, interlace {interlace}: needs Pillow")
    n = _CHANNELS[colour]
    if width * height > 1 << 26:
        raise PngError(f"{width} x {height} pixels are too many")
    raw = zlib.decompressobj().decompress(packed, (width * n + 1) * height)
    rows = np.frombuffer(raw, np.uint8)
    if len(rows) != (width * n + 1) * height:
        raise PngError("the pixels end too early")
    pixels = _unfiltered(rows.reshape(height, width * n + 1), n).reshape(height, width, n)
    if n < 3:
        return pixels[:, :, 0]
    weighted: Any = pixels[:, :, :3] @ np.array([0.299, 0.587, 0.114])
    return np.asarray(weighted + 0.5, np.uint8)


def _unfiltered(rows: Array, n: int) -> Array:
    """Undo the filter of each row: bytes are differences to those on the left and above."""
    height, width = rows.shape[0], rows.shape[1] - 1
    out = np.zeros((height, width), np.uint8)
    above = np.zeros(width, np.uint8)
    for y in range(height):
        kind, row = rows[y, 0], rows[y, 1:]
        if kind == 0:
            out[y] = row
        elif kind == 1:
            sums = row.reshape(-1, n).cumsum(axis=0, dtype=np.uint8)
            out[y] = sums.reshape(-1)
        elif kind == 2:
            out[y] = row + above
        elif kind in (3, 4):
            out[y] = _predicted(row.tolist(), above.tolist(), n, is_average=kind == 3)
        else:
            raise PngError(f"filter {kind} does not exist")
        above = out[y]
    return out


def _predicted(row: list[int], above: list[int], n: int, *, is_average: bool) -> list[int]:
    out: list[int] = []
    for i, value in enumerate(row):
        left, up = out[i - n] if i >= n else 0, above[i]
        if is_average:
            guess = (left + up) // 2
        else:  # the one of three neighbours that is nearest to their plane
            corner = above[i - n] if i >= n else 0
            plane = left + up - corner
            guess = min((left, up, corner), key=lambda near: abs(plane - near))
        out.append((value + guess) & 255)
    return out
