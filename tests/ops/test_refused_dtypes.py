"""Dtypes that our loops could compute but torch refuses: they raise torch's exceptions.

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
_IMAGE = st.ones(1, 1, 3, 3)

REFUSED: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "clamp of bools": (NotImplementedError, lambda: st.clamp(_BOOLS, False, True)),
    "cross of bools": (
        NotImplementedError,
        lambda: st.linalg.cross(_BOOLS[[0, 0, 0]].T, _BOOLS[[0, 0, 0]].T),
    ),
    "cross of two dtypes": (RuntimeError, lambda: st.cross(st.ones(3), st.ones(3).double())),
    "mm of uint16": (NotImplementedError, lambda: st.mm(_INTS.to(st.uint16), _INTS.to(st.uint16))),
    "addr of complex32": (
        NotImplementedError,
        lambda: st.addr(*(t.to(st.complex32) for t in (_COMPLEX, _COMPLEX[0], _COMPLEX[1]))),
    ),
    "geometric_ of uint16": (
        NotImplementedError,
        lambda: st.ones(2, dtype=st.uint16).geometric_(0.5),
    ),
    "masked.var of bools": (RuntimeError, lambda: st.masked.var(_BOOLS, 1)),
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
    "im2col of integers": (NotImplementedError, lambda: nnf.unfold(_IMAGE.long(), 2)),
    "col2im of integers": (
        NotImplementedError,
        lambda: nnf.fold(_INTS.reshape(1, 4, 1), (2, 2), 2),
    ),
    "nearest pixels of integers": (NotImplementedError, lambda: nnf.interpolate(_IMAGE.long(), 2)),
    "smoothed integers": (
        NotImplementedError,
        lambda: nnf.interpolate(_IMAGE.long(), 2, mode="bilinear"),
    ),
    "smoothed lines of bytes": (
        NotImplementedError,
        lambda: nnf.interpolate(_IMAGE[0].byte(), 2, mode="linear"),
    ),
    "smoothed complex numbers": (
        NotImplementedError,
        lambda: nnf.interpolate(_IMAGE.cfloat(), 2, mode="bicubic"),
    ),
    "unpooled integers": (
        NotImplementedError,
        lambda: nnf.max_unpool2d(_IMAGE.long(), st.arange(9).view(1, 1, 3, 3), 1),
    ),
    "reflected bools": (NotImplementedError, lambda: nnf.pad(_BOOLS, (1, 1), mode="reflect")),
    "replicated bools": (NotImplementedError, lambda: nnf.pad(_BOOLS, (1, 1), mode="replicate")),
    "cdist of few halves": (NotImplementedError, lambda: st.cdist(_FLOATS.half(), _FLOATS.half())),
    "pdist of halves": (NotImplementedError, lambda: nnf.pdist(_FLOATS.bfloat16())),
    "multi_margin_loss of halves": (
        NotImplementedError,
        lambda: nnf.multi_margin_loss(_FLOATS.half(), st.tensor([0, 1])),
    ),
    "multilabel_margin_loss of halves": (
        NotImplementedError,
        lambda: nnf.multilabel_margin_loss(_FLOATS.half(), st.tensor([[0, 1], [1, 0]])),
    ),
    "round of integers to decimals": (NotImplementedError, lambda: st.round(_INTS, decimals=0)),
    "index_reduce of bools": (
        NotImplementedError,
        lambda: _BOOLS[0].index_reduce(0, st.tensor([0]), _BOOLS[1, :1], "prod"),
    ),
    "vander of bools": (RuntimeError, lambda: st.linalg.vander(_BOOLS[0])),
    "vander of halves": (RuntimeError, lambda: st.linalg.vander(_FLOATS[0].half())),
    "hardtanh of bytes below 0": (RuntimeError, lambda: nnf.hardtanh(_INTS.byte())),
    "bessel_j0 of halves": (NotImplementedError, lambda: st.special.bessel_j0(_FLOATS.half())),
    "zeta of halves": (NotImplementedError, lambda: st.special.zeta(_FLOATS.half(), 2.0)),
    "erfcx of halves": (NotImplementedError, lambda: st.special.erfcx(_FLOATS.bfloat16())),
    "ndtri of halves": (NotImplementedError, lambda: st.special.ndtri(_FLOATS.bfloat16())),
    "polynomials of halves": (
        NotImplementedError,
        lambda: st.special.chebyshev_polynomial_t(_FLOATS.half(), 2),
    ),
    "clamp into doubles": (
        RuntimeError,
        lambda: st.clamp(_FLOATS, 0, out=st.empty(2, 2, dtype=st.float64)),
    ),
}


_ROWS, _WIDE = st.ones(3, 2), st.ones(4, 2, dtype=st.float64)
_SPARSE = st.ones(3, 4).to_sparse_csr()

#: Operators that mixed dtypes reach: the text says which dtypes they were, not which shapes.
MIXED: dict[str, Callable[[], Any]] = {
    "_cdist_forward": lambda: st.ops.aten._cdist_forward(_ROWS, _WIDE, 2.0),
    "_cdist_backward": lambda: st.ops.aten._cdist_backward(
        st.ones(3, 4), _ROWS, _WIDE, 2.0, st.ones(3, 4)
    ),
    "_embedding_bag_dots": lambda: st.ops.aten._embedding_bag_dots(
        _ROWS, st.tensor([0]), _WIDE, st.tensor([0])
    ),
    "sampled_addmm": lambda: st.ops.aten._sparse_sampled_mm(_ROWS, _WIDE, _SPARSE),
}


@pytest.mark.parametrize("what", MIXED)
def test_mixed_dtypes_are_named(what: str) -> None:
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        MIXED[what]()


@pytest.mark.parametrize("window", [st.hann_window, st.kaiser_window, st.bartlett_window])
def test_complex_windows_have_no_kernel(window: Callable[..., st.Tensor]) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        window(4, dtype=st.complex64)


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    error, call = REFUSED[what]
    with pytest.raises(error):
        call()


@pytest.mark.check
def test_ldexp_keeps_the_dtype_beside_integers() -> None:
    half = st.ldexp(st.ones(2, dtype=st.float16), st.tensor([3, 14]))
    assert half.dtype is st.float16
    assert half.tolist() == [8.0, 16384.0]


@pytest.mark.check
def test_a_transposed_triangle_is_not_conjugated() -> None:
    triangle = st.tensor([[1 + 1j, 2j], [0, 3j]])
    right = st.tensor([[1 + 1j], [2]])
    solution = st.triangular_solve(right, triangle, transpose=True)[0]
    assert st.allclose(triangle.mT @ solution, right)


def test_taken() -> None:
    """What looks like the refused, but torch has it."""
    assert (st.zeros(2, 0, dtype=st.bool) @ st.zeros(0, 3, dtype=st.bool)).tolist() == [
        [False] * 3
    ] * 2
    assert nnf.interpolate(_IMAGE.byte(), 2, mode="bilinear").dtype is st.uint8
    assert nnf.interpolate(_IMAGE.byte(), 2).dtype is st.uint8
    assert nnf.hardtanh(_INTS.byte(), 0, 2).tolist() == [[1, 2], [2, 2]]
    for dtype in (st.uint16, st.uint32, st.uint64):
        counted = st.tensor([[1, 0, 3], [0, 0, 65535]], dtype=dtype)
        assert counted.count_nonzero().item() == 3
        assert counted.count_nonzero(0).tolist() == counted.T.count_nonzero(1).tolist() == [1, 0, 2]
    many = st.zeros(30, 2).half()
    assert st.cdist(many, many).dtype is st.float16
