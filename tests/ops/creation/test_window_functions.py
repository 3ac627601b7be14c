"""Window functions against their formulas, their edges and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st

windows = st.signal.windows

#: name: formula of x from 0 to 1
FORMULAS: dict[str, Any] = {
    "bartlett": lambda x: 1 - np.abs(2 * x - 1),
    "blackman": lambda x: 0.42 - 0.5 * np.cos(2 * np.pi * x) + 0.08 * np.cos(4 * np.pi * x),
    "hamming": lambda x: 0.54 - 0.46 * np.cos(2 * np.pi * x),
    "hann": lambda x: 0.5 - 0.5 * np.cos(2 * np.pi * x),
    "kaiser": lambda x: np.i0(12 * np.sqrt(np.maximum(0, 1 - (2 * x - 1) ** 2))) / np.i0(12.0),
}


def points(n: int, symmetric: bool) -> np.ndarray:
    return np.arange(n) / (n - 1 if symmetric else n)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_window_follows_its_formula(name: str, symmetric: bool) -> None:
    want = FORMULAS[name](points(9, symmetric))
    operator = getattr(st, f"{name}_window")(9, not symmetric, dtype=st.float64)
    np.testing.assert_allclose(operator.numpy(), want, rtol=1e-12, atol=1e-14)
    function = getattr(windows, name)(9, sym=symmetric, dtype=st.float64)
    np.testing.assert_allclose(function.numpy(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.check
def test_operators_take_their_own_numbers_and_out() -> None:
    x = points(6, True)
    got = st.hamming_window(6, False, 0.7, 0.2, dtype=st.float64)
    np.testing.assert_allclose(got.numpy(), 0.7 - 0.2 * np.cos(2 * np.pi * x), rtol=1e-12)
    assert st.kaiser_window(6, False, 0.0).tolist() == [1.0] * 6
    out = st.empty(0, dtype=st.float64)
    assert st.hann_window(4, out=out) is out
    assert out.tolist() == pytest.approx([0, 0.5, 1, 0.5])
    assert st.hann_window(3, device="meta").shape == (3,)


def test_functions_of_signal_windows() -> None:
    n = np.arange(5)
    np.testing.assert_allclose(
        windows.exponential(5, tau=2.0).numpy(), np.exp(-np.abs(n - 2) / 2), rtol=1e-6
    )
    np.testing.assert_allclose(
        windows.exponential(5, center=1.0, sym=False).numpy(), np.exp(-np.abs(n - 1)), rtol=1e-6
    )
    np.testing.assert_allclose(
        windows.gaussian(5, std=1.5).numpy(), np.exp(-(((n - 2) / 1.5) ** 2) / 2), rtol=1e-6
    )
    np.testing.assert_allclose(windows.cosine(5).numpy(), np.sin(np.pi * (n + 0.5) / 5), rtol=1e-6)
    assert windows.nuttall(7).max().item() == pytest.approx(1, abs=1e-6)
    assert windows.general_cosine(4, a=[2.0]).tolist() == [2.0] * 4
    assert windows.hann(5, requires_grad=False).requires_grad is False


@pytest.mark.parametrize("name", windows.__all__)
def test_short_windows(name: str) -> None:
    kwargs = {"a": [1.0]} if name == "general_cosine" else {}
    function = getattr(windows, name)
    assert function(0, **kwargs).tolist() == []
    assert function(1, **kwargs).tolist() == [1.0]
    with pytest.raises(ValueError, match="non-negative window length"):
        function(-1, **kwargs)
    with pytest.raises(ValueError, match="float32 or float64"):
        function(3, dtype=st.float16, **kwargs)
    with pytest.raises(ValueError, match="strided"):
        function(3, layout=st.sparse_coo, **kwargs)


@pytest.mark.check
def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="Tau must be positive"):
        windows.exponential(3, tau=0)
    with pytest.raises(ValueError, match="Center must be None"):
        windows.exponential(3, center=1.0)
    with pytest.raises(ValueError, match="cannot be empty"):
        windows.general_cosine(3, a=[])
    with pytest.raises(TypeError, match="list/tuple"):
        windows.general_cosine(3, a=3)
    with pytest.raises(RuntimeError, match="non-negative window_length"):
        st.hann_window(-1)
    with pytest.raises(RuntimeError, match="floating point"):
        st.hann_window(3, dtype=st.int64)
    with pytest.raises(NotImplementedError, match="sparse types"):
        st.hann_window(3, layout=st.sparse_csr)
    assert math.isclose(st.kaiser_window(1).item(), 1.0)


def test_kaiser_windows_of_a_large_beta_do_not_overflow() -> None:
    window = st.signal.windows.kaiser(9, beta=100.0)
    exact = st.signal.windows.kaiser(9, beta=100.0, dtype=st.float64)
    assert window[4].item() == 1
    assert st.allclose(window.double(), exact, rtol=1e-4, atol=1e-40)
    assert 0 < exact[0].item() < 1e-41
