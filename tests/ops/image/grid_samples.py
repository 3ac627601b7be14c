"""Samples of images against their definition, at the instruction-set level of this process.

Run by test_grid_sample.py in a process per level; prints the cases that are wrong as JSON.
"""

from __future__ import annotations

import itertools
import json
import sys

import numpy as np
from ops.spec.references_image import IMAGE

import shmtensor as st
from shmtensor.nn import functional as nnf

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
#: Sizes of images and of positions: fewer and more than are found together, channels that fill
#: vectors and some that do not.
SIZES = [
    ((2, 3, 7, 6), (9, 11)),
    ((2, 19, 5, 9), (13, 10)),
    ((1, 8, 4, 5), (1, 3)),
    ((1, 10, 3, 4, 5), (4, 3, 7)),
    ((2, 1, 1, 1), (8, 8)),
]
ALLOWED = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 4e-2, "float16": 4e-3}


def wrong() -> list[str]:
    """Return the cases whose result does not match the definition."""
    rng = np.random.default_rng(5)
    found = []
    for (shape, places), mode, padding, align, name in itertools.product(
        SIZES, range(3), range(3), (False, True), ALLOWED
    ):
        if mode == 2 and len(shape) == 5:
            continue
        if mode == 1 and name != "float64":
            continue  # which one is the nearest is found in the dtype
        dtype = getattr(st, name)
        grid = st.tensor(rng.uniform(-1.4, 1.4, (shape[0], *places, len(places)))).to(dtype)
        image = st.tensor(rng.normal(size=shape)).to(dtype)
        expected = IMAGE["grid_sampler"](
            image.double().numpy(), grid.double().numpy(), mode, padding, align
        )
        last = st.channels_last if len(shape) == 4 else st.channels_last_3d
        wide = st.zeros(*shape[:-1], 2 * shape[-1], dtype=dtype)
        wide[..., ::2] = image
        for layout, view in {
            "contiguous": image,
            "channels last": image.contiguous(memory_format=last),
            "strided": wide[..., ::2],
        }.items():
            got = nnf.grid_sample(view, grid, MODES[mode], PADDINGS[padding], align_corners=align)
            if not np.allclose(
                got.double().numpy(), expected, rtol=ALLOWED[name], atol=ALLOWED[name] * 8
            ):
                found.append(
                    f"{shape} {places} {MODES[mode]} {PADDINGS[padding]} {align} {name} {layout}"
                )
    return found


def wrong_halves() -> list[str]:
    """Return the dtypes and layouts in which not every 16-bit float is sampled as itself."""
    found = []
    columns = np.array([[0, 1, 1, 0, 1], [1, 0, 0, 1, 0], [0, 0, 1, 1, 1]])
    rows = 1 - columns[::-1]
    places = np.stack([columns, rows], -1) * 2.0 - 1
    bits = np.arange(1 << 16).astype(np.uint16).view(np.int16).reshape(-1, 8, 2, 2)
    for name in ("float16", "bfloat16"):
        dtype = getattr(st, name)
        image = st.tensor(bits).view(dtype)
        grid = st.tensor(np.broadcast_to(places, (len(bits), *places.shape)).copy()).to(dtype)
        expected = image.float().numpy()[:, :, rows, columns]
        for layout in (st.contiguous_format, st.channels_last):
            got = nnf.grid_sample(
                image.contiguous(memory_format=layout), grid, "nearest", align_corners=True
            )
            if not np.array_equal(got.float().numpy(), expected, equal_nan=True):
                found.append(f"{name} {layout}")
    return found


if __name__ == "__main__":
    json.dump(wrong() + wrong_halves(), sys.stdout)
