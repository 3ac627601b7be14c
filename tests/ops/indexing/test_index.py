"""Reading and writing by index tensors and masks: values against NumPy, bounds, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

_A = np.arange(60.0).reshape(3, 4, 5)
_I = np.array([2, 0, -1])
_J = np.array([[1], [3]])
_M = _A[..., 0] % 2 == 0


def _t(a: np.ndarray) -> st.Tensor:
    return st.from_numpy(np.array(a))


@pytest.mark.check
@pytest.mark.parametrize(
    "index",
    [
        (_I,),
        (slice(None), _I),
        (slice(None), slice(None), _I),
        (_I, _I),
        (_I, slice(None), _I),
        (_I, _J),
        (_J % 3, _I, _I),
        (_M,),
        (slice(None), np.array([True, False, True, True])),
        (np.zeros((0,), dtype=np.int64),),
        (_A > 30,),
    ],
    ids=range(11),
)
def test_index_reads_as_numpy(index: tuple[object, ...]) -> None:
    turned = tuple(_t(i) if isinstance(i, np.ndarray) else i for i in index)
    assert np.array_equal(_t(_A)[turned].numpy(), _A[index])
    # The same through a view with other strides.
    assert np.array_equal(
        _t(_A.transpose(2, 1, 0).copy()).permute(2, 1, 0)[turned].numpy(), _A[index]
    )


@pytest.mark.parametrize(
    "index",
    [(_I,), (slice(None), _I), (_I, slice(None), _I), (_I, _J), (_M,), (_A > 30,)],
    ids=range(6),
)
def test_index_writes_as_numpy(index: tuple[object, ...]) -> None:
    turned = tuple(_t(i) if isinstance(i, np.ndarray) else i for i in index)
    expected, got = _A.copy(), _t(_A)
    expected[index] = -1
    got[turned] = -1
    assert np.array_equal(got.numpy(), expected)
    values = np.arange(float(expected[index].size)).reshape(expected[index].shape)
    expected[index] = values
    got[turned] = _t(values)
    assert np.array_equal(got.numpy(), expected)


def test_index_put_accumulates_repeated_indices() -> None:
    t = st.zeros(3)
    t.index_put_((st.tensor([0, 2, 0, 0]),), st.ones(4), accumulate=True)
    assert t.tolist() == [3.0, 0.0, 1.0]


def test_index_put_of_values_that_overlap_self() -> None:
    t = st.arange(6)
    t[st.tensor([1, 2, 3])] = t[:3]
    assert t.tolist() == [0, 0, 1, 2, 4, 5]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: st.zeros(3, 4)[:, st.tensor([5])],
            IndexError,
            "index 5 is out of bounds for dimension 0 with size 4",
        ),
        (lambda: st.zeros(3)[st.tensor([-4])], IndexError, "index -4 is out of bounds"),
        (
            lambda: st.zeros(3, 4)[st.tensor([1, 2]), st.tensor([1, 2, 3])],
            IndexError,
            "indexing tensors could not be broadcast together with shapes [2], [3]",
        ),
        (
            lambda: st.zeros(3)[st.tensor([1.0])],
            IndexError,
            "tensors used as indices must be long, int, byte or bool tensors",
        ),
        (
            lambda: st.zeros(3)[st.tensor([True, False])],
            IndexError,
            "The shape of the mask [2] at index 0 does not match the shape of the indexed tensor",
        ),
        (
            lambda: st.gather(st.zeros(3), 0, st.tensor([5])),
            RuntimeError,
            "index 5 is out of bounds for dimension 0 with size 3",
        ),
        (
            lambda: st.gather(st.zeros(3), 0, st.tensor([[1]])),
            RuntimeError,
            "Index tensor must have the same number of dimensions as input tensor",
        ),
        (
            lambda: st.index_select(st.zeros(3, 9), 0, st.tensor([5])),
            IndexError,
            "index out of range in self",
        ),
        (
            lambda: st.zeros(3).scatter(0, st.tensor([5]), 1.0),
            RuntimeError,
            "index 5 is out of bounds for dimension 0 with size 3",
        ),
        (
            lambda: st.zeros(3).index_copy(0, st.tensor([7]), st.zeros(1)),
            IndexError,
            "index_copy_(): index 7 is out of bounds for dimension 0 with size 3",
        ),
        (
            lambda: st.zeros(3).index_add(0, st.tensor([1, 2]), st.zeros(1)),
            RuntimeError,
            "Number of indices (2) should be equal to source.size(dim): (1), for dim: 0",
        ),
        (
            lambda: st.take(st.zeros(3), st.tensor([5])),
            IndexError,
            "tried to access index 5 on a tensor of 3 elements.",
        ),
        (
            lambda: st.masked_select(st.zeros(3), st.tensor([1, 0, 1])),
            RuntimeError,
            "masked_select: expected BoolTensor for mask",
        ),
        (
            lambda: st.zeros(3).masked_scatter(st.ones(3, dtype=st.bool), st.zeros(1)),
            RuntimeError,
            "Number of elements of source < number of ones in mask",
        ),
        (
            lambda: st.zeros(3).scatter(0, st.tensor([1]), st.zeros(1).double()),
            RuntimeError,
            "Expected self.dtype to be equal to src.dtype",
        ),
    ],
)
def test_bad_indices_name_their_values(call: object, error: type, message: str) -> None:
    with pytest.raises(error) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "float32", "float64", "complex128"])
def test_gather_and_scatter_invert_each_other(dim: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 100, (3, 4, 5)).astype(dtype)
    index = np.argsort(rng.random((3, 4, 5)), axis=dim)
    got = st.gather(_t(a), dim, _t(index))
    assert np.array_equal(got.numpy(), np.take_along_axis(a, index, dim))
    back = st.zeros_like(got).scatter(dim, _t(index), got)
    assert np.array_equal(back.numpy(), a)


def test_gather_reads_int32_indices_and_smaller_shapes() -> None:
    a = _t(_A[0])
    assert st.gather(a, 0, st.tensor([[1, 2]], dtype=st.int32)).tolist() == [[5.0, 11.0]]


def test_scatter_reductions() -> None:
    index = st.tensor([0, 1, 0])
    assert st.ones(2).scatter_add(0, index, st.tensor([1.0, 2.0, 3.0])).tolist() == [5.0, 3.0]
    times = st.ones(2).scatter(0, index, st.tensor([2.0, 3.0, 4.0]), reduce="multiply")
    assert times.tolist() == [8.0, 3.0]
    assert st.zeros(2).scatter(0, index, 7.0).tolist() == [7.0, 7.0]
    t = st.zeros(2)
    assert t.scatter_add_(0, index, st.ones(3)) is t


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select_add_copy_fill(dim: int) -> None:
    index = np.array([2, 0])
    a = _t(_A)
    assert np.array_equal(st.index_select(a, dim, _t(index)).numpy(), _A.take(index, dim))
    expected = np.moveaxis(_A.copy(), dim, 0)
    source = np.ones_like(_A.take(index, dim))
    np.add.at(expected, index, 3 * np.moveaxis(source, dim, 0))
    got = a.index_add(dim, _t(index), _t(source), alpha=3)
    assert np.array_equal(np.moveaxis(got.numpy(), dim, 0), expected)
    filled = a.index_fill(dim, _t(index), -1.0)
    assert np.array_equal(filled.index_select(dim, _t(index)).numpy(), -source)
    copied = a.index_copy(dim, _t(index), _t(source))
    assert np.array_equal(copied.index_select(dim, _t(index)).numpy(), source)


def test_take_and_put_use_flat_positions() -> None:
    a = _t(_A).permute(2, 0, 1)
    flat = a.reshape(-1)
    index = st.tensor([[0, 7], [-1, 20]])
    assert st.equal(st.take(a, index), flat[index])
    a.put_(index, st.full((2, 2), -5.0, dtype=st.float64))
    assert st.take(a, index).tolist() == [[-5.0, -5.0], [-5.0, -5.0]]
    added = st.zeros(3).put(st.tensor([1, 1]), st.ones(2), accumulate=True)
    assert added.tolist() == [0.0, 2.0, 0.0]


def test_masks() -> None:
    mask = _A > 25
    assert np.array_equal(st.masked_select(_t(_A), _t(mask)).numpy(), _A[mask])
    turned = _t(_A).permute(1, 2, 0)
    expected = _A.transpose(1, 2, 0)[mask.transpose(1, 2, 0)]
    assert np.array_equal(turned.masked_select(_t(mask).permute(1, 2, 0)).numpy(), expected)
    row = st.tensor([True, False, True])
    assert st.masked_select(st.arange(6).view(2, 3), row).tolist() == [0, 2, 3, 5]
    filled = st.zeros(2, 3).masked_scatter(row, st.arange(4.0))
    assert filled.tolist() == [[0.0, 0.0, 1.0], [2.0, 0.0, 3.0]]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "complex64"])
def test_nonzero_in_row_major_order(dtype: str) -> None:
    a = (np.random.default_rng(0).integers(0, 3, (4, 5)) % 2).astype(dtype)
    assert np.array_equal(st.nonzero(_t(a)).numpy(), np.argwhere(a))
    assert np.array_equal(st.nonzero(_t(a.T)).numpy(), np.argwhere(a.T))
    rows, columns = st.nonzero(_t(a), as_tuple=True)
    assert np.array_equal(rows.numpy(), a.nonzero()[0])
    assert np.array_equal(columns.numpy(), a.nonzero()[1])
    assert st.nonzero(st.tensor(5)).shape == (1, 0)


def test_take_along_dim_broadcasts() -> None:
    a = _t(_A)
    index = a.argsort(dim=1, descending=True)
    expected = -np.sort(-_A, axis=1)
    assert np.array_equal(st.take_along_dim(a, index, 1).numpy(), expected)


def test_meta_index_has_a_shape_but_masks_have_none() -> None:
    a = st.empty(3, 4, device="meta")
    assert st.gather(a, 0, st.empty(2, 4, dtype=st.int64, device="meta")).shape == (2, 4)
    with pytest.raises(NotImplementedError, match="depends on data"):
        st.nonzero(a)


def _leaf(*shape: int) -> st.Tensor:
    return st.from_numpy(np.random.default_rng(1).random(shape)).requires_grad_()


_K = st.tensor([[0, 1, 1], [2, 0, 2]])
_DISTINCT = st.tensor([[0, 1, 2], [2, 0, 1]])  # no place twice: which value stays is not defined


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a: st.gather(a, 0, _K), ((3, 3),)),
        (lambda a: a[_K], ((3, 2),)),
        (lambda a: a[:, _K[0]], ((2, 3),)),
        (lambda a: a[a.detach() > 0.5], ((3, 3),)),
        (lambda a, b: a.scatter(0, _DISTINCT, b), ((3, 3), (2, 3))),
        (lambda a, b: a.scatter_add(0, _K, b), ((3, 3), (2, 3))),
        (lambda a, b: a.index_put((_DISTINCT[0],), b), ((4, 2), (3, 2))),
        (lambda a, b: a.index_put((_K,), b, accumulate=True), ((3,), (2, 3))),
        (lambda a: st.index_select(a, 1, _K[0]), ((2, 3),)),
        (lambda a, b: a.index_add(0, _K[0], b, alpha=2), ((3, 2), (3, 2))),
        (lambda a, b: a.index_copy(0, _DISTINCT[0, :2], b), ((3, 2), (2, 2))),
        (lambda a: a.index_fill(0, _K[0], 3.0), ((3, 2),)),
        (lambda a: st.take(a, _K), ((3, 2),)),
        (lambda a, b: a.masked_scatter(st.tensor([True, False, True]), b), ((3,), (2,))),
    ],
)
def test_gradients(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradcheck(function, tuple(_leaf(*s) for s in shapes))


def test_masks_without_data_do_not_change_a_shape():
    x = st.zeros(3, 4, device="meta")
    mask = st.ones(3, 4, dtype=st.bool, device="meta")
    assert x.index_put((mask,), st.zeros(5, device="meta")).shape == (3, 4)
    x[mask] = 1.0
    with pytest.raises(NotImplementedError, match="depends on data"):
        x[mask]


_ROWS = st.tensor([0, 2])


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: st.ops.aten.index_fill.int_Scalar_out(x, 0, _ROWS, 1, out=out),
        lambda x, out: st.ops.aten.index_fill.int_Tensor_out(x, 0, _ROWS, st.ones(()), out=out),
        lambda x, out: st.index_copy(x, 0, _ROWS, st.ones(2, 4), out=out),
        lambda x, out: st.index_add(x, 0, _ROWS, st.ones(2, 4), out=out),
        lambda x, out: st.scatter(x, 0, st.zeros(2, 4, dtype=st.int64), st.ones(2, 4), out=out),
        lambda x, out: st.scatter_add(x, 0, st.zeros(2, 4, dtype=st.int64), st.ones(2, 4), out=out),
    ],
)
def test_out_of_another_dtype_is_refused(call: object) -> None:
    for dtype in (st.float64, st.int16, st.bool):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but"):
            call(st.zeros(3, 4), st.empty(3, 4, dtype=dtype))


@pytest.mark.check
@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.index_select(0, i),
        lambda x, i: x[i],
        lambda x, i: x.gather(0, i[:, None]),
        lambda x, i: x.index_put((i,), st.ones(2, 3)),
        lambda x, i: x.index_add(0, i, st.ones(2, 3)),
        lambda x, i: x.index_fill(0, i, 1.0),
        lambda x, i: x.index_copy(0, i, st.ones(2, 3)),
        lambda x, i: x.scatter(0, i[:, None], 1.0),
        lambda x, i: x.scatter_add(0, i[:, None], st.ones(2, 3)),
    ],
)
def test_no_index_fits_a_dim_without_elements(call: object) -> None:
    with pytest.raises(
        (IndexError, RuntimeError), match=r"out of (bounds|range)|axis dim should be positive"
    ):
        call(st.zeros(0, 3), _ROWS)


def test_copies_of_memory_that_overlaps() -> None:
    """Two storages over one buffer: which value an element gets is open, that it is one is not."""
    buffer = np.arange(100.0)
    st.from_numpy(buffer[:-1]).copy_(st.from_numpy(buffer[1:]))
    assert set(buffer) <= set(range(100))
    x = st.arange(12.0).reshape(3, 4)
    out = st.scatter_add(
        x, 0, st.zeros(1, 1, dtype=st.int64), st.ones(1, 1), out=x.as_strided((3, 4), (1, 1))
    )
    assert out.shape == (3, 4)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex64", "complex128"])
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_columns_are_selected_from_any_number_of_rows(dtype: str, rows: int) -> None:
    x = np.arange(rows * 11).reshape(rows, 11).astype(dtype)
    at = np.array([10, 0, 3, 3, 7])
    got = st.from_numpy(x).index_select(1, st.from_numpy(at))
    assert (got.numpy() == x[:, at]).all()


def test_index_add_scales_many_rows() -> None:
    source = st.ones(40_000, 130)
    rows = st.arange(40_000) % 2
    found = st.zeros(2, 130).index_add(0, rows, source, alpha=-1)
    assert (found == -20_000).all()


def test_results_of_scatter_and_index_operators_are_contiguous() -> None:
    x = st.zeros(3, 4).t()
    index, places = st.tensor([0, 2]), st.zeros(1, 3, dtype=st.int64)
    source, row = st.ones(2, 3), st.ones(1, 3)
    for got in (
        x.index_add(0, index, source),
        x.index_copy(0, index, source),
        x.index_reduce(0, index, source, "amax"),
        x.scatter(0, places, row),
        x.scatter_add(0, places, row),
        x.scatter_reduce(0, places, row, "sum"),
    ):
        assert got.stride() == (3, 1)
        assert got[0].tolist() == [1.0] * 3
    assert x.index_fill(0, index, 1).stride() == x.stride()
    assert x.index_put((index,), source).stride() == x.stride()
    assert x.index_add_(0, index, source).stride() == (1, 4)


def test_indices_and_sources_that_do_not_fit_are_refused() -> None:
    x, i = st.zeros(3), st.tensor([0])
    wrong = [
        (RuntimeError, lambda: x.index_add(0, i.float(), st.ones(1))),
        (RuntimeError, lambda: x.index_copy(0, i.float(), st.ones(1))),
        (RuntimeError, lambda: x.index_reduce(0, i.float(), st.ones(1), "mean")),
        (RuntimeError, lambda: x.index_add(0, i, st.tensor(1.0))),
        (RuntimeError, lambda: x.index_reduce(0, i, st.tensor(1.0), "mean")),
        (IndexError, lambda: x.index_copy(0, i, st.ones(2))),
        (IndexError, lambda: x.index_copy(0, i, st.ones(1, 1))),
        (RuntimeError, lambda: st.zeros(2, 2).index_copy(0, i, st.tensor(1.0))),
        (IndexError, lambda: x.put(i, st.ones(2))),
        (RuntimeError, lambda: st.zeros(2, 5).index_put((st.tensor(1),), st.ones(1, 5))),
        (RuntimeError, lambda: st.ones(3).half().scatter(0, i, 1e30)),
    ]
    for error, call in wrong:
        with pytest.raises(error):
            call()
    assert x.index_copy(0, i, st.tensor(1.0)).tolist() == [1.0, 0.0, 0.0]
    y = st.zeros(2, 5)
    y[st.tensor(1)] = st.ones(1, 5)
    assert y.sum().item() == 5


def test_take_along_no_dim_takes_int32() -> None:
    x = st.tensor([[1, 2], [3, 4]])
    assert st.take_along_dim(x, st.tensor([3, 0], dtype=st.int32)).tolist() == [4, 1]
    with pytest.raises(RuntimeError, match="Long but got Int"):
        st.take_along_dim(x, st.zeros(1, 2, dtype=st.int32), 0)


def test_one_number_of_another_dtype_is_written_by_a_mask() -> None:
    mask = st.tensor([True, False, True])
    for number in (st.tensor(3), st.tensor([3]), st.tensor([[3.0]], dtype=st.float64)):
        x = st.zeros(3)
        x[mask] = number
        assert x.tolist() == [3.0, 0.0, 3.0]
        y = st.zeros(2, 3, dtype=st.int32)
        y[:, mask] = number
        assert y.tolist() == [[3, 0, 3]] * 2
    with pytest.raises(RuntimeError, match="without overflow"):
        st.zeros(3, dtype=st.uint8).index_put((mask,), st.tensor(300))
    with pytest.raises(RuntimeError, match="destination dtypes match"):
        st.zeros(3)[mask] = st.tensor([1, 2])
    with pytest.raises(RuntimeError, match="destination dtypes match"):
        st.zeros(3)[[0]] = st.tensor(1)
    factor = st.tensor(2.0, dtype=st.float64, requires_grad=True)
    st.zeros(3).index_put((mask,), factor).sum().backward()
    assert factor.grad.item() == 2.0


def test_true_as_an_index_takes_numbers_of_any_dtype() -> None:
    x = st.zeros(2, 2)
    x[True] = st.tensor([[1, 2]])
    assert x.tolist() == [[1.0, 2.0]] * 2
    x[True] = st.tensor(True)
    assert x.sum().item() == 4.0


def test_dims_that_an_index_keeps_lie_as_before() -> None:
    x = st.arange(120).reshape(2, 3, 4, 5).permute(3, 1, 2, 0)
    index = st.tensor([1, 0, 1, 2])
    mask = st.tensor([True, False, True])
    for key, stride in (
        ((index,), (24, 4, 1, 12)),
        ((slice(None), index), (1, 20, 5, 80)),
        ((slice(None), slice(None), index), (1, 20, 5, 60)),
        ((index, slice(None), index), (6, 1, 3)),
        ((slice(None), mask), (1, 20, 5, 40)),
        ((0, index), (8, 1, 4)),
    ):
        got = x[key]
        assert got.stride() == stride
        assert st.equal(got, x.contiguous()[key])
        assert got.contiguous().tolist() == x.contiguous()[key].tolist()
    assert x.contiguous()[index].is_contiguous()


@pytest.mark.parametrize(
    ("self_shape", "source_shape"), [((), (1,)), ((), ()), ((3,), ()), ((3,), (1,))], ids=str
)
def test_index_copy_gradients_have_the_shapes_of_their_tensors(
    self_shape: tuple[int, ...], source_shape: tuple[int, ...]
) -> None:
    t = st.zeros(self_shape, requires_grad=True)
    source = st.ones(source_shape, requires_grad=True)
    t.index_copy(0, st.tensor([0]), source).sum().backward()
    assert t.grad.reshape(-1).tolist() == [0.0, 1.0, 1.0][: t.numel()]
    assert source.grad.shape == source_shape
    assert source.grad.sum().item() == 1.0


def test_index_put_wants_an_index() -> None:
    for x in (st.ones(3), st.ones(())):
        for accumulate in (False, True):
            with pytest.raises(RuntimeError, match="at least one index must be provided"):
                x.index_put([], st.tensor(1.0), accumulate)


def test_byte_masks_are_warned_of_wherever_they_index() -> None:
    mask, values = st.tensor([1, 0, 1], dtype=st.uint8), st.tensor([5.0, 6.0])
    x = st.ones(3)
    with pytest.warns(UserWarning, match="dtype torch.uint8 is now deprecated") as told:
        assert x[mask].tolist() == [1, 1]
    assert len(told) == 1
    with pytest.warns(UserWarning, match="dtype torch.uint8 is now deprecated") as told:
        x[mask] = values
    assert len(told) == 1
    with pytest.warns(UserWarning, match="dtype torch.uint8 is now deprecated"):
        x.index_put_((mask,), values, accumulate=True)
    assert x.tolist() == [10, 1, 12]


def test_positions_are_written_into_int64_only() -> None:
    with pytest.raises(RuntimeError, match="nonzero: Expected out tensor to have scalar type Long"):
        st.nonzero(st.ones(2), out=st.empty(0, dtype=st.int32))
    assert st.nonzero(st.ones(2), out=st.empty(0, dtype=st.int64)).tolist() == [[0], [1]]


def test_index_add_beyond_the_end() -> None:
    with pytest.raises(IndexError, match="index out of range in self"):
        st.ones(2).index_add(0, st.tensor([5]), st.ones(1))
    with pytest.raises(RuntimeError, match="index 5 is out of bounds for dimension 1 with size 3"):
        st.ones(2, 3).index_add(1, st.tensor([5]), st.ones(2, 1))


def test_index_copy_says_which_dtype_does_not_fit() -> None:
    with pytest.raises(
        RuntimeError, match=r"index_copy_\(\): Expected a long tensor for index, but"
    ):
        st.ones(2, 3).index_copy(0, st.ones(1), st.ones(1, 3))
    with pytest.raises(RuntimeError, match=r"but got \(self\) Float and \(source\) Double"):
        st.ones(2, 3).index_copy(0, st.tensor([0]), st.ones(1, 3).double())
