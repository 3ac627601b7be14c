"""vmap: dimensions, nesting, randomness, in-place writes, and what it refuses."""

from __future__ import annotations

import functools
import io
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from roundings import assert_summed

import shmtensor as T
from shmtensor.func import debug_unwrap, grad, jacfwd, vmap


@pytest.mark.check
def test_dimensions_of_inputs_and_outputs() -> None:
    x, y = T.randn(3, 4), T.randn(4)
    assert vmap(lambda a, b: a + b, in_dims=(0, None))(x, y).equal(x + y)
    assert vmap(lambda a: a * 2, in_dims=1, out_dims=1)(x).equal(x * 2)
    assert vmap(lambda a: a * 2, in_dims=-1)(x).equal(x.T * 2)
    both = vmap(lambda d: {"sum": d["x"].sum(), "twice": d["x"] * 2}, in_dims=({"x": 0},))({"x": x})
    assert both["sum"].allclose(x.sum(1)) and both["twice"].equal(x * 2)
    assert vmap(lambda a: T.ones(2))(x).shape == (3, 2)
    assert vmap(lambda a: T.ones(2), out_dims=None)(x).shape == (2,)


def test_nested() -> None:
    x, y = T.randn(3, 4), T.randn(5, 4)
    pairs = vmap(lambda a: vmap(lambda b: (a * b).sum())(y))(x)
    assert pairs.allclose(x @ y.T, atol=1e-6)
    assert vmap(vmap(vmap(T.sin)))(T.ones(2, 3, 4)).allclose(T.ones(2, 3, 4).sin())


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 7])
def test_chunks_are_joined(chunk_size: int) -> None:
    x = T.randn(5, 3)
    got = vmap(lambda a: (a.sum(), a * 2), chunk_size=chunk_size, out_dims=(0, 1))(x)
    assert got[0].allclose(x.sum(1)) and got[1].equal((x * 2).T)


def test_numbers_promote_as_numbers() -> None:
    wide, narrow = T.ones(3, dtype=T.float64), T.ones(3, 4)
    assert vmap(T.mul)(wide, narrow).dtype is T.float32
    assert vmap(T.mul, in_dims=(0, None))(wide, T.tensor(2)).dtype is T.float64


def test_tensors_look_like_one_example() -> None:
    seen: list[Any] = []

    def look(a: T.Tensor) -> T.Tensor:
        seen.extend([a.shape, a.dim(), a.stride(), a.numel(), a.requires_grad, repr(a)])
        assert debug_unwrap(a).shape == (2, 3)
        return a

    vmap(look)(T.zeros(2, 3, requires_grad=True))
    assert seen[:5] == [(3,), 1, (1,), 3, False]
    assert seen[5].startswith("BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[0., 0., 0.],")


def test_random_operators_follow_the_flag() -> None:
    x = T.zeros(4, 100)
    draws: list[Callable[[T.Tensor], T.Tensor]] = [
        lambda a: T.rand(100),
        T.rand_like,
        lambda a: a.clone().normal_(),
        lambda a: T.nn.functional.dropout(a + 1),
        lambda a: T.randperm(100).to(T.float32),
    ]
    for draw in draws:
        different = vmap(draw, randomness="different")(x)
        assert different.shape == (4, 100) and not different[0].equal(different[1])
        same = vmap(draw, randomness="same")(x)
        assert same.shape == (4, 100) and all(row.equal(same[0]) for row in same)
        with pytest.raises(RuntimeError, match="called random operation while in randomness error"):
            vmap(draw)(x)
    with pytest.raises(RuntimeError, match=r"same randomness with a batched tensor input"):
        vmap(T.bernoulli, randomness="same")(x + 0.5)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched"):
        vmap(lambda a: T.zeros(3).normal_(), randomness="different")(x)


def test_writes_in_place() -> None:
    x = T.randn(3, 4)

    def scatter(a: T.Tensor) -> T.Tensor:
        z = a.new_zeros(4, 2)
        z[1] = a[:2]
        z[:, 1] += 1
        z.t_()
        z.unsqueeze_(0)
        return z

    want = T.stack([scatter(a) for a in x])
    assert vmap(scatter)(x).equal(want)
    target = x.clone()
    vmap(lambda a: a.mul_(2))(target)
    assert target.equal(x * 2)
    for write in (lambda a: T.zeros(4).add_(a), lambda a: T.zeros(4).copy_(a)):
        with pytest.raises(RuntimeError, match="inplace arithmetic"):
            vmap(write)(x)


@pytest.mark.check
def test_indexing() -> None:
    x = T.arange(24.0).reshape(2, 3, 4)
    i = T.tensor([[2, 0], [1, 1]])
    for f in (
        lambda a, k: a[k],
        lambda a, k: a[:, k],
        lambda a, k: a[k, k + 1],
        lambda a, k: a[..., 1:, None][k],
        lambda a, k: a.index_select(1, k),
        lambda a, k: a.gather(0, k[None].expand(1, 2)),
        lambda a, k: a.index_put((k,), a[0] * 10, accumulate=True),
        lambda a, k: T.nn.functional.embedding(k, a),
        lambda a, k: T.nn.functional.one_hot(k, 4),
    ):
        assert vmap(f)(x, i).equal(T.stack([f(a, k) for a, k in zip(x, i, strict=True)]))
        assert vmap(f, in_dims=(None, 0))(x[0], i).equal(T.stack([f(x[0], k) for k in i]))
        assert vmap(f, in_dims=(0, None))(x, i[0]).equal(T.stack([f(a, i[0]) for a in x]))


def test_an_operator_without_rule_warns_and_works() -> None:
    x = T.rand(3, 5)
    with pytest.warns(UserWarning, match="batching rule for aten::histc"):
        got = vmap(lambda a: T.histc(a, bins=4, min=0, max=1))(x)
    assert got.equal(T.stack([T.histc(a, bins=4, min=0, max=1) for a in x]))


def test_operators_of_networks_have_rules() -> None:
    nn = T.nn
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.GroupNorm(2, 4),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(0),
        nn.Linear(16, 6),
        nn.LayerNorm(6),
        nn.Softmax(-1),
    )
    x = T.randn(3, 2, 6, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = vmap(net)(x)
    want = T.stack([net(a) for a in x])
    assert got.allclose(want, atol=1e-6)


VALUES = [
    (lambda x: x.sum().item(), "you're calling .item"),
    (lambda x: x if x.sum() > 0 else -x, "data-dependent control flow"),
    (lambda x: float(x.sum()), "you're calling .item"),
    (T.nonzero, "can output dynamic shape. Attempted to vmap over aten::nonzero"),
    (T.unique, "can output dynamic shape. Attempted to vmap over aten::_unique2"),
    (lambda x: x[x > 0], "boolean mask"),
    (lambda x: x.numpy(), "Cannot access data pointer of Tensor that doesn't have storage"),
    (lambda x: x.tolist(), "Cannot access data pointer of Tensor that doesn't have storage"),
    (lambda x: x.data_ptr(), "Cannot access data pointer of Tensor that doesn't have storage"),
    (lambda x: T.equal(x, x), "aten::equal. We could not generate a fallback"),
    (lambda x: T.allclose(x, x), "vmap over torch.allclose isn't supported"),
    (lambda x: T.add(x, x, out=T.empty(4)), "aten::add.out; the fallback path doesn't work"),
]


@pytest.mark.parametrize(("function", "text"), VALUES)
def test_what_reads_values_is_refused(function: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text.replace(".", r"\.")):
        vmap(function)(T.randn(3, 4))
    assert T._C._level_count() == 0


def test_a_batch_does_not_travel() -> None:
    def refuse(a: T.Tensor) -> T.Tensor:
        for send in (
            lambda: a.share_memory_(),
            lambda: a.untyped_storage(),
            lambda: pickle.dumps(a),
            lambda: T.save(a, io.BytesIO()),
        ):
            with pytest.raises((NotImplementedError, RuntimeError)):
                send()
        return a * 2

    x = T.randn(3, 4)
    assert vmap(refuse)(x).equal(x * 2)


CALLS: list[tuple[Callable[[T.Tensor], Any], type[Exception], str]] = [
    (lambda x: vmap(lambda a: a)(3), ValueError, "We cannot vmap over non-Tensor arguments"),
    (lambda x: vmap(lambda: x)(), ValueError, "got no inputs"),
    (lambda x: vmap(lambda a: a, in_dims=5)(x), ValueError, "-2 <= in_dim < 2"),
    (lambda x: vmap(lambda a: a, in_dims=(0, 0))(x), ValueError, "in_dims is not compatible"),
    (lambda x: vmap(lambda a: a, in_dims="a")(x), ValueError, "expected `in_dims` to be int"),
    (lambda x: vmap(lambda a, b: a)(x, x[:2]), ValueError, r"got sizes \[3, 2\]"),
    (
        lambda x: vmap(lambda a: "a")(x),
        ValueError,
        "must only return Tensors, got type <class 'str'>",
    ),
    (lambda x: vmap(lambda a: a, out_dims=(0, 1))(x), ValueError, "out_dims is not compatible"),
    (lambda x: vmap(lambda a: a, out_dims=3)(x), IndexError, "Dimension out of range"),
    (lambda x: vmap(lambda a: a, out_dims=None)(x), ValueError, "can not return a BatchedTensor"),
    (lambda x: vmap(lambda a: a, randomness="no")(x), RuntimeError, "Got no"),
    (lambda x: vmap(lambda a: a, chunk_size=0)(x), ValueError, "greater than 0"),
    (lambda x: vmap(lambda a: a, in_dims=(None,))(x), ValueError, "at least one Tensor"),
]


@pytest.mark.parametrize(("call", "kind", "text"), CALLS)
def test_bad_dimensions_are_refused(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(T.randn(3, 4))
    assert T._C._level_count() == 0


def test_names_that_libraries_import() -> None:
    from shmtensor._C import _functorch as names

    x = T.zeros(2, 3)
    seen: list[Any] = []

    def look(a: T.Tensor) -> T.Tensor:
        seen.extend([names.is_batchedtensor(a), names.maybe_get_bdim(a), names.maybe_get_level(a)])
        seen.extend([names.get_unwrapped(a).shape, names.maybe_current_level()])
        return a

    vmap(look)(x)
    assert seen == [True, 0, 1, (2, 3), 1]
    assert not names.is_batchedtensor(x) and names.get_unwrapped(x) is x
    assert names.maybe_get_bdim(x) == names.maybe_get_level(x) == -1
    assert names.maybe_current_level() is None


def test_a_tensor_that_escapes_is_refused() -> None:
    kept: list[T.Tensor] = []
    vmap(lambda a: (kept.append(a), a)[1])(T.randn(3, 4))
    with pytest.raises(RuntimeError, match="may have escaped"):
        kept[0] + 1
    assert repr(kept[0]).startswith("BatchedTensor")


def test_levels_belong_to_threads() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                x = T.randn(4, 3)
                assert vmap(grad(lambda a: (a * a).sum()))(x).allclose(2 * x)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_modes_and_autocast_see_batched_calls() -> None:
    x, w = T.randn(3, 2, 4), T.randn(4, 4)
    with T.autocast("cpu", dtype=T.bfloat16):
        got = vmap(lambda a: a @ w)(x)
    a, b = x.bfloat16().double(), w.bfloat16().double()
    assert got.dtype is T.bfloat16
    assert_summed(got, a @ b, a.abs() @ b.abs())


def _captured_operators() -> list[tuple[str, Callable[[], T.Tensor]]]:
    """Operators of tensors that a function captures, whose kernels read the memory of parts."""
    x = T.tensor([[4.0, 1.0], [1.0, 3.0]])
    every_other = T.tensor([1, 9, 3, 9])[::2]
    return [
        ("tensor_split", lambda: T.tensor_split(T.arange(4.0), every_other)[1].sum()),
        ("tensor_split by a number", lambda: T.tensor_split(x, T.tensor(2))[1].sum()),
        ("segment_reduce", lambda: T.segment_reduce(x, "sum", offsets=every_other - 1)[0].sum()),
        ("segment_reduce mean", lambda: T.segment_reduce(x, "mean", lengths=every_other[:1] + 1)),
        ("masked_select", lambda: x.T.masked_select(x.T > 1)),
        ("nonzero", lambda: (x.T - 1).nonzero().float()),
        ("eigh", lambda: T.linalg.eigh(x.T)[0]),
        ("cholesky", lambda: T.linalg.cholesky(x.T)),
        ("cov", lambda: T.cov(x, aweights=T.tensor([1.0, 2.0]))),
        ("renorm", lambda: T.renorm(x, 2, 0, 1.0)),
        ("numbers", lambda: T.tensor((x * 2).tolist())),
    ]


@pytest.mark.parametrize(
    "operator",
    [f for _, f in _captured_operators()],
    ids=[name for name, _ in _captured_operators()],
)
def test_operators_of_captured_tensors_inside_of_derivatives(
    operator: Callable[[], T.Tensor],
) -> None:
    x, want = T.tensor([1.0, 2.0]), operator().sum()
    square = lambda a: a * a * operator().sum()  # noqa: E731
    assert vmap(grad(square))(x).allclose(2 * x * want)
    assert vmap(jacfwd(square))(x).allclose(2 * x * want)
    assert jacfwd(square)(x).allclose((2 * x * want).diag())


def test_lists_of_places_inside_of_derivatives() -> None:
    x = T.arange(6.0).reshape(2, 3)

    def split(a: T.Tensor) -> T.Tensor:
        places = T.tensor([1, 9, 2, 9])[::2] * 1
        first, second, third = T.tensor_split(a * a, places)
        return first.sum() + 2 * second.sum() + 3 * third.sum()

    def reduce(a: T.Tensor) -> T.Tensor:
        return T.segment_reduce(a * a, "sum", lengths=T.tensor([0, 0]) + T.tensor([1, 2]))[1]

    assert vmap(grad(split))(x).equal(2 * x * T.tensor([1.0, 2.0, 3.0]))
    assert vmap(grad(reduce))(x).equal(2 * x * T.tensor([0.0, 1.0, 1.0]))


def test_masked_select_by_one_mask() -> None:
    x = T.arange(1.0, 7.0).reshape(2, 3)
    mask = T.tensor([True, False, True])
    assert vmap(lambda a: a.masked_select(mask))(x).tolist() == [[1, 3], [4, 6]]
    assert vmap(lambda a: a.masked_select(mask), in_dims=1)(x.T).tolist() == [[1, 3], [4, 6]]
    columns = vmap(lambda a: a.masked_select(mask[:2, None]))(x)
    assert columns.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert vmap(lambda a: a.sum().masked_select(mask))(x).tolist() == [[6, 6], [15, 15]]
    assert vmap(vmap(lambda a: a.masked_select(mask)))(x[None]).tolist() == [[[1, 3], [4, 6]]]
    assert vmap(lambda a: a.masked_select(mask))(x[:0]).shape == (0, 2)
    squares = vmap(grad(lambda a: (a * a).masked_select(mask).sum()))(x)
    assert squares.tolist() == [[2, 0, 6], [8, 0, 12]]
    assert jacfwd(lambda a: (a * a).masked_select(mask))(x[0]).tolist() == [[2, 0, 0], [0, 0, 6]]
    with pytest.raises(RuntimeError, match="Attempted to vmap over `mask` in torch"):
        vmap(lambda a: a.masked_select(a > 2))(x)


def test_an_empty_batch_has_no_example_to_call() -> None:
    text = r"not implemented for aten::histc. The fallback path does not support .* dims of size 0"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")
        with pytest.raises(RuntimeError, match=text):
            vmap(T.histc)(T.ones(0, 3))


def test_partial_functions_have_a_short_name() -> None:
    add = functools.partial(T.add, T.ones(3))
    with pytest.raises(ValueError, match=r"vmap\(functools.partial\(add, ...\), ..., out_dims="):
        vmap(add, out_dims=(0, 0))(T.ones(2, 3))


def test_indexing_by_one_number_of_each_example() -> None:
    table = T.arange(24.0).reshape(2, 3, 4)
    x, i = T.arange(6.0).reshape(2, 3), T.tensor([2, 0])
    for read in (
        lambda a, k: a[k],
        lambda a, k: a[-k],
        lambda a, k: a[k, None],
        lambda a, k: x[k // 2, k] + a,
        lambda a, k: x[:, k],
        lambda a, k: x[k // 2, 1:],
        lambda a, k: table[0, :, k],
        lambda a, k: table[k // 2, :, k],
        lambda a, k: table[[0, 1], k],
        lambda a, k: table[..., k.to(T.int32)],
        lambda a, k: vmap(lambda row: row[k])(x),
    ):
        want = T.stack([read(a, k) for a, k in zip(x, i, strict=True)])
        assert vmap(read)(x, i).equal(want)

    def write(a: T.Tensor, k: T.Tensor) -> T.Tensor:
        b = a[None].repeat(2, 1)
        b[0, k] = a.sum()
        b[:, k] += 1
        return b

    want = T.stack([write(a, k) for a, k in zip(x, i, strict=True)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")
        assert vmap(write)(x, i).equal(want)
    gradients = vmap(grad(lambda a, k: a[k] ** 2))(x, i)
    assert gradients.tolist() == [[0, 0, 4], [6, 0, 0]]
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 3"):
        vmap(lambda k: x[0][k + 5])(i)
    with pytest.raises(RuntimeError, match="Attempting to batch over indexing with a boolean mask"):
        vmap(lambda k: x[k > 0])(i)
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda k: T.zeros(3).__setitem__(k, 1.0))(i)
