"""References of convolutions, pools, padding, resampling and blocks of images."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Reference = Callable[..., Any]
Ints = Sequence[int]
Spans = list[tuple[int, int]]


def _all(value: Any, n: int) -> list[int]:
    """One number for each of *n* dims."""
    given = [value] if isinstance(value, int) else list(value)
    return given * n if len(given) == 1 else given


def _padded(a: Any, pad: Sequence[tuple[int, int]], value: Any = 0) -> Any:
    """*a* with its last dims longer, or shorter where a number is negative."""
    spans = [(0, 0)] * (a.ndim - len(pad)) + list(pad)
    longer = np.pad(a, [(max(x, 0), max(y, 0)) for x, y in spans], constant_values=value)
    return longer[
        tuple(
            slice(max(-x, 0), n - max(-y, 0)) for (x, y), n in zip(spans, longer.shape, strict=True)
        )
    ]


def _taps(
    kernel: Ints, stride: Ints, dilation: Ints, out: Ints
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Every place of the kernel, and the elements of the padded input that it meets."""
    for place in np.ndindex(*kernel):
        at = [
            slice(k * d, k * d + s * (n - 1) + 1, s)
            for k, d, s, n in zip(place, dilation, stride, out, strict=True)
        ]
        yield place, (..., *at)


def _grouped(weight: Any, groups: int) -> Any:
    return weight.reshape(groups, -1, *weight.shape[1:])


def _convolve(
    a: Any, weight: Any, bias: Any, stride: Ints, pad: Spans, dilation: Ints, groups: int
) -> Any:
    kernel = weight.shape[2:]
    a = _padded(a, pad)
    out = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(a.shape[2:], kernel, stride, dilation, strict=True)
    ]
    parts = a.reshape(len(a), groups, -1, *a.shape[2:])
    made = np.zeros((len(a), groups, len(weight) // groups, *out), np.result_type(a, weight))
    for place, at in _taps(kernel, stride, dilation, out):
        made += np.einsum("bgi...,goi->bgo...", parts[at], _grouped(weight, groups)[(..., *place)])
    made = made.reshape(len(a), len(weight), *out)
    return made if bias is None else made + bias.reshape(-1, *[1] * len(kernel))


def _spread(
    a: Any,
    weight: Any,
    bias: Any,
    stride: Ints,
    padding: Ints,
    more: Ints,
    groups: int,
    dilation: Ints,
) -> Any:
    """The transpose of a convolution."""
    kernel, out = weight.shape[2:], a.shape[2:]
    full = [
        (n - 1) * s + d * (k - 1) + 1
        for n, k, s, d in zip(out, kernel, stride, dilation, strict=True)
    ]
    parts = a.reshape(len(a), groups, -1, *out)
    made = np.zeros((len(a), groups, weight.shape[1], *full), np.result_type(a, weight))
    for place, at in _taps(kernel, stride, dilation, out):
        made[at] += np.einsum("bgi...,gio->bgo...", parts, _grouped(weight, groups)[(..., *place)])
    made = made.reshape(len(a), -1, *full)
    made = _padded(made, [(-p, m - p) for p, m in zip(padding, more, strict=True)])
    return made if bias is None else made + bias.reshape(-1, *[1] * len(kernel))


def _same(kernel: Ints, dilation: Ints) -> Spans:
    return [
        (d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2)
        for k, d in zip(kernel, dilation, strict=True)
    ]


def _conv(
    a: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    n = weight.ndim - 2
    if a.ndim == n + 1:
        return _conv(a[None], weight, bias, stride, padding, dilation, groups)[0]
    dilation = _all(dilation, n)
    if isinstance(padding, str):
        pad = _same(weight.shape[2:], dilation) if padding == "same" else [(0, 0)] * n
    else:
        pad = [(p, p) for p in _all(padding, n)]
    return _convolve(a, weight, bias, _all(stride, n), pad, dilation, groups)


def _conv_transpose(
    a: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    n = weight.ndim - 2
    numbers = [_all(x, n) for x in (stride, padding, output_padding)]
    return _spread(a, weight, bias, *numbers, groups, _all(dilation, n))


def _convolution(
    a: Any,
    weight: Any,
    bias: Any,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Any:
    if transposed:
        return _spread(a, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(a, weight, bias, stride, padding, dilation, groups)


def _convolution_backward(grad: Any, a: Any, weight: Any, *_: Any) -> Any:
    """Of a convolution with stride 1, without padding and groups; nothing is conjugated here."""
    kernel, out = weight.shape[2:], grad.shape[2:]
    ones = [1] * len(kernel)
    of_input = np.zeros(a.shape, grad.dtype)
    of_weight = np.zeros(weight.shape, grad.dtype)
    for place, at in _taps(kernel, ones, ones, out):
        of_input[at] += np.einsum("bo...,oi->bi...", grad, weight[(..., *place)])
        of_weight[(..., *place)] = np.einsum("boxy,bixy->oi", grad, a[at])
    return of_input, of_weight, grad.sum(axis=(0, *range(2, grad.ndim)))


CONV: dict[str, Reference] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
    **{f"conv_transpose{n}d": _conv_transpose for n in (1, 2, 3)},
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
}


def _windows(n: int, out: int, of: Callable[[int], tuple[int, int, int]]) -> list[Any]:
    """For every window of one dim the places inside and how many there are with the padding."""
    found = []
    for k in range(out):
        start, end, step = of(k)
        inside = [i for i in range(start, end, step) if 0 <= i < n]
        found.append((inside, end - start))
    return found


def _sliding(
    n: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool
) -> list[Any]:
    reach = dilation * (kernel - 1) + 1
    out = -(-(n + 2 * padding - reach) // stride) if ceil else (n + 2 * padding - reach) // stride
    out += 1
    if ceil and (out - 1) * stride >= n + padding:
        out -= 1
    return _windows(
        n,
        out,
        lambda k: (k * stride - padding, min(k * stride - padding + reach, n + padding), dilation),
    )


def _shares(n: int, out: int) -> list[Any]:
    return _windows(n, out, lambda k: (k * n // out, -(-(k + 1) * n // out), 1))


def _pooled(a: Any, windows: list[list[Any]], function: Reference) -> Any:
    """*function* of (planes of the elements of a window, their numbers, the window's size)."""
    n = len(windows)
    lead, plane = a.shape[:-n], a.shape[-n:]
    numbers = np.arange(int(np.prod(plane))).reshape(plane)
    flat = a.reshape(*lead, -1)
    out = tuple(len(w) for w in windows)
    results: list[Any] = []
    for place in itertools.product(*windows):
        chosen = numbers[np.ix_(*(inside for inside, _ in place))].ravel()
        size = int(np.prod([length for _, length in place]))
        results.append(function(flat[..., chosen], chosen, size))
    if isinstance(results[0], tuple):
        return [np.stack(part, -1).reshape(*lead, *out) for part in zip(*results, strict=True)]
    return np.stack(results, -1).reshape(*lead, *out)


def _largest(values: Any, numbers: Any, size: int) -> Any:
    return values.max(axis=-1), numbers[values.argmax(axis=-1)]


def _max_pool(n: int, indices: bool) -> Reference:
    def call(
        a: Any,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil: bool = False,
    ) -> Any:
        numbers = [_all(x, n) for x in (kernel, stride or kernel, padding, dilation)]
        windows = [_sliding(*row, ceil) for row in zip(a.shape[-n:], *numbers, strict=True)]
        values, found = _pooled(a, windows, _largest)
        return (values, found) if indices else values

    return call


def _random_windows(size: int, kernel: int, out: int, shift: float) -> list[Any]:
    """Windows whose steps are random; the last ends with the line."""
    step = (size - kernel) / (out - 1) if out > 1 else 0.0
    starts = [int((k + shift) * step) - int(shift * step) for k in range(out - 1)]
    return _windows(size, out, lambda k: (at := [*starts, size - kernel][k], at + kernel, 1))


def _fractional_max_pool(n: int) -> Reference:
    def call(a: Any, kernel: Any, out: Any, samples: Any) -> Any:
        planes = []
        for plane, shifts in zip(a.reshape(-1, *a.shape[-n:]), samples.reshape(-1, n), strict=True):
            order = shifts if n == 3 else shifts[::-1]  # of images the width comes first
            rows = zip(plane.shape, _all(kernel, n), _all(out, n), order, strict=True)
            planes.append(_pooled(plane, [_random_windows(*row) for row in rows], _largest))
        return [
            np.stack(part).reshape(*a.shape[:-n], *_all(out, n))
            for part in zip(*planes, strict=True)
        ]

    return call


def _max_unpool(n: int) -> Reference:
    def call(a: Any, indices: Any, out: Ints, *_: Any) -> Any:
        made = np.zeros((*a.shape[:-n], int(np.prod(out))), a.dtype)
        flat = [x.reshape(*a.shape[:-n], -1) for x in (indices, a)]
        np.put_along_axis(made, *flat, -1)
        return made.reshape(*a.shape[:-n], *out)

    return call


def _avg_pool(n: int) -> Reference:
    def call(
        a: Any,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil: bool = False,
        with_padding: bool = True,
        divisor: int | None = None,
    ) -> Any:
        numbers = [_all(x, n) for x in (kernel, stride or kernel, padding)]
        windows = [_sliding(*row, 1, ceil) for row in zip(a.shape[-n:], *numbers, strict=True)]

        def mean(values: Any, _: Any, size: int) -> Any:
            count = divisor or (size if with_padding else values.shape[-1])
            total = values.sum(axis=-1)
            return total / count if a.dtype.kind == "f" else np.trunc(total / count)

        return _pooled(a, windows, mean)

    return call


def _adaptive(n: int, function: Reference) -> Reference:
    def call(a: Any, out: Any) -> Any:
        windows = [_shares(size, k) for size, k in zip(a.shape[-n:], _all(out, n), strict=True)]
        return _pooled(a, windows, function)

    return call


def _mean(values: Any, *_: Any) -> Any:
    return values.mean(axis=-1)


def _max_pool_double_backward(a: Any, indices: Any, n: int) -> Any:
    flat = a.reshape(*a.shape[:-n], -1)
    chosen = indices.reshape(*indices.shape[:-n], -1)
    return np.take_along_axis(flat, chosen, -1).reshape(indices.shape)


def _max_pool_backward(grad: Any, sizes: Ints, indices: Any, n: int) -> Any:
    made = np.zeros((*sizes[:-n], int(np.prod(sizes[-n:]))), grad.dtype)
    for place in np.ndindex(grad.shape):
        made[(*place[:-n], indices[place])] += grad[place]
    return made.reshape(sizes)


def _transposed(pool: Reference) -> Reference:
    """The gradient of a linear pool, from what the pool makes of each element."""

    def call(grad: Any, sizes: Ints, _strides: Ints, *args: Any) -> Any:
        n = int(np.prod(sizes))
        made = pool(np.eye(n).reshape(n, *sizes), *args).reshape(n, -1) @ grad.ravel()
        return made.reshape(sizes)

    return call


def _adaptive_backward(n: int) -> Reference:
    whole = _transposed(_adaptive(n, _mean))
    return lambda grad, sizes, strides: whole(grad, sizes, strides, grad.shape[-n:])


POOL: dict[str, Reference] = {
    **{f"max_pool{n}d": _max_pool(n, False) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": _max_pool(n, True) for n in (1, 2, 3)},
    **{f"fractional_max_pool{n}d": _fractional_max_pool(n) for n in (2, 3)},
    **{f"max_unpool{n}d": _max_unpool(n) for n in (2, 3)},
    **{f"avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive(n, _mean) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive(n, _largest) for n in (1, 2, 3)},
    "_adaptive_avg_pool_double_backward": lambda a, sizes, n: _adaptive(n, _mean)(a, sizes[-n:]),
    "_max_pool_double_backward": _max_pool_double_backward,
    "_max_pool_backward": _max_pool_backward,
    **{f"_avg_pool{n}d_backward": _transposed(_avg_pool(n)) for n in (1, 2, 3)},
    **{f"_adaptive_avg_pool{n}d_backward": _adaptive_backward(n) for n in (1, 2, 3)},
}


def _pairs(pad: Ints) -> Spans:
    """Numbers that begin with the last dim, by dim."""
    return list(zip(pad[::2], pad[1::2], strict=True))[::-1]


def _constant_pad(a: Any, pad: Ints, value: Any = 0) -> Any:
    return _padded(a, _pairs(pad), value)


MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(a: Any, pad: Ints, mode: str = "constant", value: Any = None) -> Any:
    if mode == "constant":
        return _constant_pad(a, pad, value or 0)
    return _pad_nonconstant(a, pad, mode)


def _pad_nonconstant(a: Any, pad: Ints, mode: str) -> Any:
    how: Any = MODES[mode]
    for dim, (before, after) in zip(range(-len(pad) // 2, 0), _pairs(pad), strict=True):
        kept = slice(max(-before, 0), a.shape[dim] - max(-after, 0))
        a = np.moveaxis(a, dim, 0)[kept]
        spans = [(max(before, 0), max(after, 0))] + [(0, 0)] * (a.ndim - 1)
        a = np.moveaxis(np.pad(a, spans, mode=how), 0, dim)
    return a


def _pad_nonconstant_backward(grad: Any, size: Ints, pad: Ints, mode: str) -> Any:
    """The transpose of *_pad_nonconstant*, from what that makes of each element."""
    n = int(np.prod(size))
    units = np.eye(n).reshape(n, *size)
    return (_pad_nonconstant(units, pad, mode).reshape(n, -1) @ grad.reshape(-1)).reshape(size)


def _cubic(x: float, a: float) -> float:
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def _triangle(x: float) -> float:
    return max(1 - abs(x), 0.0)


def _weights(n: int, size: int, mode: str, align: bool, antialias: bool) -> np.ndarray:
    """The matrix of a linear resampling from *n* to *size* elements."""
    step = (n - 1) / max(size - 1, 1) if align else n / size
    made = np.zeros((size, n))
    for k in range(size):
        at = k * step if align else (k + 0.5) * step - 0.5
        if antialias:
            wide = max(step, 1.0)
            row = [_triangle((j - at) / wide) for j in range(n)]
            made[k] = np.array(row) / np.sum(row)
            continue
        if mode.startswith("nearest"):
            made[k, int((k + (mode == "nearest-exact") / 2) * step)] = 1
            continue
        if mode == "linear":
            at = max(at, 0.0)
        first = int(np.floor(at))
        for j in range(first - 1, first + 3):
            share = _triangle(at - j) if mode == "linear" else _cubic(at - j, -0.75)
            made[k, min(max(j, 0), n - 1)] += share
    return made


def _resample(
    a: Any, size: Ints, mode: str, align: bool, scale: Sequence[float], antialias: bool
) -> Any:
    for dim in range(-len(scale), 0):
        matrix = _weights(a.shape[dim], size[dim], mode, align, antialias)
        a = np.moveaxis(np.moveaxis(a, dim, -1) @ matrix.T, -1, dim)
    return a


def _resample_backward(
    grad: Any, size: Ints, mode: str, align: bool, scale: Sequence[float], antialias: bool
) -> Any:
    for dim in range(-len(scale), 0):
        matrix = _weights(size[dim], grad.shape[dim], mode, align, antialias)
        grad = np.moveaxis(np.moveaxis(grad, dim, -1) @ matrix, -1, dim)
    return grad


def _im2col(a: Any, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    a = _padded(a, [(p, p) for p in padding])
    out = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(a.shape[-2:], kernel, stride, dilation, strict=True)
    ]
    blocks = [a[at] for _, at in _taps(kernel, stride, dilation, out)]
    return np.stack(blocks, axis=2).reshape(len(a), -1, int(np.prod(out)))


def _col2im(a: Any, size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    """The transpose of *_im2col*, from what that makes of each element."""
    channels = a.shape[1] // int(np.prod(kernel))
    n = channels * int(np.prod(size))
    units = np.eye(n).reshape(n, channels, *size)
    columns = _im2col(units, kernel, dilation, padding, stride).reshape(n, -1)
    sums = (a.reshape(len(a), -1) @ columns.T).reshape(len(a), channels, *size)
    return sums != 0 if a.dtype == bool else sums


def _reflected(x: float, n: int, align: bool) -> float:
    low, span = (0.0, float(n - 1)) if align else (-0.5, float(n))
    turns, rest = divmod(abs(x - low), span) if span else (0, 0.0)
    return rest + low if turns % 2 == 0 else span - rest + low


def _inside(x: float, n: int, padding: int, align: bool) -> float:
    if padding == 2:
        x = _reflected(x, n, align)
    return x if padding == 0 else min(max(x, 0.0), n - 1.0)


def _axis_shares(x: float, n: int, mode: int, padding: int, align: bool) -> dict[int, float]:
    """Numbers of elements along one dim and their shares of the value at *x* from -1 to 1."""
    at = (x + 1) / 2 * (n - 1) if align else ((x + 1) * n - 1) / 2
    if mode != 2:
        at = _inside(at, n, padding, align)
    first = int(np.floor(at))
    found: dict[int, float] = {}
    for j in range(first - 1, first + 3):
        if mode == 0:
            share, place = _triangle(at - j), j
        elif mode == 1:
            share, place = float(j == round(at)), j
        else:
            share, place = _cubic(at - j, -0.75), int(_inside(j, n, padding, align))
        if 0 <= place < n:
            found[place] = found.get(place, 0.0) + share
    return found


def _grid_sampler(a: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    made = np.zeros((*a.shape[:2], *grid.shape[1:-1]), a.dtype)
    for place in np.ndindex(*grid.shape[:-1]):
        # The coordinates begin with the last dim.
        shares = [
            _axis_shares(float(x), n, mode, padding, align)
            for x, n in zip(grid[place][::-1], a.shape[2:], strict=True)
        ]
        for elements in itertools.product(*(s.items() for s in shares)):
            at = tuple(k for k, _ in elements)
            factor = np.prod([share for _, share in elements])
            made[(place[0], slice(None), *place[1:])] += factor * a[(place[0], slice(None), *at)]
    return made


IMAGE: dict[str, Reference] = {
    "_resample": _resample,
    "_resample_backward": _resample_backward,
    "im2col": _im2col,
    "col2im": _col2im,
    "grid_sampler": _grid_sampler,
    "grid_sampler_2d": _grid_sampler,
    "grid_sampler_3d": _grid_sampler,
    "constant_pad_nd": _constant_pad,
    "_pad_nonconstant": _pad_nonconstant,
    "_pad_nonconstant_backward": _pad_nonconstant_backward,
    "_constant_pad_backward": lambda grad, pad: _constant_pad(grad, [-n for n in pad]),
    "pad": _pad,
    **{f"reflection_pad{n}d": lambda a, pad: _pad(a, pad, "reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": lambda a, pad: _pad(a, pad, "replicate") for n in (1, 2, 3)},
}

REFERENCES = {**CONV, **POOL, **IMAGE}
