"""Values that stand for others while a program is traced: there are none.

Source:
    torch.fx.proxy.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class
from shmtensor.errors import ShmTensorError

from ._what import WHAT

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError"]
__all__ += ["TracerBase"]


class TraceError(ShmTensorError, ValueError):
    """A program does something that a trace cannot hold. Nothing raises it here."""


class TracerBase:
    """What makes graphs, as a base of classes; `Tracer.trace` raises."""


GraphAppendingTracer: Any = unavailable_class("GraphAppendingTracer", __name__, WHAT, (TracerBase,))
Proxy: Any = unavailable_class("Proxy", __name__, WHAT)
Attribute: Any = unavailable_class("Attribute", __name__, WHAT, (Proxy,))
ParameterProxy: Any = unavailable_class("ParameterProxy", __name__, WHAT, (Proxy,))
