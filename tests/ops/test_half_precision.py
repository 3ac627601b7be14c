"""16-bit floats are computed as float32 and rounded once, at every instruction-set level.

Not here: erf, gelu, sigmoid, nextafter and rounding modes of div, which have values of their own
(tests/ops/spec, test_accuracy.py).
"""

from __future__ import annotations

from typing import Any

import pytest
from levels import LEVELS, found_at
from ops import half_precision


@pytest.fixture(scope="module", params=LEVELS)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What half_precision.py finds at one level."""
    result: dict[str, Any] = found_at(request.param, half_precision)
    return result


@pytest.mark.check
@pytest.mark.parametrize("part", ["elementwise", "reductions", "complex"])
def test_results_are_those_of_float32_rounded(found: dict[str, Any], part: str) -> None:
    assert found[part] == []
