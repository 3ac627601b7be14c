"""Tuning of matrix products on CUDA devices; there are none here."""

from __future__ import annotations

from shmtensor._core._absent_devices import refusals

from ._refusal import refusal

__all__ = """
    enable get_filename get_max_tuning_duration get_max_tuning_iterations get_results
    get_rotating_buffer_size get_validators is_enabled mgpu_tune_gemm_in_file read_file
    record_untuned_enable record_untuned_is_enabled set_filename set_max_tuning_duration
    set_max_tuning_iterations set_numerical_check_tolerances set_rotating_buffer_size
    tune_gemm_in_file tuning_enable tuning_is_enabled
""".split()

__getattr__, __dir__ = refusals(__name__, __all__, refusal)
