"""The two models, and the library they are made with.

The same lines run on shmtensor and on torch; ``Library`` holds the modules that differ.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from typing import Any


@dataclasses.dataclass(frozen=True)
class Library:
    """The modules of one library."""

    name: str
    core: Any
    nn: Any
    optim: Any
    multiprocessing: Any


@functools.cache
def library(name: str) -> Library:
    """``shmtensor`` or ``torch``."""
    core = importlib.import_module(name)
    parts = [importlib.import_module(f"{name}.{p}") for p in ("nn", "optim", "multiprocessing")]
    return Library(name, core, *parts)


def build(name: str, kind: str, image_shape: tuple[int, int, int], n_classes: int) -> Any:
    """A classifier of images ``(N, C, H, W)``; the result has scores ``(N, n_classes)``.

    Args:
        name: ``shmtensor`` or ``torch``.
        kind: ``mlp`` or ``cnn``.
        image_shape: ``(C, H, W)``.
        n_classes: How many labels there are.
    """
    nn = library(name).nn
    channels, height, width = image_shape
    if kind == "mlp":
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * height * width, 128),
            nn.ReLU(),
            nn.Linear(128, n_classes),
        )
    if min(height, width) < 4:
        raise ValueError(f"a cnn needs images of at least 4x4, got {height}x{width}")
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), n_classes),
    )
