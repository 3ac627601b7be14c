"""Branches and loops as functions, which a tracer would keep; here they run.

Source:
    torch.cond, torch.while_loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shmtensor._core._tensor import Tensor

__all__ = ["cond", "while_loop"]


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """Call one of two functions.

    Args:
        pred: A bool, or a bool tensor of one element.
        true_fn: Is called where it is true.
        false_fn: Is called where it is false.
        operands: The arguments.

    Raises:
        RuntimeError: *pred*, the functions or *operands* are something else.
    """
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not isinstance(pred, (bool, int, float, Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"Expect operands to be a tuple or a list, but got {operands}.")
    return (true_fn if pred else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Call *body_fn* with its own results as long as *cond_fn* is true of them.

    Args:
        cond_fn: Takes the values; returns a bool or a bool tensor of one element.
        body_fn: Takes the values; returns as many.
        carried_inputs: The values at first.

    Returns:
        The values at last.

    Raises:
        RuntimeError: *body_fn* returns another number of values, or an argument is not a function.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple or list, got {carried_inputs}")
    values = tuple(carried_inputs)
    while cond_fn(*values):
        results = body_fn(*values)
        results = results if isinstance(results, (tuple, list)) else (results,)
        if len(results) != len(values):
            raise RuntimeError(
                f"body_fn should return {len(values)} values, as many as it is given, but "
                f"returned {len(results)}"
            )
        values = tuple(results)
    return values
