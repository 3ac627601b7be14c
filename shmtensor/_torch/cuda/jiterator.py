"""Kernels that are compiled for CUDA devices at run time: there is nothing to run them."""

from __future__ import annotations

from shmtensor._core._absent_devices import refusals

from ._refusal import refusal

__all__ = """
    _create_jit_fn _create_multi_output_jit_fn
""".split()

__getattr__, __dir__ = refusals(__name__, __all__, refusal)
