"""Results that are subnormal or 0 are right at every level.

Not covered: errors of ordinary results (test_accuracy.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

import levels
import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))

import underflow

_EXACT = {
    "exp": np.exp,
    "exp2": np.exp2,
    "softplus": lambda x: np.where(x > 20, x, np.log1p(np.exp(x))),
    "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
}


@pytest.mark.check
@pytest.mark.parametrize("level", levels.LEVELS)
def test_results_fade_to_zero(level: str) -> None:
    found = levels.found_at(level, underflow)
    for key, texts in found.items():
        name, dtype = key.split()
        x = underflow.arguments(name, dtype)
        with np.errstate(all="ignore"):
            exact = _EXACT[name](x.astype(np.longdouble))
            expected = exact.astype(dtype)
            limit = 3 * np.maximum(np.spacing(np.abs(expected)), np.finfo(dtype).smallest_subnormal)
        result = np.array([float.fromhex(t) for t in texts])
        same = np.isnan(x) | (result == expected)
        with np.errstate(invalid="ignore"):
            near = np.abs(result - expected.astype(np.float64)) <= limit
        assert (same | near).all(), (key, x[~(same | near)], result[~(same | near)])
        assert np.isnan(result[np.isnan(x)]).all(), key


@pytest.mark.parametrize("masked", [-1e9, -float("inf")])
def test_masked_scores_have_no_weight(masked: float) -> None:
    scores = st.randn(64, 100)
    scores[:, 40:] = masked
    weights = scores.softmax(-1)
    assert (weights[:, 40:] == 0).all()
    assert (scores.log_softmax(-1)[:, :40].exp() - weights[:, :40]).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", [st.float32, st.float64])
@pytest.mark.parametrize("is_causal", [False, True])
def test_sharp_attention(dtype: st.dtype, is_causal: bool) -> None:
    query, key, value = (st.randn(2, 3, 40, 16, dtype=st.float64) * 10 for _ in range(3))
    scores = query @ key.transpose(-2, -1) / 4
    if is_causal:
        scores = scores.masked_fill(st.ones(40, 40, dtype=st.bool).triu(1), -float("inf"))
    exact = scores.softmax(-1) @ value
    one, other, third = (t.to(dtype).requires_grad_() for t in (query, key, value))
    out = F.scaled_dot_product_attention(one, other, third, is_causal=is_causal)
    assert (out - exact).abs().max() < (1e-3 if dtype == st.float32 else 1e-10)
    (grad,) = st.autograd.grad(out.sum(), third)
    assert (grad.sum(-2) - 40).abs().max() < 1e-3
