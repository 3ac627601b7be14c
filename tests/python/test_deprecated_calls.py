"""Calls of old programs: numbers before tensors, old-style types, elements mapped by Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T

ROWS, COLUMNS = T.ones(3, 4), T.ones(4, 5)
BATCHES, OTHERS = T.ones(2, 3, 4), T.ones(2, 4, 5)

NUMBERS_FIRST: list[tuple[Callable[[], T.Tensor], float]] = [
    (lambda: T.add(T.ones(2), -1, T.ones(2)), 0),
    (lambda: T.add(T.ones(2), -1, T.ones(2), out=T.empty(2)), 0),
    (lambda: T.ones(2).add(-1, T.ones(2)), 0),
    (lambda: T.ones(2).add_(-1, other=T.ones(2)), 0),
    (lambda: T.sub(T.ones(2), -1, T.ones(2)), 2),
    (lambda: T.ones(2).sub_(-1, T.ones(2)), 2),
    (lambda: T.addcmul(T.ones(2), 3, T.ones(2), T.ones(2)), 4),
    (lambda: T.ones(2).addcmul_(3, T.ones(2), T.ones(2)), 4),
    (lambda: T.addcdiv(T.ones(2), 3, T.ones(2), T.ones(2), out=T.empty(2)), 4),
    (lambda: T.ones(2).addcdiv(3, T.ones(2), T.ones(2)), 4),
    (lambda: T.addmm(2, T.ones(3, 5), ROWS, COLUMNS), 6),
    (lambda: T.addmm(2, T.ones(3, 5), 3, ROWS, COLUMNS), 14),
    (lambda: T.ones(3, 5).addmm_(2, 3, ROWS, mat2=COLUMNS), 14),
    (lambda: T.addmv(2, T.ones(3), ROWS, T.ones(4)), 6),
    (lambda: T.addmv_(2, T.ones(3), ROWS, T.ones(4)), 6),
    (lambda: T.ones(3).addmv_(2, 3, ROWS, T.ones(4)), 14),
    (lambda: T.addr(2, T.ones(3, 4), 3, T.ones(3), T.ones(4)), 5),
    (lambda: T.ones(3, 4).addr_(2, T.ones(3), T.ones(4)), 3),
    (lambda: T.addbmm(2, T.ones(3, 5), BATCHES, OTHERS), 10),
    (lambda: T.ones(3, 5).addbmm_(1, BATCHES, OTHERS), 9),
    (lambda: T.ones(3, 5).addbmm(2, 3, BATCHES, OTHERS), 26),
    (lambda: T.baddbmm(1, T.zeros(2, 3, 5), 2, BATCHES, OTHERS), 8),
    (lambda: T.zeros(2, 3, 5).baddbmm_(1, BATCHES, OTHERS), 4),
]


@pytest.mark.parametrize(("call", "expected"), NUMBERS_FIRST)
def test_numbers_may_come_before_the_tensors(call: Callable[[], T.Tensor], expected: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = call()
    assert set(result.flatten().tolist()) == {expected}


@pytest.mark.check
def test_numbers_before_tensors_are_told_to_be_deprecated() -> None:
    before = T.is_warn_always_enabled()
    T.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match=r"This overload of addmm_ is deprecated.*beta=1"):
            T.ones(3, 5).addmm_(1, ROWS, COLUMNS)
    finally:
        T.set_warn_always(before)


def test_messages_do_not_speak_of_deprecated_forms() -> None:
    with pytest.raises(
        TypeError, match=r"addmv\(\) missing 2 required positional argument: \"mat\", \"vec\""
    ):
        T.addmv(T.ones(3))
    with pytest.raises(TypeError, match=r"argument 'mat2' \(position 3\) must be Tensor, not str"):
        T.addmm(T.ones(3, 5), ROWS, "x")


def test_gradient_of_a_call_with_numbers_first() -> None:
    x = T.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        T.add(T.ones(2), -3, x).sum().backward()
    assert x.grad.tolist() == [-3, -3]


# --- functions that work in place ----------------------------------------------------------------


def test_functions_in_place_take_tensors_as_their_methods_do() -> None:
    def fresh() -> T.Tensor:
        return T.tensor([1.0, 5.0])

    low, high = T.tensor([2.0, 2.0]), T.tensor([3.0, 3.0])
    assert T.clamp_(fresh(), low, high).tolist() == [2, 3]
    assert T.clamp_(fresh(), max=low).tolist() == [1, 2]
    assert T.clip_(fresh(), low, high).tolist() == [2, 3]
    assert T.clamp_min_(fresh(), low).tolist() == [2, 5]
    assert T.clamp_max_(fresh(), low).tolist() == [1, 2]
    assert T.fill_(fresh(), T.tensor(4)).tolist() == [4, 4]
    assert T.xlogy_(fresh(), 1).tolist() == [0, 0]
    assert T.index_put_(input=fresh(), indices=[T.tensor(0)], values=T.tensor(3.0)).tolist() == [
        3,
        5,
    ]
    assert T.gcd_(input=T.tensor([4, 6]), other=T.tensor(6)).tolist() == [2, 6]
    x = T.ones(2, requires_grad=True) * 1
    assert T.detach_(input=x) is x
    assert not x.requires_grad


@pytest.mark.parametrize("name", ["pow_", "triu_", "absolute_", "sign_", "cumsum_", "add_"])
def test_in_place_forms_that_are_methods_only(name: str) -> None:
    assert hasattr(T.Tensor, name)
    assert not hasattr(T, name)


# --- old-style types -----------------------------------------------------------------------------


def test_the_old_constructor_takes_its_argument_by_keyword() -> None:
    assert T.ones(2).new(size=(3, 4)).shape == (3, 4)
    assert T.Tensor(size=[2], device="cpu").shape == (2,)
    assert T.LongTensor(size=T.Size([1, 2])).dtype is T.int64
    assert T.FloatTensor(data=[1, 2]).tolist() == [1, 2]
    x = T.ones(2)
    assert x.new(other=x).data_ptr() == x.data_ptr()
    assert T.FloatTensor(storage=x.storage()).data_ptr() == x.data_ptr()
    assert T.FloatTensor(device="cpu").shape == (0,)
    assert T.IntTensor([1], device=None).tolist() == [1]
    for call in (lambda: x.new(x, device="cpu"), lambda: T.Tensor(other=x, device="cpu")):
        with pytest.raises(RuntimeError, match=r"Use torch\.as_tensor"):
            call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: T.Tensor(size=3), "argument 'size' must be tuple of ints, not int"),
        (lambda: T.Tensor(other=[1]), "argument 'other' must be Tensor, not list"),
        (lambda: T.Tensor(storage=[1]), "argument 'storage' must be torch.Storage, not list"),
        (lambda: T.Tensor([1], size=(2,)), "invalid combination of arguments"),
        (lambda: T.Tensor(data=[1], size=(2,)), "invalid combination of arguments"),
        (lambda: T.FloatTensor(foo=1), "unexpected keyword argument 'foo'"),
    ],
)
def test_the_old_constructor_refuses_other_keywords(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.check
def test_type_takes_classes_of_the_old_style() -> None:
    x = T.ones(2, dtype=T.float64)
    assert x.type(T.Tensor).dtype is T.float32
    assert x.type("torch.Tensor").dtype is T.float32
    assert x.type(T.LongTensor).dtype is T.int64
    for wrong, kind in ((int, ValueError), ("foo", ValueError), (3, TypeError)):
        with pytest.raises(kind):
            x.type(wrong)
    with pytest.raises(RuntimeError, match="accelerator"):
        x.type("torch.cuda.FloatTensor")


def test_typed_constructors_are_no_base_classes() -> None:
    with pytest.raises(TypeError, match=r"torch\.FloatTensor' is not an acceptable base type"):
        type(T.FloatTensor)("Mine", (T.FloatTensor,), {})


def test_a_storage_of_another_dtype_is_refused() -> None:
    x, wide = T.ones(3), T.ones(3, dtype=T.float64)
    text = "Expected a Storage of type Float or an UntypedStorage, but got type Double"
    for call in (
        lambda: x.new(wide.storage()),
        lambda: T.FloatTensor(wide.storage()),
        lambda: x.set_(wide.storage()),
        lambda: x.set_(wide.storage(), 0, (3,), (1,)),
        lambda: T.tensor(wide.storage(), dtype=T.float32),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    copy = T.tensor(wide.storage(), dtype=T.float64)
    assert copy.tolist() == [1, 1, 1]
    assert copy.data_ptr() != wide.data_ptr()
    assert T.tensor(x.untyped_storage(), dtype=T.float32).tolist() == [1, 1, 1]
    assert T.empty(0).set_(x.untyped_storage()).data_ptr() == x.data_ptr()


def test_storage_is_that_of_the_default_dtype() -> None:
    assert T.Storage is T.FloatStorage
    T.set_default_dtype(T.float64)
    try:
        assert T.Storage is T.DoubleStorage
    finally:
        T.set_default_dtype(T.float32)
    assert T.Storage is T.FloatStorage


# --- Python for each element ---------------------------------------------------------------------


def test_mapped_elements_must_not_require_grad() -> None:
    x, y = T.ones(2), T.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Can't call map_\(\) on Variable that requires grad"):
        x.map_(y, lambda a, b: a + b)
    with pytest.raises(RuntimeError, match=r"Use var.detach\(\).map2_\(\) instead"):
        x.map2_(x, y, lambda a, b, c: a + b + c)
    with T.no_grad(), pytest.raises(RuntimeError, match=r"Can't call apply_\(\)"):
        y.apply_(lambda a: a)


def test_an_old_function_knows_whether_it_works_in_place() -> None:
    class Twice(T.autograd.function.InplaceFunction):
        pass

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert Twice(True).inplace
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert not Twice().inplace


# --- private names that programs use -------------------------------------------------------------


def test_internal_overlap_is_told_by_strides() -> None:
    overlap = T._debug_has_internal_overlap
    assert overlap(T.ones(3, 2).t()) == 0
    assert overlap(T.ones(1).expand(3)) == 1
    assert overlap(T.ones(4).as_strided((2, 3), (1, 1))) == 2


def test_two_sizes_are_broadcast() -> None:
    infer = T._C._infer_size
    result = infer(T.Size([2, 1]), T.Size([3]))
    assert (type(result), result) == (T.Size, (2, 3))
    with pytest.raises(RuntimeError, match=r"expected a torch\.Size as argument 1"):
        infer((2, 1), T.Size([3]))
    with pytest.raises(RuntimeError, match=r"tensor a \(2\) must match the size of tensor b \(3\)"):
        infer(T.Size([2]), T.Size([3]))
