"""Functions on lists of tensors: as by operators, in place too; what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import _C

ROWS = _C._foreach_rows()
NAMES = [name for name in dir(st) if name.startswith("_foreach_")]
UNARY = [row[0] for row in ROWS if row[1] == "unary" and row[3][0] and row[0] != "max"]
BINARY = [row[0] for row in ROWS if row[1] == "binary" and row[0] != "mm"]


def lists(dtype: Any = st.float32) -> list[st.Tensor]:
    return [st.tensor([0.5, 0.25, 0.75], dtype=dtype), st.tensor([[0.125, 0.5]], dtype=dtype)]


def same(results: Any, expected: Any) -> bool:
    return all(
        a.dtype == b.dtype and a.allclose(b, rtol=1e-6)
        for a, b in zip(results, expected, strict=True)
    )


@pytest.mark.check
def test_the_names() -> None:
    assert len(NAMES) == 91
    assert st._foreach_add.__name__ == "_foreach_add"
    assert "add.Tensor" in st._foreach_add.__doc__


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str) -> None:
    function, operator = getattr(st, f"_foreach_{name}"), getattr(st, name)
    expected = [operator(t) for t in lists()]
    results = function(lists())
    assert isinstance(results, tuple)
    assert same(results, expected)
    mine = lists()
    assert getattr(st, f"_foreach_{name}_")(mine) is mine
    assert same(mine, expected)
    assert [t._version for t in mine] == [1, 1]


@pytest.mark.parametrize(
    "name, other", itertools.product(BINARY, ["list", "number", "numbers", "tensor"])
)
def test_two_operands(name: str, other: str) -> None:
    operand: Any = {
        "list": lists()[::-1][::-1],
        "number": 2.5,
        "numbers": [1.5, 3.0],
        "tensor": st.tensor(2.0),
    }[other]
    each = list(operand) if isinstance(operand, list) else [operand] * 2
    operator = {
        "clamp_min": lambda a, b: a.clamp(min=b),
        "clamp_max": lambda a, b: a.clamp(max=b),
        "maximum": lambda a, b: a.clamp(min=b),
        "minimum": lambda a, b: a.clamp(max=b),
    }.get(name) or getattr(st, name)
    expected = [operator(a, b) for a, b in zip(lists(), each, strict=True)]
    assert same(getattr(st, f"_foreach_{name}")(lists(), operand), expected)
    mine = lists()
    getattr(st, f"_foreach_{name}_")(mine, operand)
    assert same(mine, expected)


def test_alpha() -> None:
    twos, ones = [st.full((2,), 2.0)], [st.ones(2)]
    assert st._foreach_add(ones, twos, alpha=3)[0].tolist() == [7, 7]
    assert st._foreach_sub(ones, twos, alpha=3)[0].tolist() == [-5, -5]
    assert st._foreach_add(ones, st.tensor(2.0), alpha=3)[0].tolist() == [7, 7]
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        st._foreach_add(ones, 2, alpha=3)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        st._foreach_mul(ones, twos, alpha=3)


def test_known_values_of_the_others() -> None:
    a = [st.tensor([1.0, 2.0]), st.tensor([3.0])]
    b = [st.tensor([2.0, 4.0]), st.tensor([6.0])]
    values = {
        "pow": st._foreach_pow(2, a),
        "addcdiv": st._foreach_addcdiv(a, b, a, value=2),
        "addcdivs": st._foreach_addcdiv(a, b, a, [1, 2]),
        "addcdivt": st._foreach_addcdiv(a, b, a, st.tensor([1.0, 2.0])),
        "addcmul": st._foreach_addcmul(a, b, a),
        "lerp": st._foreach_lerp(a, b, 0.5),
        "lerps": st._foreach_lerp(a, b, [0.5, 1.0]),
        "lerpt": st._foreach_lerp(a, b, [st.tensor(0.5), st.tensor(1.0)]),
        "norm": st._foreach_norm([st.tensor([3.0, 4.0]), st.tensor([5.0])]),
        "norm1": st._foreach_norm(a, 1),
        "norminf": st._foreach_norm(a, float("inf"), dtype=st.float64),
        "powsum": st._foreach_powsum([st.tensor([3.0, -4.0])], 3),
        "max": st._foreach_max(a),
        "mm": st._foreach_mm([st.ones(2, 2)], [st.ones(2, 1)]),
        "clone": st._foreach_clone(a),
        "named": st._foreach_mul(a, scalars=[1, 2]),
    }
    assert {key: [t.tolist() for t in value] for key, value in values.items()} == {
        "pow": [[2, 4], [8]],
        "addcdiv": [[5, 6], [7]],
        "addcdivs": [[3, 4], [7]],
        "addcdivt": [[3, 4], [7]],
        "addcmul": [[3, 10], [21]],
        "lerp": [[1.5, 3], [4.5]],
        "lerps": [[1.5, 3], [6]],
        "lerpt": [[1.5, 3], [6]],
        "norm": [5, 5],
        "norm1": [3, 3],
        "norminf": [2, 3],
        "powsum": [91],
        "max": [2, 3],
        "mm": [[[2], [2]]],
        "clone": [[1, 2], [3]],
        "named": [[1, 2], [6]],
    }
    assert values["norminf"][0].dtype == st.float64
    st._foreach_copy_(a, b)
    assert [t.tolist() for t in a] == [[2, 4], [6]]
    st._foreach_zero_(a)
    assert [t.tolist() for t in a] == [[0, 0], [0]]
    assert [t.tolist() for t in b] == [[2, 4], [6]]


@pytest.mark.parametrize("dtype", [st.float64, st.bfloat16, st.int64, st.complex64, st.bool])
def test_dtypes_are_promoted_as_by_operators(dtype: Any) -> None:
    for name in ("sqrt", "neg"):
        if name == "neg" and dtype == st.bool:
            continue
        tensors = [st.ones(3).to(dtype), st.ones(2).to(dtype)]
        results = getattr(st, f"_foreach_{name}")(tensors)
        assert same(results, [getattr(st, name)(t) for t in tensors])
    assert (
        st._foreach_add([st.ones(1).to(dtype)], 1.5)[0].dtype == (st.ones(1).to(dtype) + 1.5).dtype
    )
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        st._foreach_add_([st.ones(1, dtype=st.int64)], 1.5)


def test_layouts_views_and_empty_tensors() -> None:
    base = st.arange(24.0).reshape(2, 3, 4)
    tensors = [base.transpose(0, 2), base[:, ::2], base[0], st.empty(0), st.tensor(3.0), -base]
    results = st._foreach_mul(tensors, [t.clone() for t in tensors])
    assert same(results, [t * t for t in tensors])
    assert same(st._foreach_exp(tensors), [t.exp() for t in tensors])
    assert st._foreach_exp([base.transpose(0, 2)])[0].stride() == base.transpose(0, 2).stride()
    view = base[0]
    st._foreach_neg_([view])
    assert base[0, 0].tolist() == [0, -1, -2, -3]
    assert base._version == 1


@pytest.mark.check
def test_a_list_with_itself_and_with_parts_of_itself() -> None:
    a = st.tensor([1.0, 2.0, 3.0])
    st._foreach_mul_([a], [a])
    assert a.tolist() == [1, 4, 9]
    pool = st.arange(4.0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        st._foreach_mul_([pool[1:]], [pool[:3]])


def test_tensors_twice_in_a_list_are_changed_in_order() -> None:
    for n in (3, 200_000):
        a, b = st.full((n,), 2.0), st.full((n,), 3.0)
        st._foreach_mul_([a, b, a], [b, a, a])
        assert a[0].item() == a[-1].item() == 36
        assert b[0].item() == b[-1].item() == 18
        c = st.zeros(n)
        st._foreach_exp_([c, c])
        assert (c - 2.718281828459045).abs().max().item() < 1e-6


def test_large_lists_are_shared_among_threads() -> None:
    tensors = [st.full((n,), 2.0) for n in (100_000, 3, 50_000)]
    assert all(t.eq(4).all() for t in st._foreach_mul(tensors, tensors))
    st._foreach_sqrt_(tensors)
    assert all(t.sub(2**0.5).abs().max() < 1e-6 for t in tensors)


def test_gradients() -> None:
    x = [st.tensor([1.0, 2.0], requires_grad=True), st.tensor([3.0], requires_grad=True)]
    products = st._foreach_mul(x, st._foreach_exp(x))
    st.cat(products).sum().backward()
    for t in x:
        assert t.grad.allclose((t.exp() * (1 + t)).detach())
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        st._foreach_exp_(x)
    with st.no_grad():
        st._foreach_zero_(x)
        st._foreach_exp_(x)
    assert [t.tolist() for t in x] == [[1, 1], [1]]
    y = [t.clone() for t in x]
    st._foreach_exp_(y)
    assert y[0].grad_fn is not None
    assert st._foreach_exp(x)[0].requires_grad


def test_classes_of_results_and_modes() -> None:
    class Mine(st.Tensor):
        pass

    mine = st.ones(2).as_subclass(Mine)
    assert type(st._foreach_exp([mine])[0]) is Mine
    assert type(st._foreach_exp([st.nn.Parameter(st.ones(1))])[0]) is st.Tensor
    seen: list[str] = []

    class Sees:
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    _C._push_dispatch_mode(Sees())
    try:
        st._foreach_exp([st.ones(1), st.ones(2)])
    finally:
        _C._pop_dispatch_mode()
    assert seen.count("aten.exp.default") == 2


def test_meta_and_read_only_tensors() -> None:
    assert st._foreach_exp([st.ones(2, device="meta")])[0].is_meta
    with st.inference_mode():
        frozen = [st.ones(2)]
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        st._foreach_exp_(frozen)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda a: st._foreach_add(a, a[:1]), RuntimeError, "same number of tensors, got 2 and 1"),
        (lambda a: st._foreach_add([], 1), RuntimeError, "must have at least one tensor"),
        (lambda a: st._foreach_abs([]), RuntimeError, "must have at least one tensor"),
        (
            lambda a: st._foreach_add(a, [1, 2, 3]),
            RuntimeError,
            "same number of elements as scalar",
        ),
        (
            lambda a: st._foreach_add(a, st.ones(2)),
            RuntimeError,
            "0 dim but it has 1 dimensions and 2",
        ),
        (lambda a: st._foreach_add(a, "x"), TypeError, "invalid combination of arguments"),
        (lambda a: st._foreach_add(3, 1), TypeError, "invalid combination of arguments"),
        (lambda a: st._foreach_abs([1]), TypeError, "as element 0 in argument 0, but got int"),
        (lambda a: st._foreach_abs(st.ones(2)), TypeError, "must be tuple of Tensors, not Tensor"),
        (lambda a: st._foreach_max([st.ones(0)]), RuntimeError, "maximum of an empty tensor"),
        (lambda a: st._foreach_addcdiv(a, a, a[:1]), RuntimeError, "got 2 and 1"),
        (lambda a: st._foreach_addcdiv(a, a, a, st.ones(1)), RuntimeError, "length 2 but got 1"),
        (
            lambda a: st._foreach_add([st.ones(2)], [st.ones(3)]),
            RuntimeError,
            "must match the size",
        ),
        (lambda a: st._foreach_mul(a, other=a, more=1), TypeError, "more"),
    ],
)
def test_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(lists())


@pytest.mark.parametrize("name", NAMES)
def test_names_are_torchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    assert hasattr(torch, name)
    if name in {f"_foreach_{n}{end}" for n in UNARY for end in ("", "_")}:
        theirs = getattr(torch, name)([torch.tensor(t.tolist()) for t in lists()])
        ours = getattr(st, name)(lists())
        assert all(
            st.tensor(b.tolist()).allclose(a, rtol=1e-5) for a, b in zip(ours, theirs, strict=True)
        )


@pytest.mark.parametrize("number", [np.float64(2), np.float32(2), np.int64(2), np.uint8(2)])
def test_numbers_of_numpy_are_numbers(number: Any) -> None:
    ones = [st.ones(2), st.full((3,), 4.0)]
    for name in ("_foreach_div", "_foreach_mul", "_foreach_add", "_foreach_pow"):
        function = getattr(st, name)
        for given, plain in ((number, 2), ([number, number], [2, 2])):
            for ours, theirs in zip(function(ones, given), function(ones, plain), strict=True):
                assert ours.dtype is st.float32
                assert ours.tolist() == theirs.tolist()
    assert st._foreach_pow(number, ones)[1].tolist() == [16.0] * 3
    assert st._foreach_lerp(ones, ones, number)[0].tolist() == [1.0, 1.0]
    assert st._foreach_addcmul(ones, ones, ones, number)[1].tolist() == [36.0] * 3
