"""Unpooling, and pooling of random windows, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from peak import peak

import shmtensor as sh
from shmtensor import _C
from shmtensor.autograd import gradcheck, gradgradcheck
from shmtensor.nn import functional as F

rng = np.random.default_rng(11)

#: Ways in which the same elements lie.
LAYOUTS: dict[str, Callable[[sh.Tensor], sh.Tensor]] = {
    "dense": lambda t: t,
    "transposed": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2),
    "channels side by side": lambda t: t.movedim(1, -1).contiguous().movedim(-1, 1),
    "every other": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda t: t[:1].expand_as(t),
}


def image(*shape: int) -> sh.Tensor:
    return sh.tensor(rng.normal(size=shape).tolist(), dtype=sh.float64).requires_grad_()


def close(result: sh.Tensor, expected, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.check
def test_unpooling_undoes_pooling():
    for n in (1, 2, 3):
        x = image(2, 3, *(6, 4, 4)[:n])
        pool = getattr(F, f"max_pool{n}d")
        values, where = pool(x, 2, return_indices=True)
        back = getattr(F, f"max_unpool{n}d")(values, where, 2)
        assert back.shape == x.shape
        again, _ = pool(back.abs() + back, 2, return_indices=True)
        close(again, np.maximum(values.detach().numpy() * 2, 0))
        kept = back.detach().numpy()
        assert np.all((kept == 0) | (kept == x.detach().numpy()))
    with pytest.raises(RuntimeError, match="invalid max index: 9"):
        F.max_unpool1d(sh.ones(1, 1, 2), sh.tensor([[[0, 9]]]), 2)
    with pytest.raises(ValueError, match="invalid output_size"):
        F.max_unpool1d(sh.ones(1, 1, 2), sh.tensor([[[0, 2]]]), 2, output_size=[9])


def test_fractional_pooling_takes_maxima_of_windows():
    x = image(2, 3, 9, 7)
    samples = sh.tensor(rng.uniform(size=(2, 3, 2)).tolist(), dtype=sh.float64)
    values, where = F.fractional_max_pool2d(
        x, 2, output_size=(5, 4), return_indices=True, _random_samples=samples
    )
    array, numbers = x.detach().numpy(), samples.numpy()
    for b in range(2):
        for c in range(3):
            starts = []
            for u, length, out in ((numbers[b, c, 1], 9, 5), (numbers[b, c, 0], 7, 4)):
                step = (length - 2) / (out - 1)
                line = [int((k + u) * step) - int(u * step) for k in range(out - 1)]
                starts.append([*line, length - 2])
            expected = [
                [array[b, c, r : r + 2, s : s + 2].max() for s in starts[1]] for r in starts[0]
            ]
            close(values[b, c], expected)
    assert sh.equal(x.flatten(2).gather(2, where.flatten(2)), values.flatten(2))
    assert F.fractional_max_pool3d(sh.ones(1, 4, 4, 4), 2, output_ratio=0.5).shape == (1, 2, 2, 2)
    planned = F.fractional_max_pool2d(sh.ones(1, 6, 6, device="meta"), 2, output_size=3)
    assert planned.device.type == "meta"
    assert planned.shape == (1, 3, 3)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [sh.float32, sh.float64, sh.float16, sh.bfloat16])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_of_several_maxima_of_one_place_the_last_stays(threads, n, dtype, layout):
    sizes = (7, 5, 4)[:n]
    space = [2 * s + 1 for s in sizes]
    lay = LAYOUTS[layout]
    values = lay(sh.randn(3, 9, *sizes).to(dtype))
    where = lay(sh.randint(0, 4 * n, (3, 9, *sizes)))
    expected = np.zeros((27, np.prod(space)))
    flat, places = values.double().numpy().reshape(27, -1), where.numpy().reshape(27, -1)
    for row in range(27):
        for k, v in zip(places[row], flat[row], strict=True):
            expected[row, k] = v
    leaf = values.detach().requires_grad_()
    result = getattr(F, f"max_unpool{n}d")(leaf, where, 2, output_size=space)
    assert np.array_equal(result.double().detach().numpy().reshape(27, -1), expected)
    grad = sh.randn(result.shape).to(dtype)
    result.backward(grad)
    picked = grad.reshape(3, 9, -1).gather(2, where.reshape(3, 9, -1))
    assert sh.equal(leaf.grad, picked.reshape(values.shape))


def test_unpooling_keeps_channels_side_by_side():
    x = sh.randn(2, 8, 6, 6).contiguous(memory_format=sh.channels_last)
    values, where = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(values, where, 2)
    assert back.is_contiguous(memory_format=sh.channels_last)
    assert sh.equal(back, F.max_unpool2d(values.contiguous(), where.contiguous(), 2))


def test_what_unpooling_refuses():
    x, where = sh.ones(1, 2, 2, 2), sh.zeros(1, 2, 2, 2, dtype=sh.int64)
    for index in (-1, 16, 2**40):
        with pytest.raises(RuntimeError, match=rf"invalid max index: {index} .*size 4x4\)$"):
            F.max_unpool2d(x, sh.full((1, 2, 2, 2), index), 2)
    with pytest.raises(RuntimeError, match="indices should be type int64 but got: Int"):
        F.max_unpool2d(x, where.int(), 2)
    with pytest.raises(RuntimeError, match="3d or 4d Tensor, but got a tensor with 2 dim"):
        F.max_unpool2d(x[0, 0], where[0, 0], 2)
    with pytest.raises(RuntimeError, match="Expected shape of indices"):
        F.max_unpool2d(x, where[0], 2)
    with pytest.raises(RuntimeError, match="with dimension 1 being empty"):
        F.max_unpool2d(x[:, :0], where[:, :0], 2)
    with pytest.raises(NotImplementedError, match="\"max_unpool2d\" not implemented for 'Int'"):
        F.max_unpool2d(x.int(), where, 2)
    with pytest.raises(RuntimeError, match="exactly two elements"):
        _C._nn.max_unpool2d(x, where, [4])
    with pytest.raises(RuntimeError, match="non-negative spatial"):
        _C._nn.max_unpool2d(x, where, [4, -1])
    with pytest.raises(RuntimeError, match="strides should be greater than zero"):
        F.max_unpool3d(x.unsqueeze(2), where.unsqueeze(2), 2, 0)
    with pytest.raises(ValueError, match="containing 2 or 4 elements"):
        F.max_unpool2d(x, where, 2, output_size=[4])
    with pytest.raises(IndexError):
        F.max_unpool2d(x[0, 0, 0], where, 2)
    assert _C._nn.max_unpool2d(x, where, [4, 0]).shape == (1, 2, 4, 0)
    assert F.max_unpool2d(x[:0], where[:0], 2).shape == (0, 2, 4, 4)
    assert F.max_unpool2d(x.to("meta"), where.to("meta"), 2).shape == (1, 2, 4, 4)


def starts(number: float, length: int, out: int, window: int) -> list[int]:
    if out == 1:
        return [length - window]
    step = (length - window) / (out - 1)
    line = [int((k + number) * step) - int(number * step) for k in range(out - 1)]
    return [*line, length - window]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("sizes", "window", "out"),
    [((9, 7), (2, 3), (5, 1)), ((2, 150), (1, 2), (2, 140)), ((6, 5, 7), (2, 1, 3), (1, 4, 4))],
)
def test_random_windows_of_any_layout(threads, sizes, window, out, layout):
    n = len(sizes)
    x = sh.randn(2, 5, *sizes, dtype=sh.float64)
    x[1, 2] = -np.inf
    x[0, 1, ..., 3] = np.nan
    x = LAYOUTS[layout](x)
    samples = sh.rand(3, 5, n, dtype=sh.float64)
    leaf = x.detach().requires_grad_()
    pool = getattr(F, f"fractional_max_pool{n}d_with_indices")
    values, where = pool(leaf, window, out, _random_samples=samples)
    array, numbers, flat = x.numpy(), samples.numpy(), np.zeros(x.shape)
    for b, c in np.ndindex(2, 5):
        order = numbers[b, c, ::-1] if n == 2 else numbers[b, c]
        begins = [starts(*given) for given in zip(order, sizes, out, window, strict=True)]
        for place in np.ndindex(*out):
            corner = [line[k] for line, k in zip(begins, place, strict=True)]
            best, at = -np.inf, tuple(corner)
            for step in np.ndindex(*window):
                here = tuple(i + k for i, k in zip(corner, step, strict=True))
                value = array[b, c][here]
                if value > best or np.isnan(value):
                    best, at = value, here
            assert np.array_equal(values[b, c][place].item(), best, equal_nan=True)
            assert where[b, c][place].item() == np.ravel_multi_index(at, sizes)
            flat[b, c][at] += 1
    values.backward(sh.ones_like(values))
    assert np.array_equal(leaf.grad.numpy(), flat)


@pytest.mark.check
def test_steps_of_random_windows_are_rounded_to_the_dtype():
    line = sh.arange(64.0).expand(1, 1, 2, 64)
    number = 0.6669921875
    for dtype, kind in ((sh.float16, np.float16), (sh.float32, np.float32)):
        samples = sh.full((1, 1, 2), number, dtype=dtype)
        _, where = F.fractional_max_pool2d_with_indices(
            line.to(dtype), 1, (1, 40), _random_samples=samples
        )
        step = kind(63) / kind(39)
        before = int(kind(number) * step)
        expected = [int((kind(k) + kind(number)) * step) - before for k in range(39)]
        assert (where[0, 0, 0] - 64).tolist() == [*expected, 63]


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e30, -1e30, 1e8, -1.7])
def test_numbers_beyond_one_stay_inside_the_plane(number):
    samples = sh.full((1, 1, 2), number)
    x = sh.arange(36.0).reshape(1, 1, 6, 6)
    values, where = F.fractional_max_pool2d_with_indices(x, 2, 4, _random_samples=samples)
    assert sh.equal(values, where.float())
    assert 0 <= where.min() <= where.max() < 36


def test_gradients_of_random_windows():
    samples = sh.rand(2, 3, 2, dtype=sh.float64)

    def pool(t: sh.Tensor) -> sh.Tensor:
        return F.fractional_max_pool2d(t, 2, 3, _random_samples=samples)

    assert gradcheck(pool, (image(2, 3, 5, 6),))
    assert gradgradcheck(pool, (image(2, 3, 5, 6),))


def test_what_random_windows_refuse():
    x, samples = sh.ones(2, 3, 6, 6), sh.rand(2, 3, 2)

    def pool(t=x, window=2, out=3, numbers=samples) -> sh.Tensor:
        return F.fractional_max_pool2d(t, window, out, _random_samples=numbers)

    with pytest.raises(RuntimeError, match="the same dtype as input"):
        pool(numbers=samples.double())
    with pytest.raises(RuntimeError, match="no less then input batch size"):
        pool(numbers=samples[:1])
    with pytest.raises(RuntimeError, match="equals to input channel size"):
        pool(numbers=samples[:, :1])
    with pytest.raises(RuntimeError, match="equals to 2; got 1"):
        pool(numbers=samples[..., :1])
    with pytest.raises(RuntimeError, match="to have 3 dimensions, got 2"):
        pool(numbers=samples[0])
    with pytest.raises(RuntimeError, match="pool width 2 too large relative to input width 6"):
        pool(out=(3, 6))
    with pytest.raises(RuntimeError, match="kernel_size must be greater than zero"):
        pool(window=0)
    with pytest.raises(RuntimeError, match="must either be a single Int"):
        pool(window=(2, 2, 2))
    with pytest.raises(RuntimeError, match="dimension 2 being empty"):
        pool(x[:, :, :0])
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        pool(x.int(), numbers=samples.int())
    with pytest.raises(ValueError, match="requires specifying either"):
        F.fractional_max_pool2d(x, 2)
    with pytest.raises(ValueError, match="output_ratio to either be a single Int"):
        F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5, 0.5))
    with pytest.raises(RuntimeError, match="pool time 2 too large"):
        F.fractional_max_pool3d(sh.ones(1, 3, 6, 6), 2, (2, 3, 3))
    assert pool(x[:0], numbers=samples[:0]).shape == (0, 3, 3, 3)
    assert pool(out=0).shape == (2, 3, 0, 0)


@pytest.mark.parametrize("layout", ["dense", "transposed"])
@pytest.mark.parametrize("n", [2, 3])
def test_memory_of_random_windows_and_of_unpooling(n, layout):
    x = LAYOUTS[layout](sh.randn(8, 16, *(64, 64, 16)[:n]))
    pool, back = getattr(F, f"fractional_max_pool{n}d"), getattr(F, f"max_unpool{n}d")
    out = [s // 2 for s in x.shape[-n:]]
    values, _ = pool(x, 2, out, return_indices=True)
    results = values.numel() * 12
    assert peak(lambda: pool(x, 2, out)) <= results * 9 // 8 + (200 << 10)
    small, places = x[..., ::2], sh.zeros(x[..., ::2].shape, dtype=sh.int64)
    wanted = [s * 2 for s in small.shape[-n:]]
    # Maxima in another order than their planes' are laid dense.
    copied = 0 if layout == "dense" else small.numel() * 4
    taken = 4 * 128 * int(np.prod(wanted)) + copied
    assert peak(lambda: back(small, places, 2)) <= taken * 9 // 8 + (64 << 10)
