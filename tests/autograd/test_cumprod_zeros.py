"""Second derivatives of cumprod where elements are 0."""

from __future__ import annotations

import pytest

import shmtensor as T


@pytest.mark.check
@pytest.mark.parametrize("values", [[2.0, 0.0, 3.0, 4.0], [0.0, 0.0, 1.0], [0.0], [1.0, 2.0]])
def test_second_derivative_of_cumprod(values: list[float]) -> None:
    x = T.tensor(values, dtype=T.float64, requires_grad=True)
    assert T.autograd.gradcheck(lambda t: T.cumprod(t, 0), (x,))
    assert T.autograd.gradgradcheck(lambda t: T.cumprod(t, 0), (x,))


def test_second_derivative_of_cumprod_along_the_first_dim() -> None:
    x = T.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]], dtype=T.float64, requires_grad=True)
    assert T.autograd.gradgradcheck(lambda t: T.cumprod(t, 0), (x,))
