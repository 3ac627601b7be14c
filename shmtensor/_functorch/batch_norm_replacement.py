"""Batch norms without running statistics, which vmap cannot change in place.

Source:
    torch._functorch.batch_norm_replacement.
"""

from __future__ import annotations

from shmtensor.nn.modules.batchnorm import _BatchNorm
from shmtensor.nn.modules.module import Module

__all__ = ["batch_norm_without_running_stats", "replace_all_batch_norm_modules_"]


def batch_norm_without_running_stats(module: Module) -> None:
    """Take the running statistics from *module*, when it is a batch norm that has them."""
    if isinstance(module, _BatchNorm) and module.track_running_stats:
        module.running_mean = None
        module.running_var = None
        module.num_batches_tracked = None
        module.track_running_stats = False


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Take the running statistics from all batch norms of a module, in place.

    They then normalize by the current batch, as they do in training.

    Args:
        root: It, too, may be a batch norm.

    Returns:
        *root*.

    Source:
        torch.func.replace_all_batch_norm_modules_.
    """
    batch_norm_without_running_stats(root)
    for module in root.modules():
        batch_norm_without_running_stats(module)
    return root
