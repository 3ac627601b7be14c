"""linear_cross_entropy and its layer, against cross_entropy of a linear layer's scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as sh
from shmtensor import nn
from shmtensor.nn import functional as F

PIECES = nn.LinearCrossEntropyOptions(batch_chunk_size=2)


def problem() -> tuple[sh.Tensor, sh.Tensor, sh.Tensor]:
    """Five rows of three features, a bias and a weight for four classes."""
    sh.manual_seed(0)
    made = [sh.randn(*shape, dtype=sh.float64) for shape in ((5, 3), (4, 3), (4,))]
    return tuple(t.requires_grad_() for t in made)  # type: ignore[return-value]


CLASSES = sh.tensor([1, 0, -100, 3, 1])
SHARES = sh.tensor(np.random.default_rng(0).dirichlet(np.ones(4), 5))
WEIGHT = sh.tensor([1.0, 2.0, 0.5, 3.0], dtype=sh.float64)


@pytest.mark.parametrize("options", [None, PIECES, nn.LinearCrossEntropyOptions()])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("target", [CLASSES, SHARES], ids=["classes", "probabilities"])
@pytest.mark.parametrize("kept", [{}, {"weight": WEIGHT, "label_smoothing": 0.1}])
def test_equals_cross_entropy_of_the_scores(
    options: Any, reduction: str, target: sh.Tensor, kept: dict[str, Any]
) -> None:
    x, w, b = problem()
    got = F.linear_cross_entropy(
        x, w, target, linear_bias=b, reduction=reduction, options=options, **kept
    )
    wanted = F.cross_entropy(F.linear(x, w, b), target, reduction=reduction, **kept)
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    ones = sh.ones_like(got)
    pairs = zip(
        sh.autograd.grad(got, [x, w, b], ones),
        sh.autograd.grad(wanted, [x, w, b], ones),
        strict=True,
    )
    for mine, other in pairs:
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.check
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("target", [CLASSES[0], CLASSES[2], SHARES[0]])
def test_one_row_that_is_no_batch(reduction: str, target: sh.Tensor) -> None:
    x, w, b = problem()
    got, wanted = (
        F.linear_cross_entropy(
            x[0], w, target, linear_bias=b, reduction=reduction, options=options, weight=WEIGHT
        )
        for options in (PIECES, None)
    )
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    if got.dim() == 0 and not got.isnan():
        pairs = zip(sh.autograd.grad(got, x), sh.autograd.grad(wanted, x), strict=True)
        assert all(sh.allclose(mine, other) for mine, other in pairs)


@pytest.mark.parametrize("dtype", [sh.bfloat16, sh.float16])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("kept", [{}, {"weight": WEIGHT}])
def test_logits_of_halves_are_not_rounded(
    dtype: sh.dtype, reduction: str, kept: dict[str, Any]
) -> None:
    accurate = nn.LinearCrossEntropyOptions(batch_chunk_size=2, acc_policy="accurate")
    halves = [t.detach().to(dtype).requires_grad_() for t in problem()]
    exact = [t.detach().double().requires_grad_() for t in halves]
    got, wanted = (
        F.linear_cross_entropy(
            x,
            w,
            CLASSES,
            linear_bias=b,
            reduction=reduction,
            options=accurate,
            **{k: v.to(x.dtype) for k, v in kept.items()},
        )
        for x, w, b in (halves, exact)
    )
    # A mean is divided after it was rounded.
    bound = sh.finfo(dtype).eps * (1.5 if reduction == "mean" else 0.5)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.detach().double().numpy(), wanted.detach().numpy(), rtol=bound)
    got.sum().backward()
    wanted.sum().backward()
    for mine, other in zip(halves, exact, strict=True):
        assert mine.grad.dtype == dtype
        largest = other.grad.abs().max().item()
        np.testing.assert_allclose(
            mine.grad.double().numpy(), other.grad.numpy(), atol=bound * largest, rtol=bound
        )


def test_graph_may_be_used_twice_in_pieces() -> None:
    x, w, b = problem()
    loss = F.linear_cross_entropy(x, w, CLASSES, linear_bias=b, options=PIECES)
    first = sh.autograd.grad(loss, x, retain_graph=True)[0]
    assert sh.equal(first, sh.autograd.grad(loss, x)[0])


def test_losses_of_several_positions_each() -> None:
    x = sh.randn(5, 3)
    w, b = sh.randn(4, 2, 3), sh.randn(4, 2)
    target = sh.randint(0, 4, (5, 2))
    wanted = F.cross_entropy(sh.einsum("nf,cdf->ncd", x, w) + b, target)
    got = F.linear_cross_entropy(x, w, target, linear_bias=b)
    np.testing.assert_allclose(float(got), float(wanted), rtol=1e-5)
    with pytest.warns(UserWarning, match="not divided"):
        F.linear_cross_entropy(x, w, target, linear_bias=b, options=PIECES)


@pytest.mark.check
def test_layer_gives_its_weight_gradients() -> None:
    layer = nn.LinearCrossEntropyLoss(3, 4, bias=True, options=PIECES)
    layer(sh.randn(5, 3), CLASSES).backward()
    assert layer.linear.weight.grad is not None and layer.linear.bias.grad is not None
    assert "num_classes=4" in repr(layer)


@pytest.mark.parametrize(
    ("shapes", "kept", "text"),
    [
        (((2, 3, 3), (2, 3)), {}, "dimensionality 1 or 2, got 3"),
        (((2, 3), (2,)), {}, "dimensionality at least 2, got 1"),
        (((2, 3), (2, 4)), {}, "got 3 and 4"),
        (((3,), (2, 4, 3)), {}, "requires batched input"),
        (((2, 3), (2, 3)), {"linear_bias": sh.ones(3)}, r"shape \(2,\), got \(3,\)"),
    ],
)
def test_shapes_that_do_not_fit(shapes: Any, kept: dict[str, Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        F.linear_cross_entropy(*(sh.ones(*s) for s in shapes), sh.tensor([0, 1]), **kept)


def test_probabilities_ignore_no_class() -> None:
    with pytest.raises(RuntimeError, match="ignore_index cannot be specified"):
        F.linear_cross_entropy(sh.ones(2, 3), sh.ones(4, 3), sh.ones(2, 4), ignore_index=0)


@pytest.mark.parametrize(
    "bad", [{"batch_chunk_size": 0}, {"chunking_method": "aspect_ratio:x"}, {"acc_policy": "some"}]
)
def test_options_that_mean_nothing(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"invalid|positive"):
        nn.LinearCrossEntropyOptions(**bad)
