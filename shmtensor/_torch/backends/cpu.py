"""What the processor offers."""

from __future__ import annotations

from shmtensor._boundary.runtime import cpu_capability

__all__ = ["get_cpu_capability"]

_NAMES = {"base": "DEFAULT", "v3": "AVX2", "v4": "AVX512"}


def get_cpu_capability() -> str:
    """Return the level of instructions that operators use: ``DEFAULT``, ``AVX2``, ``AVX512``.

    Source:
        torch.backends.cpu.get_cpu_capability.
    """
    return _NAMES.get(cpu_capability(), "DEFAULT")
