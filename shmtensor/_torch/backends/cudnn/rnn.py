"""The flag of recurrent layers in NVIDIA's library, which is not here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._flags import FlagModule, PrecisionFlag, use_flags

if TYPE_CHECKING:
    fp32_precision: str


class _Module(FlagModule):
    fp32_precision = PrecisionFlag("tf32", "cuda")


use_flags(__name__, _Module)
