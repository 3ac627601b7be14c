"""Losses, distances and activations against their formulas in NumPy, and their derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from peak import peak

import shmtensor as sh
from shmtensor.autograd import gradcheck
from shmtensor.nn import functional as F

rng = np.random.default_rng(5)


def draw(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Numbers away from 0, where many of these functions have a kink."""
    values = rng.uniform(low, high, shape)
    return np.where(np.abs(values) < 0.05, 0.3, values)


def variable(values: np.ndarray) -> sh.Tensor:
    return sh.tensor(values.tolist(), dtype=sh.float64).requires_grad_()


def close(result: sh.Tensor, expected, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "celu": lambda x: np.maximum(x, 0) + np.minimum(0, np.expm1(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "hardshrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "logsigmoid": lambda x: np.log(sigmoid(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "relu6": lambda x: np.clip(x, 0, 6),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_its_formula(name):
    values = draw(3, 4)
    x = variable(values)
    close(getattr(F, name)(x), ACTIVATIONS[name](values))
    assert gradcheck(getattr(F, name), (x,))


@pytest.mark.check
@pytest.mark.parametrize("name", ["elu", "hardtanh", "leaky_relu", "relu6", "selu", "silu", "mish"])
def test_activation_writes_in_place(name):
    values = draw(5)
    x = sh.tensor(values.tolist(), dtype=sh.float64)
    result = getattr(F, name)(x, inplace=True)
    assert result is x
    close(x, ACTIVATIONS[name](values))


def test_gated_and_learned_activations():
    x, slopes = variable(draw(2, 4, 3)), variable(np.array([0.1, 0.2, 0.3, 0.4]))
    values = x.detach().numpy()
    close(F.glu(x, 1), values[:, :2] * sigmoid(values[:, 2:]))
    close(F.prelu(x, slopes), np.where(values > 0, values, values * [[[0.1], [0.2], [0.3], [0.4]]]))
    assert gradcheck(F.prelu, (x, slopes))
    close(F.threshold(x, 0.5, 7.0), np.where(values > 0.5, values, 7.0))
    slope = F.rrelu(x, 0.1, 0.3, training=True).detach().numpy() / values
    assert np.all(np.where(values > 0, slope == 1, (slope >= 0.1) & (slope <= 0.3)))
    hot = F.gumbel_softmax(x, hard=True)
    assert sh.equal(hot.detach().sum(-1).round(), sh.ones(2, 4, dtype=sh.float64))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: F.glu(x, 1), RuntimeError, "must be even"),
        (lambda x: F.celu(x, 0.0), RuntimeError, "alpha cannot be 0"),
        (
            lambda x: F.binary_cross_entropy(x, x.double()),
            RuntimeError,
            "Found dtype Double but expected Float",
        ),
        (lambda x: F.softmax(x.long(), 1), NotImplementedError, "not implemented for 'Long'"),
        (lambda x: F.prelu(x, sh.ones(2)), RuntimeError, "channel size = 3"),
        (lambda x: F.hardtanh(x, 2.0, 1.0), ValueError, "min_val cannot be greater"),
        (lambda x: F.rrelu(x, 2.0, 1.0), RuntimeError, "Lower bound"),
        (lambda x: F.alpha_dropout(x, 1.5), ValueError, "but got 1.5"),
    ],
)
def test_activation_refuses(call, error, text):
    with pytest.raises(error, match=text):
        call(sh.ones(4, 3))


def test_softmax_of_nothing_takes_any_dtype():
    for function in (F.softmax, F.log_softmax):
        assert function(sh.zeros(2, 0, dtype=sh.int64), 1).shape == (2, 0)


REDUCED = [("none", lambda t: t), ("mean", np.mean), ("sum", np.sum)]


@pytest.mark.parametrize(("reduction", "reduce"), REDUCED)
def test_losses_of_values(reduction, reduce):
    x, y = draw(4, 3), draw(4, 3)
    counts = np.abs(np.round(y * 3))
    a, b, n = variable(x), variable(y), sh.tensor(counts.tolist(), dtype=sh.float64)
    close(F.poisson_nll_loss(a, n, reduction=reduction), reduce(np.exp(x) - counts * x))
    var = np.abs(draw(4, 1)) + 0.1
    v = variable(var)
    expected = 0.5 * (np.log(var) + (x - y) ** 2 / var) + 0.5 * math.log(2 * math.pi)
    close(F.gaussian_nll_loss(a, b, v, full=True, reduction=reduction), reduce(expected))
    assert gradcheck(lambda *t: F.gaussian_nll_loss(*t), (a, b, v))
    sign = np.where(y > 0, 1.0, -1.0)
    s = sh.tensor(sign.tolist(), dtype=sh.float64)
    expected = np.where(sign > 0, x, np.maximum(0, 1 - x))
    close(F.hinge_embedding_loss(a, s, reduction=reduction), reduce(expected))
    expected = np.maximum(0, -sign * (x - y) + 0.2)
    close(F.margin_ranking_loss(a, b, s, 0.2, reduction=reduction), reduce(expected))
    labels = (sign + 1) / 2
    terms = -(labels * np.log(sigmoid(x)) + (1 - labels) * np.log(sigmoid(-x)))
    t = sh.tensor(labels.tolist(), dtype=sh.float64)
    close(F.multilabel_soft_margin_loss(a, t, reduction=reduction), reduce(terms.mean(1)))


@pytest.mark.parametrize(("reduction", "reduce"), REDUCED)
def test_losses_of_classes(reduction, reduce):
    x = draw(3, 4)
    a, target = variable(x), sh.tensor([2, 0, 3])
    for p in (1, 2):
        expected = [
            sum(max(0, 1 - x[i, t] + x[i, c]) ** p for c in range(4) if c != t) / 4
            for i, t in enumerate([2, 0, 3])
        ]
        close(F.multi_margin_loss(a, target, p=p, reduction=reduction), reduce(np.array(expected)))
    rows = [[3, 0, -1, 1], [1, 2, 0, -1], [-1, 0, 1, 2]]
    expected = []
    for i, row in enumerate(rows):
        right = row[: row.index(-1)] if -1 in row else row
        wrong = [c for c in range(4) if c not in right]
        expected.append(sum(max(0, 1 - x[i, r] + x[i, w]) for r in right for w in wrong) / 4)
    result = F.multilabel_margin_loss(a, sh.tensor(rows), reduction=reduction)
    close(result, reduce(np.array(expected)))


def test_distances_and_their_losses():
    x, y, z = draw(3, 5), draw(3, 5), draw(3, 5)
    a, b, c = variable(x), variable(y), variable(z)

    def length(d):
        return np.sqrt((d**2).sum(-1))

    cosine = (x * y).sum(1) / length(x) / length(y)
    close(F.cosine_similarity(a, b), cosine)
    close(F.pairwise_distance(a, b), length(x - y + 1e-6))
    close(F.pdist(a), [length(x[0] - x[1]), length(x[0] - x[2]), length(x[1] - x[2])])
    margin = np.maximum(0, length(x - y + 1e-6) - length(x - z + 1e-6) + 1)
    close(F.triplet_margin_loss(a, b, c), margin.mean())
    close(F.triplet_margin_with_distance_loss(a, b, c), margin.mean())
    sign = sh.tensor([1.0, -1.0, 1.0])
    expected = np.where([True, False, True], 1 - cosine, np.maximum(0, cosine - 0.1))
    close(F.cosine_embedding_loss(a, b, sign, 0.1), expected.mean(), 1e-7)
    assert gradcheck(F.cosine_similarity, (a, b))
    assert gradcheck(F.pdist, (a,))
    with pytest.raises(ValueError, match="margin must be greater than 0, got 0"):
        F.triplet_margin_loss(a, b, c, margin=0)


def alignments(length: int, labels: list[int]):
    """All rows of classes that become *labels* without repeats and blanks (class 0)."""
    for number in range(3**length):
        path = [number // 3**k % 3 for k in range(length)]
        merged = [c for k, c in enumerate(path) if k == 0 or c != path[k - 1]]
        if [c for c in merged if c] == labels:
            yield path


def test_ctc_loss_sums_over_alignments():
    values = draw(4, 3, 3)
    x = variable(values)
    logs = values - np.log(np.exp(values).sum(2, keepdims=True))
    labels, lengths = [[1, 2], [1, 1], [2]], [4, 3, 2]
    expected = []
    for i, (row, length) in enumerate(zip(labels, lengths, strict=True)):
        paths = [logs[range(length), i, path].sum() for path in alignments(length, row)]
        expected.append(-np.log(np.exp(paths).sum()))

    def loss(t: sh.Tensor) -> sh.Tensor:
        flat = sh.tensor([1, 2, 1, 1, 2])
        return F.ctc_loss(t.log_softmax(2), flat, lengths, [2, 2, 1], reduction="none")

    close(loss(x), expected)
    assert gradcheck(loss, (x,))
    padded = sh.tensor([[1, 2], [1, 1], [2, 0]])
    args = (x.log_softmax(2), padded, sh.tensor(lengths), sh.tensor([2, 2, 1]))
    close(F.ctc_loss(*args), np.mean(np.array(expected) / [2, 2, 1]))


@pytest.mark.check
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_loss_of_meta_tensors_has_the_shapes_of_the_values(reduction: str) -> None:
    x, labels = sh.randn(5, 2, 4).requires_grad_(), sh.ones(2, 3, dtype=sh.int64)
    meta = x.detach().to("meta").requires_grad_()
    real = F.ctc_loss(x, labels, [5, 4], [3, 2], reduction=reduction)
    loss = F.ctc_loss(meta, labels.to("meta"), [5, 4], [3, 2], reduction=reduction)
    assert (loss.shape, loss.dtype, loss.device.type) == (real.shape, real.dtype, "meta")
    (slope,) = sh.autograd.grad(loss.sum(), meta)
    assert (slope.shape, slope.device.type) == (x.shape, "meta")
    with pytest.raises(RuntimeError, match="value at most 5"):
        F.ctc_loss(meta, labels.to("meta"), [6, 4], [3, 2])


def test_ctc_loss_of_impossible_targets():
    x = sh.zeros(1, 1, 3).requires_grad_()
    target = sh.tensor([[1, 2]])
    assert float(F.ctc_loss(x.log_softmax(2), target, [1], [2], reduction="sum")) == math.inf
    loss = F.ctc_loss(x.log_softmax(2), target, [1], [2], zero_infinity=True)
    loss.backward()
    assert float(loss) == 0 and not x.grad.any()
    for bad, text in (
        ((target, [2], [2]), "value at most 1, but got value 2"),
        ((target, [1], [3]), "target_lengths"),
        ((sh.tensor([[1, 7]]), [1], [2]), "target 7 is not one of 3 classes"),
        ((target, [1, 1], [2]), "batch_size"),
    ):
        with pytest.raises(RuntimeError, match=text):
            F.ctc_loss(x.log_softmax(2), *bad)


def test_reductions_by_name_and_by_code():
    x, y = sh.tensor([1.0, 2.0]), sh.tensor([0.5, 4.0])
    for code, name in enumerate(("none", "mean", "sum")):
        parts = "".join(list(name))  # a string that is not interned
        by_code = sh.binary_cross_entropy_with_logits(x, y, None, None, code)
        assert sh.equal(by_code, sh.binary_cross_entropy_with_logits(x, y, reduction=parts))
        assert sh.equal(by_code, F.binary_cross_entropy_with_logits(x, y, reduction=name))
    for bad in ("x", "means", ""):
        with pytest.raises(ValueError, match=f"{bad} is not a valid value for reduction"):
            F.mse_loss(x, y, reduction=bad)
    with pytest.raises(TypeError, match="reduction"):
        sh.binary_cross_entropy_with_logits(x, y, reduction=b"mean")
    for loss, args in ((F.mse_loss, (x, y)), (F.margin_ranking_loss, (x, x, y))):
        with pytest.warns(UserWarning, match="use reduction='sum'") as caught:
            loss(*args, size_average=False)
        assert {w.filename for w in caught} == {__file__}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "loss",
    [F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits],
    ids=lambda loss: loss.__name__,
)
def test_memory_of_losses_and_their_gradients(loss, reduction):
    n = 1 << 18
    x, target = sh.rand(n, requires_grad=True), sh.rand(n)

    def step() -> None:
        value = loss(x, target, reduction=reduction)
        value.backward(sh.ones_like(value) if reduction == "none" else None)
        x.grad = None

    assert peak(step) <= (4 if reduction == "none" else 1) * 4 * n + 65536


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_gradients_of_parabolas_end_at_their_limits(beta):
    x = sh.tensor([-sh.inf, -3, -0.25, 0, 1, sh.inf, sh.nan], requires_grad=True)
    wanted = x.detach().clamp(-beta, beta)
    (grad,) = sh.autograd.grad(F.huber_loss(x, sh.zeros(7), "sum", beta), x)
    assert sh.equal(grad[:-1], wanted[:-1])
    assert grad[-1].isnan()
    (grad,) = sh.autograd.grad(F.smooth_l1_loss(x, sh.zeros(7), reduction="sum", beta=beta), x)
    assert sh.equal(grad[:-1], wanted[:-1] / beta)
    assert grad[-1].isnan()


def test_gradient_of_cross_entropy_in_its_target_is_a_logit():
    x = sh.tensor([0.0, 0.25, 1.0])
    target = sh.tensor([0.5, 0.5, 0.5], requires_grad=True)
    (grad,) = sh.autograd.grad(F.binary_cross_entropy(x, target, reduction="sum"), target)
    assert sh.allclose(grad, sh.tensor([sh.inf, math.log(3), -sh.inf]))


def test_mean_of_a_weighted_huber_loss_is_over_the_elements():
    x = sh.tensor([1.0, 4.0])
    weight = sh.tensor([1.0, 3.0])
    assert F.huber_loss(x, sh.zeros(2), weight=weight).item() == (0.5 + 3 * 3.5) / 2
    assert F.huber_loss(x, sh.zeros(2), "sum", weight=weight).item() == 0.5 + 3 * 3.5
    assert F.mse_loss(x, sh.zeros(2), weight=weight).item() == (1 + 3 * 16) / 4
