"""Functions of functions, which a tracer would keep; here they run.

Source:
    torch._higher_order_ops.
"""

from __future__ import annotations

from shmtensor._core._control_flow import cond as cond
from shmtensor._core._control_flow import while_loop as while_loop

from .associative_scan import associative_scan as associative_scan
from .map import map as map
from .scan import scan as scan

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
