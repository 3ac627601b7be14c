"""Numbers beside float16 and bfloat16 tensors are taken as float32, not rounded to 16 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as torch

HALVES = (torch.float16, torch.bfloat16)
#: None of these is a number of either dtype.
NUMBERS = (0.1, 0.001, -3.14159, 1 / 3, 100.3)

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": torch.mul,
    "*": lambda x, y: x * y,
    "div": torch.div,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "floor_divide": torch.floor_divide,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
}


def _values(dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 6, 60, dtype=torch.float64).mul(3).to(dtype)


def _is_rounded_once(result: torch.Tensor, exact: torch.Tensor) -> None:
    """*exact*: the same in float32."""
    assert torch.equal(result, exact.to(result.dtype))


@pytest.mark.check
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("number", NUMBERS)
def test_the_number_is_not_rounded(dtype: torch.dtype, name: str, number: float) -> None:
    operator, x = OPERATORS[name], _values(dtype)
    for view in (x, x.permute(2, 0, 1), x[:, ::2, 1::3], x[:1, :1, :1], x[0, 0, 0], x[:0]):
        exact = operator(view.float(), torch.tensor(number, dtype=torch.float32))
        _is_rounded_once(operator(view, number), exact)
        if view.ndim:
            for of in (torch.float32, torch.float64):
                _is_rounded_once(operator(view, torch.tensor(number, dtype=of)), exact)


@pytest.mark.parametrize("dtype", HALVES)
def test_in_place_into_out_and_from_the_left(dtype: torch.dtype) -> None:
    x = _values(dtype)
    product, quotient = x.float() * 0.1, x.float() / torch.tensor(0.1)
    _is_rounded_once(0.1 * x, product)
    _is_rounded_once(x.clone().mul_(0.1), product)
    _is_rounded_once(x.clone().div_(0.1), quotient)
    _is_rounded_once(x.clone().floor_divide_(0.1), torch.floor_divide(x.float(), torch.tensor(0.1)))
    _is_rounded_once(torch.mul(x, 0.1, out=torch.empty(0, dtype=dtype)), product)
    wide = torch.div(x, 0.1, out=torch.empty(0))
    assert wide.dtype == torch.float32 and torch.equal(wide, quotient.to(dtype).float())
    for made in (
        torch._foreach_mul([x, x[0]], 0.1),
        torch._foreach_mul([x, x[0]], torch.tensor(0.1)),
    ):
        _is_rounded_once(made[0], product)
        _is_rounded_once(made[1], product[0])


@pytest.mark.parametrize("dtype", HALVES)
def test_whole_numbers_are_exact_too(dtype: torch.dtype) -> None:
    x = _values(dtype) / 64
    for number in (257, 4099, torch.tensor(257), torch.tensor(4099, dtype=torch.int32)):
        _is_rounded_once(x * number, x.float() * number)
        _is_rounded_once(x / number, x.float() / number)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_use_the_same_number(dtype: torch.dtype) -> None:
    x = _values(dtype).requires_grad_()
    (x * 0.1).sum().backward()
    _is_rounded_once(x.grad, torch.full_like(x, 0.1, dtype=torch.float32))
    mapped = torch.func.vmap(lambda row: row * 0.1)(x.detach())
    _is_rounded_once(mapped, x.detach().float() * 0.1)


def test_results_keep_the_dtype_that_promotion_gives() -> None:
    x = torch.ones(3, dtype=torch.bfloat16)
    one = torch.tensor(1.0, dtype=torch.bfloat16)
    assert (x * torch.tensor(0.1, dtype=torch.float64)).dtype == torch.bfloat16
    assert (one * torch.tensor(0.1)).dtype == torch.float32
    assert (one * 0.1).dtype == torch.bfloat16
    assert (x * 1j).dtype == torch.complex64
    assert (x.to("meta") * 0.1).device.type == "meta"


@pytest.mark.parametrize("dtype", HALVES)
def test_renorm_measures_in_float32(dtype: torch.dtype) -> None:
    x = _values(dtype).flatten(1)
    norms = x.float().norm(dim=1, keepdim=True)
    scale = torch.where(norms > 0.7, 0.7 / (norms + 1e-7), 1.0).to(dtype)
    assert torch.equal(torch.renorm(x, 2, 0, 0.7), x * scale)
