"""What the array API standard asks of the tensor class, beside what tensors have anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["namespace_of", "to_device"]

#: What `Tensor.__array_namespace__` may be asked for. Each version has the names of those before.
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def namespace_of(self: Any, *, api_version: str | None = None) -> ModuleType:
    """Return the namespace of the array API standard for tensors, `shmtensor.array_api`.

    Args:
        self: A tensor.
        api_version: A version of the standard such as ``"2024.12"``; None is that one.

    Raises:
        ValueError: The namespace does not have this version.

    Source:
        data-apis.org/array-api.
    """
    from shmtensor import array_api  # it stands above this module

    if api_version not in (None, *_VERSIONS):
        raise ValueError(
            f"__array_namespace__(): api_version must be one of {', '.join(_VERSIONS)}, "
            f"got {api_version!r}"
        )
    return array_api


def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """Return this tensor on a device; the array API standard's name for ``to(device)``.

    Args:
        self: A tensor.
        device: A device, or its name.
        stream: Must be None: the CPU has no streams.

    Raises:
        ValueError: A stream is given.

    Source:
        data-apis.org/array-api.
    """
    if stream is not None:
        raise ValueError(f"to_device(): the cpu has no streams, got {stream!r}")
    return self.to(device)
