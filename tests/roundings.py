"""Comparing element by element, with the error that dtype and terms of each allow."""

from __future__ import annotations

import shmtensor as st

#: The error of a sum in its work dtype, in roundings of the sum of the absolute terms.
SUMMED = 4


def assert_summed(got: st.Tensor, want: st.Tensor, terms: st.Tensor) -> None:
    """Raise unless *got* is *want*, rounded once, but for the roundings of a sum.

    Args:
        got: Results of any dtype; whole numbers must be equal.
        want: The same in double precision.
        terms: For each element the sum of the absolute terms that it is made of; they are added in
            float32 where the dtype is narrower.
    """
    dtype = got.real.dtype if got.is_complex() else got.dtype
    allowed = st.zeros_like(terms)
    if dtype.is_floating_point:
        work = st.promote_types(dtype, st.float32)
        allowed = st.finfo(dtype).eps * want.abs() + SUMMED * st.finfo(work).eps * terms
    over = (got.to(want.dtype) - want).abs() - allowed
    assert bool((over <= 0).all()), f"{got.dtype}: beyond its roundings by {over.max().item():.3g}"
