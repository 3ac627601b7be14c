"""From the records of the C core to events: begins find their ends, memory its event.

A record is (thread, kind, time in ns, name, number, bytes, stack, arguments);
csrc/dispatch/profile.h says what each kind means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from shmtensor.autograd.profiler_util import FunctionEvent

__all__ = ["ARGUMENTS", "MEMORY", "STACKS", "Assembled", "MemoryChange", "assemble"]

ARGUMENTS, MEMORY, STACKS = 1, 2, 4  # SHMT_PROFILE_...
_END, _OPERATOR, _NODE, _ENGINE, _RANGE, _DELTA = range(6)

# torch's scopes
_FUNCTION, _BACKWARD_FUNCTION, _USER_SCOPE = 0, 1, 7


@dataclass
class MemoryChange:
    """Bytes that were allocated, or freed when negative."""

    thread: int
    time_us: float
    nbytes: int
    in_use: int


@dataclass
class Assembled:
    """What a profile saw.

    Attributes:
        events: In the order in which they began.
        changes: Of memory, in order.
        threads: The system's number of each thread, by ours, which count from 1.
        links: Calls that were recorded, and the nodes that ran for them in backward.
    """

    events: list[FunctionEvent] = field(default_factory=list)
    changes: list[MemoryChange] = field(default_factory=list)
    threads: dict[int, int] = field(default_factory=dict)
    links: list[tuple[FunctionEvent, FunctionEvent]] = field(default_factory=list)


def _dtype_text(dtype: Any) -> str:
    names = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int"}
    plain = str(dtype).rpartition(".")[2]
    return names.get(plain, plain)


def _shape(kind: str, value: Any) -> Any:
    if kind == "tensor" and value is not None:
        return list(value[1])
    if kind == "tensors":
        return [list(one[1]) if one is not None else [] for one in value]
    return []


def _strides(kind: str, value: Any) -> Any:
    if kind == "tensor" and value is not None:
        return list(value[2])
    if kind == "tensors":
        return [list(one[2]) if one is not None else [] for one in value]
    return []


def _type(kind: str, value: Any) -> str:
    if kind == "tensor":
        return "" if value is None else _dtype_text(value[0])
    if kind == "tensors":
        return "TensorList"
    return {bool: "Scalar", int: "Scalar", float: "Scalar", tuple: "ScalarList"}.get(
        type(value), ""
    )


def _plain(kind: str, value: Any) -> Any:
    if kind != "value":
        return None
    return list(value) if isinstance(value, tuple) else value


def _convolution_flops(shapes: list[Any], values: list[Any]) -> int:
    """Of conv2d(input, weight, bias, stride, padding, dilation, groups)."""
    image, weight = shapes[0], shapes[1]
    if len(image) != 4 or len(weight) != 4 or len(values) < 6:
        return 0
    stride, padding, dilation = (
        [v[i % len(v)] for i in range(2)] if isinstance(v, list) and v else None
        for v in values[3:6]
    )
    if stride is None or padding is None or dilation is None:
        return 0
    n_outputs = image[0] * weight[0]
    for i in range(2):
        reach = dilation[i] * (weight[2 + i] - 1) + 1
        n_outputs *= (image[2 + i] + 2 * padding[i] - reach) // stride[i] + 1
    return int(2 * n_outputs * math.prod(weight[1:]))


def _product_flops(a: list[int], b: list[int]) -> int:
    return 2 * math.prod(a) * b[-1] if len(a) >= 2 and len(b) >= 2 else 0


def _flops(name: str, shapes: list[Any], values: list[Any]) -> int:
    """Floating-point operations of products, convolutions, sums and elementwise products."""
    if name in ("aten::mm", "aten::bmm"):
        return _product_flops(shapes[0], shapes[1])
    if name in ("aten::addmm", "aten::baddbmm"):
        return _product_flops(shapes[1], shapes[2])
    if name in ("aten::mul", "aten::add"):
        return math.prod(shapes[0]) if shapes[0] else 0
    return _convolution_flops(shapes, values) if name == "aten::conv2d" else 0


class _Thread:
    """Events of one thread that have begun, the innermost last.

    With each is the number of the last node that the thread had made when it began.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.open: list[FunctionEvent] = []
        self.nodes_before: list[int] = []

    def begin(self, event: FunctionEvent, last_node: int) -> None:
        self.open.append(event)
        self.nodes_before.append(last_node)

    def end(self, us: float, last_node: int) -> None:
        """What began last ends; it was recorded when a node has been made meanwhile."""
        event, before = self.open.pop(), self.nodes_before.pop()
        event.time_range.end = us
        if event.scope == _FUNCTION and event.sequence_nr < 0 and last_node > before:
            event.sequence_nr = last_node


def _begin(thread: _Thread, row: Any, start_us: float, identity: int, flops: bool) -> FunctionEvent:
    _, kind, _, name, number, _, stack, arguments = row
    shown = name
    if name.startswith("ProfilerStep#"):
        shown = "ProfilerStep*"  # so that steps are summed
    event = FunctionEvent(
        identity,
        shown,
        thread.number,
        start_us,
        start_us,
        fwd_thread=thread.number if kind in (_NODE, _ENGINE) else 0,
        input_shapes=[],
        stack=stack.split("\n") if stack else [],
        scope={_RANGE: _USER_SCOPE, _NODE: _BACKWARD_FUNCTION}.get(kind, _FUNCTION),
        sequence_nr=number if kind in (_NODE, _ENGINE) and number < 2**63 else -1,
        flops=0,
        trace_name=name,
        concrete_inputs=[],
        is_user_annotation=kind == _RANGE,
    )
    if arguments:
        event.input_shapes = [_shape(*a) for a in arguments]
        event.concrete_inputs = [_plain(*a) for a in arguments]
        event.input_dtypes = [_type(*a) for a in arguments]
        event.structured_input_strides = [_strides(*a) for a in arguments]
        if flops:
            event.flops = _flops(name, event.input_shapes, event.concrete_inputs)
    if thread.open:
        event.set_cpu_parent(thread.open[-1])
        thread.open[-1].append_cpu_child(event)
    return event


def _link_backward(profile: Assembled) -> None:
    """Find the call that made each node that ran. Threads number their nodes alike."""
    makers: dict[int, FunctionEvent] = {}
    for event in profile.events:
        number = event.sequence_nr
        if number < 0:
            continue
        if event.fwd_thread == 0:
            makers[number] = event  # an inner call comes after the one around it
        elif number in makers:
            event.fwd_thread = makers[number].thread
            if event.scope == _BACKWARD_FUNCTION:
                profile.links.append((makers[number], event))


def assemble(
    rows: list[Any], begin_ns: int, end_ns: int, *, shapes: bool, flops: bool
) -> Assembled:
    """Make events of records.

    Args:
        rows: From the C core, thread by thread.
        begin_ns: When the profile began; what began before is left out.
        end_ns: When it ended; what is still open ends then.
        shapes: Whether shapes were asked for, and not only operations.
        flops: Count operations.
    """
    result = Assembled()
    threads: dict[int, _Thread] = {}
    # In order of time, so that threads and events are numbered as they appear.
    rows = sorted(rows, key=lambda row: row[2]) if len({r[0] for r in rows}) > 1 else rows
    for row in rows:
        system_thread, kind, ns, _, number, delta, _, _ = row
        if not begin_ns <= ns <= end_ns:
            continue
        if system_thread not in threads:
            threads[system_thread] = _Thread(len(threads) + 1)
            result.threads[len(threads)] = system_thread
        thread = threads[system_thread]
        us = (ns - begin_ns) / 1000
        if kind == _END:
            if thread.open:
                thread.end(us, number)
        elif kind == _DELTA:
            in_use = number - 2**64 if number >= 2**63 else number
            result.changes.append(MemoryChange(thread.number, us, delta, in_use))
            for event in thread.open:
                event.cpu_memory_usage += delta
        else:
            event = _begin(thread, row, us, len(result.events) + 1, flops)
            # Only an operator's number is that of the last node.
            thread.begin(event, number if kind == _OPERATOR else 2**64)
            result.events.append(event)
    for thread in threads.values():
        for event in thread.open:
            event.time_range.end = (end_ns - begin_ns) / 1000
    _link_backward(result)
    if not shapes:
        for event in result.events:
            event.input_shapes, event.concrete_inputs = [], []
            event.input_dtypes = event.structured_input_strides = None
    return result
