"""Layers, losses and initial values."""

from __future__ import annotations

from shmtensor.nn import attention, functional, grad, init, modules, parallel, utils
from shmtensor.nn import common_types as common_types
from shmtensor.nn._factory import factory_kwargs
from shmtensor.nn.modules import *  # noqa: F403
from shmtensor.nn.modules import __all__ as _layers
from shmtensor.nn.parallel import DataParallel
from shmtensor.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

__all__ = [
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "factory_kwargs",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "utils",
    *_layers,
]
