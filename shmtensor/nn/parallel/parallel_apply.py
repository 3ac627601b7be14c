"""Calls of several modules side by side.

Source:
    torch.nn.parallel.parallel_apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shmtensor.nn.modules.module import Module

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its input.

    Args:
        modules: Them.
        inputs: For each a tuple of arguments, or one that is none.
        kwargs_tup: For each the arguments by name.
        devices: For each the accelerator that it is on.

    Raises:
        AssertionError: The lists are not of one length.
        RuntimeError: There is no accelerator.
    """
    for what, given in (("inputs", inputs), ("devices", devices), ("arguments", kwargs_tup)):
        if given is not None and len(given) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {what} "
                f"{len(given)}"
            )
    raise RuntimeError("Cannot access accelerator device when none is available.")
