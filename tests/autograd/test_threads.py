"""Several threads record and run backward at once: on graphs of their own, with shared leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import shmtensor as st


def run_all(work: Callable[[int], None], n: int = 4) -> None:
    errors: list[BaseException] = []

    def guarded(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


@pytest.mark.check
def test_threads_shared_leaf_gets_every_gradient() -> None:
    x = st.ones(1000, requires_grad=True)

    def work(i: int) -> None:
        for _ in range(100):
            (x * 2).sum().backward()

    run_all(work)
    assert x.grad.tolist() == [800.0] * 1000


def test_threads_first_use_of_a_leaf_at_once() -> None:
    for _ in range(50):
        x = st.ones(4, requires_grad=True)
        barrier = threading.Barrier(4)

        def work(i: int, x: st.Tensor = x, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            y = x * 3
            y.sum().backward()

        run_all(work)
        assert x.grad.tolist() == [12.0] * 4


@pytest.mark.check
@pytest.mark.parametrize("n", [10, 100_000])
def test_threads_use_a_view_whose_base_has_joined_the_graph(n: int) -> None:
    for before in range(40):
        w = st.ones(n, requires_grad=True)
        base = w * 0 if before % 2 else st.zeros(n)
        view = base.view(-1)
        base.add_(w)
        made: list[st.Tensor] = []
        barrier = threading.Barrier(4)

        def work(
            i: int,
            view: st.Tensor = view,
            made: list[st.Tensor] = made,
            barrier: threading.Barrier = barrier,
        ) -> None:
            barrier.wait()
            made.append(view * 3)

        run_all(work)
        sum(made).sum().backward()
        assert w.grad[0] == 12
        assert w.grad[-1] == 12


def test_threads_graph_made_on_one_runs_and_ends_on_another() -> None:
    x = st.ones(3, requires_grad=True)
    made: list[st.Tensor] = []

    def make(i: int) -> None:
        made.append((x * float(i + 1)).sum())

    run_all(make)
    total = made[0] + made[1] + made[2] + made[3]

    def run(i: int) -> None:
        if i == 0:
            total.backward()

    run_all(run)
    assert x.grad.tolist() == [10.0] * 3


def test_threads_recording_create_graph_into_one_leaf() -> None:
    x = st.ones(2, requires_grad=True)

    def work(i: int) -> None:
        for _ in range(20):
            (x * x).sum().backward(create_graph=True)

    run_all(work, 2)
    assert x.grad.tolist() == [80.0] * 2
    x.grad = None
