"""embedding and embedding_bag: values against NumPy, errors, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

_RNG = np.random.default_rng(0)


@pytest.mark.check
def test_embedding_reads_rows() -> None:
    table = _RNG.standard_normal((5, 3))
    index = np.array([[0, 4], [4, 2]])
    got = st.embedding(st.from_numpy(table), st.from_numpy(index))
    assert np.array_equal(got.numpy(), table[index])
    turned = st.from_numpy(table.T.copy()).t()
    assert np.array_equal(st.embedding(turned, st.from_numpy(index)).numpy(), table[index])
    assert st.embedding(st.from_numpy(table), st.tensor(1)).shape == (3,)


def test_embedding_gradient_adds_up_and_skips_padding() -> None:
    table = st.zeros(4, 2, requires_grad=True)
    index = st.tensor([0, 2, 2, 3])
    st.embedding(table, index, 3).sum().backward()
    assert table.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]
    scaled = st.embedding_dense_backward(st.ones(4, 2), index, 4, -1, True)
    assert scaled.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]


def test_embedding_gradient_of_meta_indices_is_meta() -> None:
    index = st.zeros((), dtype=st.int64, device="meta")
    grad = st.embedding_dense_backward(st.ones(()), index, 3, 3, True)
    assert (grad.device.type, grad.shape) == ("meta", (3, 1))


@pytest.mark.check
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: st.embedding(st.zeros(3, 2), st.tensor([5])),
            IndexError,
            "index out of range in self",
        ),
        (
            lambda: st.embedding(st.zeros(3, 2), st.tensor([1.0])),
            RuntimeError,
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            "Long, Int; but got torch.FloatTensor instead",
        ),
        (
            lambda: st.embedding(st.zeros(3), st.tensor([1])),
            RuntimeError,
            "'weight' must be 2-D",
        ),
    ],
)
def test_wrong_shapes_are_named(call: object, error: type, message: str) -> None:
    with pytest.raises(error) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


def test_embedding_gradient() -> None:
    table = st.from_numpy(np.random.default_rng(1).random((3, 2))).requires_grad_()
    assert st.autograd.gradcheck(lambda x: st.embedding(x, st.tensor([[0, 2], [2, 1]])), (table,))


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
@pytest.mark.parametrize("columns", [3, 300])
def test_sums_of_long_bags_of_16_bit_floats_are_kept_in_float32(
    dtype: st.dtype, columns: int
) -> None:
    weight = st.rand(50, columns).to(dtype)
    rows = st.randint(0, 50, (3, 3000))
    total = st.nn.functional.embedding_bag(rows, weight, mode="sum")
    expected = weight.double()[rows].sum(1)
    assert bool(((total.double() - expected).abs() <= st.finfo(dtype).eps * expected).all())
