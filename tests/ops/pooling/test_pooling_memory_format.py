"""The memory formats of pooling and its gradients are torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shmtensor as st
from shmtensor.nn import functional as nnf

Call = Callable[[st.Tensor], st.Tensor]


def _last(x: st.Tensor) -> st.Tensor:
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


POOLS: dict[str, Call] = {
    "max": lambda x: getattr(nnf, f"max_pool{x.dim() - 2}d")(x, 2),
    "mean": lambda x: getattr(nnf, f"avg_pool{x.dim() - 2}d")(x, 2),
    "adaptive maxima": lambda x: getattr(nnf, f"adaptive_max_pool{x.dim() - 2}d")(x, 3),
    "adaptive means": lambda x: getattr(nnf, f"adaptive_avg_pool{x.dim() - 2}d")(x, 3),
}


@pytest.mark.check
@pytest.mark.parametrize("channels", [3, 9])
@pytest.mark.parametrize("size", [(8,), (6, 8), (4, 6, 8)], ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_pooling_and_its_gradients(name: str, size: tuple[int, ...], channels: int) -> None:
    plain = st.rand(2, channels, *size)
    leaves = [x.detach().requires_grad_() for x in (plain, _last(plain))]
    want, got = (POOLS[name](x) for x in leaves)
    is_channels_last = name == "max" or len(size) < 3
    assert st.equal(got, want)
    assert got.stride() == (_last(want).stride() if is_channels_last else want.stride())
    for grad in (st.rand(want.shape), _last(st.rand(want.shape)), st.ones(()).expand(want.shape)):
        one, other = (
            st.autograd.grad(y, x, grad, retain_graph=True)[0]
            for y, x in zip((want, got), leaves, strict=True)
        )
        assert one.is_contiguous()
        assert other.stride() == leaves[1 if is_channels_last else 0].stride()
        assert st.allclose(one, other)
