"""Traces as files, schedules of steps, execution traces."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor import profiler
from shmtensor.autograd.profiler import KinetoStepTracker
from shmtensor.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)

CPU = [ProfilerActivity.CPU]
NONE, WARMUP, RECORD, SAVE, _ = ProfilerAction


def read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    trace: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return trace


def check_trace(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """What chrome://tracing and Perfetto ask of trace events; returns those with a duration."""
    spans = []
    for event in trace["traceEvents"]:
        assert event["ph"] in "XMisf"
        if event["ph"] == "f":
            assert event["bp"] == "e"
        assert isinstance(event["name"], str)
        assert event["ts"] >= 0
        assert "pid" in event and "tid" in event
        if event["ph"] == "X":
            assert event["dur"] >= 0
            spans.append(event)
        if event["ph"] == "i":
            assert event["s"] in "gpt"
        if event["ph"] == "M":
            assert event["args"]
    # Spans of a thread are one in another or apart.
    own = [e for e in spans if e["cat"] != "Trace"]
    for _, group in itertools.groupby(sorted(own, key=lambda e: e["tid"]), lambda e: e["tid"]):
        around: list[float] = []
        for e in sorted(group, key=lambda e: (e["ts"], -e["dur"])):
            while around and around[-1] <= e["ts"] + 1e-6:
                around.pop()
            assert not around or e["ts"] + e["dur"] <= around[-1] + 1e-3
            around.append(e["ts"] + e["dur"])
    return own


@pytest.mark.check
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_chrome_trace(tmp_path: Path, name: str) -> None:
    with profile(activities=CPU, record_shapes=True, profile_memory=True, with_stack=True) as p:
        with record_function('part "one" \n'):
            st.ones(2, 3, requires_grad=True).sum().backward()
    p.add_metadata("note", "it's")
    p.add_metadata_json("numbers", "[1, 2]")
    p.export_chrome_trace(str(tmp_path / name))
    trace = read(tmp_path / name)
    assert (trace["schemaVersion"], trace["displayTimeUnit"]) == (1, "ms")
    assert (trace["note"], trace["numbers"], trace["record_shapes"]) == ("it's", [1, 2], 1)
    assert trace["trace_id"] == p.get_trace_id()
    spans = check_trace(trace)
    assert [e["name"] for e in spans[:2]] == ['part "one" \n', "aten::ones"]
    assert [e["cat"] for e in spans[:2]] == ["user_annotation", "cpu_op"]
    total = next(e for e in spans if e["name"] == "aten::sum")
    assert total["args"]["Input Dims"][0] == [2, 3]
    assert total["args"]["Input type"][0] == "float"
    assert "test_chrome_trace" in total["args"]["Call stack"]
    assert any(e["name"] == "[memory]" and e["args"]["Bytes"] == 24 for e in trace["traceEvents"])
    node = next(e for e in spans if e["name"] == "SumBackward0")
    assert node["args"]["Sequence number"] >= 0
    start, end = [e for e in trace["traceEvents"] if e.get("cat") == "fwdbwd"]
    assert (start["ph"], start["ts"], start["id"]) == ("s", total["ts"], end["id"])
    assert (end["ph"], end["ts"]) == ("f", node["ts"])


def test_times_of_a_trace_are_since_1970(tmp_path: Path) -> None:
    import time

    before = time.time_ns()
    with profile(activities=CPU) as p:
        st.ones(1)
    after = time.time_ns()
    p.export_chrome_trace(str(tmp_path / "t.json"))
    trace = read(tmp_path / "t.json")
    begin = trace["baseTimeNanoseconds"] + check_trace(trace)[0]["ts"] * 1000
    assert before <= begin <= after


def test_schedules() -> None:
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    cycle = [NONE, WARMUP, RECORD, SAVE]
    assert [plan(i) for i in range(11)] == [NONE, *cycle, *cycle, NONE, NONE]
    endless = schedule(wait=0, warmup=1, active=1)
    assert [endless(i) for i in range(4)] == [WARMUP, SAVE, WARMUP, SAVE]
    no_wait_at_first = schedule(wait=2, warmup=1, active=1, skip_first_wait=1)
    assert [no_wait_at_first(i) for i in range(4)] == [WARMUP, SAVE, NONE, NONE]
    with pytest.raises(AssertionError, match=r"active=0 \(need > 0\)"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_steps_of_a_schedule() -> None:
    seen: list[tuple[int, list[str]]] = []

    def ready(p: Any) -> None:
        seen.append((p.step_num, [e.name for e in p.events()]))

    with profile(
        activities=CPU,
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=ready,
    ) as p:
        for _ in range(9):
            st.ones(1)
            p.step()
    recorded = ["ProfilerStep*", "aten::ones"] * 2
    assert seen == [(4, recorded), (8, recorded)]
    assert p.events()[0].trace_name == "ProfilerStep#6"


def test_a_running_profile_is_seen_and_stopped() -> None:
    autograd = st.autograd
    assert autograd._profiler_enabled() is False
    autograd._disable_profiler()
    running = autograd.profiler.profile()
    with running:
        st.ones(2) + 1
        assert autograd._profiler_enabled() is True
        autograd._disable_profiler()
        assert autograd._profiler_enabled() is False
    assert len(running.function_events) == 0
    with autograd.profiler.profile() as again:
        st.ones(2) + 1
    assert len(again.function_events) == 2


def test_without_a_schedule_all_is_one_trace() -> None:
    seen: list[int] = []
    with profile(activities=CPU, on_trace_ready=lambda p: seen.append(len(p.events()))) as p:
        for _ in range(3):
            st.ones(1)
            p.step()
    assert seen == [3]


def test_stopped_in_the_middle_of_a_cycle() -> None:
    seen: list[int] = []
    plan = schedule(wait=0, warmup=1, active=5)
    with profile(
        activities=CPU, schedule=plan, on_trace_ready=lambda p: seen.append(p.step_num)
    ) as p:
        for _ in range(3):
            st.ones(1)
            p.step()
    assert seen == [3]


def test_cycles_are_kept_when_asked() -> None:
    with profile(
        activities=CPU, schedule=schedule(wait=0, warmup=1, active=1), acc_events=True
    ) as p:
        for _ in range(6):
            st.ones(1)
            p.step()
    assert sum(e.name == "aten::ones" for e in p.events()) == 3
    assert p.key_averages()[1].count == 3


def test_schedule_that_makes_no_sense_warns() -> None:
    with pytest.warns(UserWarning, match="WARMUP followed by NONE"):
        with profile(activities=CPU, schedule=lambda i: [WARMUP, NONE][i]) as p:
            p.step()
    with pytest.warns(UserWarning, match="RECORD followed by NONE"):
        with profile(activities=CPU, schedule=lambda i: [RECORD, NONE][i]) as p:
            p.step()


@pytest.mark.check
def test_traces_for_tensorboard(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "run"
    for use_gzip, suffix in ((False, ".pt.trace.json"), (True, ".pt.trace.json.gz")):
        handler = tensorboard_trace_handler(str(folder), worker_name="w", use_gzip=use_gzip)
        with profile(activities=CPU, on_trace_ready=handler):
            st.ones(1)
        (written,) = [f for f in folder.iterdir() if f.name.endswith(suffix)]
        assert written.name.startswith("w.")
        assert check_trace(read(written))
        written.unlink()


def test_used_before_it_ran() -> None:
    p = profile(activities=CPU)
    for name in ("events", "key_averages"):
        with pytest.raises(AssertionError, match="Profiler must be initialized before"):
            getattr(p, name)()
    with pytest.raises(AssertionError, match="before exporting chrome trace"):
        p.export_chrome_trace("x")
    with pytest.raises(AssertionError, match="before stopping trace"):
        p.stop()
    assert p.get_trace_id() is None
    with profile(activities=CPU) as p:
        pass
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        p.export_stacks("x")


def test_activities_and_numbers_of_traces() -> None:
    assert profiler.supported_activities() == {ProfilerActivity.CPU}
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        p = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    with pytest.warns(UserWarning, match="CUDA is not available"):
        only_gpu = profile(activities=[ProfilerActivity.CUDA])
    with pytest.raises(AssertionError, match="No activities specified"):
        only_gpu.start()
    p.set_custom_trace_id_callback(lambda: "mine")
    with p:
        st.ones(1)
    assert p.get_trace_id() == "mine"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        profile(activities=CPU, use_cuda=False)
    assert "`use_cuda` is deprecated" in str(told[0].message)


def test_stacks_of_a_profile(tmp_path: Path) -> None:
    with profile(activities=CPU, with_stack=True) as p:
        x = st.ones(300, 300)
        for _ in range(5):
            x = x @ x
    p.export_stacks(str(tmp_path / "stacks"))
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert any("test_stacks_of_a_profile" in line for line in lines)
    assert all(int(line.rsplit(" ", 1)[1]) > 0 for line in lines)


def test_execution_trace(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    observer = ExecutionTraceObserver().register_callback(str(path))
    assert observer.is_registered and observer.get_output_file_path() == str(path)
    observer.start()
    assert observer.is_running()
    st.nn.functional.linear(st.ones(2, 4), st.ones(3, 4))
    observer.stop()
    graph = read(path)
    nodes = {node["id"]: node for node in graph["nodes"]}
    linear = next(n for n in nodes.values() if n["name"] == "aten::linear")
    assert linear["inputs"]["shapes"] == [[2, 4], [3, 4], []]
    assert nodes[linear["ctrl_deps"]]["name"].endswith("process]")
    product = next(n for n in nodes.values() if n["name"] in ("aten::mm", "aten::addmm"))
    assert nodes[product["ctrl_deps"]]["name"] in ("aten::linear", "aten::matmul")
    observer.cleanup()
    assert not observer.is_registered


def test_execution_trace_of_a_profile(tmp_path: Path) -> None:
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "graph.json.gz"))
    with profile(activities=CPU, execution_trace_observer=observer):
        st.ones(2)
    names = [node["name"] for node in read(tmp_path / "graph.json.gz")["nodes"]]
    assert names[1:] == ["aten::ones"]


def test_step_tracker() -> None:
    KinetoStepTracker.init_step_count("yoke")
    now = KinetoStepTracker.current_step()
    assert KinetoStepTracker.increment_step("yoke") == now + 1
    assert KinetoStepTracker.current_step() == now + 1
    assert KinetoStepTracker.erase_step_count("yoke")
    assert not KinetoStepTracker.erase_step_count("yoke")


def test_a_forked_copy_of_an_observer_writes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    observer = ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    pid = os.fork()
    if pid == 0:
        del observer
        os._exit(path.exists())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    observer.stop()
    assert path.exists()
