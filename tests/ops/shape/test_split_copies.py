"""split_copy, split_with_sizes_copy and unbind_copy."""

from __future__ import annotations

import pytest

import shmtensor as st


@pytest.mark.check
def test_copies_go_into_given_tensors() -> None:
    x = st.arange(6.0)
    parts = [st.empty(0), st.empty(0)]
    assert st.split_with_sizes_copy(x, [2, 4], out=parts) is None
    assert [t.tolist() for t in parts] == [[0, 1], [2, 3, 4, 5]]
    assert [t.tolist() for t in st.split_copy(x, 4)] == [[0, 1, 2, 3], [4, 5]]
    assert len(st.unbind_copy(x)) == 6
    with pytest.raises(RuntimeError, match="hold 2 tensors"):
        st.split_copy(x, 4, out=parts[:1])
