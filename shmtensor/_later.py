"""Functions of the package that stand above most of it, loaded when one is first asked for."""

from __future__ import annotations

# ruff: noqa: I001 - one statement for each module, though names are exported by "as".

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
    prelu as prelu,
    rrelu as rrelu,
    rrelu_ as rrelu_,
)
from shmtensor.serialization import load as load, save as save
