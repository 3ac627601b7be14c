"""Settings of the libraries for CUDA devices, and which attention may be used.

The attention flags are read by `nn.attention.sdpa_kernel` and by
`nn.functional.scaled_dot_product_attention`, on every device; the others keep their values.

Source:
    torch.backends.cuda.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from shmtensor._core._absent_devices import no as _no
from shmtensor._core._attention_choice import allowed

from ._flags import Flag, PrecisionFlag

__all__ = [
    "allow_fp16_bf16_reduction_math_sdp",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cuBLASModule",
    "cuFFTPlanCacheManager",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "is_ck_sdpa_available",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "preferred_rocm_fa_library",
    "sdp_kernel",
]


is_built = _no(__name__, "is_built", "there is code for CUDA")


# --- products ------------------------------------------------------------------------------------


class _Reduction(Flag):
    """Whether sums may be rounded in between: a bool, or a pair with one for split sums."""

    def check(self, value: Any) -> None:
        values = value if isinstance(value, (tuple, list)) else (value,)
        if not all(isinstance(each, bool) for each in values):
            raise TypeError(
                f"{self.name} expects a bool or a tuple/list of bools, but got {type(value)}"
            )


class cuBLASModule:
    """The settings of matrix products on CUDA devices.

    Source:
        torch.backends.cuda.matmul.
    """

    allow_tf32 = Flag(False, "set_allow_tf32_cublas")
    fp32_precision = PrecisionFlag(backend="cuda")
    allow_fp16_reduced_precision_reduction = _Reduction(True)
    allow_bf16_reduced_precision_reduction = _Reduction(True)
    allow_fp16_accumulation = Flag(False, "set_allow_fp16_accumulation_cublas")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Unknown attribute {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(vars(type(self)).get(name), Flag):
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)


matmul = cuBLASModule()


class cuFFTPlanCacheManager:
    """The plans of Fourier transforms on CUDA devices: there are no devices."""

    def __getitem__(self, device: Any) -> Any:
        raise RuntimeError(
            "cufft_plan_cache: expected 0 <= device index < 0, but got device with index "
            f"{getattr(device, 'index', device)}"
        )

    def __getattr__(self, name: str) -> Any:
        if name in ("size", "max_size", "clear"):
            raise AssertionError("Torch not compiled with CUDA enabled")
        raise AttributeError(f"Unknown attribute {name}")


cufft_plan_cache = cuFFTPlanCacheManager()


class _BlasBackend(enum.Enum):
    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


class _LinalgBackend(enum.Enum):
    Default = 0
    Cusolver = 1
    Magma = 2


class _ROCmFABackend(enum.Enum):
    Default = 0
    AOTriton = 1
    Ck = 2


_preferred: dict[type[enum.Enum], enum.Enum] = {
    _BlasBackend: _BlasBackend.Cublas,
    _LinalgBackend: _LinalgBackend.Default,
    _ROCmFABackend: _ROCmFABackend.Default,
}
_ALIASES = {"hipblas": "cublas", "hipblaslt": "cublaslt"}


def _prefer(kind: type[enum.Enum], wanted: Any, names: str) -> Any:
    if isinstance(wanted, str):
        known = {each.name.lower(): each for each in kind}
        if wanted not in names.split(", "):
            raise RuntimeError(f"Unknown input value. Choose from: {names}.")
        wanted = known[_ALIASES.get(wanted, wanted)]
    elif wanted is not None and not isinstance(wanted, kind):
        raise RuntimeError("Unknown input value type.")
    if wanted in (_LinalgBackend.Cusolver, _LinalgBackend.Magma):
        name = {"Cusolver": "cuSOLVER", "Magma": "MAGMA"}[wanted.name]
        raise RuntimeError(
            f"Cannot set preferred backend to {name} if PyTorch has not been compiled with {name}."
        )
    if wanted is not None:
        _preferred[kind] = wanted
    return _preferred[kind]


def preferred_linalg_library(backend: Any = None) -> Any:
    """Prefer a library for linear algebra on CUDA devices; returns the one that is preferred.

    Args:
        backend: Its name, or None to ask only.

    Raises:
        RuntimeError: There is no such library.
    """
    return _prefer(_LinalgBackend, backend, "default, cusolver, magma")


def preferred_blas_library(backend: Any = None) -> Any:
    """Prefer a library for products on CUDA devices; returns the one that is preferred.

    Args:
        backend: Its name, or None to ask only.

    Raises:
        RuntimeError: There is no such library.
    """
    names = "default, cublas, hipblas, cublaslt, hipblaslt, ck"
    return _prefer(_BlasBackend, backend, names)


def preferred_rocm_fa_library(backend: Any = None) -> Any:
    """Prefer a library for attention on AMD devices; returns the one that is preferred.

    Args:
        backend: Its name, or None to ask only.

    Raises:
        RuntimeError: There is no such library.
    """
    return _prefer(_ROCmFABackend, backend, "default, aotriton, ck")


# --- attention -----------------------------------------------------------------------------------


def _enable(name: str, setter: str, enabled: bool) -> None:
    if not isinstance(enabled, bool):
        raise RuntimeError(f"{setter} expects a bool, but got {type(enabled).__name__}")
    allowed[name] = enabled


def flash_sdp_enabled() -> bool:
    """Return whether attention in one pass over the keys may be used."""
    return allowed["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow attention in one pass over the keys."""
    _enable("flash", "set_sdp_use_flash", enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Return whether the attention of xFormers may be used; it is not here."""
    return allowed["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow the attention of xFormers, which is not here."""
    _enable("mem_efficient", "set_sdp_use_mem_efficient", enabled)


def math_sdp_enabled() -> bool:
    """Return whether attention composed of products and a softmax may be used."""
    return allowed["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow attention composed of products and a softmax."""
    _enable("math", "set_sdp_use_math", enabled)


def cudnn_sdp_enabled() -> bool:
    """Return whether the attention of cuDNN may be used; it is not here."""
    return allowed["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow the attention of cuDNN, which is not here."""
    _enable("cudnn", "set_sdp_use_cudnn", enabled)


_reduction = {"allowed": False}


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Return what `allow_fp16_bf16_reduction_math_sdp` was last told, False at first."""
    return _reduction["allowed"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Allow sums in half precision in composed attention; here they are float32 all the same."""
    if not isinstance(enabled, bool):
        raise RuntimeError(
            f"allow_fp16_bf16_reduction_math_sdp expects a bool, but got {type(enabled).__name__}"
        )
    _reduction["allowed"] = enabled


is_flash_attention_available = _no(
    __name__, "is_flash_attention_available", "there is such attention for CUDA devices"
)


is_ck_sdpa_available = _no(
    __name__, "is_ck_sdpa_available", "there is such attention for AMD devices"
)


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Return whether a CUDA device could compute this attention in one pass: False."""
    return False


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    """Return whether a CUDA device could compute this attention by xFormers: False."""
    return False


def can_use_cudnn_attention(params: Any, debug: bool = False) -> bool:
    """Return whether a CUDA device could compute this attention by cuDNN: False."""
    return False


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Allow some ways of computing attention for a block; `nn.attention.sdpa_kernel` is newer."""
    before = dict(allowed)
    allowed.update(
        flash=enable_flash,
        math=enable_math,
        mem_efficient=enable_mem_efficient,
        cudnn=enable_cudnn,
    )
    try:
        yield
    finally:
        allowed.update(before)
