"""What the function of `register_fake` is told of its call."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["get_ctx", "impl_abstract"]


def get_ctx() -> NoReturn:
    """Return the context in which an operator's shapes are computed: there is none.

    Shapes that depend on values have no numbers on Meta tensors here.

    Raises:
        RuntimeError: There is no such context.

    Source:
        torch.library.get_ctx.
    """
    raise RuntimeError("get_ctx(): sizes that depend on values are not traced here")


def impl_abstract(qualname: str, func: Any = None, *, lib: Any = None, _stacklevel: int = 1) -> Any:
    """Call `register_fake`; this is an older name."""
    import warnings

    from shmtensor.library._custom_ops import register_fake

    warnings.warn(
        "torch.library.impl_abstract was renamed to torch.library.register_fake. Please use that "
        "instead.",
        DeprecationWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)
