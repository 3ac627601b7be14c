"""Names of dimensions, and methods of tensors that are Python."""

from __future__ import annotations

import pytest

import shmtensor as st


@pytest.mark.check
def test_names_are_given_and_taken_away():
    t = st.zeros(2, 3)
    assert t.names == (None, None)
    assert not t.has_names()
    named = t.rename("N", "C")
    assert named.names == ("N", "C")
    assert t.names == (None, None)
    assert named.rename(N="batch").names == ("batch", "C")
    assert named.rename(None).names == (None, None)
    assert named.rename("...", "x").names == ("N", "x")
    assert named.rename_(None) is named
    named.names = ["a", None]
    assert named.names == ("a", None)
    assert "names=('a', None)" in repr(named)
    named[0, 0] = 5
    assert t[0, 0] == 5


def test_refining_keeps_what_is_named():
    t = st.zeros(2, 3, 4).rename("N", None, None)
    assert t.refine_names("N", "H", "W").names == ("N", "H", "W")
    assert t.refine_names("...", "W").names == ("N", None, "W")
    with pytest.raises(RuntimeError, match="'N' is different from 'B' at index 0"):
        t.refine_names("B", "H", "W")


def test_aligning_permutes_and_adds():
    t = st.arange(6).view(2, 3).rename("N", "C")
    u = t.align_to("C", "X", "N")
    assert u.shape == (3, 1, 2)
    assert u.names == ("C", "X", "N")
    assert u[1, 0, 1] == t[1, 1]
    assert t.align_to("C", "...").names == ("C", "N")
    assert t.align_as(u).names == u.names
    with pytest.raises(RuntimeError, match="Cannot find dim 'C'"):
        t.align_to("N")
    with pytest.raises(RuntimeError, match="must be named"):
        st.zeros(2).align_to("N")


@pytest.mark.check
@pytest.mark.parametrize(
    ("names", "text"),
    [(("N",), "do not match"), (("N", "N"), "duplicate"), (("N", "1a"), "Invalid name")],
)
def test_bad_names_are_refused(names, text):
    with pytest.raises(RuntimeError, match=text):
        st.zeros(2, 3).rename(*names)


def test_where_as_a_method():
    t = st.tensor([1.0, -2.0])
    assert t.where(t > 0, st.zeros(2)).tolist() == [1, 0]
    assert t.where(t > 0, 7.0).tolist() == [1, 7]


def test_elements_are_replaced_by_python_functions():
    t = st.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert t.apply_(lambda a: a + 1).tolist() == [[2, 3], [4, 5]]
    assert t.map_(st.tensor([1.0, 2.0]), lambda a, b: a * b).tolist() == [[2, 6], [4, 10]]
    assert t.map2_(t, st.ones(1), lambda a, b, c: a - b + c).tolist() == [[1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match="requires grad"):
        st.ones(1, requires_grad=True).apply_(lambda a: a)


def test_questions():
    assert st.tensor([2]).is_nonzero()
    with pytest.raises(RuntimeError):
        st.ones(2).is_nonzero()
    assert st.zeros(2, 3, 4).dim_order() == (0, 1, 2)
    assert st.zeros(2, 3, 4).permute(2, 0, 1).dim_order() == (1, 2, 0)
    assert st.zeros(2, 3, 4).dim_order(ambiguity_check=True) == (0, 1, 2)
    several = st.zeros(1, 2, 3, 4)
    formats = [st.contiguous_format, st.channels_last]
    assert several.dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        several.dim_order(ambiguity_check=True)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        several[:, :1].dim_order(ambiguity_check=formats)
    with pytest.raises(TypeError, match="must be a bool or a list of memory formats"):
        several.dim_order(ambiguity_check="ILLEGAL")
    t = st.ones(4, 2, 3)
    assert t.sum_to_size(2, 1).tolist() == [[12], [12]]
    assert t.sum_to_size((4, 2, 3)).shape == (4, 2, 3)
    with pytest.raises(RuntimeError, match="not expandable"):
        t.sum_to_size(5, 3)
