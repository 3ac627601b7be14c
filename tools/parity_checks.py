"""The checks that compare one operator with torch's on one of torch's samples, by name.

Each takes an operator of torch's list and a sample and returns None (passed), "-" (does not apply)
or what is wrong. They do not change the sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parity_derivatives import grad, gradgrad, jvp
from parity_errors import error, message
from parity_forms import alias, inplace, method, operator, out, outcast, view
from parity_results import empty, forward, meta, noncontig, strides
from parity_values import Outcome

RUN: dict[str, Callable[[Any, Any], Outcome]] = {
    "forward": forward,
    "grad": grad,
    "gradgrad": gradgrad,
    "jvp": jvp,
    "strides": strides,
    "noncontig": noncontig,
    "method": method,
    "inplace": inplace,
    "out": out,
    "outcast": outcast,
    "empty": empty,
    "meta": meta,
    "view": view,
    "alias": alias,
    "operator": operator,
    "error": error,
    "message": message,
}
