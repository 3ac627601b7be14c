"""The graph of what was executed, as a file: operators, their arguments and what called them."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
from typing import Any

from shmtensor.autograd import profiler as autograd_profiler

__all__ = ["ExecutionTraceObserver"]

_SCHEMA = "1.1.1-chakra.0.0.4"
_ROOT, _FIRST = 1, 2


class ExecutionTraceObserver:
    """Writes which operators ran, with shapes and nesting, between `start` and `stop`.

    It takes a profile of its own, or, as ``execution_trace_observer=`` of a `profile`, the
    operators that this records; then shapes are there when the profile records them. Values of
    tensors are not kept, and neither are the names of results.

    Source:
        torch.profiler.ExecutionTraceObserver.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._path = ""
        self._own: autograd_profiler.profile | None = None
        self._registered = False
        self._running = False

    def __del__(self) -> None:
        if os.getpid() == self._owner:  # a forked copy has nothing of its own to write
            self.unregister_callback()

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Say where the file goes; returns itself.

        Args:
            output_file_path: One that ends in ``.gz`` is compressed.
        """
        if not self._registered:
            self._path = output_file_path or tempfile.mkstemp(".json", "execution_trace_")[1]
            self._registered = True
        return self

    def get_output_file_path(self) -> str | None:
        """Where the file goes; None before `register_callback`."""
        return self._path or None

    @property
    def is_registered(self) -> bool:
        """Whether `register_callback` was called."""
        return self._registered

    def is_running(self) -> bool:
        """Whether it observes."""
        return self._running

    def unregister_callback(self) -> None:
        """Stop, and forget the file."""
        self.stop()
        self._registered = False

    def cleanup(self) -> None:
        """The same as `unregister_callback`."""
        self.unregister_callback()

    def start(self) -> None:
        """Observe from now on, with a separate profile."""
        if not self._registered or self._running:
            return
        self._running = True
        self._own = autograd_profiler.profile(record_shapes=True)
        self._own.__enter__()

    def stop(self) -> None:
        """Write the file."""
        if not self._running or self._own is None:
            return
        own, self._own, self._running = self._own, None, False
        own.__exit__(None, None, None)
        self._write(own)

    # --- as part of a profile ---------------------------------------------------------------

    def _follow(self) -> None:
        self._running = self._registered

    def _written_with(self, profile: autograd_profiler.profile) -> None:
        if self._running:
            self._running = False
            self._write(profile)

    def _write(self, profile: autograd_profiler.profile) -> None:
        events = profile._finished()
        numbers = {id(event): _FIRST + i for i, event in enumerate(events)}
        nodes: list[dict[str, Any]] = [
            {
                "id": _ROOT,
                "name": "[pytorch|profiler|execution_trace|process]",
                "ctrl_deps": _ROOT,
                "inputs": {"values": [], "shapes": [], "types": [], "strides": []},
                "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
                "attrs": [],
            }
        ]
        for event in events:
            parent = event.cpu_parent
            nodes.append(
                {
                    "id": numbers[id(event)],
                    "name": event.trace_name,
                    "ctrl_deps": _ROOT if parent is None else numbers[id(parent)],
                    "inputs": {
                        "values": event.concrete_inputs or [],
                        "shapes": event.input_shapes or [],
                        "types": event.input_dtypes or [],
                        "strides": event.structured_input_strides or [],
                    },
                    "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
                    "attrs": [
                        {"name": "tid", "type": "uint64", "value": event.thread},
                        {"name": "seq_id", "type": "int64", "value": event.sequence_nr},
                        {"name": "scope", "type": "uint64", "value": event.scope},
                    ],
                }
            )
        text = json.dumps(
            {
                "schema": _SCHEMA,
                "pid": os.getpid(),
                "time": time.strftime("%Y-%m-%d %H:%M:%S"),
                "start_ts": profile._begin_ns // 1000,
                "nodes": nodes,
                "finish_ts": profile._end_ns // 1000,
            }
        )
        if self._path.endswith(".gz"):
            with gzip.open(self._path, "wt", encoding="utf-8") as file:
                file.write(text)
        else:
            with open(self._path, "w", encoding="utf-8") as file:
                file.write(text)
