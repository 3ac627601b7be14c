"""Indexing and assignment: NumPy's results on random keys, torch's texts on wrong ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shmtensor as T

A = T.arange(12.0).reshape(3, 4)

ERRORS: list[tuple[str, type[Exception], str]] = [
    ("a[5]", IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    ("a[-4]", IndexError, "index -4 is out of bounds for dimension 0 with size 3"),
    ("a[0, 5]", IndexError, "index 5 is out of bounds for dimension 1 with size 4"),
    ("a[0, 0, 0]", IndexError, "too many indices for tensor of dimension 2"),
    ("a[..., 0, 0, 0]", IndexError, "too many indices for tensor of dimension 2"),
    (
        "a[1.5]",
        IndexError,
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables",
    ),
    ("a['x']", TypeError, "new(): invalid data type 'str'"),
    ("a[::-1]", ValueError, "step must be greater than zero"),
    ("a[::0]", ValueError, "slice step cannot be zero"),
    ("a[1.5:2]", TypeError, "slice indices must be integers or None or have an __index__ method"),
    ("a[2**70]", ValueError, "Overflow when unpacking long long"),
    ("a[..., -(2**70)]", ValueError, "Overflow when unpacking long long"),
    (
        "a[T.tensor([0.5])]",
        IndexError,
        "tensors used as indices must be long, int, byte or bool tensors",
    ),
    ("a[T.tensor([5])]", IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    (
        "a[T.tensor([True, False])]",
        IndexError,
        "The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [3",
    ),
    (
        "a[[0, 1], [0, 1, 2]]",
        IndexError,
        "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]",
    ),
    ("T.ones(4, 0)[:, [0, 1]]", IndexError, "index is out of bounds for dimension with size 0"),
    ("T.ones(3, 0)[[5], [1]]", IndexError, "index is out of bounds for dimension with size 0"),
    ("T.ones(0, 3, 0)[[1]]", IndexError, "index is out of bounds for dimension with size 0"),
    ("z[0]", IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()`"),
    ("z[0:1]", IndexError, "slice() cannot be applied to a 0-dim tensor."),
    ("len(z)", TypeError, "len() of a 0-d tensor"),
    ("iter(z)", TypeError, "iteration over a 0-d tensor"),
]


@pytest.mark.parametrize(("expression", "kind", "text"), ERRORS, ids=[e[0] for e in ERRORS])
def test_wrong_key_says_what_is_wrong(expression: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        eval(expression, {"a": A, "z": T.tensor(5), "T": T})


ASSIGN_ERRORS: list[tuple[str, type[Exception], str]] = [
    ("b[0] = 'x'", TypeError, "can't assign a str to a torch.FloatTensor"),
    ("b[0] = [1, 2, 3, 4]", TypeError, "can't assign a list to a torch.FloatTensor"),
    ("b[...] = None", TypeError, "can't assign a NoneType to a torch.FloatTensor"),
    (
        "b[0:2] = T.ones(3)",
        RuntimeError,
        "The expanded size of the tensor (4) must match the existing size (3)",
    ),
    (
        "b[0, 0] = T.ones(2)",
        RuntimeError,
        "the number of sizes provided (0) must be greater or equal to",
    ),
    (
        "b[b > 5] = T.ones(3)",
        RuntimeError,
        "shape mismatch: value tensor of shape [3] cannot be broadcast",
    ),
    (
        "b[b > 5] = T.ones(3, dtype=T.int64)",
        RuntimeError,
        "shape mismatch: value tensor of shape [3] cannot be broadcast",
    ),
    (
        "b[[0, 7]] = T.ones(3, 4, dtype=T.int64)",
        RuntimeError,
        "shape mismatch: value tensor of shape [3, 4] cannot be broadcast",
    ),
    (
        "b[[0, 7], [0, 7]] = T.ones(2, dtype=T.int64)",
        RuntimeError,
        "Index put requires the source and destination dtypes match, got Float for the destination "
        "and Long for the source.",
    ),
    (
        "b[0, False] = T.ones(5)",
        RuntimeError,
        "shape mismatch: value tensor of shape [5] cannot be broadcast to indexing result of shape "
        "[0, 4]",
    ),
    ("b[5] = 1", IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    ("b[0] = 1j", RuntimeError, "value cannot be converted to type float without overflow"),
    ("b[0] = 2**70", ValueError, "Overflow when unpacking long long"),
    ("del b[0]", TypeError, "Tensor does not support deleting items"),
]


@pytest.mark.parametrize(
    ("statement", "kind", "text"), ASSIGN_ERRORS, ids=[e[0] for e in ASSIGN_ERRORS]
)
def test_wrong_assignment_says_what_is_wrong(
    statement: str, kind: type[Exception], text: str
) -> None:
    b = A.clone()
    with pytest.raises(kind, match=re.escape(text)):
        exec(statement, {"b": b, "T": T})
    assert b.tolist() == A.tolist()


BASIC = st.one_of(
    st.integers(-4, 3),
    st.builds(
        slice,
        st.one_of(st.none(), st.integers(-6, 6)),
        st.one_of(st.none(), st.integers(-6, 6)),
        st.one_of(st.none(), st.integers(1, 3)),
    ),
    st.just(None),
)


@st.composite
def basic_keys(draw: st.DrawFn) -> Any:
    items = draw(st.lists(BASIC, max_size=5))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    return tuple(items) if len(items) != 1 or draw(st.booleans()) else items[0]


@pytest.mark.check
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), basic_keys())
@settings(max_examples=150, deadline=None)
def test_basic_key_gives_numpys_values_as_a_view(sizes: list[int], key: Any) -> None:
    array = np.arange(float(np.prod(sizes))).reshape(sizes)
    t = T.from_numpy(array)
    try:
        expected = array[key]
    except IndexError:
        with pytest.raises(IndexError):
            t[key]
        return
    got = t[key]
    assert got.tolist() == expected.tolist()
    assert tuple(got.shape) == expected.shape
    assert got._storage_cdata == t._storage_cdata


@st.composite
def advanced_keys(draw: st.DrawFn, sizes: tuple[int, ...]) -> Any:
    shape = draw(st.sampled_from([(2,), (3,), (1,), (2, 2)]))
    key: list[Any] = []
    dim = 0
    while dim < len(sizes):
        kind = draw(st.sampled_from(["int", "slice", "array", "list", "mask", "none", "stop"]))
        n = sizes[dim]
        if kind == "int":
            key.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            key.append(slice(draw(st.integers(0, n)), None, draw(st.integers(1, 2))))
        elif kind == "array":
            key.append(
                draw(
                    st.lists(
                        st.integers(-n, n - 1),
                        min_size=int(np.prod(shape)),
                        max_size=int(np.prod(shape)),
                    )
                )
            )
            key[-1] = np.array(key[-1]).reshape(shape)
        elif kind == "list":
            key.append([draw(st.integers(-n, n - 1))])
        elif kind == "mask":
            mask = np.zeros(n, dtype=bool)
            mask[: min(2, n)] = shape == (2,)
            mask[0] = True
            key.append(mask)
        elif kind == "none":
            key.append(None)
            continue
        else:
            break
        dim += 1
    return tuple(key)


def _for_tensors(key: Any) -> Any:
    return tuple(T.tensor(k) if isinstance(k, np.ndarray) else k for k in key)


def _mixes_ints_and_arrays(key: Any) -> bool:
    """NumPy counts an int as an array then, which moves dimensions; torch applies it first."""
    has_array = any(isinstance(k, (np.ndarray, list)) for k in key)
    return has_array and any(isinstance(k, int) for k in key)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_advanced_key_gives_numpys_values(data: st.DataObject) -> None:
    sizes = (3, 2, 4)
    array = np.arange(24.0).reshape(sizes)
    key = data.draw(advanced_keys(sizes).filter(lambda k: not _mixes_ints_and_arrays(k)))
    try:
        expected = array[key]
    except IndexError:
        with pytest.raises(IndexError):
            T.from_numpy(array)[_for_tensors(key)]
        return
    assert T.from_numpy(array)[_for_tensors(key)].tolist() == expected.tolist()


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_assignment_writes_where_numpy_writes(data: st.DataObject) -> None:
    sizes = (3, 2, 4)
    array = np.arange(24.0).reshape(sizes)
    advanced = advanced_keys(sizes).filter(lambda k: not _mixes_ints_and_arrays(k))
    key = data.draw(st.one_of(basic_keys(), advanced))
    items = key if isinstance(key, tuple) else (key,)
    t = T.from_numpy(array.copy())
    try:
        array[key] = -1.0
    except IndexError:
        return
    t[_for_tensors(items) if isinstance(key, tuple) else key] = -1.0
    assert t.tolist() == array.tolist()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a[[0, 1]]", A.tolist()[:2]),
        ("a[[[0, 1], [0, 1]]]", [0.0, 5.0]),
        ("a[[slice(0, 1)]]", A.tolist()[:1]),
        ("a[[..., 0]]", [0.0, 4.0, 8.0]),
        ("a[True].shape", [1, 3, 4]),
        ("a[False].shape", [0, 3, 4]),
        ("a[True, 0]", A.tolist()[:1]),
        ("a[T.tensor(1)]", A.tolist()[1]),
        ("a[T.tensor(True)].shape", [1, 3, 4]),
        ("a[T.tensor([True, False, True])]", [A.tolist()[0], A.tolist()[2]]),
        ("a[[True, False, True]]", [A.tolist()[0], A.tolist()[2]]),
        ("a[np.array([True, False, True])]", [A.tolist()[0], A.tolist()[2]]),
        ("a[np.array([0, 2])]", [A.tolist()[0], A.tolist()[2]]),
        ("a[np.int64(1)]", A.tolist()[1]),
        ("a[np.array(1)]", A.tolist()[1]),
        ("a[np.array(True)].shape", [1, 3, 4]),
        ("a[np.array(False), 0].shape", [0, 4]),
        ("a[np.array([1, 0, 1], dtype=np.uint8)]", [A.tolist()[0], A.tolist()[2]]),
        ("a[np.eye(3, 4, dtype=np.uint8)]", [0.0, 5.0, 10.0]),
        ("a[np.array(1, dtype=np.uint8)].shape", [1, 3, 4]),
        ("a[np.array(0, dtype=np.uint8), :, 0].shape", [0, 3]),
        ("a[[np.array([0, 1]), np.array([2, 3])]]", [2.0, 7.0]),
        ("a[[range(2), 0]]", [0.0, 4.0]),
        ("a[range(2)]", A.tolist()[:2]),
        ("a[[]].shape", [0, 4]),
        ("a[()]", A.tolist()),
        ("a[T.tensor(1):]", A.tolist()[1:]),
        ("a[-100:100]", A.tolist()),
        ("a[2:1].shape", [0, 4]),
        ("a[T.tensor([0, 1], dtype=T.int32)]", A.tolist()[:2]),
        ("z[None]", [5]),
        ("z[...]", 5),
    ],
)
def test_key_gives_torchs_result(expression: str, expected: Any) -> None:
    got = eval(expression, {"a": A, "z": T.tensor(5), "T": T, "np": np})
    assert (got.tolist() if isinstance(got, T.Tensor) else list(got)) == expected


def test_array_of_one_integer_selects_a_view() -> None:
    t = T.zeros(2, 3)
    for key in (np.array(1), (np.array(1),), (np.array(1, dtype=np.int32), slice(None))):
        assert t[key].data_ptr() == t[1].data_ptr()
    assert t[np.array(1), np.array(2)].data_ptr() == t[1, 2].data_ptr()
    t[np.array(1)][0] = 5
    assert t.tolist() == [[0.0, 0.0, 0.0], [5.0, 0.0, 0.0]]


def test_assignment_broadcasts_and_drops_leading_ones() -> None:
    b = T.zeros(2, 3)
    b[0] = T.ones(1, 1, 3)
    b[:, 0] = 5
    b[True] = b + 1
    b[False] = 100
    assert b.tolist() == [[6.0, 2.0, 2.0], [6.0, 1.0, 1.0]]


@pytest.mark.check
def test_assignment_by_mask_and_integers() -> None:
    b = A.clone()
    b[b > 5] = 0
    b[T.tensor([0, 1]), 1] = T.tensor([9.0, 8.0])
    assert b.tolist() == [[0.0, 9.0, 2.0, 3.0], [4.0, 8.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]


def test_iteration_gives_views_of_rows() -> None:
    b = T.zeros(2, 2)
    for i, row in enumerate(b):
        row.fill_(i + 1)
    assert b.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert [float(x) for x in T.arange(3.0)] == [0.0, 1.0, 2.0]


def test_assignment_to_itself_shifted_sees_old_values() -> None:
    b = T.arange(5.0)
    b[T.tensor([1, 2, 3, 4])] = b[:4]
    assert b.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0]


def test_view_of_tensor_that_requires_grad_is_recorded() -> None:
    x = T.ones(3, requires_grad=True)
    x[1:].sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 1.0, 1.0]


def test_no_index_into_an_empty_dim_is_fine() -> None:
    none = T.tensor([], dtype=T.int64)
    assert T.ones(4, 0)[:, none].shape == (4, 0)
    assert T.ones(3, 0)[[0, 2]].shape == (2, 0)
    assert T.ones(0, 3)[T.ones(0, 3) > 0].shape == (0,)
