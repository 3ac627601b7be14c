"""Export to ONNX, which is not here.

What libraries register for it when they are imported is accepted, and nothing calls it.

Source:
    torch.onnx.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any

from shmtensor._core._not_offered import unavailable_class, unavailable_names

from . import (
    errors as errors,
)
from . import (
    operators as operators,
)
from . import (
    symbolic_helper as symbolic_helper,
)
from ._opsets import opsets
from .errors import OnnxExporterError as OnnxExporterError

_WHAT = "models are not exported to ONNX here; load their weights into torch for that"
_REFUSED = "export dynamo_export select_model_mode_for_export".split()

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "errors",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
    *_REFUSED,
]

producer_name = "shmtensor"
globals().update(opsets(_WHAT))

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

ONNXProgram: Any = unavailable_class("ONNXProgram", __name__, _WHAT)


class TrainingMode(enum.IntEnum):
    """In which mode a model would be exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class TensorProtoDataType(enum.IntEnum):
    """The dtypes of ONNX and their numbers in its files."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


class OperatorExportTypes(enum.IntEnum):
    """How operators would be exported."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """Return whether a model is being exported: False."""
    return False


def _check_operator_name(name: str) -> None:
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-_]*::[a-zA-Z-_]+[a-zA-Z0-9-_]*", name):
        raise OnnxExporterError(
            f"Failed to register operator {name}. The symbolic name must have the form "
            "domain::name, and start with a letter and contain only alphanumeric characters"
        )


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Accept a function that would write an operator as ONNX; nothing will call it.

    Raises:
        OnnxExporterError: *symbolic_name* is not of the form ``domain::name``.
    """
    _check_operator_name(symbolic_name)


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Accept a name for which nothing is called any more.

    Raises:
        OnnxExporterError: *symbolic_name* is not of the form ``domain::name``.
    """
    _check_operator_name(symbolic_name)
