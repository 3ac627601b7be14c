"""Where the time goes: profiles of operators, backward nodes and ranges with names.

The C core records begins and ends while a profile runs (csrc/dispatch/profile.h, ADR 0054); here
they become events. `shmtensor.profiler` has the same with schedules.

Source: torch.autograd.profiler.
"""

from __future__ import annotations

import os
import time
import uuid
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar

from shmtensor import _C
from shmtensor._core._fork_locks import module_lock
from shmtensor.autograd._chrome_trace import write_trace
from shmtensor.autograd._profiler_records import ARGUMENTS, MEMORY, STACKS, Assembled, assemble
from shmtensor.autograd.profiler_util import (
    EventList,
    FunctionEvent,
    MemRecordsAcc,
)
from shmtensor.errors import ShmTensorWarning

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]


def kineto_available() -> bool:
    """Whether profiles of this form are there: yes."""
    return True


# --- one recording for all profiles --------------------------------------------------------------


class _Recording:
    """What the C core records, for as many profiles as run at a time."""

    _lock = module_lock()
    _flags: ClassVar[list[int]] = []  # of each profile

    @classmethod
    def begin(cls, flags: int) -> None:
        """Another profile runs, which wants arguments, memory or stacks."""
        with cls._lock:
            wanted = flags
            for other in cls._flags:
                wanted |= other
            if not cls._flags:
                _C._profiler_start(wanted)
            elif wanted & ~cls._flags[0]:
                raise RuntimeError(
                    "a profile runs already, and did not ask for the arguments, memory or stacks "
                    "that this one wants"
                )
            cls._flags.append(flags)

    @classmethod
    def end(cls, flags: int) -> list[Any]:
        """It ends; returns all records, none when `stop` came before."""
        with cls._lock:
            if flags not in cls._flags:
                return []
            cls._flags.remove(flags)
            if not cls._flags:
                _C._profiler_stop()
            rows: list[Any] = _C._profiler_records()
            if not cls._flags:
                _C._profiler_clear()
            return rows

    @classmethod
    def runs(cls) -> bool:
        """Whether any profile runs."""
        return bool(cls._flags)

    @classmethod
    def stop(cls) -> None:
        """All profiles end, and lose what they have recorded."""
        with cls._lock:
            if cls._flags:
                _C._profiler_stop()
                _C._profiler_clear()
                cls._flags.clear()

    @classmethod
    def forget(cls) -> None:
        """In the child of a fork: the profiles are the parent's."""
        cls._flags = []


os.register_at_fork(after_in_child=_Recording.forget)


def _profiler_enabled() -> bool:
    """Return whether a profile runs.

    Source:
        torch.autograd._profiler_enabled.
    """
    return _Recording.runs()


def _disable_profiler() -> None:
    """Stop all profiles that run; those have no events then.

    Source:
        torch.autograd._disable_profiler.
    """
    _Recording.stop()


@dataclass
class _ProfilerStats:
    """How long the profiler itself took, in microseconds."""

    number_of_events: int = 0
    function_events_build_tree_call_duration_us: int = 0


class profile:
    """Record what runs inside the context, on all threads of this process.

    Args:
        enabled: False: do nothing.
        use_cuda: Accepted; there is no such device.
        use_device: Accepted when it is None or ``"cpu"``.
        record_shapes: Keep the shapes of arguments.
        with_flops: Count the operations of products, convolutions, sums and elementwise products.
        profile_memory: Keep what operators allocate and free.
        with_stack: Keep where the program called each operator.
        with_modules: Accepted; without effect.
        use_kineto: Accepted; without effect.
        use_cpu: False records nothing.
        experimental_config: Accepted; without effect.
        acc_events: Accepted; events of one context are kept as long as the object.
        custom_trace_id_callback: Gives the trace its number.
        post_processing_timeout_s: Accepted; without effect.
        activity_filters: Accepted; without effect.

    Raises:
        RuntimeError: Entered twice.

    Source:
        torch.autograd.profiler.profile.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        if use_cuda:
            warnings.warn(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = "
                "'cuda'`` instead.",
                FutureWarning,
                stacklevel=2,
            )
            use_device = "cuda"
        if use_device not in (None, "cpu"):
            warnings.warn(
                f"{use_device.upper()} is not available, disabling {use_device.upper()} profiling",
                stacklevel=2,
            )
        self.enabled = enabled and use_cpu
        self.entered = False
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.use_device: str | None = None
        self.custom_trace_id_callback = custom_trace_id_callback
        self.trace_id = ""
        self.function_events: EventList | None = None
        self.lost_events = 0
        self._stats = _ProfilerStats()
        self._assembled = Assembled()
        self._begin_ns = self._end_ns = self._begin_epoch_ns = 0

    @property
    def _flags(self) -> int:
        flags = ARGUMENTS if self.record_shapes or self.with_flops else 0
        flags |= MEMORY if self.profile_memory else 0
        return flags | (STACKS if self.with_stack else 0)

    def default_trace_id(self) -> str:
        """A number of its own."""
        return uuid.uuid4().hex.upper()

    def create_trace_id(self) -> str:
        """The number that `custom_trace_id_callback` or `default_trace_id` gives."""
        own = self.custom_trace_id_callback
        return own() if own is not None else self.default_trace_id()

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def _prepare_trace(self) -> None:
        self.entered = True
        self.trace_id = self.create_trace_id()

    def _start_trace(self) -> None:
        self.entered = True
        _Recording.begin(self._flags)
        self._begin_ns, self._begin_epoch_ns = time.monotonic_ns(), time.time_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.enabled:
            return
        self._end_ns = time.monotonic_ns()
        self.lost_events = _C._profiler_lost()
        rows = _Recording.end(self._flags)
        if self.lost_events:
            warnings.warn(
                f"the profile ran out of room: {self.lost_events} events are missing, from the end",
                ShmTensorWarning,
                stacklevel=2,
            )
        before = time.monotonic_ns()
        self._assembled = assemble(
            rows, self._begin_ns, self._end_ns, shapes=self.record_shapes, flops=self.with_flops
        )
        events = EventList(
            self._assembled.events, profile_memory=self.profile_memory, with_flops=self.with_flops
        )
        events._remove_dup_nodes()
        events._tree_built = True
        self.function_events = events
        self._stats.number_of_events = len(events)
        self._stats.function_events_build_tree_call_duration_us = (
            time.monotonic_ns() - before
        ) // 1000

    def _finished(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def __repr__(self) -> str:
        if self.function_events is None:
            return "<unfinished torch.autograd.profile>"
        return repr(self.function_events)

    def __str__(self) -> str:
        if self.function_events is None:
            return "<unfinished torch.autograd.profile>"
        return str(self.function_events)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Print the events: `EventList.table`."""
        return self._finished().table(*args, **kwargs)

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Sum events of equal names: `EventList.key_averages`."""
        return self._finished().key_averages(*args, **kwargs)

    def total_average(self) -> Any:
        """The sum of all events."""
        return self._finished().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each moment counted once."""
        return self._finished().self_cpu_time_total

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write the stacks for a flame graph: `EventList.export_stacks`.

        Raises:
            AssertionError: The profile has no stacks.
        """
        assert self.with_stack, "export_stacks() requires with_stack=True"
        self._finished().export_stacks(path, metric)

    def export_chrome_trace(
        self, path: str | os.PathLike[str], *, metadata: dict[str, str] | None = None
    ) -> None:
        """Write a file for chrome://tracing and Perfetto.

        Args:
            path: Where to; one that ends in ``.gz`` is compressed.
            metadata: Further keys of the file, with values that are JSON themselves.
        """
        self._finished()
        facts: dict[str, Any] = {"trace_id": self.trace_id}
        for name in ("profile_memory", "record_shapes", "with_flops", "with_stack", "with_modules"):
            if getattr(self, name):
                facts[name] = 1
        write_trace(
            path,
            self._assembled,
            begin_epoch_ns=self._begin_epoch_ns,
            duration_us=(self._end_ns - self._begin_ns) / 1000,
            facts=facts,
            metadata=metadata or {},
        )

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Accept torch's switch of single activities: the CPU's is the only one, and stays on."""


class record_function(ContextDecorator):
    """A range with a name: what runs inside is inside it in profiles. Also decorates functions.

    Args:
        name: The name.
        args: Further text, which is put into the name in parentheses.

    Source:
        torch.autograd.profiler.record_function.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._begun = 0

    def _recreate_cm(self) -> record_function:
        return self.__class__(self.name, self.args)

    def __enter__(self) -> record_function:
        # Begins that were recorded are ended, whether or not the profile still runs.
        text = self.name if self.args is None else f"{self.name}({self.args})"
        self._begun = self._begun * 2 + bool(_C._profiler_range_begin(text))
        return self

    def __exit__(self, *exc: object) -> None:
        if self._begun & 1:
            _C._profiler_range_end()
        self._begun //= 2


class _MarkRanges:
    """A context of tools that are not there: it refuses to be entered twice, and does no more."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            name = "ITT" if isinstance(self, emit_itt) else "NVTX"
            raise RuntimeError(f"{name} annotation context manager is not reentrant")
        self.entered = True
        return self

    def __exit__(self, *exc: object) -> None:
        pass


class emit_itt(_MarkRanges):
    """Accepted for programs that mark operators for Intel's VTune: marks are not made.

    Source:
        torch.autograd.profiler.emit_itt.
    """


class emit_nvtx(_MarkRanges):
    """Marks of operators for Nvidia's tools: there is no such device, so entering it raises.

    Raises:
        AssertionError: It is entered and enabled.

    Source:
        torch.autograd.profiler.emit_nvtx.
    """

    def __enter__(self) -> Any:
        if self.enabled:
            raise AssertionError("Torch not compiled with CUDA enabled")
        return super().__enter__()


class EnforceUnique:
    """Raises when a key comes twice.

    Source:
        torch.autograd.profiler.EnforceUnique.
    """

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Note a key that must not come again."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


def load_nvprof(path: str) -> EventList:
    """Read a trace of nvprof.

    Raises:
        NotImplementedError: Always: such traces are of GPUs.
    """
    raise NotImplementedError(f"load_nvprof({path!r}): there are no traces of GPUs here")


def parse_nvprof_trace(path: str) -> list[FunctionEvent]:
    """Read a trace of nvprof.

    Raises:
        NotImplementedError: Always: such traces are of GPUs.
    """
    raise NotImplementedError(f"parse_nvprof_trace({path!r}): there are no traces of GPUs here")


class KinetoStepTracker:
    """Counts steps of those that make them: the profiler, optimizers. The furthest one counts.

    Source:
        torch.autograd.profiler.KinetoStepTracker.
    """

    _current_step = 0
    _steps: ClassVar[defaultdict[str, int]] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Begin to count for somebody."""
        cls._steps[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Count no longer; returns whether it was counted."""
        return cls._steps.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step; returns the step that all are at."""
        if requester not in cls._steps:
            cls.init_step_count(requester)
        cls._steps[requester] += 1
        furthest = max(cls._steps.values())
        if furthest - cls._current_step > 1:
            warnings.warn(
                f"Profiler step count has increased more than 1 - current_step = "
                f"{cls._current_step} step dict = {dict(cls._steps)}",
                stacklevel=2,
            )
        cls._current_step = max(cls._current_step, furthest)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The step that all are at."""
        return cls._current_step
