"""cat, stack, repeat, roll and their like: values against NumPy, dtypes, errors, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

_A = np.arange(24.0).reshape(2, 3, 4)


def _t(a: np.ndarray) -> st.Tensor:
    return st.from_numpy(np.array(a))


@pytest.mark.check
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_cat_and_stack_along_any_dim(dim: int) -> None:
    parts = [_A, _A + 100, _A * 2]
    tensors = [_t(parts[0]), _t(parts[1].transpose(2, 0, 1).copy()).permute(1, 2, 0), _t(parts[2])]
    assert np.array_equal(st.cat(tensors, dim).numpy(), np.concatenate(parts, dim))
    assert np.array_equal(st.stack(tensors, dim).numpy(), np.stack(parts, dim))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
@pytest.mark.parametrize("width", [1, 3, 4, 300])
def test_cat_of_rows_of_any_width(dtype: str, width: int) -> None:
    a = np.random.default_rng(0).integers(0, 2, (5, width)).astype(dtype)
    b = np.random.default_rng(0).integers(0, 2, (5, 2)).astype(dtype)
    joined = st.cat([st.from_numpy(a), st.from_numpy(b)], 1)
    assert np.array_equal(joined.numpy(), np.concatenate([a, b], 1))


def test_results_beyond_the_caches() -> None:
    a = (
        np.random.default_rng(0).standard_normal((1101, 4001)).astype("float32")
    )  # rows begin at any place of a line
    t = st.from_numpy(a)
    assert np.array_equal(t.clone().numpy(), a)
    assert np.array_equal((t + t).numpy(), a + a)
    assert np.array_equal((t[:, 1:] * 2).numpy(), a[:, 1:] * 2)
    assert np.array_equal((t + t[0]).numpy(), a + a[0])
    assert np.array_equal(
        st.cat([t, t[:, :999].contiguous()], 1).numpy(), np.hstack([a, a[:, :999]])
    )
    assert np.array_equal(t.double().numpy(), a.astype("float64"))
    assert np.array_equal(st.empty(1101, 4003)[:, 2:-1].copy_(t[:, 1:]).numpy(), a[:, 1:])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_cat_of_dense_and_other_tensors_of_several_lengths(dim: int) -> None:
    parts = [np.arange(70 * 40 * 6, dtype="float32").reshape(70, 40, 6)[:, :, ::k] for k in (1, 2)]
    parts = [
        np.take(p, range(min(p.shape[dim], 3 + i)), dim) for i, p in enumerate([*parts, *parts])
    ]
    shape = [min(p.shape[d] for p in parts) for d in range(3)]
    cut = [p[tuple(slice(None if d == dim else shape[d]) for d in range(3))] for p in parts]
    dense = [_t(np.ascontiguousarray(c)) for c in cut]
    for tensors in (dense, [_t(cut[0]), *dense[1:]]):
        assert np.array_equal(st.cat(tensors, dim).numpy(), np.concatenate(cut, dim))
    wide = [_t(np.arange(300 * n, dtype="int64").reshape(3, 100 * n)) for n in (1, 2, 0, 3)]
    assert np.array_equal(st.cat(wide, 1).numpy(), np.concatenate([w.numpy() for w in wide], 1))


def test_cat_promotes_and_skips_empty_vectors() -> None:
    assert st.cat([st.zeros(2), st.ones(2, dtype=st.int64)]).dtype is st.float32
    assert st.cat([st.zeros(2, 3), st.zeros(0)]).shape == (2, 3)
    assert st.cat([st.zeros(0), st.zeros(0)]).shape == (0,)
    x = st.rand(2, 3, 4, 5).to(memory_format=st.channels_last)
    for parts in ([st.zeros(0), x, x], [x, st.zeros(0), x]):
        assert st.cat(parts, 1).is_contiguous()  # as vectors are, in torch too
        assert st.equal(st.cat(parts, 1), st.cat([x, x], 1))


def test_cat_keeps_channels_last() -> None:
    a = st.zeros(2, 3, 4, 5).to(memory_format=st.channels_last)
    assert st.cat([a, a], 1).is_contiguous(memory_format=st.channels_last)


def test_stacks_by_name_as_numpy() -> None:
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        assert np.array_equal(getattr(st, name)([_t(a), _t(b)]).numpy(), getattr(np, name)([a, b]))
        pair = [_A[0], _A[1]]
        assert np.array_equal(getattr(st, name)([*map(_t, pair)]).numpy(), getattr(np, name)(pair))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: st.cat([]), ValueError, "torch.cat(): expected a non-empty list of Tensors"),
        (
            lambda: st.cat([st.zeros(2, 3), st.zeros(3, 2)]),
            RuntimeError,
            "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 2 for "
            "tensor number 1 in the list.",
        ),
        (
            lambda: st.cat([st.zeros(2, 3), st.zeros(3)]),
            RuntimeError,
            "Tensors must have same number of dimensions: got 2 and 1",
        ),
        (
            lambda: st.cat([st.tensor(1.0)]),
            RuntimeError,
            "zero-dimensional tensor (at position 0) cannot be concatenated",
        ),
        (
            lambda: st.stack([st.zeros(2), st.zeros(3)]),
            RuntimeError,
            "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1",
        ),
        (lambda: st.cat([st.zeros(2)], dim=3), IndexError, "Dimension out of range"),
        (
            lambda: st.zeros(3, 2).repeat(2),
            RuntimeError,
            "Number of dimensions of repeat dims can not be smaller",
        ),
        (
            lambda: st.roll(st.zeros(3), (1, 2), (0,)),
            RuntimeError,
            "shifts and dimensions must align. shifts: 2, dims:1",
        ),
        (
            lambda: st.repeat_interleave(st.zeros(3), st.tensor([1, 2])),
            RuntimeError,
            "repeats.size(0) = 2 and input.size(0) = 3",
        ),
    ],
)
def test_wrong_shapes_are_named(call: object, error: type, message: str) -> None:
    with pytest.raises(error) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


@pytest.mark.check
@pytest.mark.parametrize("repeats", [(2,), (1, 1, 1), (2, 1, 3), (2, 2, 1, 2), (0, 1, 1)], ids=str)
def test_repeat_and_tile_as_numpy(repeats: tuple[int, ...]) -> None:
    assert np.array_equal(st.tile(_t(_A), repeats).numpy(), np.tile(_A, repeats))
    if len(repeats) >= 3:
        assert np.array_equal(_t(_A).repeat(*repeats).numpy(), np.tile(_A, repeats))


def test_repeat_interleave_as_numpy() -> None:
    a = _t(_A)
    assert np.array_equal(st.repeat_interleave(a, 2).numpy(), np.repeat(_A, 2))
    assert np.array_equal(st.repeat_interleave(a, 3, dim=1).numpy(), np.repeat(_A, 3, 1))
    counts = np.array([2, 0, 1])
    got = st.repeat_interleave(a, _t(counts), dim=1)
    assert np.array_equal(got.numpy(), np.repeat(_A, counts, 1))
    assert st.repeat_interleave(_t(counts)).tolist() == [0, 0, 2]


@pytest.mark.parametrize("dims", [(0,), (2,), (0, 1), (0, 1, 2), ()], ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
def test_flip_as_numpy(dims: tuple[int, ...], dtype: str) -> None:
    a = _A.astype(dtype)
    assert np.array_equal(st.flip(_t(a), dims).numpy(), np.flip(a, dims))
    turned = _t(a).permute(1, 2, 0)
    assert np.array_equal(turned.flip(dims).numpy(), np.flip(a.transpose(1, 2, 0), dims))


def test_rearrangements_as_numpy() -> None:
    a = _t(_A)
    assert np.array_equal(st.roll(a, 5).numpy(), np.roll(_A, 5))
    assert np.array_equal(st.roll(a, (1, -2), (0, 2)).numpy(), np.roll(_A, (1, -2), (0, 2)))
    for k in range(-1, 5):
        assert np.array_equal(st.rot90(a, k, (1, 2)).numpy(), np.rot90(_A, k, (1, 2)))
    assert np.array_equal(st.fliplr(a).numpy(), np.fliplr(_A))
    assert np.array_equal(st.flipud(a).numpy(), np.flipud(_A))


def _leaf(*shape: int) -> st.Tensor:
    return st.from_numpy(np.random.default_rng(0).random(shape)).requires_grad_()


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a, b: st.cat([a, b, a], 1), ((2, 3), (2, 2))),
        (lambda a, b: st.stack([a, b], 1), ((2, 3), (2, 3))),
        (lambda a: a.repeat(2, 3), ((2, 3),)),
        (lambda a: a.repeat(2, 1, 3), ((2, 3),)),
        (lambda a: st.repeat_interleave(a, st.tensor([2, 1]), 0), ((2, 3),)),
        (lambda a: st.flip(a, (0, 1)), ((2, 3),)),
        (lambda a: st.roll(a, (1, 2), (0, 1)), ((2, 3),)),
        (lambda a: st.roll(a, 2), ((2, 3),)),
        (st.diag, ((3,),)),
        (st.diag, ((3, 3),)),
        (st.tril, ((3, 3),)),
    ],
)
def test_gradients(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradcheck(function, tuple(_leaf(*s) for s in shapes))


def test_gradient_of_cat_is_one_node() -> None:
    a = st.ones(2, requires_grad=True)
    joined = st.cat([a, st.zeros(0), a])
    assert joined.grad_fn.name() == "CatBackward0"
    (joined * st.arange(4.0)).sum().backward()
    assert a.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("name", ["cat", "concat", "stack", "hstack", "vstack", "dstack"])
def test_out_of_a_kind_that_the_values_cannot_be_cast_to_is_a_type_error(name: str) -> None:
    join = getattr(st, name)
    with pytest.raises(TypeError, match="can't be cast to the desired output type Long"):
        join([st.ones(2), st.ones(2)], out=st.empty(0, dtype=st.int64))
    wide = st.empty(0, dtype=st.float64)
    assert join([st.ones(2), st.ones(2)], out=wide) is wide
    with pytest.raises(RuntimeError, match="single memory location"):
        join([wide, wide], out=wide)


@pytest.mark.parametrize("dim", [0, 1, 5, -2])
def test_empty_vectors_are_concatenated_along_any_dim(dim: int) -> None:
    nothing = st.empty(0)
    assert st.cat([nothing, nothing], dim=dim).shape == (0,)
    assert st.cat([nothing, nothing.long()], dim=dim).dtype is st.float32
    assert st.cat([nothing, nothing], dim=dim, out=st.empty(2, 0)).shape == (0,)
    with pytest.raises(IndexError, match="out of range"):
        st.cat([nothing, st.ones(2)], dim=dim or 1)
