"""Forks while other threads draw: a child can use every generator, and finds it whole."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import shmtensor as st

LIMIT_S = 60


def _draw_in_child(generator: st.Generator) -> np.ndarray:
    """What a child draws first; the child is ended when it hangs."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        os.write(writer, st.rand(4, generator=generator, dtype=st.float64).numpy().tobytes())
        os._exit(0)
    os.close(writer)
    assert os.waitpid(pid, 0)[1] == 0
    with open(reader, "rb") as source:
        return np.frombuffer(source.read(), dtype=np.float64)


@pytest.mark.check
def test_a_child_draws_from_a_generator_that_another_thread_was_using() -> None:
    generator = st.Generator().manual_seed(3)
    big = st.empty(200_000, dtype=st.float64)
    stop = threading.Event()
    begun = threading.Event()

    def draw() -> None:
        while not stop.is_set():
            big.uniform_(generator=generator)
            begun.set()

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        assert begun.wait(LIMIT_S)
        drawn = [_draw_in_child(generator) for _ in range(5)]
    finally:
        stop.set()
        thread.join()
    # Each child goes on behind a whole tensor: its numbers are next in the one stream.
    stream = st.empty(200_000, dtype=st.float64)
    expected = st.Generator().manual_seed(3)
    waiting = [tuple(numbers.tolist()) for numbers in drawn]
    for _ in range(2000):
        after = st.Generator()
        after.set_state(expected.get_state())
        head = tuple(st.rand(4, generator=after, dtype=st.float64).tolist())
        waiting = [numbers for numbers in waiting if numbers != head]
        if not waiting:
            return
        stream.uniform_(generator=expected)
    raise AssertionError(f"{len(waiting)} children drew from the middle of a tensor")


def test_a_child_inherits_many_generators_and_makes_its_own() -> None:
    many = [st.Generator().manual_seed(i) for i in range(300)]
    del many[::2]
    drawn = _draw_in_child(many[-1])
    assert np.array_equal(drawn, st.rand(4, generator=many[-1], dtype=st.float64).numpy())
    many.append(st.Generator().manual_seed(7))
    again = _draw_in_child(many[-1])
    assert np.array_equal(again, st.rand(4, generator=many[-1], dtype=st.float64).numpy())
