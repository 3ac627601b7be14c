"""``vmap``, ``grad`` and ``grad_and_value``.

Source:
    torch._functorch.apis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from shmtensor._functorch.eager_transforms import grad_and_value_impl, grad_impl
from shmtensor._functorch.utils import argnums_t
from shmtensor._functorch.vmap import (
    _check_out_dims_is_int_or_int_pytree,
    _check_randomness_arg,
    in_dims_t,
    out_dims_t,
    vmap_impl,
)

__all__ = ["grad", "grad_and_value", "vmap"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def vmap(
    func: Callable[_P, _R],
    in_dims: in_dims_t = 0,
    out_dims: out_dims_t = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[_P, _R]:
    """Return a function that does for each example of a batch what *func* does for one.

    *func* is called once; its operators work on all examples. It sees tensors of one example's
    shape. Values that differ from example to example can neither be read (``item()``) nor decide
    what the program does.

    Args:
        func: Takes tensors and trees of them, returns tensors.
        in_dims: Where the batch is in each input: an int for all, or a tuple in the form of the
            inputs; None for an input that all examples share.
        out_dims: Where it goes in the outputs; an int for all, or a tuple in their form.
        randomness: ``"error"`` forbids random operators, ``"different"`` draws for each example,
            ``"same"`` draws once for all.
        chunk_size: Examples that are computed at a time; None: all.

    Returns:
        A function of the inputs with their batches.

    Raises:
        ValueError: Dimensions do not fit the inputs or outputs, or batches differ in size.
        RuntimeError: *randomness* is none of the three words, or an operator cannot be batched.

    Source:
        torch.func.vmap.
    """
    _check_randomness_arg(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    _check_out_dims_is_int_or_int_pytree(out_dims, func)

    @functools.wraps(func)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        result: _R = vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)
        return result

    return wrapped


def grad(
    func: Callable[..., Any], argnums: argnums_t = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of *func*.

    It leaves ``.grad`` alone, and differentiates also inside of ``no_grad``. Tensors that *func*
    takes from around it are constants here, and may be differentiated by a transform outside.

    Args:
        func: Returns a tensor with one element, or with *has_aux* a pair of that and any tree.
        argnums: Which inputs to differentiate: one number, or a tuple; each may be a tree.
        has_aux: *func* returns something beside the value.

    Returns:
        A function that gives the gradients, in the form of the input or a tuple of such; with
        *has_aux* a pair of them and what *func* returned beside.

    Raises:
        RuntimeError: *func* returns no tensor with one element, or an input is not floating.
        ValueError: An input to differentiate is no tensor.

    Source:
        torch.func.grad.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return grad_impl(func, argnums, has_aux, args, kwargs)

    return wrapper


def grad_and_value(
    func: Callable[..., Any], argnums: argnums_t = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of *func* and its value.

    Args:
        func: As for `grad`.
        argnums: As for `grad`.
        has_aux: As for `grad`.

    Returns:
        A function that gives a pair: the gradients and the value; with *has_aux* the value is a
        pair of it and what *func* returned beside.

    Raises:
        RuntimeError: As `grad`.
        ValueError: As `grad`.

    Source:
        torch.func.grad_and_value.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return grad_and_value_impl(func, argnums, has_aux, args, kwargs)

    return wrapper
