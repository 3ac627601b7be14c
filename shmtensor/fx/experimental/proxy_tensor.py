"""Tracing of operator calls, which is not here.

Source:
    torch.fx.experimental.proxy_tensor.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_names

_WHAT = "operators are not traced one by one; fx.symbolic_trace traces programs"

_REFUSED = ["make_fx"]

__all__ = ["get_proxy_mode", *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)


def get_proxy_mode() -> None:
    """Return the mode that traces the calls of this thread: None."""
