"""Automatic differentiation: gradients, functions of the user's own, recording modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shmtensor.autograd import forward_ad as forward_ad
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

if TYPE_CHECKING:
    from shmtensor.autograd import functional as functional
    from shmtensor.autograd import profiler as profiler
    from shmtensor.autograd import profiler_legacy as profiler_legacy
    from shmtensor.autograd import profiler_util as profiler_util

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

# Loaded when one asks for them: few programs measure.
_LATER = {
    "DeviceType": "profiler_util",
    "ProfilerActivity": "shmtensor.profiler",
    "_disable_profiler": "profiler",
    "_profiler_enabled": "profiler",
    "functional": "",
    "kineto_available": "profiler",
    "profiler": "",
    "profiler_legacy": "",
    "profiler_util": "",
}


def __getattr__(name: str) -> object:
    import importlib  # only for what is rarely asked for

    where = _LATER.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not where:
        return importlib.import_module(f"{__name__}.{name}")
    module = importlib.import_module(where if "." in where else f"{__name__}.{where}")
    return getattr(module, name)
