"""Operators of every family against values that are known."""

from __future__ import annotations

import io
import math

import numpy as np

import shmtensor as T
from shmtensor._boundary.runtime import cpu_capability
from shmtensor.testing._selftest.section import Trial, close, same

__all__ = ["CHECKS"]

# Larger than what one thread does alone, and no multiple of a vector's length.
_MANY = 300_007

_FLOATS = {T.float64: 1e-14, T.float32: 1e-6, T.float16: 1e-3, T.bfloat16: 1e-2}


def _pointwise() -> str:
    for dtype, tol in _FLOATS.items():
        x = T.linspace(-2, 2, 257, dtype=T.float64).to(dtype)
        values = x.to(T.float64).tolist()
        close(f"exp of {dtype}", T.exp(x), [math.exp(v) for v in values], tol)
        close(f"sin of {dtype}", T.sin(x), [math.sin(v) for v in values], tol)
        close(f"tanh of {dtype}", T.tanh(x), [math.tanh(v) for v in values], tol)
        close(f"x * x + 1 of {dtype}", x * x + 1, [v * v + 1 for v in values], 2 * tol)
    z = T.tensor([3 + 4j, -1j])
    close("abs of complex", z.abs(), [5.0, 1.0], 1e-6)
    same("product of complex", (z * z).tolist(), [-7 + 24j, -1 + 0j])
    return f"level {cpu_capability()}; float64, float32, float16, bfloat16, complex64"


def _integers() -> str:
    for dtype in (T.uint8, T.int8, T.int16, T.int32, T.int64):
        x = T.tensor([7, 2, 5], dtype=dtype)
        same(f"// of {dtype}", (x // 2).tolist(), [3, 1, 2])
        same(f"% of {dtype}", (x % 3).tolist(), [1, 2, 2])
        same(f"& of {dtype}", (x & 3).tolist(), [3, 2, 1])
    same("overflow of uint8", (T.tensor([200], dtype=T.uint8) + 100).item(), 44)
    same("floor of negative", (T.tensor([-7]) // 2).item(), -4)
    same("int64 + float32", (T.ones(1, dtype=T.int64) + T.ones(1)).dtype, T.float32)
    same("bool & bool", (T.tensor([True, False]) & T.tensor(True)).tolist(), [True, False])
    return "arithmetic, bits, promotion"


def _special() -> str:
    half = T.tensor([0.5], dtype=T.float64)
    close("lgamma(1/2)", T.lgamma(half), 0.5 * math.log(math.pi), 1e-14)
    close("erf(1/2)", T.erf(half), math.erf(0.5), 1e-14)
    close("digamma(1)", T.digamma(half * 2), -0.5772156649015329, 1e-14)
    close("zeta(2, 1)", T.special.zeta(half * 4, half * 2), math.pi**2 / 6, 1e-14)
    close("j0(0)", T.special.bessel_j0(half * 0), 1.0, 1e-14)
    return "gamma, error, zeta and Bessel functions"


def _reductions() -> str:
    x = T.arange(_MANY, dtype=T.float64)
    close("sum", x.sum(), _MANY * (_MANY - 1) / 2, 1e-14)
    close("mean", x.mean(), (_MANY - 1) / 2, 1e-14)
    close("var", T.arange(10, dtype=T.float32).var(), 55 / 6, 1e-6)
    table = T.arange(12).view(3, 4)
    same("sum of columns", table.sum(0).tolist(), [12, 15, 18, 21])
    same("max of rows", table.max(1).values.tolist(), [3, 7, 11])
    same("cumsum", T.ones(4, dtype=T.int64).cumsum(0).tolist(), [1, 2, 3, 4])
    close("logsumexp", T.zeros(8).logsumexp(0), math.log(8), 1e-6)
    same("sum of nothing", T.zeros(0).sum().item(), 0.0)
    before = T.get_num_threads()
    try:
        T.set_num_threads(3)
        close("sum by threads", x.sum(), _MANY * (_MANY - 1) / 2, 1e-14)
        same("product by threads", (x * 2)[-1].item(), 2.0 * (_MANY - 1))
    finally:
        T.set_num_threads(before)
    return f"{_MANY:,} values, one thread and several"


def _products() -> str:
    small = T.tensor([[1.0, 2.0], [3.0, 4.0]])
    same("2 x 2", (small @ small).tolist(), [[7.0, 10.0], [15.0, 22.0]])
    for dtype in (T.float32, T.float64, T.complex64, T.bfloat16, T.int64):
        n = 130
        ones = T.ones(n, n).to(dtype)
        same(f"ones @ ones of {dtype}", (ones @ ones).eq(n).all().item(), True)
    same(
        "batches", T.bmm(small.expand(3, 2, 2), small.expand(3, 2, 2))[2, 1].tolist(), [15.0, 22.0]
    )
    same("einsum", T.einsum("ij,jk->ik", small, small).tolist(), [[7.0, 10.0], [15.0, 22.0]])
    return "float, complex, bfloat16, int64; batches"


def _linear_algebra() -> str:
    a = T.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=T.float64)
    close("solve", T.linalg.solve(a, T.tensor([4.0, 5.0], dtype=T.float64)), [1.0, 2.0], 1e-12)
    close("eigenvalues", T.linalg.eigvalsh(a), [1.0, 3.0], 1e-12)
    close("determinant", T.linalg.det(a), 3.0, 1e-12)
    close("singular values", T.linalg.svdvals(a), [3.0, 1.0], 1e-12)
    index = T.arange(24, dtype=T.float64)
    big = T.cos(index[:, None] * index[None, :]) + 5 * T.eye(24, dtype=T.float64)
    q, r = T.linalg.qr(big)
    close("q @ r", (q @ r - big).abs().max(), 0.0, 1e-12)
    close("inverse", (T.linalg.inv(big) @ big - T.eye(24)).abs().max(), 0.0, 1e-10)
    try:
        T.linalg.inv(T.zeros(2, 2))
    except T.linalg.LinAlgError:
        return "LU, QR, eigenvalues, SVD"
    raise AssertionError("the inverse of zeros raised no LinAlgError")


def _fourier() -> str:
    for n in (64, 101, 360):
        impulse = T.zeros(n, dtype=T.float64)
        impulse[0] = 1
        close(f"fft of an impulse of {n}", (T.fft.fft(impulse) - 1).abs().max(), 0.0, 1e-13)
        wave = T.cos(T.arange(n, dtype=T.float64) * (2 * math.pi * 5 / n))
        close(f"fft of a wave of {n}", T.fft.rfft(wave)[5].abs(), n / 2, 1e-12)
        close("there and back", (T.fft.ifft(T.fft.fft(wave)) - wave).abs().max(), 0.0, 1e-13)
    return "lengths 64, 101, 360"


def _networks() -> str:
    f = T.nn.functional
    image = T.ones(1, 1, 4, 4)
    counts = f.conv2d(image, T.ones(2, 1, 3, 3), padding=1)
    same("conv2d", counts[0, 1, :2].tolist(), [[4.0, 6.0, 6.0, 4.0], [6.0, 9.0, 9.0, 6.0]])
    same(
        "max_pool2d",
        f.max_pool2d(T.arange(16.0).view(1, 1, 4, 4), 2).flatten().tolist(),
        [5, 7, 13, 15],
    )
    close("softmax", f.softmax(T.tensor([0.0, math.log(3.0)]), 0), [0.25, 0.75], 1e-6)
    close("cross_entropy", f.cross_entropy(T.zeros(2, 10), T.tensor([3, 7])), math.log(10), 1e-6)
    normed = f.layer_norm(T.arange(6.0).view(1, 6), (6,))
    close("layer_norm", normed.mean(), 0.0, 1e-6)
    q = T.ones(1, 2, 5, 8)
    close("attention", f.scaled_dot_product_attention(q, q, q), 1.0, 1e-6)
    return "convolution, pooling, norms, attention, losses"


def _order() -> str:
    x = T.tensor([3, 1, 2, 1])
    ordered, index = x.sort(stable=True)
    same("sort", (ordered.tolist(), index.tolist()), ([1, 1, 2, 3], [1, 3, 2, 0]))
    same("topk", x.topk(2).values.tolist(), [3, 2])
    same("unique", T.unique(x).tolist(), [1, 2, 3])
    many = (T.arange(_MANY) * 7919) % _MANY
    same("sort of many", many.sort().values.equal(T.arange(_MANY)), True)
    same("searchsorted", T.searchsorted(T.tensor([1, 3, 5]), T.tensor([3, 4])).tolist(), [1, 2])
    return f"up to {_MANY:,} values"


def _views() -> str:
    x = T.arange(24.0).view(2, 3, 4)
    x[:, 1:, ::2] = -1
    same("assignment to a view", (x == -1).sum().item(), 8)
    same("transpose", x.permute(2, 0, 1).shape, (4, 2, 3))
    same("shared memory", x.transpose(0, 1).data_ptr(), x.data_ptr())
    same("mask", x[x > 15].tolist(), [17.0, 19.0, 21.0, 23.0])
    same("gather", T.tensor([[1, 2], [3, 4]]).gather(1, T.tensor([[1], [0]])).tolist(), [[2], [3]])
    counts = T.zeros(3, dtype=T.int64).scatter_add(0, T.tensor([0, 2, 2]), T.ones(3, dtype=T.int64))
    same("scatter_add", counts.tolist(), [1, 0, 2])
    try:
        x.view(5, 5)
    except RuntimeError:
        return "slices, masks, gather, scatter"
    raise AssertionError("a view with too many elements raised no RuntimeError")


def _random() -> str:
    T.manual_seed(0)
    first = T.rand(3)
    close("torch's stream", first, [0.4962566, 0.7682218, 0.0884774], 1e-6)
    T.manual_seed(0)
    same("the same seed", T.rand(3).equal(first), True)
    close("mean of normal values", T.randn(_MANY, dtype=T.float64).mean(), 0.0, 0.02)
    same("permutation", T.randperm(1000).sort().values.equal(T.arange(1000)), True)
    return "torch's streams"


def _exchange() -> str:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = T.from_numpy(array)
    tensor[1, 2] = 50
    same("from_numpy shares memory", float(array[1, 2]), 50.0)
    same("numpy() shares memory", np.shares_memory(tensor.numpy(), array), True)
    same("DLPack", T.from_dlpack(array).tolist(), tensor.tolist())
    file = io.BytesIO()
    T.save({"weights": tensor, "epoch": 3}, file)
    file.seek(0)
    loaded = T.load(file)
    same("save and load", (loaded["epoch"], loaded["weights"].tolist()), (3, tensor.tolist()))
    return "NumPy, DLPack, save and load"


def _sparse() -> str:
    where = T.tensor([[0, 1, 1], [2, 0, 2]])
    a = T.sparse_coo_tensor(where, T.tensor([3.0, 4.0, 5.0]), (2, 3))
    same("dense", a.to_dense().tolist(), [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]])
    same("product", (a @ T.ones(3, 1)).flatten().tolist(), [3.0, 9.0])
    same("CSR", a.to_sparse_csr().crow_indices().tolist(), [0, 1, 3])
    return "COO, CSR"


CHECKS = [
    Trial("elementary functions", _pointwise),
    Trial("integers and bits", _integers),
    Trial("special functions", _special),
    Trial("reductions", _reductions),
    Trial("matrix products", _products),
    Trial("linear algebra", _linear_algebra),
    Trial("Fourier transforms", _fourier),
    Trial("layers of networks", _networks),
    Trial("sorting and searching", _order),
    Trial("views and indices", _views),
    Trial("random numbers", _random),
    Trial("exchange", _exchange),
    Trial("sparse tensors", _sparse),
]
