"""Process-wide settings that programs written for torch ask for."""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._arguments import checked
from shmtensor._core._tensor import Tensor
from shmtensor._core._type_names import LEGACY_DTYPES
from shmtensor._core._warnings import is_warn_always_enabled, set_warn_always, warn_once
from shmtensor.dtypes import set_default_dtype

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_anomaly_enabled",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "set_warn_always",
    "typename",
    "use_deterministic_algorithms",
]

_PRECISIONS = ("highest", "high", "medium")
_DEBUG_MODES = ("default", "warn", "error")


class _State:
    deterministic_mode = 0  # an index of _DEBUG_MODES
    fill_uninitialized_memory = True
    precision = "highest"
    interop_threads = 1


def _set_mode(mode: int) -> None:
    _State.deterministic_mode = mode
    _C._set_fills_uninitialized(mode > 0 and _State.fill_uninitialized_memory)


def fills_uninitialized_memory() -> bool:
    """Return what `set_fill_uninitialized_memory` was last told."""
    return _State.fill_uninitialized_memory


def set_fill_uninitialized_memory(mode: bool) -> None:
    """Say whether deterministic algorithms fill memory that is asked for without values.

    Raises:
        RuntimeError: *mode* is not a bool.
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
    _State.fill_uninitialized_memory = mode
    _set_mode(_State.deterministic_mode)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for the same results every time.

    With one number of threads (`set_num_threads`), all operators here give them, also those that
    torch refuses then (``put_``, ``max_unpool2d``): elements are written in order. So there is
    nothing to refuse or to warn of. What programs get without values (``empty`` and its forms,
    ``resize_``) is filled with NaN, the largest integer or True, unless
    `utils.deterministic.fill_uninitialized_memory` is off.

    Args:
        mode: Whether to ask.
        warn_only: Kept for `is_deterministic_algorithms_warn_only_enabled`.

    Raises:
        TypeError: *mode* is not a bool.

    Source:
        torch.use_deterministic_algorithms.
    """
    if not isinstance(mode, bool):
        raise TypeError(
            "_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, "
            f"not {type(mode).__name__}"
        )
    _set_mode((1 if warn_only else 2) if mode else 0)


def are_deterministic_algorithms_enabled() -> bool:
    """Return what `use_deterministic_algorithms` was last told."""
    return _State.deterministic_mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether `use_deterministic_algorithms` was told ``warn_only``."""
    return _State.deterministic_mode == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set the same by name or number: ``"default"`` (0), ``"warn"`` (1), ``"error"`` (2).

    Raises:
        RuntimeError: There is no such mode.

    Source:
        torch.set_deterministic_debug_mode.
    """
    if isinstance(debug_mode, str) and debug_mode in _DEBUG_MODES:
        _set_mode(_DEBUG_MODES.index(debug_mode))
    elif not isinstance(debug_mode, str) and debug_mode in (0, 1, 2):
        _set_mode(debug_mode)
    else:
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, or 0 to 2, "
            f"but got {debug_mode}"
        )


def get_deterministic_debug_mode() -> int:
    """Return the mode as a number from 0 to 2."""
    return _State.deterministic_mode


def set_float32_matmul_precision(precision: str) -> None:
    """Allow less precise float32 matrix products; here they are always ``"highest"``.

    Args:
        precision: ``"highest"``, ``"high"`` or ``"medium"``; kept for the getter.

    Raises:
        ValueError: Another word.

    Source:
        torch.set_float32_matmul_precision.
    """
    if precision not in _PRECISIONS:
        raise ValueError(f"{precision!r} is not one of {', '.join(_PRECISIONS)}")
    _State.precision = precision


def get_float32_matmul_precision() -> str:
    """Return what `set_float32_matmul_precision` was last told."""
    return _State.precision


def get_num_interop_threads() -> int:
    """Return what `set_num_interop_threads` was told, 1 at first.

    Operators run in the threads that call them, and split their own work over `get_num_threads`.
    """
    return _State.interop_threads


def set_num_interop_threads(n: int) -> None:
    """Keep *n* for `get_num_interop_threads`; there is no pool that runs whole operators.

    Raises:
        TypeError: *n* is not an int.
        RuntimeError: *n* is not positive.

    Source:
        torch.set_num_interop_threads.
    """
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_num_interop_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _State.interop_threads = n


def is_anomaly_enabled() -> bool:
    """Return whether the backward pass checks its gradients, as `autograd.detect_anomaly` asks."""
    return bool(_C._get_anomaly()[0])


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether these checks look for NaN."""
    return bool(_C._get_anomaly()[1])


@checked
def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch the checks of the backward pass; see `autograd.set_detect_anomaly`."""
    _C._set_anomaly(mode, check_nan)


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by an old-style tensor class or its name.

    Args:
        t: ``FloatTensor``, ``DoubleTensor``, ``HalfTensor``, ``BFloat16Tensor``, or such a name,
            with or without ``"torch."`` before it.

    Raises:
        TypeError: There is no such type, or it is not floating.

    Source:
        torch.set_default_tensor_type, deprecated there since 2.1.
    """
    warn_once(
        "set_default_tensor_type() is deprecated, please use set_default_dtype() and "
        "set_default_device()"
    )
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    dtype = LEGACY_DTYPES.get(name.rpartition(".")[2])
    if dtype is None:
        raise TypeError(f"invalid type object: {t!r}")
    set_default_dtype(dtype)


def typename(obj: Any, /) -> str:
    """Return the name of an object's type as torch shows it.

    Args:
        obj: A tensor gives such as ``"torch.FloatTensor"``; anything else its qualified class.

    Source:
        torch.typename.
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") and hasattr(obj, "__module__") else type(obj)
    module = kind.__module__
    return kind.__qualname__ if module in (None, "builtins") else f"{module}.{kind.__qualname__}"
