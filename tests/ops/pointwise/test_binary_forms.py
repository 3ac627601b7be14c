"""Binary functions: complex numbers, gradients of step functions, in-place, scalar operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st

RNG = np.random.default_rng(11)
A, B = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))


def tensor(a: np.ndarray) -> Any:
    return st.from_numpy(a.copy())


@pytest.mark.check
def test_logaddexp_of_complex_numbers() -> None:
    a, b = A + 1j * B[:4], B[:4] - 2j * A
    got = st.logaddexp(tensor(a), tensor(b)).numpy()
    np.testing.assert_allclose(np.exp(got), np.exp(a) + np.exp(b), rtol=1e-12)
    leaves = tuple(tensor(z).requires_grad_() for z in (a, b))
    assert st.autograd.gradcheck(st.logaddexp, leaves)


def test_gradients_of_steps_are_zeros() -> None:
    a, b = st.tensor([1.0], requires_grad=True), st.tensor([-2.0], requires_grad=True)
    st.copysign(a, b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.item(), b.grad.item()) == (-1, 0)


@pytest.mark.check
def test_functions_that_write_in_place() -> None:
    x = st.tensor([4, 6])
    assert st.gcd_(x, st.tensor([6, 9])) is x
    assert x.tolist() == [2, 3]
    assert st.lcm_(x, st.tensor([4, 4])).tolist() == [4, 12]
    y = st.tensor([1.0, 2.0])
    assert st.ldexp_(y, st.tensor([1, 2])).tolist() == [2, 8]
    assert st.xlogy_(st.zeros(1), st.zeros(1)).tolist() == [0]
    assert st.index_put_(y, (st.tensor([0]),), st.tensor(5.0)).tolist() == [5, 8]


def test_number_is_no_first_operand_where_torch_has_none() -> None:
    x = st.ones(2)
    function: Any
    for function in (st.eq, st.lt, st.rsub, st.clamp_min):
        with pytest.raises(TypeError, match="invalid combination"):
            function(2, x)
    assert st.remainder(5, x * 3).tolist() == [2, 2]
    assert st.pow(2, x).tolist() == [2, 2]
