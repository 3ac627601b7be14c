"""Profiles as files for chrome://tracing and Perfetto: the JSON of trace events."""

from __future__ import annotations

import gzip
import json
import os
import socket
import sys
from typing import Any

from shmtensor.autograd._profiler_records import Assembled

__all__ = ["write_trace"]


def _arguments(event: Any) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": event.id, "Ev Idx": event.id - 1}
    if event.sequence_nr >= 0:
        args["Sequence number"] = event.sequence_nr
        args["Fwd thread id"] = event.fwd_thread
    if event.input_dtypes:
        args["Input Dims"] = event.input_shapes
        args["Input type"] = event.input_dtypes
        args["Input Strides"] = event.structured_input_strides
        args["Concrete Inputs"] = [
            "" if value is None else str(value) for value in event.concrete_inputs
        ]
    if event.stack:
        args["Call stack"] = ";".join(reversed(event.stack))
    return args


def _metadata(name: str, pid: int, tid: int, ts: float, key: str, value: Any) -> dict[str, Any]:
    return {"ph": "M", "name": name, "ts": ts, "pid": pid, "tid": tid, "args": {key: value}}


def _trace_events(profile: Assembled, start_us: float, duration_us: float) -> list[dict[str, Any]]:
    pid = os.getpid()
    name = os.path.basename(sys.executable) or "python"
    events = [
        _metadata("process_name", pid, 0, start_us, "name", name),
        _metadata("process_labels", pid, 0, start_us, "labels", "CPU"),
        _metadata("process_sort_index", pid, 0, start_us, "sort_index", pid),
    ]
    for tid in profile.threads.values():
        told = f"thread {tid} ({name})"
        events.append(_metadata("thread_name", pid, tid, start_us, "name", told))
        events.append(_metadata("thread_sort_index", pid, tid, start_us, "sort_index", tid))
    for event in profile.events:
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
                "name": event.trace_name,
                "pid": pid,
                "tid": profile.threads[event.thread],
                "ts": start_us + event.time_range.start,
                "dur": event.time_range.elapsed_us(),
                "args": _arguments(event),
            }
        )
    for number, (call, node) in enumerate(profile.links):
        for ph, event in (("s", call), ("f", node)):
            arrow = {
                "ph": ph,
                "cat": "fwdbwd",
                "name": "fwdbwd",
                "id": number,
                "pid": pid,
                "tid": profile.threads[event.thread],
                "ts": start_us + event.time_range.start,
            }
            events.append({**arrow, "bp": "e"} if ph == "f" else arrow)
    for change in profile.changes:
        events.append(
            {
                "ph": "i",
                "cat": "cpu_instant_event",
                "s": "t",
                "name": "[memory]",
                "pid": pid,
                "tid": profile.threads[change.thread],
                "ts": start_us + change.time_us,
                "args": {
                    "Total Allocated": change.in_use,
                    "Bytes": change.nbytes,
                    "Device Id": -1,
                    "Device Type": 0,
                },
            }
        )
    events.append(
        {
            "ph": "X",
            "cat": "Trace",
            "name": "PyTorch Profiler (0)",
            "pid": "Spans",
            "tid": "PyTorch Profiler",
            "ts": start_us,
            "dur": duration_us,
            "args": {"Op count": 0},
        }
    )
    return events


def write_trace(
    path: str | os.PathLike[str],
    profile: Assembled,
    *,
    begin_epoch_ns: int,
    duration_us: float,
    facts: dict[str, Any],
    metadata: dict[str, str],
) -> None:
    """Write a profile; a path that ends in .gz is compressed.

    Args:
        path: Where to.
        profile: Its events and changes of memory.
        begin_epoch_ns: When it began, since 1970.
        duration_us: How long it took.
        facts: What the head says of it, such as ``{"record_shapes": 1}``.
        metadata: Further keys of the head, with values that are JSON themselves.
    """
    base_ns = begin_epoch_ns - begin_epoch_ns % 10**9
    head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [], **facts}
    head |= {key: json.loads(value) for key, value in metadata.items()}
    head |= {
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base_ns,
        "traceEvents": _trace_events(profile, (begin_epoch_ns - base_ns) / 1000, duration_us),
        "traceName": os.fspath(path),
    }
    text = json.dumps(head)
    if os.fspath(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
