"""Cases of products, decompositions, Fourier transforms and convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
from groups import Make, function

PRODUCTS: dict[str, Make] = {
    "matmul": lambda lib, d: lambda m1=d["m1"], m2=d["m2"]: m1 @ m2,
    "matmul transposed": lambda lib, d: lambda m1=d["m1"], m2=d["m2"]: m1 @ m2.t(),
    "matmul first transposed": lambda lib, d: lambda m1=d["m1"], m2=d["m2"]: m1.t() @ m2,
    "matmul both transposed": lambda lib, d: lambda m1=d["m1"], m2=d["m2"]: m1.t() @ m2.t(),
    "matmul float64": lambda lib, d: lambda d1=d["d1"]: d1 @ d1,
    "matmul bfloat16": lambda lib, d: lambda h1=d["h1"]: h1 @ h1,
    "matmul float16": lambda lib, d: lambda f1=d["f1"]: f1 @ f1,
    "matmul complex64": lambda lib, d: lambda c1=d["c1"]: c1 @ c1,
    "matmul broadcast": lambda lib, d: lambda b1=d["b1"], m1=d["m1"]: b1 @ m1,
    "addmm": lambda lib, d: lambda v=d["v"], m1=d["m1"], m2=d["m2"]: lib.addmm(v, m1, m2),
    "linear": lambda lib, d: (
        lambda m1=d["m1"], m2=d["m2"], v=d["v"]: lib.nn.functional.linear(m1, m2, v)
    ),
    "linear of 8 rows": lambda lib, d: (
        lambda r8=d["r8"], m2=d["m2"], v=d["v"]: lib.nn.functional.linear(r8, m2, v)
    ),
    "64 rows": lambda lib, d: lambda r64=d["r64"], wide=d["wide"]: r64 @ wide,
    "64 rows transposed": lambda lib, d: lambda r64=d["r64"], m2=d["m2"]: r64 @ m2.t(),
    "sums over 64 rows": lambda lib, d: lambda r64=d["r64"], w64=d["w64"]: r64.t() @ w64,
    "linear bfloat16": lambda lib, d: lambda h1=d["h1"]: lib.nn.functional.linear(h1, h1),
    "bmm": lambda lib, d: lambda b1=d["b1"]: lib.bmm(b1, b1),
    "bmm transposed": lambda lib, d: lambda b1=d["b1"]: lib.bmm(b1, b1.transpose(1, 2)),
    "baddbmm": lambda lib, d: lambda b1=d["b1"]: lib.baddbmm(b1, b1, b1),
    "einsum bij,bjk->bik": lambda lib, d: lambda b1=d["b1"]: lib.einsum("bij,bjk->bik", b1, b1),
    "einsum bhqd,bhkd->bhqk": lambda lib, d: lambda q=d["q"]: lib.einsum("bhqd,bhkd->bhqk", q, q),
    "einsum ij,j->i": lambda lib, d: lambda m1=d["m1"], v=d["v"]: lib.einsum("ij,j->i", m1, v),
    "mv": lambda lib, d: lambda m1=d["m1"], v=d["v"]: lib.mv(m1, v),
    "mv transposed": lambda lib, d: lambda m1=d["m1"], v=d["v"]: lib.mv(m1.t(), v),
    "outer": lambda lib, d: lambda v=d["v"]: lib.outer(v, v),
    "dot": lambda lib, d: lambda v=d["v"]: lib.dot(v, v),
}
PRODUCT_BATCHES = 8


def matrix_arrays(n: int) -> dict[str, Any]:
    """Return matrices of *n* rows and columns, one positive definite, and batches of small ones."""
    rng = np.random.default_rng(0)
    m = rng.normal(size=(n, n)).astype(np.float32)
    small = rng.normal(size=(256, 16, 16)).astype(np.float32)
    return {
        "m1": m,
        "m2": m[::-1].copy(),
        "d1": m.astype(np.float64),
        "c1": (m + 1j * m[::-1]).astype(np.complex64),
        "f1": m.astype(np.float16),
        "r8": m[:8].copy(),
        "r64": rng.normal(size=(64, n)).astype(np.float32),
        "w64": rng.normal(size=(64, 3 * n)).astype(np.float32),
        "wide": rng.normal(size=(n, 3 * n)).astype(np.float32),
        "v": m[0].copy(),
        "b1": rng.normal(size=(PRODUCT_BATCHES, n, n)).astype(np.float32),
        "q": rng.normal(size=(2, 4, n, 32)).astype(np.float32),
        "spd": (m @ m.T + n * np.eye(n)).astype(np.float32),
        "spd64": m.astype(np.float64) @ m.T + n * np.eye(n),
        "tall": rng.normal(size=(2 * n, n)).astype(np.float32),
        "small": small,
        "small_spd": small @ small.transpose(0, 2, 1)
        + np.float32(16) * np.eye(16, dtype=np.float32),
    }


def matrix_tensors(lib: Any, tensors: dict[str, Any]) -> None:
    """Add the operands that NumPy has no type for, and factors."""
    tensors["h1"] = tensors["m1"].to(lib.bfloat16)
    tensors["low"] = lib.linalg.cholesky(tensors["spd"])


DECOMPOSITIONS: dict[str, Make] = {
    "cholesky": function("linalg.cholesky", "spd"),
    "cholesky_inverse": function("cholesky_inverse", "low"),
    "cholesky_solve": lambda lib, d: lambda m1=d["m1"], low=d["low"]: lib.cholesky_solve(m1, low),
    "qr": function("linalg.qr", "m1"),
    "qr tall": function("linalg.qr", "tall"),
    "svd": function("linalg.svd", "m1"),
    "svd tall": lambda lib, d: lambda tall=d["tall"]: lib.linalg.svd(tall, full_matrices=False),
    "svdvals": function("linalg.svdvals", "m1"),
    "eigh": function("linalg.eigh", "spd"),
    "eigvalsh": function("linalg.eigvalsh", "spd"),
    "eig": function("linalg.eig", "m1"),
    "eigvals": function("linalg.eigvals", "m1"),
    "solve": lambda lib, d: lambda spd=d["spd"], m1=d["m1"]: lib.linalg.solve(spd, m1),
    "solve vector": lambda lib, d: lambda spd=d["spd"], v=d["v"]: lib.linalg.solve(spd, v),
    "solve_triangular": lambda lib, d: (
        lambda low=d["low"], m1=d["m1"]: lib.linalg.solve_triangular(low, m1, upper=False)
    ),
    "lstsq": lambda lib, d: lambda tall=d["tall"]: lib.linalg.lstsq(tall, tall),
    "lu": function("linalg.lu", "m1"),
    "lu_factor": function("linalg.lu_factor", "m1"),
    "det": function("linalg.det", "m1"),
    "slogdet": function("linalg.slogdet", "m1"),
    "inv": function("linalg.inv", "spd"),
    "pinv": function("linalg.pinv", "tall"),
    "matrix_exp": lambda lib, d: lambda m1=d["m1"]: lib.linalg.matrix_exp(m1 * 0.01),
    "matrix_power": lambda lib, d: lambda m1=d["m1"]: lib.linalg.matrix_power(m1, 5),
    "cholesky float64": function("linalg.cholesky", "spd64"),
    "svd float64": lambda lib, d: lambda d1=d["d1"]: lib.linalg.svd(d1),
    "batched cholesky": function("linalg.cholesky", "small_spd"),
    "batched inv": function("linalg.inv", "small_spd"),
    "batched det": function("linalg.det", "small"),
    "batched solve": lambda lib, d: (
        lambda small_spd=d["small_spd"], small=d["small"]: lib.linalg.solve(small_spd, small)
    ),
    "batched qr": function("linalg.qr", "small"),
    "batched eigh": function("linalg.eigh", "small_spd"),
    "batched svd": function("linalg.svd", "small"),
}

FOURIER: dict[str, Make] = {
    "fft": function("fft.fft", "z"),
    "ifft": function("fft.ifft", "z"),
    "fft of real": function("fft.fft", "x"),
    "rfft": function("fft.rfft", "x"),
    "irfft": function("fft.irfft", "z"),
    "rfft float64": function("fft.rfft", "x64"),
    "fft complex128": function("fft.fft", "z128"),
    "fft dim 0": function("fft.fft", "zt", None, 0),
    "hfft": function("fft.hfft", "z"),
}
FOURIER_PLANES: dict[str, Make] = {
    "fft2": function("fft.fft2", "z"),
    "ifft2": function("fft.ifft2", "z"),
    "rfft2": function("fft.rfft2", "x"),
    "irfft2": function("fft.irfft2", "z"),
    "fftn": function("fft.fftn", "cube"),
    "rfftn": function("fft.rfftn", "x_cube"),
}
FOURIER_LENGTHS = (16, 30, 64, 100, 128, 243, 256, 360, 512, 997, 1000, 1024, 2048, 4096, 10007,
                   16384, 65536, 1 << 18)  # fmt: skip


def line_arrays(n: int) -> dict[str, Any]:
    """Return signals of *n*, about 32 thousand numbers together."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(max(1, 32768 // n), n))
    z = x + 1j * x[:, ::-1]
    return {
        "x": x.astype(np.float32),
        "x64": x,
        "z": z.astype(np.complex64),
        "z128": z,
        "zt": z.T.astype(np.complex64).copy(),
    }


def plane_arrays(n: int) -> dict[str, Any]:
    """Return planes of *n* by *n* and cubes of about as many numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, n)).astype(np.float32)
    side = round((n * n) ** (1 / 3))
    cube = rng.normal(size=(side, side, side)).astype(np.float32)
    return {
        "x": x,
        "z": (x + 1j * x.T).astype(np.complex64),
        "x_cube": cube,
        "cube": cube.astype(np.complex64),
    }


def _conv(name: str, x: str, w: str, **options: Any) -> Make:
    return lambda lib, d: lambda: getattr(lib.nn.functional, name)(d[x], d[w], **options)


def _conv_backward(lib: Any, d: dict[str, Any], w_name: str, **options: Any) -> Any:
    x, w = d["x"].clone().requires_grad_(), d[w_name].clone().requires_grad_()
    grad = lib.nn.functional.conv2d(d["x"], d[w_name], **options)

    def call() -> object:
        return lib.autograd.grad(lib.nn.functional.conv2d(x, w, **options), (x, w), grad)

    return call


CONVOLUTION: dict[str, Make] = {
    "conv2d 3x3": _conv("conv2d", "x", "w3", padding=1),
    "conv2d 1x1": _conv("conv2d", "x", "w1"),
    "conv2d 5x5": _conv("conv2d", "x", "w5", padding=2),
    "conv2d 3x3 stride 2": _conv("conv2d", "x", "w3", padding=1, stride=2),
    "conv2d 3x3 dilation 2": _conv("conv2d", "x", "w3", padding=2, dilation=2),
    "conv2d 3x3 bias": lambda lib, d: (
        lambda x=d["x"], w3=d["w3"], bias=d["bias"]: lib.nn.functional.conv2d(
            x, w3, bias, padding=1
        )
    ),
    "conv2d 3x3 of 16 images": _conv("conv2d", "x16", "w3", padding=1),
    "conv2d 3x3 bfloat16": _conv("conv2d", "xb", "w3b", padding=1),
    "conv2d 7x7 of 3 channels": _conv("conv2d", "rgb", "w7", padding=3, stride=2),
    "conv2d grouped": _conv("conv2d", "x", "wg", padding=1, groups=4),
    "conv2d groups of 4 channels_last": lambda lib, d: (
        lambda x=d["xl"], w4=d["w4"]: lib.nn.functional.conv2d(
            x, w4, padding=1, groups=x.shape[1] // 4
        )
    ),
    "conv2d depthwise": lambda lib, d: (
        lambda x=d["x"], wd=d["wd"]: lib.nn.functional.conv2d(x, wd, padding=1, groups=x.shape[1])
    ),
    "conv2d depthwise stride 2": lambda lib, d: (
        lambda x=d["x"], wd=d["wd"]: lib.nn.functional.conv2d(
            x, wd, padding=1, stride=2, groups=x.shape[1]
        )
    ),
    "conv_transpose2d 3x3": _conv("conv_transpose2d", "x", "w3", padding=1),
    "conv_transpose2d 2x2 stride 2": _conv("conv_transpose2d", "x", "w2", stride=2),
    "conv1d 3": _conv("conv1d", "x1", "w13", padding=1),
    "conv1d 9 stride 2": _conv("conv1d", "x1", "w19", padding=4, stride=2),
    "conv3d 3x3x3": _conv("conv3d", "x3", "w33", padding=1),
    "conv2d 3x3 backward": lambda lib, d: _conv_backward(lib, d, "w3", padding=1),
    "conv2d 1x1 backward": lambda lib, d: _conv_backward(lib, d, "w1"),
    "conv2d 3x3 stride 2 backward": lambda lib, d: _conv_backward(
        lib, d, "w3", padding=1, stride=2
    ),
    "conv2d depthwise backward": lambda lib, d: _conv_backward(
        lib, d, "wd", padding=1, groups=d["x"].shape[1]
    ),
}


def image_arrays(channels: int) -> dict[str, Any]:
    """Return images of so many channels with the sizes they have in networks, and weights."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    side = 1024 // channels if channels < 128 else 14
    c = channels
    return {
        "x": normal(2, c, side, side),
        "xl": normal(2, side, side, c).transpose(0, 3, 1, 2),
        "w4": normal(c, 4, 3, 3),
        "x16": normal(16, c, side // 2, side // 2),
        "rgb": normal(2, 3, 2 * side, 2 * side),
        "x1": normal(4, c, side * 8),
        "x3": normal(1, c, 4, side, side),
        "w1": normal(c, c, 1, 1),
        "w2": normal(c, c, 2, 2),
        "w3": normal(c, c, 3, 3),
        "w5": normal(c, c, 5, 5),
        "w7": normal(c, 3, 7, 7),
        "wg": normal(c, c // 4, 3, 3),
        "wd": normal(c, 1, 3, 3),
        "w13": normal(c, c, 3),
        "w19": normal(c, c, 9),
        "w33": normal(c, c, 3, 3, 3),
        "bias": normal(c),
    }


def image_tensors(lib: Any, tensors: dict[str, Any]) -> None:
    """Add the operands that NumPy has no type for."""
    tensors["xb"], tensors["w3b"] = tensors["x"].to(lib.bfloat16), tensors["w3"].to(lib.bfloat16)
