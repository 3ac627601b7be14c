"""Matrix products: values against NumPy, layouts, dtypes, out=, empty sizes, errors, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st


def _random(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_mm_reads_any_layout(dtype: str, a_transposed: bool, b_transposed: bool) -> None:
    a, b = _random(7, 5, dtype=dtype), _random(5, 9, dtype=dtype)
    ta = st.from_numpy(a.T.copy()).t() if a_transposed else st.from_numpy(a)
    tb = st.from_numpy(b.T.copy()).t() if b_transposed else st.from_numpy(b)
    np.testing.assert_allclose(st.mm(ta, tb).numpy(), a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.check
def test_mm_of_strided_views_equals_that_of_copies() -> None:
    a = st.from_numpy(_random(12, 20))[::2, ::3]
    b = st.from_numpy(_random(14, 10))[::2, ::2]
    np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy())


#: Matrices that no library reads where they lie: they are copied, and summed over, in parts.
_ODD = {
    "one row": lambda a: a[:1].expand(*a.shape),
    "one column": lambda a: a[:, :1].expand(*a.shape),
    "spread": lambda a: st.stack([a, a], -1)[..., 0],
    "spread columns": lambda a: st.stack([a.t(), a.t()], -1)[..., 0].t(),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32", "float16"])
@pytest.mark.parametrize("left", _ODD)
@pytest.mark.parametrize("right", ["plain", *_ODD])
def test_products_of_matrices_that_are_copied_in_pieces(
    threads: int, dtype: str, left: str, right: str
) -> None:
    scale = 3 if dtype == "int32" else 1
    a, b = (st.from_numpy((scale * _random(*n)).astype(dtype)) for n in ((90, 700), (700, 150)))
    a, b = _ODD[left](a), _ODD[right](b) if right in _ODD else b
    c = st.from_numpy((scale * _random(90, 150)).astype(dtype))
    wide = "complex128" if dtype == "complex64" else "float64"
    x, y, z = (t.numpy().astype(wide) for t in (a, b, c))
    eps = 0 if dtype == "int32" else np.finfo(dtype).eps
    bound = eps * (2 if dtype == "float16" else 700) * (np.abs(x) @ np.abs(y)).max()
    for found, wanted in (
        (a @ b, x @ y),
        (st.addmm(c, a, b, beta=2, alpha=-3), 2 * z - 3 * (x @ y)),
    ):
        np.testing.assert_allclose(found.numpy().astype(wide), wanted, rtol=2 * eps, atol=bound)
    out = st.empty(150, 90, dtype=a.dtype).t()
    st.mm(a, b, out=out)
    np.testing.assert_allclose(out.numpy().astype(wide), x @ y, rtol=2 * eps, atol=bound)


#: Second factors that do not stand in dense rows of whole cache lines, and one that may.
_LYING = {
    "plain": lambda b: b,
    "transposed": lambda b: b.t().contiguous().t(),
    "sliced": lambda b: st.cat([b[:, :1], b], 1)[:, 1:],
    "one on": lambda b: st.cat([b.reshape(-1)[:1], b.reshape(-1)])[1:].reshape(b.shape),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "sizes", [(70, 33, 1000), (300, 64, 530), (129, 200, 65), (2000, 300, 3), (64, 40, 64)]
)
@pytest.mark.parametrize("lying", _LYING)
def test_products_of_many_rows_are_made_in_blocks(
    threads: int, dtype: str, sizes: tuple[int, int, int], lying: str
) -> None:
    m, k, n = sizes
    a, b = st.from_numpy(_random(m, k, dtype=dtype)), st.from_numpy(_random(k, n, dtype=dtype))
    c = st.from_numpy(_random(m, n, dtype=dtype))
    lain = _LYING[lying](b)
    assert lain.equal(b)
    x, y, z = (t.double().numpy() for t in (a, b, c))
    bound = 4 * k * np.finfo(dtype).eps * (np.abs(x) @ np.abs(y)).max()
    out = st.full((m, n + 1), np.nan, dtype=a.dtype)
    st.mm(a, lain, out=out[:, :n])
    transposed = st.full((n, m), np.nan, dtype=a.dtype)
    st.mm(a, lain, out=transposed.t())
    for found, wanted in (
        (a @ lain, x @ y),
        (out[:, :n], x @ y),
        (transposed.t(), x @ y),
        (st.addmm(c, a, lain, beta=0.5, alpha=-2), z / 2 - 2 * (x @ y)),
        (st.bmm(a.expand(3, m, k), lain.expand(3, k, n))[2], x @ y),
    ):
        np.testing.assert_allclose(found.double().numpy(), wanted, rtol=0, atol=bound)
    assert bool(out[:, n].isnan().all())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_mm_of_integers_wraps(dtype: str) -> None:
    a = np.arange(150, dtype=dtype).reshape(10, 15)
    b = np.arange(150, dtype=dtype).reshape(15, 10)
    assert np.array_equal(st.mm(st.from_numpy(a), st.from_numpy(b)).numpy(), a @ b)
    info = np.iinfo(dtype)
    a = np.random.default_rng(2).integers(info.min, info.max, (5, 70), dtype, endpoint=True)
    got = st.addmv(
        st.from_numpy(a[:, 0].copy()), st.from_numpy(a), st.from_numpy(a[1]), beta=-3, alpha=5
    )
    with np.errstate(over="ignore"):
        want = a @ a[1] * np.array(5, dtype) - a[:, 0] * np.array(3, dtype)
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
def test_mm_of_16_bit_floats_sums_in_float(dtype: st.dtype) -> None:
    a = st.ones(3, 4000, dtype=dtype)
    assert (a @ a.t()).tolist() == [[4000.0] * 3] * 3


_HALVES = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def _half(dtype: str, layout: str, *shape: int) -> st.Tensor:
    rows, columns = shape
    if layout == "transposed":
        return st.from_numpy(_random(columns, rows)).to(getattr(st, dtype)).t()
    if layout == "strided":
        return st.from_numpy(_random(rows, 2 * columns)).to(getattr(st, dtype))[:, ::2]
    return st.from_numpy(_random(*shape)).to(getattr(st, dtype))


@pytest.mark.parametrize("dtype", sorted(_HALVES))
@pytest.mark.parametrize("a_layout", ["dense", "transposed", "strided"])
@pytest.mark.parametrize("b_layout", ["dense", "transposed", "strided"])
@pytest.mark.parametrize(
    "shape",
    [(1, 5, 40), (4, 1, 16), (9, 33, 33), (40, 65, 1), (300, 67, 70), (133, 260, 40)],
    ids=str,
)
def test_products_of_16_bit_floats_are_rounded_once(
    dtype: str, a_layout: str, b_layout: str, shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    a, b, c = (
        _half(dtype, a_layout, m, k),
        _half(dtype, b_layout, k, n),
        _half(dtype, "dense", m, n),
    )
    exact = [t.double().contiguous().numpy() for t in (a, b, c)]
    reach = np.abs(exact[0]) @ np.abs(exact[1]) + np.abs(exact[2])
    for got, wanted in (
        (a @ b, exact[0] @ exact[1]),
        (st.addmm(c, a, b, beta=0.5, alpha=2.0), 0.5 * exact[2] + 2.0 * exact[0] @ exact[1]),
    ):
        allowed = _HALVES[dtype] * np.abs(wanted) + 2 * k * 2.0**-24 * reach
        assert np.all(np.abs(got.double().numpy() - wanted) <= allowed)


def test_products_of_bfloat16_keep_infinity_and_nan() -> None:
    a = st.tensor([[1.0, float("nan"), 0.0], [float("inf"), 1.0, 1.0]] * 4, dtype=st.bfloat16)
    got = (a @ st.ones(3, 20, dtype=st.bfloat16)).float()
    assert bool(got[0].isnan().all())
    assert bool(got[1].isinf().all())


def test_mm_without_columns_in_common_is_zero() -> None:
    assert st.mm(st.zeros(2, 0), st.zeros(0, 3)).tolist() == [[0.0] * 3] * 2
    assert st.mm(st.zeros(0, 2), st.zeros(2, 3)).shape == (0, 3)


def test_mm_large_is_split_and_right() -> None:
    a, b = _random(300, 200), _random(200, 500)
    got = st.mm(st.from_numpy(a), st.from_numpy(b)).numpy()
    np.testing.assert_allclose(got, a @ b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", ["", "left", "right", "both"])
@pytest.mark.parametrize("rows", [2, 8, 31, 33])
@pytest.mark.parametrize(
    ("k", "columns"), [(300, 700), (2100, 130), (520, 515), (10, 17000), (50000, 10), (40000, 3)]
)
def test_mm_of_few_rows(dtype: str, transposed: str, rows: int, k: int, columns: int) -> None:
    a, b, c = (_random(*s).astype(dtype) for s in ((rows, k), (k, columns), (rows, columns + 1)))
    left = st.from_numpy(a.T.copy()).t() if transposed in ("left", "both") else st.from_numpy(a)
    right = st.from_numpy(b.T.copy()).t() if transposed in ("right", "both") else st.from_numpy(b)
    out = st.from_numpy(c.copy())
    st.addmm(out[:, 1:], left, right, beta=0.5, alpha=2.0, out=out[:, 1:])
    exact = [x.astype(np.float64) for x in (a, b, c)]
    wanted = 0.5 * exact[2][:, 1:] + 2.0 * exact[0] @ exact[1]
    reach = 2.0 * np.abs(exact[0]) @ np.abs(exact[1]) + np.abs(exact[2][:, 1:])
    error = np.abs(out.numpy()[:, 1:].astype(np.float64) - wanted)
    assert np.all(error <= k * np.finfo(dtype).eps * reach)
    assert np.array_equal(out.numpy()[:, 0], c[:, 0])
    fresh = st.full((rows, columns), float("nan"), dtype=out.dtype)
    error = np.abs(st.mm(left, right, out=fresh).numpy() - exact[0] @ exact[1])
    assert np.all(error <= k * np.finfo(dtype).eps * reach)


def test_mm_into_out_that_is_a_factor() -> None:
    a = _random(4, 4)
    t = st.from_numpy(a.copy())
    st.mm(t, t, out=t)
    np.testing.assert_allclose(t.numpy(), a @ a)


def test_mm_into_strided_out_writes_nothing_else() -> None:
    a = _random(3, 3)
    wide = st.zeros(3, 6, dtype=st.float64)
    st.mm(st.from_numpy(a), st.from_numpy(a), out=wide[:, ::2])
    np.testing.assert_allclose(wide[:, ::2].numpy(), a @ a)
    assert wide[:, 1::2].abs().sum().item() == 0


@pytest.mark.parametrize(
    ("beta", "alpha"),
    [(1, 1), (0, 1), (2.5, -1.5), (0, 0)],
    ids=["plain", "no_self", "both", "zero"],
)
def test_addmm_scales_and_broadcasts(beta: float, alpha: float) -> None:
    bias, a, b = _random(4), _random(3, 5), _random(5, 4)
    got = st.addmm(*(st.from_numpy(x) for x in (bias, a, b)), beta=beta, alpha=alpha)
    np.testing.assert_allclose(got.numpy(), beta * bias + alpha * (a @ b), atol=1e-12)


def test_addmm_beta_zero_ignores_nan_in_self() -> None:
    out = st.addmm(st.full((2, 2), float("nan")), st.ones(2, 3), st.ones(3, 2), beta=0)
    assert out.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_addmm_in_place_adds_to_self() -> None:
    t = st.ones(2, 2)
    assert t.addmm_(st.ones(2, 3), st.ones(3, 2)) is t
    assert t.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_bmm_and_baddbmm_multiply_each_batch() -> None:
    a, b, c = _random(6, 3, 4), _random(6, 4, 5), _random(3, 5)
    np.testing.assert_allclose(st.bmm(st.from_numpy(a), st.from_numpy(b)).numpy(), a @ b)
    got = st.baddbmm(st.from_numpy(c), st.from_numpy(a), st.from_numpy(b), beta=2, alpha=3)
    np.testing.assert_allclose(got.numpy(), 2 * c + 3 * (a @ b))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int32"])
@pytest.mark.parametrize("batch", [1, 7, 16, 17, 33, 40000])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (3, 3, 3), (2, 8, 1), (8, 1, 5), (8, 8, 8), (9, 2, 3)]
)
def test_products_of_many_small_matrices(
    batch: int, sizes: tuple[int, int, int], dtype: str, threads: int
) -> None:
    m, k, n = sizes
    random = np.random.default_rng(batch)
    a, b, c = (
        random.integers(-4, 5, size=s).astype(dtype)
        for s in ((batch, m, k), (batch, k, n), (batch, m, n))
    )
    x, y, z = (st.from_numpy(v) for v in (a, b, c))
    wide = st.zeros(batch, m + 1, 2 * k, dtype=x.dtype)
    wide[:, 1:, ::2] = x
    before = st.get_num_threads()
    st.set_num_threads(threads)
    try:
        for left in (x, x.mT.contiguous().mT, wide[:, 1:, ::2]):
            for right in (y, y.mT.contiguous().mT):
                np.testing.assert_array_equal(st.bmm(left, right).numpy(), a @ b)
        np.testing.assert_array_equal(st.bmm(x[:1].expand(batch, m, k), y).numpy(), a[:1] @ b)
        got = st.baddbmm(z, x, y, beta=2, alpha=-3)
        np.testing.assert_array_equal(got.numpy(), 2 * c - 3 * (a @ b))
        out = st.full((batch, n, m), 7, dtype=x.dtype).mT
        if dtype.startswith("float"):
            out.fill_(float("nan"))
        np.testing.assert_array_equal(st.bmm(x, y, out=out).numpy(), a @ b)
    finally:
        st.set_num_threads(before)


def test_addbmm_sums_over_the_batch() -> None:
    a, b, c = _random(6, 3, 4), _random(6, 4, 5), _random(3, 5)
    got = st.addbmm(*(st.from_numpy(x) for x in (c, a, b)), beta=2)
    np.testing.assert_allclose(got.numpy(), 2 * c + (a @ b).sum(0))


@pytest.mark.check
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((4, 2, 3), (3,)),
        ((4, 2, 3), (3, 5)),
        ((3,), (4, 3, 2)),
        ((2, 3), (4, 3, 5)),
        ((4, 1, 2, 3), (5, 3, 2)),
        ((0, 2, 3), (3, 5)),
    ],
    ids=str,
)
def test_matmul_broadcasts_as_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = _random(*left), _random(*right)
    got = st.matmul(st.from_numpy(a), st.from_numpy(b))
    np.testing.assert_allclose(got.numpy(), a @ b, atol=1e-12)


@pytest.mark.parametrize(
    ("left", "right"),
    [((2, 3, 4), (4, 5)), ((2, 3, 4), (4,)), ((3, 1, 2, 4), (5, 4, 2)), ((4,), (2, 4, 3))],
)
def test_folded_products_are_not_views(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = st.randn(left, requires_grad=True), st.randn(right, requires_grad=True)
    product = a @ b
    assert product._base is None
    assert product.grad_fn.name() == "UnsafeViewBackward0"
    product.mul_(2.0)
    assert product.grad_fn.name() == "MulBackward0"
    product.sum().backward()
    expected = st.autograd.grad((2.0 * (a @ b)).sum(), (a, b))
    assert st.equal(a.grad, expected[0]) and st.equal(b.grad, expected[1])


def test_vectors() -> None:
    a, b = _random(50), _random(50)
    ta, tb = st.from_numpy(a), st.from_numpy(b)
    assert st.dot(ta, tb).item() == pytest.approx(a @ b)
    assert st.dot(ta[::2], tb[1::2]).item() == pytest.approx(a[::2] @ b[1::2])
    np.testing.assert_allclose(st.outer(ta, tb).numpy(), np.outer(a, b))
    z = st.tensor([1 + 2j, 3 - 1j])
    assert st.vdot(z, z).item() == 15
    assert st.dot(z, z).item() == pytest.approx((1 + 2j) ** 2 + (3 - 1j) ** 2)


def test_chain_matmul_equals_products_in_order() -> None:
    parts = [_random(3, 7), _random(7, 2), _random(2, 9), _random(9, 4)]
    got = st.chain_matmul(*map(st.from_numpy, parts)).numpy()
    np.testing.assert_allclose(got, parts[0] @ parts[1] @ parts[2] @ parts[3])


@pytest.mark.parametrize("shape", [(5,), (2, 5), (2, 3, 5)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear_of_any_dimension(shape: tuple[int, ...], with_bias: bool) -> None:
    x, w, b = _random(*shape), _random(4, 5), _random(4)
    bias = st.from_numpy(b) if with_bias else None
    got = st.nn.functional.linear(st.from_numpy(x), st.from_numpy(w), bias)
    np.testing.assert_allclose(got.numpy(), x @ w.T + (b if with_bias else 0))


_Z = st.zeros


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: st.mm(_Z(2, 3), _Z(2, 3)),
            "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
        ),
        (lambda: st.mm(_Z(2), _Z(2, 3)), "self must be a matrix"),
        (
            lambda: st.mm(_Z(2, 3), _Z(3, 2).double()),
            "expected m1 and m2 to have the same dtype, but got: float != double",
        ),
        (
            lambda: st.mm(_Z(2, 3), _Z(3, 2), out=_Z(2, 2).double()),
            "Expected out tensor to have dtype float, but got double instead",
        ),
        (
            lambda: st.bmm(_Z(2, 3, 4), _Z(2, 3, 4)),
            "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: "
            "[2, 3].",
        ),
        (
            lambda: st.addmm(_Z(2, 2), _Z(2, 3), _Z(3, 2).double()),
            "self and mat2 must have the same dtype, but got Float and Double",
        ),
        (
            lambda: st.addmm(_Z(2, 2), _Z(4, 3).double(), _Z(3)),
            "mat1 and mat2 must have the same dtype, but got Double and Float",
        ),
        (
            lambda: _Z(2, 2).addmm_(_Z(2, 3).long(), _Z(3, 2)),
            "mat1 and mat2 must have the same dtype, but got Long and Float",
        ),
        (
            lambda: st.baddbmm(_Z(2, 2, 2).double(), _Z(2, 2, 3), _Z(2, 3, 2)),
            "Input dtypes must be the same, got: input double, batch1: float, batch2: float",
        ),
        (
            lambda: st.addbmm(_Z(2, 2), _Z(2, 2, 3), _Z(2, 3, 2).double()),
            "self and mat2 must have the same dtype, but got Float and Double",
        ),
        (
            lambda: st.addbmm(_Z(2, 2), _Z(2, 2, 3).double(), _Z(2, 3, 2)),
            "mat1 and mat2 must have the same dtype, but got Double and Float",
        ),
        (
            lambda: st.addbmm(_Z(2, 2), _Z(2, 2, 3), _Z(3, 3, 2)),
            "batch1 and batch2 must have same number of batches, got 2 and 3",
        ),
        (
            lambda: st.addbmm(_Z(2, 2), _Z(2, 2, 3), _Z(2, 4, 2)),
            "Incompatible matrix sizes for bmm (2x3 and 4x2)",
        ),
        (lambda: st.inner(_Z(2, 3), _Z(3).double()), "both inputs should have same dtype"),
        (lambda: st.inner(_Z(3), _Z(3).double()), "both inputs should have same dtype"),
        (
            lambda: _Z(2).addmm_(_Z(2, 3), _Z(3, 2)),
            "Bad in-place call: input tensor size [2] and output tensor size [2, 2] should match",
        ),
        (
            lambda: st.addmm(_Z(2, 2, 2), _Z(2, 3), _Z(3, 2)),
            "expand(torch.FloatTensor{[2, 2, 2]}, size=[2, 2]): the number of sizes provided",
        ),
        (
            lambda: st.chain_matmul(_Z(2, 3), _Z(3, 2), _Z(4, 2)),
            "multi_dot(): tensors 1 and 2 with shapes [3, 2] and [4, 2] cannot be multiplied",
        ),
        (
            lambda: st.chain_matmul(_Z(2, 3), _Z(3, 2).long()),
            "must have be the same dtype but tensor 0 is float and tensor 1 long int",
        ),
        (lambda: st.mv(_Z(2, 3), _Z(2)), "size mismatch, got input (2), mat (2x3), vec (2)"),
        (lambda: st.dot(_Z(2), _Z(3)), "to have the same number of elements, but got 2 and 3"),
        (
            lambda: st.matmul(st.tensor(1.0), _Z(3)),
            "both arguments to matmul need to be at least 1D, but they are 0D and 1D",
        ),
        (
            lambda: st.addmm(_Z(5), _Z(2, 3), _Z(3, 2)),
            "The expanded size of the tensor (2) must match the existing size (5)",
        ),
    ],
)
def test_wrong_operands_name_their_shapes(call: object, message: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


def test_bool_products_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="\"addmm_impl_cpu_\" not implemented for 'Bool'"):
        st.mm(st.ones(2, 2, dtype=st.bool), st.ones(2, 2, dtype=st.bool))


def test_meta_products_have_shapes() -> None:
    a = st.empty(2, 3, 4, device="meta")
    assert st.matmul(a, st.empty(4, 5, device="meta")).shape == (2, 3, 5)
    assert (a @ st.empty(4, 5, device="meta")).device.type == "meta"


def _leaf(*shape: int) -> st.Tensor:
    return st.from_numpy(_random(*shape)).requires_grad_()


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (st.mm, ((3, 4), (4, 2))),
        (lambda a, b: st.mm(a.t(), b.t()), ((4, 3), (2, 4))),
        (st.bmm, ((2, 3, 4), (2, 4, 2))),
        (st.mv, ((3, 4), (4,))),
        (st.dot, ((4,), (4,))),
        (st.outer, ((3,), (4,))),
        (st.matmul, ((2, 3, 4), (4, 2))),
        (st.matmul, ((2, 1, 3, 4), (3, 4, 2))),
        (lambda c, a, b: st.addmm(c, a, b, beta=2, alpha=3), ((2,), (3, 4), (4, 2))),
        (lambda c, a, b: st.baddbmm(c, a, b, beta=2, alpha=3), ((3, 2), (2, 3, 4), (2, 4, 2))),
        (lambda c, a, b: st.addbmm(c, a, b, beta=2, alpha=3), ((3, 2), (2, 3, 4), (2, 4, 2))),
        (lambda c, a, b: st.addmv(c, a, b, beta=2, alpha=3), ((3,), (3, 4), (4,))),
        (st.nn.functional.linear, ((2, 3, 4), (5, 4), (5,))),
    ],
)
def test_gradients(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradcheck(function, tuple(_leaf(*s) for s in shapes))


def test_gradient_of_a_transposed_factor_comes_in_its_layout() -> None:
    weight = st.ones(3, 5, requires_grad=True)
    (st.ones(2, 5) @ weight.t()).sum().backward()
    assert weight.grad.is_contiguous()
    assert weight.grad.tolist() == [[2.0] * 5] * 3


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: st.addmm(a, b, c, beta=0.5 + 0.3j, alpha=1 - 2j),
        lambda a, b, c: st.addmv(a[0], b, c[0], beta=0.5j, alpha=1 - 2j),
        lambda a, b, c: st.addbmm(a, b[None], c[None], beta=0.5j, alpha=2j),
        lambda a, b, c: st.baddbmm(a[None], b[None], c[None], beta=0.5j, alpha=2j),
    ],
)
def test_gradients_of_complex_factors(function: Any) -> None:
    numbers = np.random.default_rng(4).normal(size=(3, 2, 2, 2))
    inputs = [st.view_as_complex(st.from_numpy(part)).requires_grad_() for part in numbers]
    assert st.autograd.gradcheck(function, inputs)


def test_addr_of_dtypes_that_do_not_promote() -> None:
    wide = st.ones(3, dtype=st.uint16)
    with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types"):
        st.addr(st.ones(3, 3, dtype=st.int64), wide, st.ones(3, dtype=st.int8))


@pytest.mark.parametrize("dtype", [st.bool, st.complex32])
def test_empty_factors_of_dtypes_without_products(dtype: st.dtype) -> None:
    a = st.zeros(3, 0, dtype=dtype)
    assert st.equal(a @ a.t(), st.zeros(3, 3, dtype=dtype))
    assert st.mm(a.to("meta"), a.t().to("meta")).shape == (3, 3)
    with pytest.raises(NotImplementedError, match="addmm_impl_cpu_"):
        st.mm(st.zeros(3, 1, dtype=dtype), st.zeros(1, 3, dtype=dtype))


def test_addr_is_calculated_in_the_common_dtype_with_strides_of_its_first_argument() -> None:
    vector = st.tensor([1.0, 2.0])
    third = st.tensor(1 / 3, dtype=st.float64)
    for beta in (1, 0, 3):
        got = st.addr(third, vector, vector, beta=beta)
        assert got.dtype is st.float64
        assert got.tolist() == [[beta / 3 + 1, beta / 3 + 2], [beta / 3 + 2, beta / 3 + 4]]
    assert st.addr(st.zeros(2, 2).t(), vector, vector).stride() == (1, 2)
    truth = st.tensor([True, False])
    assert st.addr(st.zeros(2, 2), truth, truth).dtype is st.float32
    assert st.addr(truth, truth, truth, alpha=0).tolist() == [[True, False]] * 2
    with pytest.raises(RuntimeError):
        st.addr(st.zeros(1, 2, 2), vector, vector)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3)])
def test_layer_of_another_dtype_names_both(shape: tuple[int, ...]) -> None:
    expected = "mat1 and mat2 must have the same dtype, but got Double and Float"
    with pytest.raises(RuntimeError, match=expected):
        st.nn.Linear(3, 2)(_Z(*shape).double())
    with pytest.raises(RuntimeError, match="self and mat2 must have the same dtype, but got Dou"):
        st.nn.functional.linear(_Z(*shape), _Z(2, 3), _Z(2).double())


def test_einsum_promotes_where_nothing_is_summed() -> None:
    single, double, whole = st.ones(2), st.full((2,), 3.0, dtype=st.float64), st.arange(2)
    outer = st.einsum("i,j->ij", single, double)
    assert outer.dtype is st.float64
    assert outer.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert st.einsum("i,i->i", whole, whole + 0.5).tolist() == [0.0, 1.5]
    assert st.einsum("i,i->i", whole, whole).dtype is st.int64
    three = st.einsum("i,i,i->i", single, whole, double)
    assert three.dtype is st.float64
    assert three.tolist() == [0.0, 3.0]
    # A dim of one operand alone is summed before the product; one of size 1 is not summed.
    assert st.einsum("ij,k->k", st.ones(2, 3), st.arange(1, 3)).tolist() == [6.0, 12.0]
    assert st.einsum("ij,j->i", st.ones(2, 1), st.arange(1)).tolist() == [0.0, 0.0]


def test_einsum_of_two_dtypes_that_are_summed_names_both() -> None:
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        st.einsum("ij,jk->ik", st.ones(2, 2), st.ones(2, 2, dtype=st.float64))
    with pytest.raises(RuntimeError, match="expected scalar type Long but found Int"):
        st.einsum("ij,jk->k", *[st.ones(2, 2, dtype=st.int32)] * 2)


def test_einsum_of_more_operands_than_dims_are_allowed() -> None:
    factor = st.full((2, 2), 1.01, dtype=st.float64)
    product = st.einsum(",".join(["ij"] * 70) + "->ij", *[factor] * 70)
    np.testing.assert_allclose(product.numpy(), np.full((2, 2), 1.01**70), rtol=1e-13)
    half = st.full((2, 2), 0.5)
    chain = st.einsum(",".join(["ij"] + ["kk"] * 99) + "->ij", *[half] * 100)
    assert chain.tolist() == [[0.5**99] * 2] * 2  # the sum over k has two terms
