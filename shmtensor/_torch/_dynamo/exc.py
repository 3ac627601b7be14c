"""Errors of the tracer and of backends.

Source:
    torch._dynamo.exc.
"""

from __future__ import annotations

from shmtensor.errors import ShmTensorError

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "InternalTorchDynamoError",
    "InvalidBackend",
    "RecompileError",
    "TorchDynamoException",
    "TorchRuntimeError",
    "Unsupported",
    "UserError",
]


class TorchDynamoException(ShmTensorError, RuntimeError):
    """An error of the tracer."""


class InternalTorchDynamoError(TorchDynamoException):
    """The tracer itself has failed."""


class InvalidBackend(TorchDynamoException):
    """There is no compiler of this name."""


class BackendCompilerFailed(TorchDynamoException):
    """The compiler has failed."""


class TorchRuntimeError(TorchDynamoException):
    """An operator has failed while it was traced."""


class Unsupported(TorchDynamoException):
    """Code that is not traced."""


class UserError(TorchDynamoException):
    """Code that cannot be traced."""


class RecompileError(TorchDynamoException):
    """Code would be compiled again where that is forbidden."""


class FailOnRecompileLimitHit(ShmTensorError):
    """Code was compiled too often."""
