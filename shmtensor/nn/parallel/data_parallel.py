"""A module on several accelerators at a time: without any, the module itself.

Source:
    torch.nn.parallel.data_parallel.
"""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

from shmtensor.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]

T = TypeVar("T", bound=Module)


class DataParallel(Module, Generic[T]):
    """Calls its module; with accelerators, it would split the batch over them.

    The names in its state begin with ``module.``, as torch's.

    Args:
        module: It.
        device_ids: Accepted; there are no such devices.
        output_device: Accepted.
        dim: The dim of the batch.

    Source:
        torch.nn.DataParallel.
    """

    module: T

    def __init__(
        self,
        module: T,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> NoReturn:
    """Call a module on several accelerators.

    Raises:
        RuntimeError: There are none.
    """
    raise RuntimeError("device type could not be determined")
