"""How gradients lie in memory, as ``autograd.grad`` gives them: as torch's.

What is added up in ``.grad`` lies as the leaf does, which test_engine.py sees to.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shmtensor as st
from shmtensor.nn import functional as nnf

#: Their gradients lie as the input does, whatever the layout of the gradient that comes in.
AS_INPUT: dict[str, Callable[[st.Tensor], st.Tensor]] = {
    "relu": st.relu,
    "leaky_relu": nnf.leaky_relu,
    "threshold": lambda x: nnf.threshold(x, 0.1, 0.2),
    "maximum": lambda x: st.maximum(x, x.detach().flip(0)),
    "minimum": lambda x: st.minimum(x.detach().flip(0), x),
}

#: Their gradients lie as the gradient that comes in.
AS_GRADIENT: dict[str, Callable[[st.Tensor], st.Tensor]] = {
    "elu": nnf.elu,
    "hardtanh": nnf.hardtanh,
    "gelu": nnf.gelu,
    "exp": st.exp,
}


def _of(f: Callable[[st.Tensor], st.Tensor], x: st.Tensor, grad: st.Tensor) -> st.Tensor:
    leaf = x.detach().requires_grad_()
    return st.autograd.grad(f(leaf), leaf, grad)[0]


@pytest.mark.check
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 2, 1, 0), (0, 1, 3, 2)], ids=str)
@pytest.mark.parametrize("name", [*AS_INPUT, *AS_GRADIENT])
def test_gradients_of_element_wise_functions(name: str, order: tuple[int, ...]) -> None:
    f = (AS_INPUT | AS_GRADIENT)[name]
    back = [order.index(d) for d in range(4)]
    plain, grad = st.randn(2, 3, 4, 5), st.randn(2, 3, 4, 5)
    x, turned = (t.permute(order).contiguous().permute(back) for t in (plain, grad))
    want = _of(f, plain, grad)
    assert want.is_contiguous()
    for given, gradient in ((x, grad), (plain, turned), (x, turned)):
        got = _of(f, given, gradient)
        assert st.equal(got, want)
        assert got.stride() == (given if name in AS_INPUT else gradient).stride()


def test_slopes_of_halves_and_numbers_at_the_limits() -> None:
    for dtype in (st.float32, st.float64, st.float16, st.bfloat16):
        x = st.tensor([-1.0, -0.0, 0.0, 2.0, float("nan")], dtype=dtype)
        grad = st.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=dtype)
        assert _of(st.relu, x, grad).tolist() == [0, 0, 0, 4, 5]
        assert _of(lambda t: nnf.leaky_relu(t, 0.5), x, grad).tolist() == [0.5, 1, 1.5, 4, 2.5]
        assert _of(lambda t: nnf.threshold(t, 1, 0), x, grad).tolist() == [0, 0, 0, 4, 5]
