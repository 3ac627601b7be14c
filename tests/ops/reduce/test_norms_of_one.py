"""Norms of single elements are their sizes, whatever their powers would be."""

from __future__ import annotations

import math

import pytest

import shmtensor as st

ORDERS = [0.5, 1, 2, 3, -1, -2, math.inf, -math.inf]


@pytest.mark.check
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("value", [1e30, -1e30, 1e-30, -1e-42])
def test_norm_of_one_element_is_its_size(order: float, value: float) -> None:
    x = st.tensor(value)
    for shape, dim in (((), None), ((1,), None), ((1,), 0), ((1, 1), (0, 1)), ((1, 1), None)):
        norm = st.linalg.vector_norm(x.reshape(shape), order, dim)
        assert norm.item() == abs(x.item()), (shape, dim)
    columns = st.linalg.vector_norm(x.expand(1, 3), order, 0)
    assert columns.tolist() == [abs(x.item())] * 3


def test_number_of_elements_that_are_not_zero_is_counted() -> None:
    assert st.linalg.vector_norm(st.tensor([-1e30]), 0).item() == 1
    assert st.linalg.vector_norm(st.tensor([0.0]), 0).item() == 0


@pytest.mark.parametrize("order", ORDERS)
def test_norm_of_one_nan_is_nan(order: float) -> None:
    assert math.isnan(st.linalg.vector_norm(st.tensor([math.nan]), order).item())


def test_one_element_is_normalized_at_any_size() -> None:
    for value in (1e30, -1e30, 1e-10):
        unit = st.nn.functional.normalize(st.tensor([[value]]), dim=1)
        assert unit.item() == math.copysign(1.0, value)
