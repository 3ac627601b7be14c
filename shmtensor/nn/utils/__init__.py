"""Help with gradients, parameters and sequences."""

from __future__ import annotations

from shmtensor.nn.utils import rnn
from shmtensor.nn.utils.clip_grad import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from shmtensor.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from shmtensor.nn.utils.init import skip_init

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "skip_init",
    "vector_to_parameters",
]
