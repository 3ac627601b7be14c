"""Files in which a worker leaves the error that it ends with.

A launcher gives each worker the name of such a file in the variable ``TORCHELASTIC_ERROR_FILE``;
`record` writes it.

Source:
    torch.distributed.elastic.multiprocessing.errors.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import logging
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from shmtensor.errors import ShmTensorError

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_F = TypeVar("_F", bound=Callable[..., Any])

_VARIABLE = "TORCHELASTIC_ERROR_FILE"
_NONE = "<N/A>"

log = logging.getLogger(__name__)


@dataclass
class ProcessFailure:
    """How a worker failed.

    Attributes:
        local_rank: Its number on its machine.
        pid: Its process id.
        exitcode: What it ended with; negative: the signal that ended it.
        error_file: The file that it wrote.
        error_file_data: What is in that.
        message: What went wrong.
        timestamp: When, in seconds since 1970.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        """Read the file, if there is one."""
        self.error_file_data = {"message": "<NONE>"}
        self.message = ""
        self.timestamp = int(time.time())
        if os.path.isfile(self.error_file):
            try:
                with open(self.error_file, encoding="utf-8") as file:
                    self.error_file_data = json.load(file)
                self.message, self.timestamp = _message_of(self.error_file_data)
            except (OSError, ValueError, KeyError, TypeError):
                log.exception("cannot read the error file %s", self.error_file)
                raise
        else:
            self.error_file = _NONE
        if not self.message:
            self.message = (
                f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
                if self.exitcode < 0
                else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
            )

    def signal_name(self) -> str:
        """Return the name of the signal that ended the worker."""
        if self.exitcode >= 0:
            return _NONE
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return "<UNKNOWN>"

    def timestamp_isoformat(self) -> str:
        """Return the local time as text."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


def _message_of(data: dict[str, Any]) -> tuple[Any, int]:
    message = data["message"]
    if isinstance(message, str):
        return message, int(data.get("timestamp", 0))
    return message, int(message["extraInfo"]["timestamp"])


class ChildFailedError(ShmTensorError):
    """Workers have failed. The first one says why.

    Args:
        name: Of the program.
        failures: By rank.
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise AssertionError("a ChildFailedError has at least one failure")
        self.name = name
        self.failures = failures
        super().__init__(self._text())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return the rank that failed first, and how."""
        rank = min(self.failures, key=lambda rank: self.failures[rank].timestamp)
        return rank, self.failures[rank]

    def _text(self) -> str:
        first, _ = self.get_first_failure()
        others = [_described(i, r, f) for i, (r, f) in enumerate(self.failures.items())]
        root = others.pop(list(self.failures).index(first))
        rest = "\n".join(others) or "  <NO_OTHER_FAILURES>"
        title = f"{self.name} FAILED"
        width = max(len(line) for line in f"{title}\n{rest}\n{root}".splitlines())
        head, line = "=" * width, "-" * width
        return (
            f"\n{head}\n{title}\n{line}\nFailures:\n{rest}\n{line}\n"
            f"Root Cause (first observed failure):\n{root}\n{head}"
        )


def _described(index: int, rank: int, failure: ProcessFailure) -> str:
    message = failure.message
    if isinstance(message, dict):
        extra = message.get("extraInfo", {})
        message = extra.get("py_callstack") or message.get("message", "<N/A>")
    message = str(message).replace("\n", "\n  ")
    return (
        f"[{index}]:\n"
        f"  time      : {failure.timestamp_isoformat()}\n"
        f"  host      : {socket.getfqdn()}\n"
        f"  rank      : {rank} (local_rank: {failure.local_rank})\n"
        f"  exitcode  : {failure.exitcode} (pid: {failure.pid})\n"
        f"  error_file: {failure.error_file}\n"
        f"  traceback : {message}"
    )


class ErrorHandler:
    """Writes a worker's error into the file that the launcher has named."""

    def initialize(self) -> None:
        """Print the stacks of all threads if a signal ends the process."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:
            log.warning("cannot enable the fault handler: %s: %s", type(error).__name__, error)

    def record_exception(self, e: BaseException) -> None:
        """Write the file; nothing if no launcher has named one."""
        path = os.environ.get(_VARIABLE)
        if not path:
            log.info("no %s in the environment: the error is not written to a file", _VARIABLE)
            return
        _write(
            path,
            {
                "message": {
                    "message": f"{type(e).__name__}: {_text_of(e)}",
                    "extraInfo": {
                        "py_callstack": "".join(traceback.format_exception(e)),
                        "timestamp": str(int(time.time())),
                    },
                }
            },
        )

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy the file of the worker that failed first into this process's own.

        Args:
            rootcause_error_file: That file.
            error_code: What the worker ended with; 0: leave it out.
        """
        with open(rootcause_error_file, encoding="utf-8") as file:
            data = json.load(file)
        if error_code:
            message = data.get("message")
            (message if isinstance(message, dict) else data)["errorCode"] = error_code
        path = os.environ.get(_VARIABLE)
        if path:
            _write(path, data)
        else:
            log.error("a worker failed: %s", json.dumps(data, indent=2))


def _text_of(error: BaseException) -> str:
    """The text of an error, whose class may fail to say it."""
    try:
        return str(error)
    except Exception as other:
        return f"<no text: {type(other).__name__}>"


def _write(path: str, data: dict[str, Any]) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data, file)
    except OSError as error:  # the error itself is raised, this one would hide it
        log.warning("cannot write the error file %s: %s", path, error)


def get_error_handler() -> ErrorHandler:
    """Return what writes error files."""
    return ErrorHandler()


def record(fn: _F, error_handler: ErrorHandler | None = None) -> _F:
    """Return a function that calls *fn* and leaves its error in the launcher's file.

    The exception is raised as well, also when the file cannot be written. `SystemExit` and
    `KeyboardInterrupt` are not written, and ``sys.exit(0)`` returns None. Of a `ChildFailedError`,
    the file of the worker that failed first is written.

    Source:
        torch.distributed.elastic.multiprocessing.errors.record.
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        handler = error_handler or get_error_handler()
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code != 0:
                raise
            return None
        except KeyboardInterrupt:
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file != _NONE:
                try:
                    handler.dump_error_file(failure.error_file, failure.exitcode)
                except (OSError, ValueError) as other:  # it would hide that workers failed
                    log.warning("cannot copy the error file %s: %s", failure.error_file, other)
            else:
                log.info("the worker %d left no error file", failure.local_rank)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return call  # type: ignore[return-value]
