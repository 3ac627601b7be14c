"""Cases for bench_peak: convolutions of few large images, of many small ones, of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def arrays() -> dict[str, Any]:
    """Return the operands as NumPy arrays."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    return {
        "photo": normal(1, 3, 224, 224),
        "wide": normal(1, 32, 112, 112),
        "planes": normal(16, 128, 14, 14),
        "sound": normal(2, 8, 20000),
        "scan": normal(1, 8, 24, 48, 48),
        "filters": normal(8 * 32 * 31 * 31),
    }


def cases(lib: Any, d: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the calls by name, for one library and its operands."""
    f = lib.nn.functional
    photo, wide, planes, sound, scan = (
        d[name] for name in ("photo", "wide", "planes", "sound", "scan")
    )

    def weight(*sizes: int) -> Any:
        dense = d["filters"].contiguous()[: int(np.prod(sizes))].reshape(sizes)
        last = photo.is_contiguous(memory_format=lib.channels_last) and len(sizes) == 4
        return dense.contiguous(memory_format=lib.channels_last) if last else dense

    square, first, same = weight(32, 32, 3, 3), weight(64, 3, 7, 7), weight(32, 32, 4, 4)
    apart, long, pointwise = weight(32, 1, 3, 3), weight(16, 8, 64), weight(64, 128, 1, 1)
    large, cube, halves = weight(8, 32, 31, 31), weight(16, 8, 3, 3, 3), weight(64, 64, 3, 3)
    calls: dict[str, Callable[[], object]] = {
        "conv2d of a photo": lambda: f.conv2d(photo, first, stride=2, padding=3),
        "conv2d of a large image": lambda: f.conv2d(wide, square, padding=1),
        "conv2d, bias": lambda: f.conv2d(wide, square, square[:, 0, 0, 0], padding=1),
        "conv2d stride 2": lambda: f.conv2d(wide, square, stride=2, padding=1),
        "conv2d dilation 4": lambda: f.conv2d(wide, square, padding=4, dilation=4),
        "conv2d 31x31": lambda: f.conv2d(wide, large, padding=15),
        "conv2d same": lambda: f.conv2d(wide, same, padding="same"),
        "conv2d groups": lambda: f.conv2d(planes, halves, groups=2, padding=1),
        "conv2d depthwise large": lambda: f.conv2d(wide, apart, padding=1, groups=32),
        "conv2d depthwise same": lambda: f.conv2d(
            wide, apart[:, :, :2, :2], padding="same", groups=32
        ),
        "conv2d 1x1 of many": lambda: f.conv2d(planes, pointwise),
        "conv2d 1x1 stride 2": lambda: f.conv2d(planes, pointwise, stride=2),
        "conv2d of a crop": lambda: f.conv2d(wide[:, :, 8:-8, 8:-8], square, padding=1),
        "conv2d of some channels": lambda: f.conv2d(planes[:, ::2], halves, padding=1),
        "conv2d of a transposed image": lambda: f.conv2d(wide.mT, square, padding=1),
        "conv1d 64": lambda: f.conv1d(sound, long, padding=32),
        "conv1d stride 16": lambda: f.conv1d(sound, long, stride=16),
        "conv1d same": lambda: f.conv1d(sound, long, padding="same"),
        "conv1d of steps first": lambda: f.conv1d(
            sound.transpose(1, 2).contiguous().transpose(1, 2), long
        ),
        "conv3d": lambda: f.conv3d(scan, cube, padding=1),
        "conv3d stride 2": lambda: f.conv3d(scan, cube, stride=2, padding=1),
        "conv3d 1x1x1": lambda: f.conv3d(scan, cube[:, :, :1, :1, :1]),
    }
    if wide.dtype == lib.float32:
        z, w = lib.complex(wide, wide), lib.complex(square, square)
        calls["conv2d complex64"] = lambda: f.conv2d(z, w, padding=1)
    return calls
