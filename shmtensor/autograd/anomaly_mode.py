"""Anomaly mode: errors in backward show the forward call that caused them, NaN is an error."""

from __future__ import annotations

import warnings

from shmtensor import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Switch anomaly mode, at once and until the end of the context when used as one.

    Args:
        mode: On or off.
        check_nan: Search every gradient for NaN.

    Source:
        torch.autograd.set_detect_anomaly.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _C._get_anomaly()
        _C._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        return

    def __exit__(self, *exc: object) -> None:
        _C._set_anomaly(*self._before)


class detect_anomaly:
    """Find the operation with a derivative that fails or gives NaN. Slow: for debugging only.

    Args:
        check_nan: Search every gradient for NaN.

    Source:
        torch.autograd.detect_anomaly.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = _C._get_anomaly()
        _C._set_anomaly(True, self._check_nan)

    def __exit__(self, *exc: object) -> None:
        _C._set_anomaly(*self._before)
