"""Products of float and int64 matrices of moderate size, at every instruction-set level."""

from __future__ import annotations

import pytest
from levels import LEVELS, found_at
from ops.matmul import gemm_products


@pytest.mark.check
@pytest.mark.parametrize("level", LEVELS)
def test_products(level: str) -> None:
    assert found_at(level, gemm_products) == []
