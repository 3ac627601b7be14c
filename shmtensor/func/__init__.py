"""Function transforms: derivatives of functions, and functions of whole batches.

Source:
    torch.func.
"""

from __future__ import annotations

from shmtensor._functorch._jacobians import hessian, jacfwd, jacrev
from shmtensor._functorch.apis import grad, grad_and_value, vmap
from shmtensor._functorch.batch_norm_replacement import replace_all_batch_norm_modules_
from shmtensor._functorch.eager_transforms import (
    debug_unwrap,
    functionalize,
    jvp,
    linearize,
    vjp,
)
from shmtensor._functorch.functional_call import functional_call, stack_module_state

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
