"""Samples of images at many positions, at every instruction-set level."""

from __future__ import annotations

import math

import pytest
from levels import LEVELS, found_at
from ops.image import grid_samples

import shmtensor as st
from shmtensor.nn import functional as nnf


@pytest.mark.parametrize("level", LEVELS)
def test_samples_match_their_definition(level: str) -> None:
    assert found_at(level, grid_samples) == []


@pytest.mark.check
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("format", [st.contiguous_format, st.channels_last])
def test_nan_outside_is_ignored(mode: str, format: st.memory_format) -> None:
    image = st.full((1, 8, 3, 3), float("nan")).contiguous(memory_format=format)
    outside = st.full((1, 4, 5, 2), 3.0)
    assert bool((nnf.grid_sample(image, outside, mode, align_corners=False) == 0).all())


#: Positions that are no numbers, or will not be: in width only, in height only, in both.
NOWHERE = [(math.nan, 0.0), (0.0, math.nan), (math.nan,) * 2, (math.inf, 0.0), (0.0, -math.inf)]


@pytest.mark.parametrize("dtype", [st.float32, st.float64])
@pytest.mark.parametrize("format", [st.contiguous_format, st.channels_last])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_images_at_nan_positions(mode: str, format: st.memory_format, dtype: st.dtype) -> None:
    image = st.arange(1, 10, dtype=dtype).reshape(1, 1, 3, 3).repeat(1, 11, 1, 1)
    image = image.contiguous(memory_format=format)
    grid = st.tensor(NOWHERE, dtype=dtype).reshape(1, 1, -1, 2)
    zeros = nnf.grid_sample(image, grid, mode, "zeros", align_corners=False)
    border = nnf.grid_sample(image, grid, mode, "border", align_corners=False)
    if mode == "nearest":
        assert bool((zeros == 0).all())
    else:
        assert bool(zeros.isnan().all())
    if mode == "bicubic":
        assert bool(border.isnan().all())
    else:
        assert border[0, 10, 0].tolist() == [4.0, 2.0, 1.0, 6.0, 2.0]


@pytest.mark.check
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_volumes_at_nan_positions(mode: str) -> None:
    volume = st.arange(1.0, 28.0).reshape(1, 1, 3, 3, 3)
    grid = st.tensor([(*place, 0.0) for place in NOWHERE]).reshape(1, 1, 1, -1, 3)
    zeros = nnf.grid_sample(volume, grid, mode, "zeros", align_corners=False)
    border = nnf.grid_sample(volume, grid, mode, "border", align_corners=False)
    assert bool((zeros == 0).all())
    assert border.flatten().tolist() == [15.0, 17.0, 18.0, 15.0, 11.0]


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_images_whose_offsets_do_not_fit_32_bits(mode: str) -> None:
    """Only the rows that are read are ever touched."""
    wide = st.empty((1 << 31) + 6, dtype=st.float16)
    image = st.randn(1, 2, 2, 3, dtype=st.float16)
    far = wide.as_strided((1, 2, 2, 3), (0, 3, 1 << 31, 1))
    far.copy_(image)
    grid = (st.rand(1, 5, 20, 2) * 2.4 - 1.2).to(st.float16)
    got = nnf.grid_sample(far, grid, mode, align_corners=False)
    wanted = nnf.grid_sample(image, grid, mode, align_corners=False)
    assert st.allclose(got, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("threads", [1, 2])
def test_entries_of_a_batch_are_independent(threads: int) -> None:
    before = st.get_num_threads()
    st.set_num_threads(threads)
    try:
        image, grid = st.randn(5, 9, 8, 8), st.rand(5, 30, 7, 2) * 2 - 1
        whole = nnf.grid_sample(image, grid, align_corners=False)
        for i in range(5):
            alone = nnf.grid_sample(image[i : i + 1], grid[i : i + 1], align_corners=False)
            assert st.equal(whole[i : i + 1], alone)
    finally:
        st.set_num_threads(before)
