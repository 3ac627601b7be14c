"""Padding: strides of what is only cut, and refused sizes."""

from __future__ import annotations

import pytest

import shmtensor as st
import shmtensor.nn.functional as nnf

_Z = st.zeros


@pytest.mark.check
def test_negative_pad_keeps_the_order_of_strides() -> None:
    transposed = st.arange(12.0).reshape(3, 4).t()
    for pad, stride in (((0, 0), (1, 4)), ((-1, 0), (1, 4)), ((0, 0, -1, -1), (1, 2))):
        cut = nnf.pad(transposed, pad)
        assert cut.stride() == stride
        assert cut.data_ptr() != transposed.data_ptr()
        assert st.equal(cut, nnf.pad(transposed.contiguous(), pad))
    x = st.ones(3, 4, dtype=st.float64, requires_grad=True)
    nnf.pad(x, (-1, -1)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 1, 1, 0]] * 3


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_pad_of_no_channels_is_refused(mode: str) -> None:
    assert nnf.pad(_Z(0, 2, 4), (1, 1), mode=mode).shape == (0, 2, 6)
    for shape in ((2, 0, 4), (0, 4), (0, 3, 3, 4)):
        with pytest.raises(RuntimeError, match="0 batch size and other non-zero dimensions"):
            nnf.pad(_Z(*shape), (1, 1) * (1 + (len(shape) == 4) * 2), mode=mode)
