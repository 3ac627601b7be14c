"""The Python array API standard, version 2024.12, over shmtensor's tensors.

``x.__array_namespace__()`` is this module; libraries that work with any array ask for it. It has
the standard's names and nothing else. Functions take any tensors and give what they are given.
What the namespace makes itself, ``asarray(x)`` of a tensor included, is a tensor of a subclass
whose operators follow the standard, over the same memory. Autograd, shared memory and the rest of
shmtensor go on working. Where torch, and with it shmtensor's own functions, differ from the
standard, the functions here follow the standard.

Source: data-apis.org/array-api/2024.12.
"""

# ruff: noqa: F403, I001 - one statement for each module, whose __all__ it takes

from __future__ import annotations

from math import e as e, inf as inf, nan as nan, pi as pi

from shmtensor import (
    bool as bool,
    complex64 as complex64,
    complex128 as complex128,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from shmtensor.array_api import (
    _creation,
    _dtypes,
    _elementwise,
    _manipulation,
    _products,
    _reductions,
    _searching,
    fft as fft,
    linalg as linalg,
)
from shmtensor.array_api._creation import *
from shmtensor.array_api._dtypes import *
from shmtensor.array_api._elementwise import *
from shmtensor.array_api._info import Info as _Info
from shmtensor.array_api._manipulation import *
from shmtensor.array_api._products import *
from shmtensor.array_api._reductions import *
from shmtensor.array_api._searching import *

__array_api_version__ = "2024.12"
newaxis = None


def __array_namespace_info__() -> _Info:
    """Return an object that tells the namespace's devices, dtypes and capabilities."""
    return _Info()


__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "bool",
    "complex64",
    "complex128",
    "e",
    "fft",
    "float32",
    "float64",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "linalg",
    "nan",
    "newaxis",
    "pi",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
__all__ += _creation.__all__
__all__ += _dtypes.__all__
__all__ += _elementwise.__all__
__all__ += _manipulation.__all__
__all__ += _products.__all__
__all__ += _reductions.__all__
__all__ += _searching.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
