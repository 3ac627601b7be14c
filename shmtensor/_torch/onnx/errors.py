"""Exceptions of export to ONNX. Nothing raises them here."""

from __future__ import annotations

from shmtensor.errors import ShmTensorError

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError"]
__all__ += ["UnsupportedOperatorError"]


class OnnxExporterWarning(UserWarning):
    """A model is exported otherwise than it looks."""


class OnnxExporterError(ShmTensorError, RuntimeError):
    """A model cannot be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator cannot be exported."""


class SymbolicValueError(OnnxExporterError):
    """A value of a graph cannot be exported."""
