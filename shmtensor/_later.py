"""Parts of the package that stand above most of it, loaded when one is first asked for."""

from __future__ import annotations

# ruff: noqa: I001 - one statement for each module, though names are exported by "as".

from shmtensor import (
    _C,
    distributions as distributions,
    fft as fft,
    library as library,
    masked as masked,
    nn as nn,
    optim as optim,
    overrides as overrides,
    quasirandom as quasirandom,
    return_types as return_types,
    serialization as serialization,
    signal as signal,
)
from shmtensor._lobpcg import lobpcg as lobpcg
from shmtensor._spectrogram import istft as istft, stft as stft
from shmtensor.nn._functions import *  # noqa: F403
from shmtensor.nn.functional import (
    alpha_dropout as alpha_dropout,
    bilinear as bilinear,
    channel_shuffle as channel_shuffle,
    conv_tbc as conv_tbc,
    feature_alpha_dropout as feature_alpha_dropout,
    native_channel_shuffle as native_channel_shuffle,
    pairwise_distance as pairwise_distance,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
    rrelu as rrelu,
    rrelu_ as rrelu_,
)
from shmtensor.serialization import load as load, save as save
from shmtensor.utils.dlpack import to_dlpack as to_dlpack


def names() -> dict[str, object]:
    """What belongs into the package: all above, and the operators that torch keeps to itself."""
    public = {
        name: value
        for name, value in globals().items()
        if not name.startswith("_") and name not in ("annotations", "names")
    }
    private = {
        name: getattr(_C, name)
        for name in dir(_C)
        if name.startswith("_") and not name.startswith("__") and _C._operator_overloads(name)
    }
    return {**private, **public}
