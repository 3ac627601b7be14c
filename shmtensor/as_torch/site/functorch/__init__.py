"""Stands for functorch, which comes with torch: the names are those of `shmtensor.func`."""

import shmtensor.as_torch  # noqa: F401
from shmtensor._core._not_offered import unavailable_class
from shmtensor.func import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)

__all__ = [
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "vjp",
    "vmap",
]

_WHAT = "use torch.func.functional_call"
FunctionalModule = unavailable_class("FunctionalModule", __name__, _WHAT)
FunctionalModuleWithBuffers = unavailable_class("FunctionalModuleWithBuffers", __name__, _WHAT)
