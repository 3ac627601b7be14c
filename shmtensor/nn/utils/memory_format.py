"""How weights of convolutions lie in memory. Source: torch.nn.utils.memory_format."""

from __future__ import annotations

from typing import Any, TypeVar

from shmtensor.nn.modules import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from shmtensor.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: M, classes: tuple[type[Module], ...], memory_format: Any) -> M:
    for each in module.modules():
        if isinstance(each, classes):
            weight = each.weight.detach().clone(memory_format=memory_format)
            # clone() keeps strides that fit both formats, as those of one channel do.
            each.weight.data = weight.resize_(weight.shape, memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all 2-D convolutions in a module, and of no other layer.

    Args:
        module: Is searched with all its children.
        memory_format: ``channels_last`` or ``contiguous_format``.

    Returns:
        The same module.
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all 3-D convolutions in a module, and of no other layer.

    Args:
        module: Is searched with all its children.
        memory_format: ``channels_last_3d`` or ``contiguous_format``.

    Returns:
        The same module.
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
