"""Muon, which rounds to bfloat16 within its step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor
from shmtensor.optim import Muon

A, B, C = 3.4445, -4.7750, 2.0315
_BFLOAT16 = 2.0**-8


def _matrix(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((rows, columns)).astype("float32")


def _orthogonal(x: np.ndarray, n_steps: int = 5) -> np.ndarray:
    """The polynomial a s + b s^3 + c s^5 of the singular values s, again and again."""
    u, s, v = np.linalg.svd(x / np.linalg.norm(x), full_matrices=False)
    for _ in range(n_steps):
        s = A * s + B * s**3 + C * s**5
    return (u * s) @ v


@pytest.mark.check
@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (8, 2)])
@pytest.mark.parametrize("adjust", [None, "original", "match_rms_adamw"])
def test_first_step_is_an_orthogonal_matrix(shape: tuple[int, int], adjust: str | None) -> None:
    start, grad = _matrix(*shape), _matrix(*shape)[::-1].copy()
    param = shmtensor.from_numpy(start.copy()).requires_grad_()
    param.grad = shmtensor.from_numpy(grad)
    Muon([param], lr=0.1, weight_decay=0.5, adjust_lr_fn=adjust).step()
    factor = max(1, shape[0] / shape[1]) ** 0.5
    if adjust == "match_rms_adamw":
        factor = 0.2 * max(shape) ** 0.5
    expected = start * (1 - 0.1 * 0.5) - 0.1 * factor * _orthogonal(grad)
    # Five steps of products of matrices that are rounded to bfloat16.
    np.testing.assert_allclose(param.detach().numpy(), expected, atol=0.1 * factor * 16 * _BFLOAT16)


def test_momentum_is_an_average() -> None:
    param = shmtensor.from_numpy(_matrix(3, 3)).requires_grad_()
    optimizer = Muon([param], momentum=0.75, nesterov=False)
    for value in (1.0, 3.0):
        param.grad = shmtensor.full((3, 3), value)
        optimizer.step()
    assert optimizer.state[param]["momentum_buffer"].tolist() == [[0.9375] * 3] * 3


@pytest.mark.check
def test_refusals() -> None:
    with pytest.raises(
        ValueError, match=r"Muon only supports 2D parameters .* size: torch.Size\(\[2\]\)"
    ):
        Muon([shmtensor.ones(2)])
    param = shmtensor.ones(2, 2)
    param.grad = shmtensor.ones(2, 2)
    with pytest.raises(ValueError, match="must be less than 100"):
        Muon([param], ns_steps=100).step()
    with pytest.raises(ValueError, match="exactly 3 values"):
        Muon([param], ns_coefficients=(1, 2)).step()
    with pytest.raises(ValueError, match="Adjust learning rate function x is not supported"):
        Muon([param], adjust_lr_fn="x")


@pytest.mark.parametrize(
    "options", [{}, {"nesterov": False}, {"momentum": 0.5, "weight_decay": 0.0}], ids=str
)
def test_twenty_steps_are_near_those_of_torch(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    grads = [rng.standard_normal((6, 4)).astype("float32") for _ in range(20)]
    found = []
    for lib in (shmtensor, torch):
        param = lib.from_numpy(_matrix(6, 4)).requires_grad_()
        optimizer = lib.optim.Muon([param], lr=0.02, **options)
        for grad in grads:
            param.grad = lib.from_numpy(grad.copy())
            optimizer.step()
        found.append(param.detach().numpy())
    np.testing.assert_allclose(*found, atol=20 * 0.02 * 1.3 * 4 * _BFLOAT16)
