"""Tensors in shared memory: PyTorch's API, and many processes on one tensor without copies."""

from __future__ import annotations

# ruff: noqa: I001 - the order matters: later imports hide names of earlier ones.
from shmtensor._boundary import _install as _install  # completes the extension module
from shmtensor._C import *
from shmtensor._tensor import Tensor as Tensor
from shmtensor._constants import *
from shmtensor._functions import *  # type: ignore[assignment]
from shmtensor._legacy import *
from shmtensor._inplace import *
from shmtensor._numeric import *
from shmtensor._selection import *
from shmtensor._ops import ops as ops
from shmtensor._settings import *
from shmtensor._printing import (
    get_printoptions as get_printoptions,
    set_printoptions as set_printoptions,
)
from shmtensor.autograd import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from shmtensor.functional import *
from shmtensor._products import *  # type: ignore[no-redef,assignment]
from shmtensor.random import *
from shmtensor.storage import *
from shmtensor import (
    autograd as autograd,
    errors as errors,
    linalg as linalg,
    memory as memory,
    multiprocessing as multiprocessing,
    random as random,
    special as special,
    utils as utils,
)
from shmtensor.dtypes import *  # last: hides names of built-in types

del ffi, lib  # noqa: F821 - from the star above; of _boundary only

from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from shmtensor import (
        fft as fft,
        library as library,
        masked as masked,
        nn as nn,
        optim as optim,
        overrides as overrides,
        serialization as serialization,
        signal as signal,
    )
    from shmtensor._later import *

# Loaded when they are first asked for: a worker that only moves tensors needs none of them. Nor
# does it need the functions of _later.
_LATER = {"fft", "library", "masked", "nn", "optim", "overrides", "serialization", "signal"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _LATER:
        return import_module(f"shmtensor.{name}")
    if name.startswith("_"):
        # Operators that torch keeps to itself are found, but not listed.
        core = import_module("shmtensor._C")
        known = not name.startswith("__") and core._operator_overloads(name)
        value = getattr(core, name, None) if known else None
    else:
        value = getattr(import_module("shmtensor._later"), name, None)
    if value is None:
        raise AttributeError(f"module 'shmtensor' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from shmtensor import _later

    return sorted({*globals(), *_LATER, *vars(_later)})
