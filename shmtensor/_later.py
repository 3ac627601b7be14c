"""What is loaded when it is first asked for: a worker that only moves tensors needs none."""

from __future__ import annotations

import importlib

MODULES = {"fft", "library", "masked", "nn", "optim", "signal"}

_FUNCTIONAL = (
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
)
_LOW_LEVEL = (
    "affine_grid_generator",
    "alpha_dropout_",
    "cosine_embedding_loss",
    "ctc_loss",
    "embedding_renorm_",
    "feature_alpha_dropout_",
    "gru",
    "gru_cell",
    "hinge_embedding_loss",
    "lstm",
    "lstm_cell",
    "margin_ranking_loss",
    "max_pool1d_with_indices",
    "norm_except_dim",
    "poisson_nll_loss",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    "triplet_margin_loss",
)
# Functions of the package by the modules that define them.
FUNCTIONS = {
    **dict.fromkeys(_FUNCTIONAL, "shmtensor.nn.functional"),
    **dict.fromkeys(_LOW_LEVEL, "shmtensor.nn._functions"),
}


def find(name: str) -> object:
    """Load the module or function *name* of the package.

    Raises:
        AttributeError: There is none.
    """
    if name in MODULES:
        return importlib.import_module(f"shmtensor.{name}")
    if name in FUNCTIONS:
        return getattr(importlib.import_module(FUNCTIONS[name]), name)
    raise AttributeError(f"module 'shmtensor' has no attribute {name!r}")
