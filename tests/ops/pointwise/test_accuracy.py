"""Bounds of docs/accuracy.md, special values and conversions, at every instruction-set level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from levels import LEVELS, found_at
from ops.pointwise import elementary

import shmtensor as st


@pytest.fixture(scope="module", params=LEVELS)
def measured(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What elementary.py finds at one level."""
    found: dict[str, Any] = found_at(request.param, elementary)
    return found


@pytest.mark.check
def test_errors_stay_within_the_bounds(measured: dict[str, Any]) -> None:
    bounds = {name: row[2] for name, row in {**elementary.UNARY, **elementary.BINARY}.items()}
    errors = measured["errors"]
    assert set(errors) == set(bounds)
    assert {name: error for name, error in errors.items() if not error <= bounds[name]} == {}


def test_special_values_are_those_of_c(measured: dict[str, Any]) -> None:
    assert measured["specials"] == []


def test_lengths_and_strides_change_nothing(measured: dict[str, Any]) -> None:
    assert measured["lengths"] == []


@pytest.mark.check
def test_float16_conversions_round_to_nearest_even(measured: dict[str, Any]) -> None:
    assert measured["halves"] == 0


def test_square_roots_are_rounded_once(measured: dict[str, Any]) -> None:
    assert measured["roots"] == 0


@pytest.mark.parametrize("dtype", [st.float32, st.float64])
def test_sums_do_not_drift_with_the_length(dtype: st.dtype) -> None:
    values = np.full(1 << 22, 0.1, np.float32 if dtype is st.float32 else np.float64)
    exact = float(values[0]) * len(values)
    unit = np.spacing(values.dtype.type(exact))
    levels = 22  # of a pairwise sum: each may round once
    assert abs(float(st.from_numpy(values).sum()) - exact) <= levels * unit
    mean = float(st.from_numpy(values).mean())
    assert abs(mean - float(values[0])) <= levels * np.spacing(values[0])


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "erf", "sigmoid", "atan", "sqrt"])
@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
def test_narrow_types_are_calculated_in_float32_and_rounded_once(
    name: str, dtype: st.dtype
) -> None:
    x = st.linspace(0.01, 4, 1001).to(dtype)
    away = (getattr(st, name)(x).to(st.float64) - getattr(st, name)(x.to(st.float64))).abs()
    digits = 11 if dtype is st.float16 else 8
    assert bool((away <= getattr(st, name)(x.to(st.float64)).abs() * 2.0**-digits * 1.01).all())
