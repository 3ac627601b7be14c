"""The classes of named results, and old methods that only change the shape."""

from __future__ import annotations

import pickle

import pytest

import shmtensor as st
from shmtensor import return_types


@pytest.mark.parametrize("name", return_types.__all__)
def test_class_is_that_of_the_result(name: str) -> None:
    kind = getattr(return_types, name)
    assert issubclass(kind, tuple)
    assert kind.__name__ == name
    assert kind.n_fields > 1
    assert getattr(return_types, name) is kind


@pytest.mark.check
def test_results_are_instances():
    assert isinstance(st.ones(3).sort(), return_types.sort)
    assert isinstance(st.ones(3).max(0), return_types.max)
    assert isinstance(st.linalg.qr(st.eye(2)), return_types.linalg_qr)
    assert isinstance(st.histogramdd(st.rand(4, 2), [2, 2]), return_types.histogramdd)
    assert not isinstance(st.ones(3).sort(), return_types.topk)
    assert return_types.max((1, 2)).indices == 2
    assert isinstance(pickle.loads(pickle.dumps(st.ones(2).sort())), return_types.sort)
    with pytest.raises(AttributeError, match="other"):
        _ = return_types.other


def test_masked_operators_have_their_module():
    mask = st.tensor([[True, False], [True, True]])
    assert st.masked._ops.sum(st.ones(2, 2), 1, mask=mask).tolist() == [1.0, 2.0]


@pytest.mark.check
@pytest.mark.parametrize("sizes", [(2, 3), ((3, 2),), (st.Size([6, 1]),)])
def test_resized_tensor_has_the_elements(sizes: tuple[object, ...]) -> None:
    x = st.arange(6.0).requires_grad_()
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        y = x.resize(*sizes)
    assert y.flatten().equal(x)
    y.sum().backward()
    with pytest.warns(UserWarning, match="non-inplace resize_as is deprecated"):
        assert x.detach().resize_as(y).shape == y.shape


def test_resize_keeps_the_number_of_elements():
    with (
        pytest.warns(UserWarning, match="deprecated"),
        pytest.raises(RuntimeError, match="requested resize to 2x2"),
    ):
        st.ones(3).resize(2, 2)
