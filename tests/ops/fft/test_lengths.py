"""Fourier transforms of all kinds of lengths, numbers of signals and layouts, at all levels."""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any

import numpy as np
import pytest
from levels import LEVELS, found_at
from ops.fft import lengths

import shmtensor as st


@pytest.mark.parametrize("level", LEVELS)
def test_lengths_and_numbers_of_signals(level: str) -> None:
    assert found_at(level, lengths) == []


def close(got: Any, expected: np.ndarray) -> None:
    assert tuple(got.shape) == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.check
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (1, 3, 2, 0)])
def test_every_choice_of_dims(order: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((3, 8, 5, 20)) + 1j * rng.standard_normal((3, 8, 5, 20))).transpose(
        order
    )
    t, real = (
        st.from_numpy(x),
        st.from_numpy(np.ascontiguousarray(x.real.transpose(np.argsort(order)))),
    )
    for n in range(1, 5):
        for dims in itertools.permutations(range(4), n):
            close(st.fft.fftn(t, dim=dims), np.fft.fftn(x, axes=dims))
            close(st.fft.rfftn(real.permute(order), dim=dims), np.fft.rfftn(x.real, axes=dims))
            close(st.fft.irfftn(t, dim=dims), np.fft.irfftn(x, axes=dims))


def test_strides_have_the_transformed_dims_innermost() -> None:
    x = st.zeros(3, 4, 5, 6, dtype=st.complex64)
    strides = {
        (-1,): (120, 30, 6, 1),
        (0,): (1, 90, 18, 3),
        (1,): (120, 1, 24, 4),
        (1, 0): (4, 1, 72, 12),
        (3, 1): (120, 6, 24, 1),
        (0, 2): (5, 90, 1, 15),
        (2, 0, 3): (30, 90, 6, 1),
    }
    assert {dim: st.fft.fftn(x, dim=dim).stride() for dim in strides} == strides
    assert st.fft.rfftn(x.real.contiguous(), dim=(1, 0)).stride() == (1, 2, 48, 8)
    assert st.fft.irfftn(x, dim=(0, 1)).stride() == (6, 1, 108, 18)
    assert st.fft.ihfftn(st.zeros(5, 3, 10), dim=(1, 2)).stride() == (18, 1, 3)
    turned = x.permute(3, 1, 0, 2)
    assert st.fft.fftn(turned, dim=(-1,)).stride() == (5, 30, 120, 1)
    assert st.fft.fftn(turned.to("meta"), dim=(1,)).stride() == (4, 1, 120, 24)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_signals_that_overlap_or_are_reversed_by_strides(dtype: type) -> None:
    x = np.arange(40).astype(dtype)
    windows = st.from_numpy(x).unfold(0, 16, 3)
    expected = np.fft.fft(np.lib.stride_tricks.sliding_window_view(x, 16)[::3])
    np.testing.assert_allclose(st.fft.fft(windows).numpy(), expected, atol=1e-4)
    same = st.from_numpy(x[:16]).expand(20, 16)
    np.testing.assert_allclose(st.fft.ifft(same).numpy()[7], np.fft.ifft(x[:16]), atol=1e-5)


@pytest.mark.parametrize("n", [16, 32, 64, 128, 256, 512])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_short_signals_with_gaps_between(n: int, dtype: type) -> None:
    rng = np.random.default_rng(n)
    whole = rng.standard_normal((3, 75, n + 5)) + 1j * rng.standard_normal((3, 75, n + 5))
    whole = whole.astype(dtype)
    x = st.from_numpy(whole)[:, 1::2, 2 : n + 2]
    tolerance = 8 * float(np.finfo(dtype).eps)
    before = st.get_num_threads()
    try:
        for threads, norm in itertools.product((1, 2), ("backward", "ortho", "forward")):
            st.set_num_threads(threads)
            for name in ("fft", "ifft"):
                exact = whole[:, 1::2, 2 : n + 2].astype(np.complex128)
                expected = getattr(np.fft, name)(exact, norm=norm)
                got = getattr(st.fft, name)(x, norm=norm).numpy()
                atol = tolerance * np.abs(expected).max()
                np.testing.assert_allclose(got, expected, rtol=0, atol=atol)
    finally:
        st.set_num_threads(before)
    assert (x.numpy() == whole[:, 1::2, 2 : n + 2]).all()


@pytest.mark.check
@pytest.mark.parametrize("n", [64, 997, 1 << 18, 100_003])
def test_threads_give_the_same_result(n: int) -> None:
    before = st.get_num_threads()
    rng = np.random.default_rng(0)
    x = st.from_numpy(rng.standard_normal((max(1, 100_000 // n), n)))
    try:
        st.set_num_threads(1)
        alone = st.fft.rfft(x)
        st.set_num_threads(4)
        assert bool((st.fft.rfft(x) == alone).all())
    finally:
        st.set_num_threads(before)


def test_more_plans_than_are_kept_in_several_threads() -> None:
    wrong: list[int] = []

    def run(first: int) -> None:
        for n in range(first, first + 90):
            x = np.ones(n)
            expected = np.zeros(n // 2 + 1)
            expected[0] = n
            if np.abs(st.fft.rfft(st.from_numpy(x)).numpy() - expected).max() > 1e-11:
                wrong.append(n)

    threads = [threading.Thread(target=run, args=(first,)) for first in (2, 30, 60, 90)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_forked_child_has_the_plans() -> None:
    x = st.ones(96)
    expected = st.fft.rfft(x)
    child = os.fork()
    if child == 0:
        same = bool((st.fft.rfft(x) == expected).all()) and st.fft.rfft(st.ones(95)).shape == (48,)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("n", [2, 15, 48, 243, 509, 997])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_infinities_stay_in_their_signals(n: int, bad: float) -> None:
    x = np.random.default_rng(0).standard_normal((40, n))
    expected = np.fft.rfft(x)
    x[3, n // 2] = x[29, 0] = bad
    others = [i for i in range(40) if i not in (3, 29)]
    for dim, t in ((1, st.from_numpy(x)), (0, st.from_numpy(np.ascontiguousarray(x.T)))):
        got = st.fft.rfft(t, dim=dim)
        got = (got if dim == 1 else got.T).numpy()
        close(st.from_numpy(got[others]), expected[others])
        assert not np.isfinite(got[[3, 29]]).any()
    expected[3, n // 2] = expected[29, 0] = bad
    back = st.fft.irfft(st.from_numpy(expected), n).numpy()
    close(st.from_numpy(back[others]), np.fft.irfft(expected[others], n))
    assert not np.isfinite(back[[3, 29]]).any()
