"""Short planes and rows, attention with few keys, flips: shapes that have special loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from roundings import assert_summed

import shmtensor as st

F = st.nn.functional
RNG = np.random.default_rng(5)


def tensor(a: np.ndarray) -> Any:
    return st.from_numpy(a.copy())


def normalised(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape",
    [
        (2, 1),
        (5, 3),
        (33, 70),
        (40, 65),
        (4, 3, 5),
        (7, 130, 4),
        (2, 3, 11, 11),
        (3, 2, 12, 12),
        (1, 40, 50),
        (1, 70, 15),
        (3, 9, 7, 7),
        (4, 9, 7, 7),
    ],
)
def test_batch_norm_of_planes_of_any_size(shape: tuple[int, ...], dtype: str) -> None:
    x = RNG.normal(3, 2, size=shape)
    axes = (0, *range(2, x.ndim))
    along = (1, -1, *(1,) * (x.ndim - 2))
    weight, bias, mean = (RNG.normal(size=shape[1]) for _ in range(3))
    var = RNG.uniform(0.5, 2, size=shape[1])
    given = [tensor(a.astype(dtype)) for a in (x, mean, var, weight, bias)]
    leaf = given[0].requires_grad_()
    out = F.batch_norm(leaf, *given[1:], training=True)
    want = normalised(x, axes) * weight.reshape(along) + bias.reshape(along)
    tol = 1e-4 if dtype == "float32" else 1e-10
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=tol, atol=tol)
    n = x.size / shape[1]
    np.testing.assert_allclose(given[1].numpy(), 0.9 * mean + 0.1 * x.mean(axes), rtol=tol)
    np.testing.assert_allclose(
        given[2].numpy(), 0.9 * var + 0.1 * x.var(axes) * n / (n - 1), rtol=tol
    )
    grad = RNG.normal(size=shape)
    out.backward(tensor(grad.astype(dtype)))
    unit, scale = normalised(x, axes), 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    g = grad * weight.reshape(along)
    centred = g - g.mean(axes, keepdims=True) - unit * (g * unit).mean(axes, keepdims=True)
    np.testing.assert_allclose(leaf.grad.numpy(), centred * scale, rtol=tol, atol=10 * tol)


@pytest.mark.check
def test_batch_norm_keeps_channels_last() -> None:
    x = st.randn(2, 5, 4, 3)
    last = x.contiguous(memory_format=st.channels_last).requires_grad_()
    out = F.batch_norm(last, None, None, training=True)
    assert out.stride() == last.stride()
    want = F.batch_norm(x, None, None, training=True)
    np.testing.assert_allclose(out.detach().numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
    (grad,) = st.autograd.grad(out.square().sum(), last)
    assert grad.stride() == last.stride()


@pytest.mark.parametrize(("shape", "groups"), [((8, 3), 0), ((2, 3, 4), 0), ((2, 3, 4), 3)])
def test_gradients_that_cancel_do_so_before_they_are_scaled(
    shape: tuple[int, ...], groups: int
) -> None:
    # A constant's gradient is 0, exactly where the inputs' mean is.
    x = st.ones(shape)
    x[::2] = -1
    if len(shape) == 3:
        x[..., ::2] *= -1
    x.requires_grad_()
    weight = st.tensor([0.3, 1.7, 2.9])
    y = F.group_norm(x, groups) if groups else F.batch_norm(x, None, None, weight, training=True)
    (grad,) = st.autograd.grad(y, x, st.full(shape, 1000.0))
    assert grad.count_nonzero() == 0


@pytest.mark.parametrize("n", [1, 2, 7, 15, 16, 17, 31, 64, 100, 255, 256, 257, 300])
def test_rows_of_any_length(n: int) -> None:
    t = tensor(RNG.normal(1, 3, size=(6, n)).astype("float32"))
    w, b = (tensor(RNG.normal(size=n).astype("float32")) for _ in range(2))
    x, weight, bias = (a.double() for a in (t, w, b))
    want = tensor(normalised(x.numpy(), (1,)))
    terms = (x.abs() + x.mean(1, True).abs()) / (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    assert_summed(F.layer_norm(t, (n,)), want, terms)
    if n > 1:
        assert_summed(F.group_norm(t, 1), want, terms)
        scaled = F.group_norm(t, 1, w, b)
        assert_summed(scaled, want * weight + bias, terms * weight.abs() + bias.abs())
    root = x / (x.square().mean(1, True) + 1e-6).sqrt()
    assert_summed(F.rms_norm(t, (n,), eps=1e-6), root, root.abs())
    powers = (x - x.amax(1, True)).exp()
    share = powers / powers.sum(1, True)
    assert_summed(st.softmax(t, 1), share, share * (1 + x.amax(1, True) - x))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [1, 3, 16, 17])
@pytest.mark.parametrize(("width", "values"), [(0, 2), (1, 3), (16, 5), (33, 17)])
def test_attention_of_few_keys(keys: int, width: int, values: int, causal: bool) -> None:
    q, k = RNG.normal(size=(2, 3, 5, width)), RNG.normal(size=(2, 3, keys, width))
    v = RNG.normal(size=(2, 3, keys, values))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(max(width, 1))
    if causal:
        scores = np.where(np.tril(np.ones((5, keys), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v
    got = F.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), is_causal=causal)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "complex128"])
@pytest.mark.parametrize("dims", [(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 4, 2), (6, 1, 1), (1, 5, 4), (2, 0, 3)])
def test_flip(shape: tuple[int, ...], dims: tuple[int, ...], dtype: str) -> None:
    a = RNG.integers(0, 100, size=shape).astype(dtype)
    for order in ((0, 1, 2), (2, 0, 1)):
        t = tensor(a).permute(order)
        out = t.flip(dims)
        np.testing.assert_array_equal(out.numpy(), np.flip(a.transpose(order), dims))
        assert a.size == 0 or out.stride() == t.stride()
    odd = tensor(np.concatenate([a.ravel()[:1], a.ravel()]) if a.size else a)[1:]
    if a.size:  # not aligned to more than an element
        np.testing.assert_array_equal(odd.view(shape).flip(dims).numpy(), np.flip(a, dims))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((2, 4, 5, 7), 2),
        ((3, 32, 9, 8), 4),
        ((2, 30, 7, 9), 3),
        ((2, 50, 33, 2), 50),
        ((2, 70, 6, 6), 5),
        ((2, 600, 3, 5), 6),
        ((1, 1040, 3, 3), 2),
        ((2, 6, 3, 4, 5), 3),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_group_norm_of_channels_last_is_that_of_planes(
    shape: tuple[int, ...], groups: int, dtype: str, threads: int
) -> None:
    last = st.channels_last if len(shape) == 4 else st.channels_last_3d
    x = (tensor(RNG.normal(size=shape)) * 3 + 20).to(getattr(st, dtype))
    w, b = (tensor(RNG.normal(size=shape[1:2])).to(x.dtype) for _ in range(2))
    exact = normalised(
        x.double().numpy().reshape(shape[0], groups, -1), (2,)
    ).reshape(shape)  # fmt: skip
    tolerance = {"float32": 2e-5, "float64": 1e-10, "bfloat16": 2e-2, "float16": 2e-3}[dtype]
    per_channel = (-1, *[1] * (len(shape) - 2))
    before = st.get_num_threads()
    st.set_num_threads(threads)
    try:
        for weight, bias in ((None, None), (w, None), (w, b)):
            want = exact
            if weight is not None:
                want = want * weight.double().numpy().reshape(per_channel)
            if bias is not None:
                want = want + bias.double().numpy().reshape(per_channel)
            got = F.group_norm(x.contiguous(memory_format=last), groups, weight, bias)
            assert got.is_contiguous(memory_format=last)
            np.testing.assert_allclose(
                got.double().numpy(), want, rtol=tolerance, atol=tolerance * 8
            )
    finally:
        st.set_num_threads(before)


# Relative, and absolute where terms cancel: halves are computed in float32 and rounded once.
TOLERANCES = {
    "float32": {"rtol": 4e-7, "atol": 2e-6},
    "float64": {"rtol": 8e-16, "atol": 4e-15},
    "bfloat16": {"rtol": 2**-7.95, "atol": 2e-6},
    "float16": {"rtol": 2**-10.95, "atol": 2e-6},
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("rows", "length"),
    [(1, 1), (200, 1), (65, 2), (3, 5), (64, 7), (63, 16), (130, 16), (70, 17), (40000, 2)],
)
def test_many_short_rows_are_normalised_together(
    rows: int, length: int, dtype: str, threads: int
) -> None:
    x = (tensor(RNG.normal(size=(rows, length))) * 3 + 2).to(getattr(st, dtype))
    w, b = (tensor(RNG.normal(size=length)).to(x.dtype) for _ in range(2))
    exact, weight, bias = (t.double().numpy() for t in (x, w, b))
    unit, rms = normalised(exact, (1,)), exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-5)
    before = st.get_num_threads()
    st.set_num_threads(threads)
    try:
        layer, mean, rstd = st.native_layer_norm(x, (length,), w, b, 1e-5)
        got = {
            "layer": (layer, unit * weight + bias),
            "mean": (mean, exact.mean(1, keepdims=True)),
            "rstd": (rstd, 1 / np.sqrt(exact.var(1, keepdims=True) + 1e-5)),
            "plain": (F.layer_norm(x, (length,)), unit),
            "weighted": (F.layer_norm(x, (length,), w), unit * weight),
            "shifted": (F.layer_norm(x, (length,), None, b), unit + bias),
            "rms": (F.rms_norm(x, (length,), w, 1e-5), rms * weight),
        }
        if length > 1:
            got["group"] = F.group_norm(x, 1, w, b), unit * weight + bias
            got["planes"] = F.group_norm(x.view(1, rows, length), rows), unit
    finally:
        st.set_num_threads(before)
    for name, (found, want) in got.items():
        np.testing.assert_allclose(
            found.double().numpy().reshape(want.shape),
            want,
            err_msg=name,
            **TOLERANCES[dtype],
        )


@pytest.mark.check
def test_short_rows_of_huge_or_missing_numbers() -> None:
    x = st.tensor([[1e30, -1e30, 1e30], [0.0, 0.0, 0.0], [1, st.inf, 2], [st.nan, 1, 2]])
    out = F.layer_norm(x, (3,))
    want = normalised(x[:1].double().numpy(), (1,))
    np.testing.assert_allclose(out[:1].numpy(), want, rtol=1e-6)
    assert (out[1] == 0).all()
    assert out[2:].isnan().all()
    zeros = F.rms_norm(st.tensor([[-0.0, 0.0]]), (2,))
    assert zeros.signbit().tolist() == [[True, False]]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("rows", "length"), [(1, 1), (513, 1), (300, 2), (7, 5), (64, 7), (52, 20), (33, 21)]
)
def test_many_short_rows_are_added_up_together(rows: int, length: int, dtype: str) -> None:
    x = (tensor(RNG.normal(size=(rows, length))) * 4).to(getattr(st, dtype))
    x[0, 0] = -st.inf
    if rows > 3:
        x[1] = -st.inf
        x[2, -1] = st.inf
        x[3, 0] = st.nan
    exact = x.double().numpy()
    with np.errstate(all="ignore"):
        want = np.logaddexp.reduce(exact, 1)
        length_of = np.sqrt((exact**2).sum(1, keepdims=True))
        unit = exact / np.maximum(length_of, 1e-12)
    np.testing.assert_allclose(x.logsumexp(1).double().numpy(), want, **TOLERANCES[dtype])
    # The length is rounded to the dtype, and so is the quotient.
    twice = {name: 2 * bound for name, bound in TOLERANCES[dtype].items()}
    np.testing.assert_allclose(F.normalize(x).double().numpy(), unit, **twice)
    np.testing.assert_allclose(F.normalize(x[4:]).double().numpy(), unit[4:], **twice)


def test_short_rows_have_length_one_whatever_their_size() -> None:
    x = st.tensor([[3e-20, 4e-20], [3e20, -4e20], [3.0, 4.0]])
    want = np.array([[0.6, 0.8], [0.6, -0.8], [0.6, 0.8]])
    np.testing.assert_allclose(F.normalize(x, eps=1e-30).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(F.normalize(x[:1]).numpy(), [[3e-8, 4e-8]], rtol=1e-6)
    far = st.tensor([[3e-100, 4e-100], [3e100, -4e100], [1e-40, 0.0]], dtype=st.float64)
    want[2] = [1, 0]
    np.testing.assert_allclose(F.normalize(far, eps=0).numpy(), want, rtol=1e-14)
    assert F.normalize(st.zeros(3, 2)).tolist() == [[0.0, 0.0]] * 3
