"""Products of 16-bit floats, in every way that this processor has of making them."""

from __future__ import annotations

import pytest
from levels import LEVELS, found_at
from ops.matmul import half_products


@pytest.mark.parametrize("level", LEVELS)
def test_products_of_16_bit_floats_at_each_level(level: str) -> None:
    found = found_at(level, half_products)
    assert {part: wrong for part, wrong in found.items() if wrong} == {}


def test_products_of_16_bit_floats_where_the_kernel_refuses_tiles() -> None:
    found = found_at("v4", half_products, WITHOUT_TILES="1")
    assert {part: wrong for part, wrong in found.items() if wrong} == {}
