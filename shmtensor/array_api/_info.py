"""What the namespace says of itself."""

from __future__ import annotations

from typing import Any

import shmtensor as engine
from shmtensor.array_api._dtypes import KINDS, Dtype, isdtype

__all__ = ["Info"]


def _check_device(device: Any) -> None:
    if device is not None and engine.device(device).type != "cpu":
        raise ValueError(f"arrays are on the cpu, not on {device!r}")


class Info:
    """Inspection of the namespace; ``__array_namespace_info__()`` makes one."""

    def capabilities(self) -> dict[str, Any]:
        """Return which optional parts of the standard there are."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> Any:
        """Return the device where arrays are made."""
        return engine.device("cpu")

    def devices(self) -> list[Any]:
        """Return all devices."""
        return [engine.device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Dtype]:
        """Return the dtypes of arrays made without one, by kind.

        Raises:
            ValueError: There is no such device.
        """
        _check_device(device)
        real = engine.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": engine.complex128 if real is engine.float64 else engine.complex64,
            "integral": engine.int64,
            "indexing": engine.int64,
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Dtype]:
        """Return the standard's dtypes by name.

        Args:
            device: The device.
            kind: Only those of this kind, or of one of several; see `isdtype`.

        Raises:
            ValueError: There is no such device or kind.
        """
        _check_device(device)
        known = (*KINDS["bool"], *KINDS["numeric"])
        return {
            str(dtype).rpartition(".")[2]: dtype
            for dtype in known
            if kind is None or isdtype(dtype, kind)
        }
