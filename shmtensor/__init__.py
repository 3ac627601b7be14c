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

from shmtensor import _later

if _TYPE_CHECKING:
    from shmtensor import (
        fft as fft,
        library as library,
        masked as masked,
        nn as nn,
        optim as optim,
        signal as signal,
    )
    from shmtensor.nn._functions import (
        affine_grid_generator as affine_grid_generator,
        alpha_dropout_ as alpha_dropout_,
        cosine_embedding_loss as cosine_embedding_loss,
        ctc_loss as ctc_loss,
        embedding_renorm_ as embedding_renorm_,
        feature_alpha_dropout_ as feature_alpha_dropout_,
        gru as gru,
        gru_cell as gru_cell,
        hinge_embedding_loss as hinge_embedding_loss,
        lstm as lstm,
        lstm_cell as lstm_cell,
        margin_ranking_loss as margin_ranking_loss,
        max_pool1d_with_indices as max_pool1d_with_indices,
        norm_except_dim as norm_except_dim,
        poisson_nll_loss as poisson_nll_loss,
        rnn_relu as rnn_relu,
        rnn_relu_cell as rnn_relu_cell,
        rnn_tanh as rnn_tanh,
        rnn_tanh_cell as rnn_tanh_cell,
        triplet_margin_loss as triplet_margin_loss,
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


def __getattr__(name: str) -> object:
    globals()[name] = value = _later.find(name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_later.MODULES, *_later.FUNCTIONS})
