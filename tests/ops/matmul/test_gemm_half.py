"""Matrix products of 16-bit floats, with every kernel that this processor has."""

from __future__ import annotations

import pytest
from levels import LEVELS, found_at
from ops.matmul import gemm_half


@pytest.mark.parametrize("level", LEVELS)
def test_products_of_16_bit_floats_at_each_level(level: str) -> None:
    found = found_at(level, gemm_half)
    assert {part: wrong for part, wrong in found.items() if wrong} == {}


@pytest.mark.check
def test_products_of_16_bit_floats_where_the_system_refuses_amx() -> None:
    found = found_at("v4", gemm_half, WITHOUT_AMX="1")
    assert {part: wrong for part, wrong in found.items() if wrong} == {}
