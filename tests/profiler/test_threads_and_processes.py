"""Profiles with several threads, with forks, and with more events than there is room for."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

import shmtensor as st
from shmtensor import _C
from shmtensor.profiler import ProfilerActivity, profile, record_function

CPU = [ProfilerActivity.CPU]


def in_threads(n: int, work: Any) -> None:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.check
def test_other_threads_are_recorded() -> None:
    def work(i: int) -> None:
        with record_function(f"work {i}"):
            for _ in range(50):
                st.ones(2).add(1)

    with profile(activities=CPU) as p:
        st.zeros(1)
        in_threads(3, work)
    roots = [e for e in p.events() if e.is_user_annotation]
    assert sorted(e.name for e in roots) == ["work 0", "work 1", "work 2"]
    assert len({e.thread for e in roots}) == 3
    assert all(len(e.cpu_children) == 100 for e in roots)
    assert all(c.thread == e.thread for e in roots for c in e.cpu_children)
    assert p.events()[0].name == "aten::zeros"


def test_threads_that_ended_before_are_recorded_and_those_before_the_profile_go_on() -> None:
    go, done = threading.Event(), threading.Event()

    def work(i: int) -> None:
        st.ones(1)
        go.wait()
        st.zeros(1)
        done.set()

    with profile(activities=CPU):
        thread = threading.Thread(target=work, args=(0,))
        thread.start()
        st.ones(1)
    with profile(activities=CPU) as p:
        go.set()
        assert done.wait(10)
        thread.join()
    assert [e.name for e in p.events()] == ["aten::zeros"]


def test_backward_in_another_thread() -> None:
    x = st.ones(2, requires_grad=True)
    y = (x * 2).sum()
    with profile(activities=CPU) as p:
        in_threads(1, lambda i: y.backward())
    assert "MulBackward0" in [e.name for e in p.events()]


def test_starting_and_stopping_while_others_record() -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def work(i: int) -> None:
        try:
            while not stop.is_set():
                with record_function("outer"):
                    a = st.ones(64)
                    (a + a).sum()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for i in range(40):
        with profile(activities=CPU, profile_memory=i % 2 == 0, record_shapes=i % 3 == 0) as p:
            st.ones(1)
        for event in p.events():
            assert 0 <= event.time_range.start <= event.time_range.end
            for child in event.cpu_children:
                assert child.thread == event.thread
                assert child.time_range.end <= event.time_range.end
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_profile_restarted_inside_an_operator() -> None:
    class Restarts:
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            outer.stop()
            inner.start()
            return func(*args, **(kwargs or {}))

    outer, inner = profile(activities=CPU, profile_memory=True), profile(activities=CPU)
    outer.start()
    _C._push_dispatch_mode(Restarts())
    try:
        st.ones(3)
    finally:
        _C._pop_dispatch_mode()
    st.zeros(3)
    inner.stop()
    assert [e.name for e in outer.events()] == ["aten::ones"]
    # The call that began under the first profile ends under the second, which does not know it.
    assert [e.name for e in inner.events()] == ["aten::ones", "aten::zeros"]
    assert inner.events()[1].cpu_parent is None
    assert st.zeros(3).is_shared() is False


@pytest.mark.check
def test_range_that_outlives_its_profile() -> None:
    long = record_function("long")
    with profile(activities=CPU) as p:
        long.__enter__()
        st.ones(1)
    long.__exit__(None, None, None)
    assert [c.name for c in p.events()[0].cpu_children] == ["aten::ones"]
    short = record_function("begun before")
    short.__enter__()
    with profile(activities=CPU) as p:
        short.__exit__(None, None, None)
        st.ones(1)
    assert [e.name for e in p.events()] == ["aten::ones"]


def test_operator_that_fails_ends() -> None:
    with profile(activities=CPU) as p:
        with pytest.raises(RuntimeError):
            st.mm(st.ones(2, 3), st.ones(2, 3))
        st.zeros(1)
    assert p.events()[-1].cpu_parent is None


def test_backward_that_fails_ends() -> None:
    class Fails(st.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ValueError("no")

    y = Fails.apply(st.ones(1, requires_grad=True))
    with profile(activities=CPU) as p:
        with pytest.raises(ValueError, match="no"):
            y.backward()
        st.zeros(1)
    assert p.events()[-1].cpu_parent is None


def test_child_of_a_fork_records_nothing_and_can_profile() -> None:
    with profile(activities=CPU, profile_memory=True) as p:
        kept = st.ones(4)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                assert not _C._profiler_runs()
                st.ones(4).add_(kept)
                del kept
                with profile(activities=CPU) as own:
                    st.zeros(1)
                assert [e.name for e in own.events()] == ["aten::zeros"]
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        st.zeros(2)
    assert os.waitstatus_to_exitcode(status) == 0
    assert [e.name for e in p.events()] == ["aten::ones", "aten::zeros"]


def test_many_events() -> None:
    with profile(activities=CPU) as p, record_function("all"):
        x = st.ones(1)
        for _ in range(20_000):
            x = x.add(1)
    root = p.events()[0]
    assert len(root.cpu_children) == 20_001
    assert x.item() == 20_001
    assert p.profiler.lost_events == 0


def test_forked_workers_of_a_loader_are_left_out() -> None:
    class Numbers(st.utils.data.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Any:
            return st.full((2,), float(i)).cos()

    loader = st.utils.data.DataLoader(Numbers(), num_workers=1, multiprocessing_context="fork")
    with profile(activities=CPU) as p:
        n = sum(1 for _ in loader)
    assert n == 4
    assert "aten::cos" not in [e.name for e in p.events()]
