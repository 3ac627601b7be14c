"""What the methods of modules that change all parameters do to each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn.parameter import Parameter, is_lazy

__all__ = ["applied", "check_can_be_shared"]


def applied(fn: Callable[[Tensor], Tensor], parameter: Parameter) -> Parameter:
    """*parameter* with the data and gradient that *fn* makes of its own; a new one if it must."""
    with shmtensor.no_grad():
        data = fn(parameter.data)
        grad = parameter.grad
        changed = None if grad is None else fn(grad.data).requires_grad_(grad.requires_grad)
        if data.device != parameter.device:
            parameter = Parameter(data, parameter.requires_grad)
            parameter.grad = changed
            return parameter
        parameter.data = data
        if grad is not None and changed is not None:
            if changed.dtype == grad.dtype:
                grad.data = changed
            else:
                parameter.grad = changed
    return parameter


def check_can_be_shared(tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Refuse parameters and buffers without a size: their memory comes later, and is not shared.

    Raises:
        RuntimeError: There are some; the text names them.
    """
    names = [name for name, tensor in tensors if is_lazy(tensor)]
    if names:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`. Uninitialized: "
            f"{', '.join(names)}"
        )
