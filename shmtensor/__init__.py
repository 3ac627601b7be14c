"""Tensors in shared memory: PyTorch's API, and many processes on one tensor without copies."""

from __future__ import annotations

# ruff: noqa: I001 - the order matters: later imports hide names of earlier ones.
from shmtensor import _core as _core  # finds what lies in the inner folders
from shmtensor._boundary import _install as _install  # completes the extension module
from shmtensor._C import *
from shmtensor._core._tensor import Tensor as Tensor
from shmtensor._core._constants import *
from shmtensor._core._functions import *  # type: ignore[assignment]
from shmtensor._core._legacy import *
from shmtensor._core._numeric import *
from shmtensor._core._selection import *
from shmtensor._core._ops import ops as ops
from shmtensor._core._settings import *
from shmtensor._core._printing import (
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
from shmtensor._core._products import *  # type: ignore[no-redef,assignment]
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
from shmtensor._core import _utils as _utils
from shmtensor._torch import _private_names as _private_names
from shmtensor.dtypes import *  # last: hides names of built-in types

__version__ = "0.1.0"  # pyproject.toml reads it here

del ffi, lib  # noqa: F821 - from the star above; of _boundary only

import typing as _typing

if _typing.TYPE_CHECKING:
    from shmtensor._later import *


def _load_later() -> object:
    """Load what stands above most of the package; who only moves tensors needs none of it.

    The interpreter does not specialise reading attributes of a module that has a ``__getattr__``,
    so that goes when it has done its work.

    Returns:
        False while this thread is loading it.
    """
    from importlib import import_module

    later = import_module("shmtensor._later")
    if not (names := getattr(later, "names", None)):
        return False
    for name, value in names().items():
        globals().setdefault(name, value)
    globals().pop("__getattr__", None)
    return True


if not _typing.TYPE_CHECKING:  # type checkers know the names that there are

    def __getattr__(name: str) -> object:
        if name in ("numpy_empty", "torch_empty"):  # children that only move arrays need no more
            from shmtensor.multiprocessing import adoption

            globals().update(numpy_empty=adoption.numpy_empty, torch_empty=adoption.torch_empty)
            return globals()[name]
        if not name.startswith("__"):
            if _load_later():
                if name in globals():
                    return globals()[name]
            else:
                from shmtensor._core._lazy import stand_in

                # `_later` imports a submodule, which the import system looks for here first.
                if (module := stand_in(f"shmtensor.{name}")) is not None:
                    return module
        raise AttributeError(f"module 'shmtensor' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What works here. Names that exist only for torch programs are found, but not listed."""
    from shmtensor import _later

    _load_later()
    return sorted(globals().keys() - _later.names_for_torch().keys())
