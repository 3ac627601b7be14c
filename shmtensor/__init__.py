"""Tensors in shared memory: PyTorch's API, and many processes on one tensor without copies."""

from __future__ import annotations

# ruff: noqa: I001 - the order matters: later imports hide names of earlier ones.
from shmtensor._boundary import _install as _install  # completes the extension module
from shmtensor._C import *
from shmtensor._tensor import Tensor as Tensor
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
from shmtensor.serialization import load as load, save as save
from shmtensor.storage import *
from shmtensor import (
    autograd as autograd,
    errors as errors,
    linalg as linalg,
    memory as memory,
    multiprocessing as multiprocessing,
    overrides as overrides,
    random as random,
    special as special,
    utils as utils,
)
from shmtensor._spectrogram import *
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
        signal as signal,
    )
    from shmtensor.nn.functional import (
        alpha_dropout as alpha_dropout,
        bilinear as bilinear,
        channel_shuffle as channel_shuffle,
        conv_tbc as conv_tbc,
        cosine_similarity as cosine_similarity,
        feature_alpha_dropout as feature_alpha_dropout,
        native_channel_shuffle as native_channel_shuffle,
        pairwise_distance as pairwise_distance,
        pixel_shuffle as pixel_shuffle,
        pixel_unshuffle as pixel_unshuffle,
        prelu as prelu,
        rrelu as rrelu,
        rrelu_ as rrelu_,
    )

# Loaded when they are first asked for: a worker that only moves tensors needs none of them.
_LATER_MODULES = {"fft", "library", "masked", "nn", "optim", "signal"}
_LATER_FUNCTIONS = {
    "alpha_dropout",
    "bilinear",
    "channel_shuffle",
    "conv_tbc",
    "cosine_similarity",
    "feature_alpha_dropout",
    "native_channel_shuffle",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "rrelu",
    "rrelu_",
}


def __getattr__(name: str) -> object:
    import importlib

    if name in _LATER_MODULES:
        return importlib.import_module(f"shmtensor.{name}")
    if name in _LATER_FUNCTIONS:
        functional = importlib.import_module("shmtensor.nn.functional")
        globals()[name] = getattr(functional, name)
        return globals()[name]
    raise AttributeError(f"module 'shmtensor' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER_MODULES, *_LATER_FUNCTIONS})
