"""Exceptions and warnings of this package.

Every class derives from `ShmTensorError` and from the built-in exception that torch raises in the
same place, so that either can be caught. Failures that need no class of their own raise the
built-in. ``docs/errors.md`` has the whole tree, with the classes that other modules define.
"""

from __future__ import annotations

__all__ = [
    "AcceleratorError",
    "CallError",
    "HandleError",
    "LinAlgError",
    "ManagerError",
    "NotPublishedError",
    "OutOfMemoryError",
    "RemoteError",
    "ServerLostError",
    "ShmTensorError",
    "ShmTensorWarning",
    "WaitTimeoutError",
]


class ShmTensorError(Exception):
    """Base of the exceptions that this package defines."""


class HandleError(ShmTensorError, RuntimeError):
    """A handle of shared memory is forged, or its block was freed."""


class ManagerError(ShmTensorError, RuntimeError):
    """The session's manager cannot be started or reached, or has refused a request."""


class NotPublishedError(ShmTensorError, KeyError):
    """Nothing is published under this name in the service."""

    __str__ = Exception.__str__  # KeyError shows its text in quotation marks


class WaitTimeoutError(ShmTensorError, TimeoutError):
    """What was waited for did not happen within the timeout."""


class CallError(ShmTensorError, RuntimeError):
    """A call to a server of another process has no result."""


class RemoteError(CallError):
    """The server has failed; the text is what it says, with its traceback."""


class ServerLostError(CallError):
    """The server that had the request was killed, or let go of it without an answer."""


class LinAlgError(ShmTensorError, RuntimeError):
    """A matrix is singular, not positive-definite, or an iteration did not converge."""


class AcceleratorError(ShmTensorError, RuntimeError):
    """A device has failed. Nothing raises it here; programs name it in "except" statements."""


class OutOfMemoryError(ShmTensorError, RuntimeError, MemoryError):
    """No memory is left for a tensor: both torch's error and Python's own."""


class ShmTensorWarning(UserWarning):
    """Base of the warnings that only this package gives; warnings of torch have torch's classes."""
