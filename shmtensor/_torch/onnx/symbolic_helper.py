"""Decorators of functions that would write an operator as ONNX.

They give the function back: nothing calls it, because nothing is exported.

Source:
    torch.onnx.symbolic_helper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["parse_args", "quantized_args"]

F = TypeVar("F", bound=Callable[..., object])


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """Return a decorator that leaves its function as it is."""
    return lambda function: function


def quantized_args(
    *arg_q_descriptors: bool,
    scale: float | None = None,
    zero_point: int | None = None,
    quantize_output: bool = True,
) -> Callable[[F], F]:
    """Return a decorator that leaves its function as it is."""
    return lambda function: function
