"""Profiles with a schedule: which steps of a loop are skipped, warmed up and recorded."""

from __future__ import annotations

import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from types import TracebackType
from typing import Any

from shmtensor.autograd import profiler as autograd_profiler
from shmtensor.autograd.profiler_util import EventList
from shmtensor.profiler._execution_trace import ExecutionTraceObserver

__all__ = [
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "RecordScope",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

PROFILER_STEP_NAME = "ProfilerStep"


class ProfilerActivity(Enum):
    """Kinds of what is recorded. The CPU's is the only one there is.

    Source:
        torch.profiler.ProfilerActivity.
    """

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class RecordScope(Enum):
    """Kinds of events, by their number in `FunctionEvent.scope`.

    Source:
        torch.profiler.RecordScope.
    """

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


class ProfilerAction(Enum):
    """What the profiler does in a step.

    Source:
        torch.profiler.ProfilerAction.
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


class _ExperimentalConfig:
    """Options of torch's profiler for GPUs; they have no effect."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.arguments = (args, kwargs)


def supported_activities() -> set[ProfilerActivity]:
    """What can be recorded: the CPU.

    Source:
        torch.profiler.supported_activities.
    """
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """A schedule of cycles: *wait* steps of nothing, *warmup* steps, *active* steps of recording.

    Args:
        wait: Steps in which nothing happens.
        warmup: Steps before recording; their events are dropped.
        active: Steps that are recorded.
        repeat: How many cycles; 0: no end.
        skip_first: Steps before the first cycle.
        skip_first_wait: Other than 0: the first cycle has no *wait*.

    Raises:
        AssertionError: A negative number, or no active step.

    Source:
        torch.profiler.schedule.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} "
            f"(need >= 0), active={active} (need > 0), repeat={repeat} (need >= 0), "
            f"skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )

    def action(step: int) -> ProfilerAction:
        assert step >= 0, f"Step number must be non-negative. Got {step}."
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait != 0:
            step += wait
        length = wait + warmup + active
        cycle, within = divmod(step, length)
        if repeat > 0 and cycle >= repeat:
            return ProfilerAction.NONE
        if within < wait:
            return ProfilerAction.NONE
        if within < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if within < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[Any], None]:
    """An ``on_trace_ready`` that writes each trace into a directory, for TensorBoard's plugin.

    Args:
        dir_name: Made when it is not there.
        worker_name: The first part of the file's name; by default the host and the process.
        use_gzip: Compress.
        use_python_export: Accepted; without effect.

    Source:
        torch.profiler.tensorboard_trace_handler.
    """

    def handler(prof: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, name + (".gz" if use_gzip else "")))

    return handler


def _listed(activities: Iterable[Any] | None) -> set[ProfilerActivity]:
    if activities is None:
        return supported_activities()
    result: set[ProfilerActivity] = set()
    for each in activities:
        found = set(each) if isinstance(each, dict) else {each}
        result |= {one for one in found if isinstance(one, ProfilerActivity)}
    return result


class _KinetoProfile:
    """A profile that is started and stopped by hand.

    Args:
        activities: Of `ProfilerActivity`; without CPU there is nothing to record, and starting it
            raises AssertionError.
        record_shapes: Keep the shapes of arguments.
        profile_memory: Keep what operators allocate and free.
        with_stack: Keep where the program called each operator.
        with_flops: Count operations.
        with_modules: Accepted; without effect.
        experimental_config: Accepted; without effect.
        execution_trace_observer: Writes its file from what is recorded.
        acc_events: Keep the events of all cycles of a schedule.
        custom_trace_id_callback: Gives each trace its number.
        post_processing_timeout_s: Accepted; without effect.

    Source:
        torch.profiler._KinetoProfile.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: ExecutionTraceObserver | None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = _listed(activities)
        assert self.activities, "No valid profiler activities found"
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.profiler: autograd_profiler.profile | None = None
        self._prepared: autograd_profiler.profile | None = None
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, str] = {}
        self._earlier = EventList()  # acc_events: of cycles that ended
        for activity in self.activities - supported_activities():
            name = activity.name
            warnings.warn(f"{name} is not available, disabling {name} profiling", stacklevel=3)

    def start(self) -> None:
        """Prepare and start."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Stop recording."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Make ready for a trace. The last one can be looked at until this one starts.

        Raises:
            AssertionError: None of the activities can be recorded here.
        """
        if not self.activities & supported_activities():
            raise AssertionError("No activities specified for the profiler")
        self._prepared = autograd_profiler.profile(
            use_cpu=ProfilerActivity.CPU in self.activities,
            record_shapes=self.record_shapes,
            with_flops=self.with_flops,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_modules=self.with_modules,
            custom_trace_id_callback=self.custom_trace_id_callback,
        )
        self._prepared._prepare_trace()
        if self.profiler is None:
            self.profiler = self._prepared

    def start_trace(self) -> None:
        """Record from now on."""
        assert self.profiler is not None, "Profiler must be initialized before starting trace"
        if self._prepared is not None:
            if self.acc_events and self.profiler.function_events:
                self._earlier.extend(self.profiler.function_events)
            self.profiler, self._prepared = self._prepared, None
        if self.profiler.enabled:
            self.profiler._start_trace()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer._follow()

    def stop_trace(self) -> None:
        """Record no more."""
        assert self.profiler is not None, "Profiler must be initialized before stopping trace"
        if self.profiler.enabled:
            self.profiler.__exit__(None, None, None)
        else:
            self.profiler.function_events = EventList()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer._written_with(self.profiler)

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for chrome://tracing and Perfetto; ``.gz`` at the end compresses it."""
        assert self.profiler is not None, (
            "Profiler must be initialized before exporting chrome trace"
        )
        self.profiler.export_chrome_trace(path, metadata={**self.preset_metadata, **self._metadata})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks for a flame graph.

        Raises:
            AssertionError: The profile has no stacks.
        """
        assert self.profiler is not None, "Profiler must be initialized before exporting stacks"
        self.profiler.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Accept torch's switch of single activities: the CPU's is the only one, and stays on."""

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sum events of equal names; see `EventList.key_averages`."""
        assert self.profiler is not None, "Profiler must be initialized before getting key averages"
        return self._all().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def events(self) -> EventList:
        """All events, in the order in which they began."""
        assert self.profiler is not None, "Profiler must be initialized before accessing events"
        return self._all()

    def _all(self) -> EventList:
        assert self.profiler is not None
        events = self.profiler._finished()
        if not self._earlier:
            return events
        return EventList(
            [*self._earlier, *events],
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the trace."""
        self._metadata[key] = json.dumps(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value to the trace that is JSON already."""
        self._metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Add it to all traces of this profile."""
        self.preset_metadata[key] = value

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Let a function give each trace its number."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The number of the trace; None before the first."""
        return None if self.profiler is None else self.profiler.trace_id


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Record each step: the schedule of a profile that is given none, under torch's name."""
    return ProfilerAction.RECORD


class profile(_KinetoProfile):
    """Record what runs inside the context, step by step where there is a schedule.

    Args:
        activities: Of `ProfilerActivity`; None: all that can be recorded.
        schedule: Gives a `ProfilerAction` for each step; call `step` after each. Without one all is
            recorded.
        on_trace_ready: Called with the profile when a cycle was recorded.
        record_shapes: Keep the shapes of arguments.
        profile_memory: Keep what operators allocate and free.
        with_stack: Keep where the program called each operator.
        with_flops: Count operations.
        with_modules: Accepted; without effect.
        experimental_config: Accepted; without effect.
        execution_trace_observer: Writes its file from what is recorded.
        acc_events: Keep the events of all cycles.
        use_cuda: Accepted; there is no such device.
        custom_trace_id_callback: Gives each trace its number.
        post_processing_timeout_s: Accepted; without effect.

    Source:
        torch.profiler.profile.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: ExecutionTraceObserver | None = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if use_cuda is not None:
            warnings.warn(
                "`use_cuda` is deprecated, use `activities` argument instead",
                FutureWarning,
                stacklevel=2,
            )
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(self.step_num)
        self.step_rec_fn: autograd_profiler.record_function | None = None
        self._recording = False

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the schedule's first step."""
        self._go(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """End; what is being recorded is given to ``on_trace_ready``."""
        assert self.profiler is not None or self.current_action is ProfilerAction.NONE, (
            "Profiler must be initialized before stopping trace"
        )
        self._end_step()
        if self._recording:
            self.stop_trace()
            self._ready()

    def step(self) -> None:
        """Go on to the schedule's next step."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._go(before, self.current_action)
        self._begin_step()

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Let a function give each trace its number."""
        super().set_custom_trace_id_callback(callback)

    def start_trace(self) -> None:
        """Record from now on."""
        super().start_trace()
        self._recording = True

    def stop_trace(self) -> None:
        """Record no more."""
        super().stop_trace()
        self._recording = False

    def _begin_step(self) -> None:
        if self.record_steps:
            name = f"{PROFILER_STEP_NAME}#{self.step_num}"
            self.step_rec_fn = autograd_profiler.record_function(name)
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _go(self, before: ProfilerAction, now: ProfilerAction) -> None:
        """From the action of one step to that of the next."""
        records = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.stop_trace()
            self._ready()
        elif before is ProfilerAction.RECORD and now not in records:
            warnings.warn(f"Incorrect schedule: RECORD followed by {now.name}", stacklevel=3)
            self.stop_trace()
        elif before is ProfilerAction.WARMUP and now is ProfilerAction.NONE:
            warnings.warn("Incorrect schedule: WARMUP followed by NONE", stacklevel=3)
        if now is ProfilerAction.NONE:
            return
        goes_on = before is ProfilerAction.RECORD and now in records
        if before is not ProfilerAction.WARMUP and not goes_on:
            self.prepare_trace()
        if now in records and not goes_on:
            self.start_trace()
