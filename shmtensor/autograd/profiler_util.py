"""Events of a profile: single ones, sums of equal ones, and lists that print and export them."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from shmtensor.autograd._profiler_table import (
    build_table,
    format_memory,
    format_share,
    format_time,
)

__all__ = [
    "DeviceType",
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"

_format_memory = format_memory
_format_time = format_time
_format_time_share = format_share


class DeviceType(IntEnum):
    """Where an event happened. All happen on the CPU here.

    Source:
        torch.autograd.DeviceType.
    """

    CPU = 0
    CUDA = 1


class Interval:
    """A span of time in microseconds.

    Source:
        torch.autograd.profiler_util.Interval.
    """

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Its length in microseconds."""
        return self.end - self.start


class Kernel:
    """What ran on another device; there is none.

    Source:
        torch.autograd.profiler_util.Kernel.
    """

    def __init__(self, name: str, device: int, duration: float) -> None:
        self.name = name
        self.device = device
        self.duration = duration


class StringTable(defaultdict[str, str]):
    """Names as they are shown, kept once each.

    Source:
        torch.autograd.profiler_util.StringTable.
    """

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


class MemRecordsAcc:
    """Memory records that can be asked for a span of time.

    Args:
        mem_records: Pairs of a record with ``start_ns()`` and whatever belongs to it.

    Source:
        torch.autograd.profiler_util.MemRecordsAcc.
    """

    def __init__(self, mem_records: Iterable[Any]) -> None:
        self._records = sorted(mem_records, key=lambda r: r[0].start_ns())

    def in_interval(self, start_us: float, end_us: float) -> Iterable[Any]:
        """The records from *start_us* to *end_us*."""
        for record in self._records:
            if start_us * 1000 <= record[0].start_ns() <= end_us * 1000:
                yield record


class FormattedTimesMixin:
    """Times as text, beside the numbers."""

    cpu_time_total: float
    device_time_total: float
    self_cpu_time_total: float
    self_device_time_total: float
    count: int

    @property
    def cpu_time(self) -> float:
        """Microseconds a call."""
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Microseconds a call on other devices."""
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    @property
    def cuda_time(self) -> float:
        """The old name of `device_time`."""
        return self.device_time

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` as text."""
        return format_time(self.cpu_time)

    @property
    def device_time_str(self) -> str:
        """`device_time` as text."""
        return format_time(self.device_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` as text."""
        return format_time(self.cpu_time_total)

    @property
    def device_time_total_str(self) -> str:
        """`device_time_total` as text."""
        return format_time(self.device_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` as text."""
        return format_time(self.self_cpu_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        """`self_device_time_total` as text."""
        return format_time(self.self_device_time_total)


class FunctionEvent(FormattedTimesMixin):
    """One call of an operator, a node of the graph, or a range with a name.

    Attributes:
        id: A number of its own in the profile.
        name: Such as ``aten::add``.
        time_range: An `Interval`, in microseconds since the profile began.
        thread: The thread, counted from 1 in order of appearance.
        input_shapes: Per argument the sizes, ``[]`` for what is not a tensor.
        stack: Lines ``file(line): function``, the innermost first.
        cpu_memory_usage: Bytes that were allocated inside, less those that were freed.
        sequence_nr: Of a node of the graph; -1 for others.
        flops: Floating-point operations where they are known.
        cpu_parent, cpu_children: The events around it and inside it.

    Source:
        torch.autograd.profiler_util.FunctionEvent.
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: list[Any] | None = None,
        kwinputs: dict[str, Any] | None = None,
        is_user_annotation: bool = False,
        **more: Any,
    ) -> None:
        self.id = id
        self.node_id = node_id
        self.name = name
        self.overload_name = overload_name or ""
        self.trace_name = trace_name or name
        self.time_range = Interval(start_us, end_us)
        self.thread = thread
        self.fwd_thread = fwd_thread
        self.kernels: list[Kernel] = []
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes = input_shapes
        self.concrete_inputs = concrete_inputs
        self.kwinputs = kwinputs
        self.stack = stack
        self.scope = scope
        self.use_device = use_device
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.is_async = is_async
        self.is_remote = is_remote
        self.sequence_nr = sequence_nr
        self.device_type = device_type
        self.device_index = device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.is_legacy = is_legacy
        self.flops = flops
        self.is_user_annotation = is_user_annotation
        self.self_cpu_percent = -1
        self.total_cpu_percent = -1
        self.total_device_percent = -1
        self.input_dtypes: list[str] | None = more.pop("input_dtypes", None)
        self.structured_input_strides: Any = more.pop("structured_input_strides", None)
        for key, value in more.items():
            setattr(self, key, value)

    @property
    def key(self) -> str:
        """What events are summed by."""
        return self.name

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Put an event inside this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Say which event this one is inside of."""
        self.cpu_parent = parent

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from begin to end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """The same, less the events inside."""
        if self.is_async:
            return 0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds on other devices: none."""
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        """The same, less the events inside."""
        return self.device_time_total

    @property
    def cuda_time_total(self) -> float:
        """The old name of `device_time_total`."""
        return self.device_time_total

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes, less those of the events inside."""
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """The same on other devices: none."""
        return self.device_memory_usage

    def __repr__(self) -> str:
        children = [child.id for child in self.cpu_children]
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type=DeviceType.{self.device_type.name} node_id={self.node_id} "
            f"cpu_time={self.cpu_time_str} start_us={self.time_range.start} "
            f"end_us={self.time_range.end} cpu_children={children} name={self.name} "
            f"thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """Sums over events of one key.

    Source:
        torch.autograd.profiler_util.FunctionEventAvg.
    """

    def __init__(self) -> None:
        self.key: str = ""
        self.overload_name: str | None = None
        self.count = 0
        self.node_id = 0
        self.is_async = False
        self.is_remote = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.cpu_memory_usage = 0
        self.device_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.self_device_memory_usage = 0
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.device_type = DeviceType.CPU
        self.is_legacy = False
        self.is_user_annotation = False
        self.flops = 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or sums of the same key; returns itself."""
        if not self.key:
            for name in (
                *("key", "overload_name", "node_id", "is_async", "is_remote", "use_device"),
                *("input_shapes", "stack", "scope", "cpu_parent", "device_type", "is_legacy"),
                "is_user_annotation",
            ):
                setattr(self, name, getattr(other, name))
        self.cpu_time_total += other.cpu_time_total
        self.device_time_total += other.device_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.self_device_time_total += other.self_device_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.device_memory_usage += other.device_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.self_device_memory_usage += other.self_device_memory_usage
        self.count += other.count
        self.flops += other.flops or 0
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_cuda_time={self.self_device_time_total_str} "
            f"cuda_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"cuda_memory_usage={self.device_memory_usage}>"
        )


class EventList(list[Any]):
    """Events, or sums of them, that print as a table.

    Args:
        *args: As of a list.
        use_device: Another device whose times are shown; there is none.
        profile_memory: Show memory.
        with_flops: Show operations.

    Source:
        torch.autograd.profiler_util.EventList.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory = kwargs.pop("profile_memory", False)
        self._with_flops = kwargs.pop("with_flops", False)
        super().__init__(*args, **kwargs)
        self._tree_built = False

    # --- building ------------------------------------------------------------------------

    def _build_tree(self) -> None:
        """Find out which event is inside which, thread by thread, from their times."""
        threads: defaultdict[int, list[FunctionEvent]] = defaultdict(list)
        for event in self:
            if not event.is_async:
                threads[event.thread].append(event)
        for events in threads.values():
            around: list[FunctionEvent] = []
            for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
                while around and event.time_range.end > around[-1].time_range.end:
                    around.pop()
                if around and event.cpu_parent is None:
                    around[-1].append_cpu_child(event)
                    event.set_cpu_parent(around[-1])
                around.append(event)
        self._remove_dup_nodes()
        self._tree_built = True

    def _remove_dup_nodes(self) -> None:
        """An event whose only content is one event of the same name stands for both."""
        while True:
            gone = set()
            for event in self:
                parent = event.cpu_parent
                if (
                    parent is not None
                    and parent.name == event.name
                    and len(parent.cpu_children) == 1
                ):
                    parent.cpu_children = event.cpu_children
                    for child in event.cpu_children:
                        child.cpu_parent = parent
                    gone.add(id(event))
            if not gone:
                return
            self[:] = [event for event in self if id(event) not in gone]

    # --- showing -------------------------------------------------------------------------

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each moment counted once."""
        return float(sum(event.self_cpu_time_total for event in self))

    def __str__(self) -> str:
        return self.table()

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Print the events as a table.

        Args:
            sort_by: An attribute such as ``"cpu_time_total"`` or ``"self_cpu_memory_usage"``, the
                largest first. None: as they stand.
            row_limit: How many rows; -1 for all.
            max_src_column_width: The width of source lines; None for no limit.
            max_name_column_width: The width of names.
            max_shapes_column_width: The width of shapes.
            header: A line above.
            top_level_events_only: Leave out events inside others.
            time_unit: ``"s"``, ``"ms"`` or ``"us"`` for all times.

        Raises:
            AttributeError: There is no such attribute.
        """
        return build_table(
            self,
            sort_by=sort_by,
            header=header,
            row_limit=row_limit,
            limits={
                "src": max_src_column_width,
                "name": max_name_column_width,
                "shapes": max_shapes_column_width,
            },
            with_flops=self._with_flops,
            with_memory=self._profile_memory,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
        )

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sum events of equal names.

        Args:
            group_by_input_shapes: Of equal shapes, too.
            group_by_stack_n: And called from the same place: this many frames are equal.
            group_by_overload_name: And of the same overload.

        Returns:
            A list of `FunctionEventAvg`.
        """
        sums: dict[tuple[Any, ...], FunctionEventAvg] = {}
        for event in self:
            key: tuple[Any, ...] = (
                event.key,
                event.node_id,
                event.device_type,
                event.is_legacy,
                event.is_user_annotation,
            )
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            if group_by_overload_name:
                key += (event.overload_name,)
            if group_by_stack_n > 0:
                key += tuple((event.stack or ())[:group_by_stack_n])
            sums.setdefault(key, FunctionEventAvg()).add(event)
        averages = EventList(
            sums.values(),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        for each in averages:
            each.stack = (each.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                each.input_shapes = ""
            if not group_by_overload_name:
                each.overload_name = ""
        return averages

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events under the name Total."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
            total.key = "Total"
        return total

    # --- writing -------------------------------------------------------------------------

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a file for chrome://tracing and Perfetto."""
        events = [
            {
                "name": event.trace_name,
                "ph": "X",
                "ts": event.time_range.start,
                "dur": event.time_range.elapsed_us(),
                "tid": event.thread,
                "pid": "CPU functions",
                "args": {},
            }
            for event in self
        ]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(events, file)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` can write."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total"]

    def export_stacks(self, path: str | os.PathLike[str], metric: str) -> None:
        """Write a line ``outer;...;inner number`` for each stack, as flame graphs want it.

        Args:
            path: Where to.
            metric: Such as ``"self_cpu_time_total"``.

        Raises:
            ValueError: Another metric.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                "metric should be one of: " + str(self.supported_export_stacks_metrics())
            )
        name = metric.replace("cuda", "device").replace("xpu", "device")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, name))
                if event.stack and value > 0:
                    frames = [str(frame).translate(_IN_FRAMES) for frame in reversed(event.stack)]
                    file.write(f"{';'.join(frames)} {value}\n")


_IN_FRAMES = str.maketrans(" ;\t\n", "____")
