"""Automatic differentiation: gradients, functions of the user's own, recording modes."""

from __future__ import annotations

from shmtensor.autograd import forward_ad as forward_ad
from shmtensor.autograd import functional as functional
from shmtensor.autograd import graph as graph
from shmtensor.autograd._run import backward, grad
from shmtensor.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from shmtensor.autograd.function import Function, NestedIOFunction
from shmtensor.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from shmtensor.autograd.gradcheck import gradcheck, gradgradcheck
from shmtensor.autograd.variable import Variable

__all__ = [
    "Function",
    "NestedIOFunction",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
