"""Dtypes that an operator could calculate, but that torch refuses, with torch's exceptions.

``tests/ops/spec/test_torch.py`` compares the refusals of all operators, where torch is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
import shmtensor.nn.functional as nnf

_BOOLS = st.tensor([[True, False], [False, True]])
_INTS = st.tensor([[1, 2], [3, 4]])
_COMPLEX = st.tensor([[1j, 2], [3, 4j]])
_FLOATS = st.tensor([[1.0, 2.0], [3.0, 4.0]])

REFUSED: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "argmax of bools": (RuntimeError, lambda: st.argmax(_BOOLS)),
    "argmin of bools": (RuntimeError, lambda: st.argmin(_BOOLS, 0)),
    "topk of bools": (RuntimeError, lambda: st.topk(_BOOLS, 1)),
    "isin of bools": (RuntimeError, lambda: st.isin(_BOOLS, _BOOLS)),
    "searchsorted of bools": (NotImplementedError, lambda: st.searchsorted(_BOOLS, _BOOLS)),
    "mvlgamma of bools": (RuntimeError, lambda: st.mvlgamma(_BOOLS, 1)),
    "igamma of integers": (NotImplementedError, lambda: st.special.gammainc(_INTS, _INTS)),
    "logaddexp of integers": (NotImplementedError, lambda: st.logaddexp(_INTS, _INTS)),
    "polygamma_ of integers": (RuntimeError, lambda: _INTS.clone().polygamma_(1)),
    "vecdot of integers": (RuntimeError, lambda: st.linalg.vecdot(_INTS, _INTS)),
    "dropout of integers": (RuntimeError, lambda: nnf.dropout(_INTS, 0.5)),
    "huber_loss of integers": (NotImplementedError, lambda: nnf.huber_loss(_INTS, _INTS)),
    "mse_loss of integers": (
        NotImplementedError,
        lambda: nnf.mse_loss(_INTS, _INTS, reduction="none"),
    ),
    "smooth_l1_loss of integers": (
        NotImplementedError,
        lambda: nnf.smooth_l1_loss(_INTS, _INTS, reduction="none"),
    ),
    "soft_margin_loss of integers": (RuntimeError, lambda: nnf.soft_margin_loss(_INTS, _INTS)),
    "kl_div of complex numbers": (
        RuntimeError,
        lambda: nnf.kl_div(_COMPLEX, _COMPLEX, reduction="sum"),
    ),
    "cdist of complex numbers": (RuntimeError, lambda: st.cdist(_COMPLEX, _COMPLEX)),
    "clamp of complex numbers": (NotImplementedError, lambda: st.clamp(_COMPLEX, 0)),
    "cat into whole numbers": (TypeError, lambda: st.cat([_FLOATS], out=_INTS.clone())),
    "argmax into floats": (RuntimeError, lambda: st.argmax(_FLOATS, out=st.empty(()))),
    "clamp into doubles": (
        RuntimeError,
        lambda: st.clamp(_FLOATS, 0, out=st.empty(2, 2, dtype=st.float64)),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    error, call = REFUSED[what]
    with pytest.raises(error):
        call()


def test_ldexp_keeps_the_dtype_beside_integers() -> None:
    half = st.ldexp(st.ones(2, dtype=st.float16), st.tensor([3, 14]))
    assert half.dtype is st.float16
    assert half.tolist() == [8.0, 16384.0]


def test_a_transposed_triangle_is_not_conjugated() -> None:
    triangle = st.tensor([[1 + 1j, 2j], [0, 3j]])
    right = st.tensor([[1 + 1j], [2]])
    solution = st.triangular_solve(right, triangle, transpose=True)[0]
    assert st.allclose(triangle.mT @ solution, right)
