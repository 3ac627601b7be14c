"""Shapes and dtypes of all values in a graph, found by running it.

Source:
    torch.fx.passes.shape_prop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import shmtensor
from shmtensor.nn import Module

from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What a tensor is, without its elements."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(
    result: shmtensor.Tensor, include_contiguity: bool = True
) -> TensorMetadata:
    """Return what a tensor is.

    Args:
        result: It.
        include_contiguity: Find out its memory format.
    """
    found = None
    has_strides = result.layout == shmtensor.strided
    if include_contiguity and has_strides:
        for form in (
            shmtensor.contiguous_format,
            shmtensor.channels_last,
            shmtensor.channels_last_3d,
        ):
            if result.is_contiguous(memory_format=form):
                found = form
                break
    return TensorMetadata(
        result.shape,
        result.dtype,
        result.requires_grad,
        result.stride() if has_strides else (),
        found,
        result.is_quantized,
        {},
    )


class ShapeProp(Interpreter):
    """Runs a graph and notes ``meta["tensor_meta"]`` and ``meta["type"]`` of each node.

    Args:
        gm: The module of the graph.
        fake_mode: Accepted; the graph runs with real tensors.
    """

    def __init__(self, gm: Module, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        """Compute a node and note what comes out.

        Raises:
            RuntimeError: It cannot be computed; the cause is the error itself.
        """
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        is_there = False

        def extract(value: Any) -> Any:
            nonlocal is_there
            if not isinstance(value, shmtensor.Tensor):
                return value
            is_there = True
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, extract)
        if is_there:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph; returns its result.

        Args:
            *args: The arguments of the module.
        """
        return super().run(*args)
