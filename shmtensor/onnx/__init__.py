"""Export to ONNX, which is not here.

Source:
    torch.onnx.
"""

from __future__ import annotations

import enum
from typing import Any

from shmtensor._not_offered import unavailable_class, unavailable_names
from shmtensor.onnx import errors as errors
from shmtensor.onnx.errors import OnnxExporterError as OnnxExporterError

_WHAT = "models are not exported to ONNX here; load their weights into torch for that"
_REFUSED = (
    "export dynamo_export select_model_mode_for_export register_custom_op_symbolic "
    "unregister_custom_op_symbolic"
).split()

__all__ = ["ONNXProgram", "OnnxExporterError", "errors", "is_in_onnx_export", *_REFUSED]

producer_name = "shmtensor"

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

ONNXProgram: Any = unavailable_class("ONNXProgram", __name__, _WHAT)


class TrainingMode(enum.IntEnum):
    """In which mode a model would be exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """How operators would be exported."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """Return whether a model is being exported: False."""
    return False
