"""What `use_deterministic_algorithms` does besides: memory without values is filled.

Source:
    torch.utils.deterministic.
"""

from __future__ import annotations

import sys
from types import ModuleType

from shmtensor._core import _settings

__all__ = ["fill_uninitialized_memory"]

#: Whether it is: ``empty`` and its like then hold NaN, the largest integer or True. A bool.
fill_uninitialized_memory: bool


class _Deterministic(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether deterministic algorithms fill memory that is asked for without values."""
        return _settings.fills_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        _settings.set_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
