"""How operators run: threads and the instruction set of the kernels."""

from __future__ import annotations

from shmtensor._boundary.core import ffi, lib

__all__ = [
    "blas_library",
    "cpu_capability",
    "get_num_threads",
    "only_cpu_capability",
    "set_num_threads",
]


def get_num_threads() -> int:
    """Threads that one operator may use, the caller's included."""
    return int(lib.shmt_get_num_threads())


def set_num_threads(n: int) -> None:
    """Let one operator use *n* threads, from the next call on.

    Args:
        n: At least 1; larger numbers than the pool can hold are clamped.

    Raises:
        RuntimeError: *n* is not positive.
    """
    if n < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {n}")
    lib.shmt_set_num_threads(n)


def cpu_capability() -> str:
    """The level kernels use: ``base``, ``v3`` (AVX2) or ``v4`` (AVX-512)."""
    text: bytes = ffi.string(lib.shmt_cpu_capability())
    return text.decode()


def only_cpu_capability() -> str | None:
    """The only level of a build for one machine alone, or ``None`` where the build has all."""
    name = lib.shmt_only_cpu_capability()
    if name == ffi.NULL:
        return None
    text: bytes = ffi.string(name)
    return text.decode()


def blas_library() -> str:
    """Return the path of the library that matrix products run on; "none": on the built-in loops."""
    text: bytes = ffi.string(lib.shmt_blas_library())
    return text.decode(errors="replace")
