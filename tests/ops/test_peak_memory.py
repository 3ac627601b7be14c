"""Operators use little memory beside their result: they widen and gather operands by blocks."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from peak import peak

import shmtensor
from shmtensor.nn import functional as F

HALVES = [shmtensor.float16, shmtensor.bfloat16]
Call = Callable[..., shmtensor.Tensor]

#: A call on a matrix of 256 rows, and the elements of its result.
PRODUCTS: dict[str, tuple[Call, int]] = {
    "mv": (lambda m: shmtensor.mv(m, m[0]), 256),
    "mv transposed": (lambda m: shmtensor.mv(m.T, m[0]), 256),
    "addmv": (lambda m: shmtensor.addmv(m[0], m, m[1], beta=0.5), 256),
    "mm": (lambda m: m @ m, 256 * 256),
    "linear of 8 rows": (lambda m: F.linear(m[:8], m), 8 * 256),
}


def image(dtype: shmtensor.dtype = shmtensor.float32, last: bool = False) -> shmtensor.Tensor:
    x = shmtensor.arange(4 * 16 * 64 * 64).reshape(4, 16, 64, 64).sin().to(dtype)
    return x.contiguous(memory_format=shmtensor.channels_last) if last else x


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_halves(threads: int, dtype: shmtensor.dtype, name: str) -> None:
    call, elements = PRODUCTS[name]
    m = shmtensor.ones(256, 256, dtype=dtype)
    assert peak(lambda: call(m)) <= (elements * 2 + (24 << 10)) * 9 // 8 + threads * (20 << 10)


@pytest.mark.parametrize("dtype", HALVES)
def test_distances_of_halves(threads: int, dtype: shmtensor.dtype) -> None:
    x = shmtensor.arange(200 * 256).reshape(200, 256).sin().to(dtype)
    assert peak(lambda: shmtensor.cdist(x, x)) <= 200 * 200 * 2 + (220 << 10) + threads * (40 << 10)
    wide = shmtensor.cdist(x.float(), x.float(), compute_mode="donot_use_mm_for_euclid_dist")
    assert shmtensor.cdist(x, x).equal(wide.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_attention_of_halves(dtype: shmtensor.dtype) -> None:
    q = shmtensor.ones(2, 8, 256, 32, dtype=dtype)
    nbytes = q.numel() * 2
    with_threads = shmtensor.get_num_threads()
    shmtensor.set_num_threads(1)
    try:
        assert peak(lambda: F.scaled_dot_product_attention(q, q, q)) <= nbytes + (128 << 10)
        x = q.clone().requires_grad_()
        assert peak(
            lambda: shmtensor.autograd.grad(F.scaled_dot_product_attention(x, x, x).sum(), x)
        ) <= 5 * nbytes + (400 << 10)
    finally:
        shmtensor.set_num_threads(with_threads)


@pytest.mark.check
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("dtype", "last"),
    [(shmtensor.float16, False), (shmtensor.float32, True), (shmtensor.uint8, True)],
)
def test_interpolation(mode: str, dtype: shmtensor.dtype, last: bool) -> None:
    x = image(dtype, last)
    result = F.interpolate(x, scale_factor=2, mode=mode)
    assert result.is_contiguous(memory_format=shmtensor.channels_last) == last
    nbytes = result.numel() * result.element_size()
    assert peak(lambda: F.interpolate(x, scale_factor=2, mode=mode)) <= nbytes * 9 // 8 + (
        600 << 10
    )


#: How images lie that are neither in rows nor have their channels last.
ODD = {
    "crossed": lambda x: x.mT.contiguous().mT,
    "sliced": lambda x: shmtensor.cat([x, x], -1)[..., : x.shape[-1]],
    "spread": lambda x: shmtensor.stack([x, x], -1)[..., 0],
}


@pytest.mark.parametrize("dtype", [*HALVES, shmtensor.float64])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolation_of_images_whose_channels_come_last(
    threads: int, mode: str, dtype: shmtensor.dtype
) -> None:
    x = shmtensor.ones(2, 64, 28, 28, dtype=dtype).contiguous(memory_format=shmtensor.channels_last)
    result = F.interpolate(x, scale_factor=2, mode=mode)
    nbytes = result.numel() * result.element_size()
    taken = peak(lambda: F.interpolate(x, scale_factor=2, mode=mode))
    assert taken <= nbytes * 9 // 8 + threads * (300 << 10)


@pytest.mark.parametrize("lie", ODD)
@pytest.mark.parametrize("scale", [2, 0.6])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_interpolation_of_odd_images(threads: int, mode: str, scale: float, lie: str) -> None:
    x = image(shmtensor.float64)
    odd = ODD[lie](x)
    result = F.interpolate(odd, scale_factor=scale, mode=mode)
    assert result.is_contiguous()
    assert result.equal(F.interpolate(x, scale_factor=scale, mode=mode))
    nbytes = result.numel() * result.element_size()
    taken = peak(lambda: F.interpolate(odd, scale_factor=scale, mode=mode))
    assert taken <= nbytes * 9 // 8 + threads * (600 << 10)


@pytest.mark.parametrize("shape", [(4, 16, 64, 64), (4, 16, 40, 100), (2000, 128), (8, 32, 700)])
@pytest.mark.parametrize("lie", [*ODD, "neighbours"])
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_of_odd_images(
    threads: int, training: bool, lie: str, shape: tuple[int, ...]
) -> None:
    x = shmtensor.arange(math.prod(shape)).reshape(shape).sin()
    odd = ODD[lie](x) if lie in ODD else x.transpose(0, 1).contiguous().transpose(0, 1)
    stats = shmtensor.ones(shape[1])
    grad = x.cos()

    def call(a: shmtensor.Tensor, g: shmtensor.Tensor) -> tuple[shmtensor.Tensor, ...]:
        leaf = a.detach().requires_grad_()
        unit = stats.to(a.dtype)
        result = F.batch_norm(leaf, unit * 0, unit * 2, unit, unit, training)
        return result, shmtensor.autograd.grad(result, leaf, g)[0]

    other = ODD["crossed"](grad)
    for ours, wide in zip(call(odd, other), call(x.double(), grad.double()), strict=True):
        assert ours.is_contiguous()
        assert bool(((ours - wide).abs() <= 1e-5 * (1 + wide.abs())).all())
    assert peak(lambda: call(odd, other)) <= x.numel() * 8 * 9 // 8 + (128 << 10)


@pytest.mark.parametrize("positions", ["plain", *ODD])
@pytest.mark.parametrize("lie", ["channels last", *ODD])
def test_grid_sample_of_odd_images(threads: int, lie: str, positions: str) -> None:
    x = image().clone()
    odd = ODD[lie](x) if lie in ODD else image(last=True)
    grid = shmtensor.arange(4 * 64 * 64 * 2).reshape(4, 64, 64, 2).sin()
    places = ODD[positions](grid) if positions in ODD else grid

    def call(a: shmtensor.Tensor, b: shmtensor.Tensor) -> tuple[shmtensor.Tensor, ...]:
        leaves = [a.detach().requires_grad_(), b.detach().requires_grad_()]
        result = F.grid_sample(*leaves, align_corners=False)
        return result, *shmtensor.autograd.grad(result, leaves, a)

    for ours, same in zip(call(odd, places), call(x, grid), strict=True):
        assert bool(((ours - same).abs() <= 1e-5 * (1 + same.abs())).all())
    nbytes = 2 * x.numel() * x.element_size() + grid.numel() * 4
    assert peak(lambda: call(odd, places)) <= nbytes * 9 // 8 + (128 << 10)


@pytest.mark.check
def test_group_norm_of_channels_last() -> None:
    x = image(last=True)
    nbytes = x.numel() * x.element_size()
    assert peak(lambda: F.group_norm(x, 4)) <= nbytes + nbytes // 4


@pytest.mark.parametrize("groups", [1, 4])
def test_gradient_of_group_norm_of_channels_last(threads: int, groups: int) -> None:
    x = image(last=True)
    grad, weight = x.cos(), shmtensor.arange(16).cos()

    def call(a: shmtensor.Tensor, g: shmtensor.Tensor) -> list[shmtensor.Tensor]:
        leaves = [a.detach().requires_grad_(), weight.to(a.dtype).requires_grad_()]
        return list(shmtensor.autograd.grad(F.group_norm(leaves[0], groups, leaves[1]), leaves, g))

    found, rows = call(x, grad), call(x.contiguous(), grad.contiguous())
    assert bool(((found[0] - rows[0]).abs() <= 1e-6 * (1 + rows[0].abs())).all())
    # A weight's gradient is a sum that nearly cancels: one rounding of a deviation shows in it.
    exact = call(x.double(), grad.double())[1]
    assert bool((found[1] - exact).abs().max() <= 1.01 * (rows[1] - exact).abs().max())
    assert found[0].is_contiguous(memory_format=shmtensor.channels_last)
    del found, rows, exact
    nbytes = x.numel() * x.element_size()
    block = nbytes // 4 // groups
    assert peak(lambda: call(x, grad)) <= nbytes * 2 * 9 // 8 + threads * 2 * block + (128 << 10)


#: A pool of images that do not lie in rows, which are laid so a few planes at a time.
POOLS = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
    "max alone": lambda x: F.max_pool2d(x, 2),
    "avg": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 5),
    "of lines": lambda x: F.avg_pool1d(x[:, :, 0], 4),
    "of neighbours": lambda x: F.max_pool1d(x[:, :, 0].mT.contiguous().mT, 4),
    "of volumes": lambda x: F.adaptive_max_pool3d(x, 3),
}


@pytest.mark.parametrize("dtype", [shmtensor.float32, *HALVES])
@pytest.mark.parametrize("lie", ODD)
@pytest.mark.parametrize("name", POOLS)
def test_pools_of_odd_images(threads: int, name: str, lie: str, dtype: shmtensor.dtype) -> None:
    x = image(dtype)
    odd = ODD[lie](x)
    assert POOLS[name](odd).equal(POOLS[name](x))
    result = POOLS[name](x)
    nbytes = result.numel() * (8 + x.element_size())
    if name not in ("of neighbours", "of volumes"):
        assert peak(lambda: POOLS[name](odd)) <= nbytes * 9 // 8 + threads * (72 << 10) + (64 << 10)


@pytest.mark.parametrize("dtype", [shmtensor.float32, *HALVES])
def test_pointwise_convolution_of_channels_last(dtype: shmtensor.dtype) -> None:
    x = image(dtype).reshape(4, 64, 32, 32).contiguous(memory_format=shmtensor.channels_last)
    w = shmtensor.ones(64, 64, 1, 1, dtype=dtype)
    nbytes = x.numel() * x.element_size()
    assert peak(lambda: F.conv2d(x, w)) <= nbytes * 9 // 8 + (64 << 10)


#: Weight, groups: filtered as they lie, each channel alone, and by columns.
CONVOLUTIONS = {
    "plain": ((16, 16, 3, 3), 1),
    "depthwise": ((16, 1, 3, 3), 16),
    "grouped": ((16, 4, 3, 3), 4),
}


@pytest.mark.parametrize(
    ("dtype", "last"),
    [
        (shmtensor.float16, False),
        (shmtensor.float16, True),
        (shmtensor.bfloat16, True),
        (shmtensor.float32, True),
    ],
)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_by_blocks(threads: int, dtype: shmtensor.dtype, last: bool, name: str) -> None:
    sizes, groups = CONVOLUTIONS[name]
    x = image(dtype, last)
    w = shmtensor.arange(16 * sizes[1] * 9).reshape(sizes).cos().to(dtype)
    b = shmtensor.arange(16).to(dtype)
    nbytes = x.numel() * x.element_size()

    def call() -> shmtensor.Tensor:
        return F.conv2d(x, w, b, padding=1, groups=groups)

    assert peak(call) <= nbytes * 9 // 8 + threads * (700 << 10)
    wide = F.conv2d(x.double().contiguous(), w.double(), b.double(), padding=1, groups=groups)
    eps = shmtensor.finfo(dtype).eps
    assert bool(((call().double() - wide).abs() <= eps * (wide.abs() + 100)).all())
