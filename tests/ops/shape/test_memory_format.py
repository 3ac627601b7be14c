"""The memory formats of roll and stack are torch's."""

from __future__ import annotations

import pytest

import shmtensor as st


def _last(x: st.Tensor) -> st.Tensor:
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


@pytest.mark.check
def test_roll_keeps_channels_last_where_it_moves() -> None:
    x = _last(st.rand(2, 4, 6, 8))
    for shift, strides in ((1, (192, 1, 32, 4)), (8, (192, 48, 8, 1)), (0, (192, 48, 8, 1))):
        assert x.roll(shift, 3).stride() == strides
        assert st.equal(x.roll(shift, 3), x.contiguous().roll(shift, 3))


def test_stack_has_the_strides_of_its_inputs() -> None:
    x = st.rand(2, 4, 6, 8)
    y = _last(x)
    for dim, strides in ((0, (384, 192, 1, 32, 4)), (1, (384, 4, 1, 64, 8))):
        assert st.stack([y, y], dim).stride() == strides
        assert st.equal(st.stack([y, y], dim), st.stack([x, x], dim))
    assert st.stack([x, y]).is_contiguous()
    assert st.stack([y, y], 4).is_contiguous()
