"""Libraries for quantized tensors: none is here.

Source:
    torch.backends.quantized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._flags import FlagModule, use_flags

if TYPE_CHECKING:
    engine: str
    supported_engines: list[str]


class _Module(FlagModule):
    @property
    def supported_engines(self) -> list[str]:
        return ["none"]

    @property
    def engine(self) -> str:
        return "none"

    @engine.setter
    def engine(self, value: Any) -> None:
        if value != "none":
            raise RuntimeError(f"{value} is not a valid value for quantized engine")


use_flags(__name__, _Module)
