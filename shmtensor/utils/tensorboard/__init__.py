"""Logs for TensorBoard. It needs its package: ``pip install "shmtensor[tensorboard]"``.

Source:
    torch.utils.tensorboard.

Raises:
    ModuleNotFoundError: It is not installed.
"""

from __future__ import annotations

try:
    import tensorboard.summary.writer.event_file_writer  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "utils.tensorboard needs the package tensorboard: "
        f"pip install 'shmtensor[tensorboard]' ({error})",
        name=error.name,
    ) from None

from shmtensor.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
