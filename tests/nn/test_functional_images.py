"""Resizing, sampling, sliding blocks, pooling and normalisation against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as sh
from shmtensor.autograd import gradcheck, gradgradcheck
from shmtensor.nn import functional as F

rng = np.random.default_rng(11)


def image(*shape: int) -> sh.Tensor:
    return sh.tensor(rng.normal(size=shape).tolist(), dtype=sh.float64).requires_grad_()


def close(result: sh.Tensor, expected, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


def resize_matrix(n: int, m: int, align: bool) -> np.ndarray:
    """Linear interpolation of n values at m places."""
    if align:
        places = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0)
    else:
        places = np.maximum((np.arange(m) + 0.5) * n / m - 0.5, 0)
    return np.array([np.interp(places, np.arange(n), row) for row in np.eye(n)]).T


@pytest.mark.check
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [3, 5, 9])
def test_linear_interpolation_is_a_matrix_per_dimension(size, align):
    x = image(2, 1, 5, 4)
    rows, columns = resize_matrix(5, size, align), resize_matrix(4, size, align)
    expected = np.einsum("ij,ncjk,lk->ncil", rows, x.detach().numpy(), columns)

    def resize(t: sh.Tensor) -> sh.Tensor:
        return F.interpolate(t, size=size, mode="bilinear", align_corners=align)

    close(resize(x), expected)
    line = F.interpolate(x[:, :, 0], size=size, mode="linear", align_corners=align)
    close(line, x.detach().numpy()[:, :, 0] @ columns.T)
    assert gradcheck(resize, (x,))
    assert gradgradcheck(resize, (x,))


def test_nearest_interpolation_picks():
    x = sh.arange(5.0).view(1, 1, 5)
    assert F.interpolate(x, size=7).tolist() == [[[0, 0, 1, 2, 2, 3, 4]]]
    assert F.interpolate(x, size=3).tolist() == [[[0, 1, 3]]]
    assert F.interpolate(x, size=3, mode="nearest-exact").tolist() == [[[0, 2, 4]]]
    assert F.interpolate(x, scale_factor=0.4).shape == (1, 1, 2)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_interpolation_keeps_constants_and_lines(mode, antialias):
    constant = sh.full((1, 1, 7, 6), 3.5, dtype=sh.float64)
    for size in ((3, 2), (9, 13)):
        result = F.interpolate(constant, size=size, mode=mode, antialias=antialias)
        close(result, np.full((1, 1, *size), 3.5))
    x = image(1, 1, 6, 5)
    same = F.interpolate(x, size=(6, 5), mode=mode, antialias=antialias)
    close(same, x.detach().numpy())
    assert gradcheck(lambda t: F.interpolate(t, size=(3, 8), mode=mode, antialias=antialias), (x,))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, ValueError, "either size or scale_factor"),
        ({"size": 2, "scale_factor": 2}, ValueError, "only one of"),
        ({"size": (2, 2, 2)}, ValueError, "same number of spatial dimensions"),
        ({"size": 2, "align_corners": True}, ValueError, "align_corners option"),
        ({"size": 2, "mode": "linear"}, NotImplementedError, "linear mode needs 3D"),
        ({"size": 2, "mode": "best"}, NotImplementedError, "got best"),
        ({"size": 0}, RuntimeError, "greater than 0"),
        ({"size": 2, "antialias": True}, ValueError, "Anti-alias"),
    ],
)
def test_interpolation_refuses(options, error, text):
    with pytest.raises(error, match=text):
        F.interpolate(sh.ones(1, 1, 4, 4), **options)


def test_grid_sample_at_the_pixels_is_the_image():
    for n in (2, 3):
        x = image(2, 3, *(4, 3, 5)[:n])
        theta = sh.eye(n, n + 1, dtype=sh.float64).unsqueeze(0).repeat(2, 1, 1)
        for align in (True, False):
            grid = F.affine_grid(theta, tuple(x.shape), align_corners=align)
            for mode in ("bilinear", "nearest", "bicubic")[: 5 - n]:
                close(F.grid_sample(x, grid, mode, align_corners=align), x.detach().numpy())


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_outside(padding):
    x = sh.tensor([[[[1.0, 2.0, 4.0]]]])
    grid = sh.tensor([[[[-1.5, 0.0], [0.5, 0.0], [2.0, 0.0]]]])
    expected = {"zeros": [0.5, 3.0, 0.0], "border": [1.0, 3.0, 4.0], "reflection": [1.5, 3.0, 2.0]}
    result = F.grid_sample(x, grid, padding_mode=padding, align_corners=True)
    assert result.flatten().tolist() == pytest.approx(expected[padding])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_derivatives(mode, padding):
    x = image(1, 2, 4, 3)
    places = rng.uniform(-1.3, 1.3, (1, 2, 3, 2))
    grid = sh.tensor(places.tolist(), dtype=sh.float64).requires_grad_()
    assert gradcheck(
        lambda a, b: F.grid_sample(a, b, mode, padding, align_corners=False), (x, grid)
    )


def test_grid_sample_refuses():
    x = sh.ones(2, 1, 3, 3)
    with pytest.raises(RuntimeError, match="same batch size"):
        F.grid_sample(x, sh.ones(1, 2, 2, 2), align_corners=True)
    with pytest.raises(RuntimeError, match="size 2 in last dimension"):
        F.grid_sample(x, sh.ones(2, 2, 2, 3), align_corners=True)
    with pytest.raises(ValueError, match="but got: 'best'"):
        F.grid_sample(x, sh.ones(2, 2, 2, 2), mode="best")
    nowhere = sh.full((2, 2, 2, 2), float("nan"))
    for padding in ("zeros", "border", "reflection"):
        assert F.grid_sample(x, nowhere, padding_mode=padding, align_corners=True).shape[2] == 2


def test_fold_and_unfold():
    x = image(2, 3, 5, 6)
    options = {"dilation": (1, 2), "padding": (1, 0), "stride": (2, 1)}
    padded = np.pad(x.detach().numpy(), ((0, 0), (0, 0), (1, 1), (0, 0)))
    blocks = [
        padded[:, :, r : r + 3, c : c + 3 : 2].reshape(2, -1)
        for r in range(0, 5, 2)
        for c in range(4)
    ]
    columns = F.unfold(x, (3, 2), **options)
    close(columns, np.stack(blocks, -1))
    counts = F.fold(F.unfold(sh.ones_like(x), (3, 2), **options), (5, 6), (3, 2), **options)
    both = F.fold(columns, (5, 6), (3, 2), **options)
    close(both, (x * counts).detach().numpy())
    assert gradcheck(lambda t: F.unfold(t, (3, 2), **options), (x,))
    with pytest.raises(RuntimeError, match="divisible by the product of kernel_size"):
        F.fold(sh.ones(5, 4), 3, 2)
    with pytest.raises(RuntimeError, match="smaller than one"):
        F.unfold(sh.ones(1, 3, 3), 4)


def test_bilinear_forms_of_few_digits_are_rounded_once():
    rows1, rows2 = sh.tensor([[0.3, -1.7, 2.2]]), sh.tensor([[1.3, 0.7, -0.9, 0.1]])
    weight = sh.arange(1.0, 25.0).reshape(2, 3, 4).sin()
    for dtype in (sh.bfloat16, sh.float16):
        narrow = [t.to(dtype) for t in (rows1, rows2, weight)]
        exact = F.bilinear(*(t.double() for t in narrow))
        result = F.bilinear(*narrow)
        assert result.dtype is dtype
        assert sh.equal(result, exact.to(dtype))


def test_shuffles():
    x = sh.arange(2 * 8 * 3 * 2).view(2, 8, 3, 2)
    wide = F.pixel_shuffle(x, 2)
    assert wide.shape == (2, 2, 6, 4)
    assert int(wide[1, 1, 3, 2]) == int(x[1, 1 * 4 + 1 * 2 + 0, 1, 1])
    assert sh.equal(F.pixel_unshuffle(wide, 2), x)
    mixed = F.channel_shuffle(x, 2)
    assert sh.equal(mixed[:, [0, 1, 2, 3]], x[:, [0, 4, 1, 5]])


def test_shuffles_never_give_views_and_keep_channels_last():
    for f in (F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle):
        x = sh.arange(2.0 * 3 * 4 * 6).view(2, 3, 4, 6)
        f(x, 1).add_(1)
        assert x[0, 0, 0, 0] == 0
        spread = sh.arange(4.0).view(1, 4, 1, 1).expand(2, 4, 2, 2)
        assert f(spread, 2).is_contiguous()
        assert sh.equal(f(spread, 2), f(spread.contiguous(), 2))
        many = sh.rand(2, 4, 6, 8)
        last = many.to(memory_format=sh.channels_last)
        assert f(last, 2).is_contiguous(memory_format=sh.channels_last)
        assert sh.equal(f(last, 2), f(many, 2))
        assert f(sh.zeros(2, 0, 4, 4), 1).shape == (2, 0, 4, 4)


@pytest.mark.check
def test_powers_averages_and_norms():
    x = image(2, 4, 6, 5)
    array = x.detach().numpy()
    windows = array.reshape(2, 4, 3, 2, 5)[..., :4].reshape(2, 4, 3, 2, 2, 2)
    close(F.avg_pool2d(x, 2), windows.mean((3, 5)))
    close(F.lp_pool2d(x, 2, 2), np.sqrt((windows**2).sum((3, 5))))
    mean, var = array.mean((0, 2, 3)), array.var((0, 2, 3))
    expected = (array - mean[:, None, None]) / np.sqrt(var[:, None, None] + 1e-5)
    running = (sh.zeros(4, dtype=sh.float64), sh.ones(4, dtype=sh.float64))
    close(F.batch_norm(x, *running, training=True), expected)
    close(running[0], 0.1 * mean)
    each = array.reshape(2, 2, -1)
    grouped = (each - each.mean(2, keepdims=True)) / np.sqrt(each.var(2, keepdims=True) + 1e-5)
    close(F.group_norm(x, 2), grouped.reshape(array.shape))
    one = (array - array.mean((2, 3), keepdims=True)) / np.sqrt(
        array.var((2, 3), keepdims=True) + 1e-5
    )
    close(F.instance_norm(x), one)
    root = np.sqrt((array**2).mean(-1, keepdims=True) + 0.1)
    close(F.rms_norm(x, (5,), eps=0.1), array / root)
    padded = np.pad(array**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    near = sum(padded[:, k : k + 4] for k in range(3)) / 3
    close(F.local_response_norm(x, 3), array / (near * 1e-4 + 1) ** 0.75)
    length = np.sqrt((array**2).sum(1, keepdims=True))
    close(F.normalize(x), array / length)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(sh.ones(1, 3), None, None, training=True)
    with pytest.raises(ValueError, match=r"must be positive during training, but got 0.0"):
        F.batch_norm(sh.ones(2, 3), None, None, training=True, eps=0.0)
    with pytest.raises(ValueError, match=r"must be non-negative, but got -1.0"):
        F.batch_norm(sh.ones(2, 3), sh.ones(3), sh.ones(3), eps=-1.0)


def test_embedding_bags():
    table = image(5, 3)
    rows = table.detach().numpy()
    index = sh.tensor([0, 2, 4, 1, 1, 3])
    offsets = sh.tensor([0, 2, 2, 5])
    parts = [[0, 2], [], [4, 1, 1], [3]]
    for mode, reduce in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        result = F.embedding_bag(index, table, offsets, mode=mode)
        close(result, [reduce(rows[p], 0) if p else np.zeros(3) for p in parts])
    weights = image(6)
    result = F.embedding_bag(index, table, offsets, mode="sum", per_sample_weights=weights)
    factors = np.split(weights.detach().numpy(), [2, 2, 5])
    close(
        result, [(rows[p].T @ w if p else np.zeros(3)) for p, w in zip(parts, factors, strict=True)]
    )
    skipped = F.embedding_bag(sh.tensor([[1, 2], [2, 2]]), table, padding_idx=2)
    close(skipped, [rows[1], np.zeros(3)])
    with pytest.raises(RuntimeError, match="index 7 is not in the valid range"):
        F.embedding_bag(sh.tensor([[7]]), table)
    with pytest.raises(RuntimeError, match="-5 through 4, but got 7"):
        F.embedding_bag(index, table, offsets, padding_idx=7)
    with pytest.raises(RuntimeError, match="LongTensor instead"):
        F.embedding_bag(index, table.long(), offsets)
    with pytest.raises(RuntimeError, match="FloatTensor"):
        F.embedding_bag(index, table, offsets, mode="sum", per_sample_weights=weights.float())


def test_the_last_offset_ends_the_last_bag() -> None:
    table, index = image(5, 3), sh.tensor([0, 2, 4, 1, 1, 3])
    rows, factors = table.detach().numpy(), image(6)
    ends = sh.tensor([0, 2, 3])
    result = F.embedding_bag(index, table, ends, mode="mean", include_last_offset=True)
    close(result, [rows[[0, 2]].mean(0), rows[4]])
    weighed = F.embedding_bag(
        index, table, ends, mode="sum", per_sample_weights=factors, include_last_offset=True
    )
    close(weighed[1], rows[4] * factors[2].item())
    result.sum().backward()
    close(table.grad, np.repeat([[0.5], [0], [0.5], [0], [1]], 3, 1))
    none = F.embedding_bag(index, table, sh.tensor([], dtype=sh.int64), mode="sum")
    assert none.shape == (0, 3)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("width", [1, 700])
def test_bags_of_strided_tables_and_their_gradients(mode: str, width: int, threads: int) -> None:
    before = sh.get_num_threads()
    sh.set_num_threads(threads)
    try:
        table = sh.randn(width, 50, dtype=sh.float64).t()[::2].requires_grad_()
        index = sh.randint(0, 25, (400,))
        offsets = sh.tensor([0, 3, 3, 250])
        found = F.embedding_bag(index, table, offsets, mode=mode)
        grad = sh.randn(4, width, dtype=sh.float64)
        (slopes,) = sh.autograd.grad(found, table, grad)
        rows = table[index]
        reduce = {"sum": sh.sum, "mean": sh.mean, "max": lambda t, _: t.max(0)[0]}[mode]
        parts = [reduce(rows[a:b], 0) for a, b in ((0, 3), (3, 250), (250, 400))]
        wanted = sh.stack([parts[0], sh.zeros(width, dtype=sh.float64), *parts[1:]])
        (expected,) = sh.autograd.grad(wanted, table, grad)
        close(found, wanted.detach().numpy())
        close(slopes, expected.numpy())
    finally:
        sh.set_num_threads(before)


def test_rows_of_pairs_are_in_range() -> None:
    table, index = sh.ones(3, 2), sh.tensor([0, 3])
    for sources, targets in ((index, index * 0), (index * 0, index), (index * 0 - 1, index * 0)):
        with pytest.raises(IndexError, match="out of range"):
            sh._C._nn._embedding_bag_sum(table, sources, targets, None, 3)
        with pytest.raises(IndexError, match="out of range"):
            sh._C._nn._embedding_bag_max(table, sources, targets, 3)


def test_bytes_are_resized_with_weights_in_fixed_point():
    x = sh.tensor([[[[0, 255, 10], [7, 100, 200]]]], dtype=sh.uint8)
    once = F.interpolate(x, size=(2, 5), mode="bilinear")
    # Between neighbours with weights 0, 0.4, 1, 0.6, 0 of the farther one, rounded once.
    assert once[0, 0, 0].tolist() == [0, 102, 255, 108, 10]
    assert F.interpolate(x, size=(2, 5), mode="bicubic").dtype is sh.uint8


def test_unfold_takes_bool():
    x = sh.tensor([[[[True, False], [False, True]]]])
    assert F.unfold(x, 2, padding=0).flatten().tolist() == [True, False, False, True]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_nothing_give_the_table_a_gradient_of_zeros(mode: str) -> None:
    table = sh.ones(4, 2, requires_grad=True)
    index = sh.tensor([3, 3])
    F.embedding_bag(index, table, sh.tensor([0, 2]), mode=mode, padding_idx=3).sum().backward()
    assert table.grad is not None
    assert table.grad.tolist() == [[0, 0]] * 4


def test_torchs_embedding_bag_says_where_things_are() -> None:
    weight = sh.tensor([[0.0, 9.0], [3.0, 4.0], [6.0, 1.0]])
    indices, offsets = sh.tensor([0, 2, 1, 1]), sh.tensor([0, 2, 2])
    made, bags, sizes, _ = sh.embedding_bag(weight, indices, offsets, mode=1, padding_idx=0)
    assert made.tolist() == [[6.0, 1.0], [0.0, 0.0], [3.0, 4.0]]
    assert bags.tolist() == [0, 0, 2, 2]
    assert sizes.tolist() == [1, 0, 2]
    made, _, _, rows = sh.embedding_bag(weight, indices, offsets, mode=2)
    assert made.tolist() == [[6.0, 9.0], [0.0, 0.0], [3.0, 4.0]]
    assert rows.tolist() == [[2, 0], [0, 0], [1, 1]]


def test_prelu_is_a_method_too() -> None:
    assert sh.tensor([-2.0, 3.0]).prelu(sh.tensor(0.5)).tolist() == [-1.0, 3.0]


@pytest.mark.parametrize("wanted", ["image", "grid"])
def test_grid_sample_has_second_derivatives_of_one_argument(wanted: str) -> None:
    own = np.random.default_rng(3)  # away from where second derivatives jump
    pixels = sh.tensor(own.normal(size=(1, 2, 4, 5)))
    grid = sh.tensor(own.uniform(-0.9, 0.9, size=(1, 3, 2, 2)))
    chosen = pixels if wanted == "image" else grid
    assert gradgradcheck(
        lambda _: F.grid_sample(pixels, grid, "bicubic", align_corners=True),
        chosen.requires_grad_(),
    )


@pytest.mark.parametrize("shape", [(2, 12, 3, 5), (1, 36, 4, 2), (3, 9, 1, 1)])
def test_pixel_shuffle_keeps_channels_last(shape):
    r = 2 if shape[1] % 4 == 0 else 3
    x = image(*shape).detach()
    last = x.contiguous(memory_format=sh.channels_last)
    wide, wide_last = F.pixel_shuffle(x, r), F.pixel_shuffle(last, r)
    assert wide_last.is_contiguous(memory_format=sh.channels_last)
    assert sh.equal(wide, wide_last)
    back = F.pixel_unshuffle(wide.contiguous(memory_format=sh.channels_last), r)
    assert back.is_contiguous(memory_format=sh.channels_last)
    assert sh.equal(back, x)
    formats = {"memory_format": sh.channels_last}
    assert gradcheck(lambda t: F.pixel_shuffle(t.contiguous(**formats), r), x.requires_grad_())


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(1, 2, 3, 1), (0, 1, -1, 2), (-1, -1, 0, 0), (2, 0, 2, 2)])
@pytest.mark.parametrize("dtype", [sh.float64, sh.bfloat16, sh.uint8])
def test_padding_of_channels_last_is_that_of_planes(dtype, pad, mode):
    x = (image(2, 5, 6, 7).detach() * 20).abs().to(dtype)
    last = x.contiguous(memory_format=sh.channels_last)
    padded = F.pad(last, pad, mode=mode)
    assert padded.is_contiguous(memory_format=sh.channels_last)
    assert sh.equal(padded, F.pad(x, pad, mode=mode))
    assert sh.equal(padded[:, ::2], F.pad(last[:, ::2], pad, mode=mode))


POOLS_1D = {
    "max_pool1d": lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 4, return_indices=True),
    "avg_pool1d": lambda x: (F.avg_pool1d(x, 3, 2, 1),),
    "adaptive_avg_pool1d": lambda x: (F.adaptive_avg_pool1d(x, 4),),
    "mean": lambda x: (F.adaptive_avg_pool1d(x, 1),),
}


@pytest.mark.parametrize("name", POOLS_1D)
@pytest.mark.parametrize("shape", [(2, 16, 11), (3, 9, 30), (1, 2, 5), (4, 1, 6), (1, 8, 2)])
@pytest.mark.parametrize("dtype", [sh.float32, sh.float64, sh.bfloat16])
def test_pooling_1d_of_channels_last_sequences(dtype, shape, name):
    x = image(*shape).detach().to(dtype)
    turned = x.transpose(1, 2).contiguous().transpose(1, 2)
    want, got = POOLS_1D[name](x), POOLS_1D[name](turned)
    for a, b in zip(want, got, strict=True):
        assert a.shape == b.shape
        close(b.double(), a.double().numpy(), 2.0**-7 if dtype is sh.bfloat16 else 1e-5)
    grads = []
    for t in (x, turned):
        leaf = t.detach().requires_grad_()
        y = POOLS_1D[name](leaf)[0]
        (y * sh.arange(y.numel()).reshape(y.shape).to(dtype)).sum().backward()
        grads.append(leaf.grad)
    close(grads[1].double(), grads[0].double().numpy(), 2.0**-6 if dtype is sh.bfloat16 else 1e-5)


def test_fold_of_bools_is_true_where_any_part_is():
    columns = sh.tensor([[[True, False], [False, False]]])
    folded = F.fold(columns, (1, 3), (1, 2))
    assert folded.tolist() == [[[[True, False, False]]]]


def test_bilinear_has_as_many_outputs_as_its_weight_and_none_without() -> None:
    none = F.bilinear(sh.ones(2, 3), sh.ones(2, 4), sh.ones(0, 3, 4), sh.ones(0))
    assert none.shape == (2, 0)
    assert F.bilinear(sh.ones(3), sh.ones(4), sh.ones(0, 3, 4)).shape == (0,)


STAYS = [1.0, 4.0, 9.0, 16.0, 25.0]


@pytest.mark.parametrize(
    ("mode", "antialias", "expected"),
    [
        ("linear", False, STAYS),
        ("bilinear", False, STAYS),
        ("bilinear", True, STAYS),
        ("bicubic", True, STAYS),
        ("trilinear", False, STAYS),
        ("bicubic", False, [0.88504, 3.10938, 7.03703, 12.65673, 20.99945]),
    ],
)
def test_a_size_that_stays_is_copied_whatever_the_scale(mode, antialias, expected) -> None:
    n = {"linear": 1, "trilinear": 3}.get(mode, 2)
    x = sh.arange(1.0, 6.0).square().expand(1, 1, *[2] * (n - 1), 5).clone().requires_grad_()
    scale = (2.0,) * (n - 1) + (1.13,)
    y = F.interpolate(x, scale_factor=scale, mode=mode, antialias=antialias)
    assert y.shape[-1] == 5
    assert y.reshape(-1, 5)[0].tolist() == pytest.approx(expected, abs=1e-4)
    y.sum().backward()
    if expected is STAYS:
        assert sh.allclose(x.grad, sh.full_like(x, 2.0 ** (n - 1)))
