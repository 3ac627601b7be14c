"""Convolutions against their definition, at the instruction-set level of this process.

test_conv_forward.py runs it in one process for each level; it prints the wrong cases as JSON.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor.nn import functional as nnf

#: dims, channels, filters, groups, size, kernel, stride, padding, dilation
Case = tuple[int, int, int, int, int, int, int, int, int]
CASES: list[Case] = [
    (1, 3, 8, 1, 100, 3, 1, 1, 1),
    (1, 4, 6, 2, 75, 5, 3, 2, 2),
    (2, 3, 16, 1, 20, 3, 1, 1, 1),
    (2, 3, 13, 1, 21, 7, 2, 3, 1),
    (2, 16, 16, 1, 16, 5, 1, 2, 1),
    (2, 8, 12, 4, 17, 3, 1, 0, 1),
    (2, 4, 8, 1, 26, 3, 3, 4, 2),
    (2, 4, 9, 1, 18, 1, 1, 0, 1),
    (2, 4, 9, 1, 18, 1, 2, 1, 1),
    (2, 40, 8, 1, 7, 3, 1, 1, 1),
    (3, 2, 8, 1, 12, 3, 1, 1, 1),
    (3, 2, 5, 1, 14, 2, 2, 1, 2),
    # Images read in place: whole vectors, less than one, several tiles with a short last one.
    (1, 5, 16, 1, 20, 5, 1, 0, 1),
    (1, 3, 17, 1, 11, 3, 1, 0, 2),
    (1, 16, 8, 1, 9003, 2, 1, 0, 1),
    (2, 16, 16, 1, 91, 1, 1, 0, 1),
    (2, 30, 20, 2, 65, 3, 1, 0, 2),
    (2, 3, 16, 1, 7, 1, 1, 0, 1),
    (3, 4, 8, 1, 9, 1, 1, 0, 1),
    # im2col panels: small planes and many filters, several images at a time.
    (2, 4, 66, 1, 9, 3, 1, 1, 1),
    (2, 6, 130, 2, 9, 3, 1, 1, 1),
    (2, 2, 64, 1, 19, 3, 2, 1, 2),
    (3, 2, 64, 1, 6, 2, 1, 0, 1),
    (2, 140, 64, 1, 9, 5, 1, 2, 1),
    (2, 16, 66, 1, 7, 1, 1, 0, 1),
    (2, 5, 70, 1, 9, 1, 2, 1, 1),
    # NHWC: several blocks of filters, whose elements are taken in pieces.
    (2, 180, 50, 1, 5, 3, 1, 1, 1),
    (2, 530, 72, 1, 4, 2, 3, 1, 2),
    (2, 70, 97, 1, 11, 1, 1, 0, 1),
    (2, 34, 66, 2, 12, 3, 2, 2, 1),
    (3, 33, 20, 1, 5, 3, 2, 1, 2),
    # Depthwise.
    (2, 16, 16, 16, 12, 3, 1, 1, 1),
    (2, 35, 35, 35, 9, 5, 2, 2, 1),
    (2, 50, 50, 50, 7, 2, 1, 3, 2),
    # Groups of a few filters, several in a vector: the last vector makes some again.
    (2, 24, 24, 12, 12, 3, 1, 1, 1),
    (2, 44, 44, 11, 9, 3, 1, 2, 2),
    (2, 40, 40, 5, 11, 5, 2, 2, 1),
    (2, 136, 136, 34, 8, 3, 1, 1, 1),
    # Larger groups, a chunk of outputs at a time.
    (2, 64, 64, 4, 14, 3, 1, 1, 1),
    (2, 64, 64, 2, 13, 2, 1, 1, 1),
    (2, 24, 60, 3, 12, 3, 1, 0, 1),
]


def definition(x: Any, w: Any, case: Case) -> Any:
    """Return the convolution of NumPy arrays, in double."""
    dims, _, filters, groups, _, kernel, stride, padding, dilation = case
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *[(padding, padding)] * dims])
    w = w.astype(np.float64)
    out = [(n - dilation * (kernel - 1) - 1) // stride + 1 for n in x.shape[2:]]
    result = np.zeros((x.shape[0], filters, *out))
    per_group, inputs = filters // groups, w.shape[1]
    for group in range(groups):
        some = x[:, group * inputs : (group + 1) * inputs]
        rows = slice(group * per_group, (group + 1) * per_group)
        for at in itertools.product(range(kernel), repeat=dims):
            begin = [a * dilation for a in at]
            window = tuple(
                slice(b, b + stride * (n - 1) + 1, stride) for b, n in zip(begin, out, strict=True)
            )
            weight = w[(rows, slice(None), *at)]
            result[:, rows] += np.einsum(
                "nc...,fc->nf...", some[(slice(None), slice(None), *window)], weight
            )
    return result


def wrong() -> list[str]:
    """Return what differs: forward, with a bias, and both gradients."""
    rng = np.random.default_rng(3)
    found = []
    for case, dtype, last in itertools.product(CASES, (np.float32, np.float64), (False, True)):
        dims, channels, filters, groups, size, kernel, stride, padding, dilation = case
        x = rng.integers(-8, 9, (3, channels, *[size] * dims)).astype(dtype)
        w = rng.integers(-8, 9, (filters, channels // groups, *[kernel] * dims)).astype(dtype)
        b = rng.integers(-8, 9, filters).astype(dtype)
        if last and dims == 1:
            continue
        formats = {2: st.channels_last, 3: st.channels_last_3d}
        given = st.from_numpy(x)
        if last:
            given = given.contiguous(memory_format=formats[dims])
        images = given.requires_grad_()
        weight = st.from_numpy(w).requires_grad_()
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        got = getattr(nnf, f"conv{dims}d")(images, weight, st.from_numpy(b), **options)
        # Whole numbers this small are exact in either dtype.
        want = definition(x, w, case) + b.reshape(1, -1, *[1] * dims)
        if not np.array_equal(got.detach().numpy(), want):
            found.append(f"conv {case} {dtype.__name__} {last=}")
        grad = rng.integers(-8, 9, want.shape).astype(dtype)
        got.backward(st.from_numpy(grad))
        # <grad, conv(x)> is linear in x and in w: its derivatives pair with them to itself.
        total = float(np.sum(grad * (want - b.reshape(1, -1, *[1] * dims))))
        for name, leaf in (("images", images), ("weight", weight)):
            assert leaf.grad is not None
            pair = float(np.sum(leaf.grad.numpy().astype(np.float64) * leaf.detach().numpy()))
            if pair != total:
                found.append(
                    f"gradient of {name} {case} {dtype.__name__} {last=}: {pair}, not {total}"
                )
    return found


if __name__ == "__main__":
    json.dump(wrong(), sys.stdout)
