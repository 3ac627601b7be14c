"""Python objects that see every operator call of their thread."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from shmtensor import _C
from shmtensor._core import _ops as _ops  # operator objects need its class
from shmtensor._core._tensor import Tensor

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


class TorchDispatchMode:
    """A context in which ``__torch_dispatch__`` gets every operator call of this thread.

    Subclasses override ``__torch_dispatch__(self, func, types, args, kwargs)`` and mostly end in
    ``return func(*args, **kwargs)``, which goes on to the next mode out, or to the kernels.

    Source:
        torch.utils._python_dispatch.TorchDispatchMode.
    """

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """See a call, and answer it. Must be overridden.

        Args:
            func: The operator; calling it goes on.
            types: The classes of the tensor arguments.
            args: The positional arguments.
            kwargs: The keyword-only arguments.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __torch_dispatch__")

    def __enter__(self) -> Any:
        _C._push_dispatch_mode(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _C._pop_dispatch_mode()


DispatchMode = TorchDispatchMode


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether an object is a tensor made of others, and says how to take it apart."""
    return isinstance(t, Tensor) and hasattr(t, "__tensor_flatten__")
