"""Samples of images at many positions, at every instruction-set level."""

from __future__ import annotations

import pytest
from levels import LEVELS, found_at
from ops import grid_samples

import shmtensor as st
from shmtensor.nn import functional as nnf


@pytest.mark.parametrize("level", LEVELS)
def test_samples_are_what_they_are_defined_as(level: str) -> None:
    assert found_at(level, grid_samples) == []


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("format", [st.contiguous_format, st.channels_last])
def test_what_is_outside_does_not_count_even_where_it_is_no_number(
    mode: str, format: st.memory_format
) -> None:
    image = st.full((1, 8, 3, 3), float("nan")).contiguous(memory_format=format)
    outside = st.full((1, 4, 5, 2), 3.0)
    outside[:, 0, 0] = float("inf")
    outside[:, 1, 1] = float("nan")
    assert bool((nnf.grid_sample(image, outside, mode, align_corners=False) == 0).all())


@pytest.mark.parametrize("threads", [1, 2])
def test_entries_of_a_batch_are_sampled_apart(threads: int) -> None:
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
