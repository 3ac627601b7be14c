"""Layers, losses and initial values."""

from __future__ import annotations

from shmtensor.nn import functional, grad, init, modules, utils
from shmtensor.nn.modules import *  # noqa: F403
from shmtensor.nn.modules import __all__ as _layers
from shmtensor.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "grad",
    "init",
    "modules",
    "utils",
    *_layers,
]
