"""The argument parser: what calls are accepted, and the texts of those that are not.

Values of operators are tested with the operators.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as T

A = T.ones(3)

ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: T.add(A, "x"),
        TypeError,
        "add(): argument 'other' (position 2) must be Tensor, not str",
    ),
    (
        lambda: A.add_("x"),
        TypeError,
        "add_(): argument 'other' (position 1) must be Tensor, not str",
    ),
    (lambda: T.add(A, A, foo=1), TypeError, "add() got an unexpected keyword argument 'foo'"),
    (lambda: T.add(A, A, A, A), TypeError, "add() takes 2 positional arguments but 4 were given"),
    (lambda: T.add(A, A, input=A), TypeError, "add() got multiple values for argument 'input'"),
    (lambda: T.add(A, A, alpha="x"), TypeError, "add(): argument 'alpha' must be Number, not str"),
    (lambda: T.add(A, A, out="x"), TypeError, "add(): argument 'out' must be Tensor, not str"),
    (lambda: A.mul(), TypeError, 'mul() missing 1 required positional arguments: "other"'),
    (
        lambda: T.zeros("x"),
        TypeError,
        "zeros(): argument 'size' (position 1) must be tuple of ints, not str",
    ),
    (
        lambda: T.zeros(2.5),
        TypeError,
        "zeros(): argument 'size' (position 1) must be tuple of ints, not float",
    ),
    (
        lambda: T.zeros(True),
        TypeError,
        "zeros(): argument 'size' (position 1) must be tuple of ints, not bool",
    ),
    (
        lambda: T.zeros((2, "x")),
        TypeError,
        "zeros(): argument 'size' failed to unpack the object at pos 2 with error "
        '"type must be tuple of ints,but got str"',
    ),
    (lambda: T.zeros(), TypeError, 'zeros() missing 1 required positional arguments: "size"'),
    (
        lambda: T.zeros(2, dtype="x"),
        TypeError,
        "zeros(): argument 'dtype' must be torch.dtype, not str",
    ),
    (
        lambda: T.zeros(2, device=3.5),
        TypeError,
        "zeros(): argument 'device' must be torch.device, not float",
    ),
    (lambda: T.zeros(2, foo=1), TypeError, "zeros() got an unexpected keyword argument 'foo'"),
    (
        lambda: T.zeros(2, requires_grad=1),
        TypeError,
        "zeros(): argument 'requires_grad' must be bool, not int",
    ),
    (
        lambda: T.zeros(1, 2**70),
        TypeError,
        'failed to unpack the object at pos 2 with error "Overflow when unpacking long long',
    ),
    (lambda: A.unsqueeze(2**63), ValueError, "Overflow when unpacking long long"),
    (lambda: A.sum(-(2**70)), ValueError, "Overflow when unpacking long long"),
    (lambda: T.zeros(-1), RuntimeError, "zeros"),
    (lambda: A * 2**70, OverflowError, "int too big to convert"),
    (lambda: T.full((2,), 2**70), OverflowError, "int too big to convert"),
    (
        lambda: T.transpose(A, 0),
        TypeError,
        'transpose() missing 1 required positional arguments: "dim1"',
    ),
    (
        lambda: T.transpose(A, 0, 1.5),
        TypeError,
        "transpose(): argument 'dim1' (position 3) must be int, not float",
    ),
    (
        lambda: T.transpose(A, True, 0),
        TypeError,
        "transpose(): argument 'dim0' (position 2) must be int, not bool",
    ),
    (
        lambda: T.cat(A),
        TypeError,
        "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor",
    ),
    (lambda: T.cat([A, 1]), TypeError, "expected Tensor as element 1 in argument 0, but got int"),
    (lambda: T.mm(A, 2), TypeError, "mm(): argument 'mat2' (position 2) must be Tensor, not int"),
    (
        lambda: T.maximum(A, 2),
        TypeError,
        "maximum(): argument 'other' (position 2) must be Tensor, not int",
    ),
    (
        lambda: A.reshape("x"),
        TypeError,
        "reshape(): argument 'shape' (position 1) must be tuple of ints, not str",
    ),
    (
        lambda: A.expand("x"),
        TypeError,
        "expand(): argument 'size' (position 1) must be tuple of ints, not str",
    ),
    (lambda: T.Tensor.add(1, 2), TypeError, "doesn't apply to a 'int' object"),
    (lambda: T.tensor(), TypeError, 'tensor() missing 1 required positional arguments: "data"'),
    (lambda: T.tensor(1, 2), TypeError, "tensor() takes 1 positional argument but 2 were given"),
    (lambda: A.to("foo"), RuntimeError, "device string: foo"),
    (
        lambda: A.requires_grad_("x"),
        TypeError,
        "'requires_grad' (position 1) must be bool, not str",
    ),
    (lambda: A.requires_grad_(requires_grad=1), TypeError, "'requires_grad' must be bool, not int"),
    (lambda: A.requires_grad_(on=True), TypeError, "got an unexpected keyword argument 'on'"),
    (lambda: ~A, TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type"),
    (
        lambda: T.ones(2, dtype=T.int64, requires_grad=True),
        RuntimeError,
        "Only Tensors of floating point and complex dtype can require gradients",
    ),
    (
        lambda: T.hamming_window(3, layout=T.sparse_coo),
        NotImplementedError,
        "hamming_window is not implemented for sparse types, got: torch.sparse_coo",
    ),
    (lambda: A.sum(dim=0, keepdim="x"), TypeError, "argument 'keepdim' must be bool, not str"),
    (lambda: A.sum(0, dim=0), TypeError, "sum() got multiple values for argument 'dim'"),
    (
        lambda: T.sum([1]),
        TypeError,
        "sum(): argument 'input' (position 1) must be Tensor, not list",
    ),
    (
        lambda: T.arange("x"),
        TypeError,
        "arange(): argument 'end' (position 1) must be Number, not str",
    ),
    (lambda: A.float(1), TypeError, "float() takes 0 positional arguments but 1 was given"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS, ids=[e[2][:48] for e in ERRORS])
def test_wrong_call_says_what_is_wrong(
    call: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()


@pytest.mark.check
def test_call_that_fits_no_overload_lists_them_all() -> None:
    with pytest.raises(TypeError) as error:
        A.sum("x")
    text = str(error.value)
    assert text.startswith(
        "sum() received an invalid combination of arguments - got (str), but expected one of:\n * ("
    )
    assert "bool keepdim = False" in text
    assert "torch.dtype dtype = None" in text


@pytest.mark.parametrize(
    ("call", "received"),
    [
        (
            lambda: A.sum(dims=0),
            "sum() received an invalid combination of arguments - got (dims=int, )",
        ),
        (
            lambda: T.sum(A, axes=0),
            "sum() received an invalid combination of arguments - got (Tensor, axes=int)",
        ),
        (
            lambda: A.mean(dims=0),
            "mean() received an invalid combination of arguments - got (dims=int, )",
        ),
    ],
)
def test_unknown_keyword_of_overloads_lists_their_forms(
    call: Callable[[], Any], received: str
) -> None:
    with pytest.raises(TypeError) as error:
        call()
    text = str(error.value)
    assert text.startswith(received + ", but expected one of:\n * (")
    assert "tuple of ints dim, bool keepdim = False, *, torch.dtype dtype = None" in text


def test_received_types_of_sequences_and_keywords_are_shown() -> None:
    with pytest.raises(TypeError, match=re.escape("got (Tensor, list of [int, str], end=Tensor)")):
        T.arange(A, [1, "x"], end=A)


def test_keyword_arguments_go_by_name_in_any_order() -> None:
    assert T.add(other=A, input=A, alpha=2).tolist() == [3.0, 3.0, 3.0]
    assert T.transpose(T.zeros(2, 3), dim1=0, dim0=1).shape == (3, 2)


def test_keywords_built_at_run_time_are_found() -> None:
    name = "".join(["al", "pha"])
    assert T.add(A, A, **{name: 3}).tolist() == [4.0, 4.0, 4.0]


def test_numpy_names_of_arguments_are_accepted() -> None:
    m = T.arange(6.0).reshape(2, 3)
    assert T.sum(m, axis=1, keepdims=True).tolist() == [[3.0], [12.0]]
    assert T.add(x1=A, x2=A).tolist() == [2.0, 2.0, 2.0]
    assert T.sum(a=m, axis=1).tolist() == [3.0, 12.0]
    parts = T.split(tensor=m, split_size_or_sections=[1, 2], dim=1)
    assert [p.shape for p in parts] == [(2, 1), (2, 2)]
    assert len(T.split(m, split_size_or_sections=1)) == 2
    assert T.empty(3).copy_(other=A).tolist() == A.tolist()
    assert T.add(self=A, other=A).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "sizes",
    [
        (2, 3),
        ((2, 3),),
        ([2, 3],),
        (T.Size([2, 3]),),
        (np.int64(2), 3),
        ((T.tensor(2), 3),),
        (T.tensor(2), 3),
    ],
    ids=repr,
)
def test_sizes_come_as_list_or_one_by_one(sizes: tuple[Any, ...]) -> None:
    assert T.zeros(*sizes).shape == (2, 3)
    assert T.arange(6).view(*sizes).shape == (2, 3)


def test_sizes_by_keyword() -> None:
    assert T.zeros(size=(2,)).shape == (2,)
    assert T.zeros(()).shape == ()


def test_more_dims_than_supported_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        T.zeros([1] * 65)
    with pytest.raises((RuntimeError, ValueError)):
        T.zeros(*[1] * 500)


def test_int_list_of_one_stands_for_all() -> None:
    assert T.ones(2, 3).sum(1).tolist() == [3.0, 3.0]
    assert T.ones(2, 3).sum((0, 1)).tolist() == 6.0


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (2, T.int64),
        (2.0, T.float32),
        (True, T.bool),
        (1j, T.complex64),
        (np.float32(2), T.float32),
        (np.int32(2), T.int64),
        (np.bool_(True), T.bool),
        (T.tensor(2.0), T.float32),
    ],
    ids=repr,
)
def test_number_argument_takes_python_numpy_and_zero_dim(value: Any, dtype: T.dtype) -> None:
    assert T.full((2,), value).dtype is dtype


def test_number_argument_refuses_tensor_that_requires_grad() -> None:
    with pytest.raises(TypeError, match="must be Number, not Tensor"):
        T.full((2,), T.tensor(1.0, requires_grad=True))


def test_numbers_stand_for_tensors_in_arithmetic() -> None:
    assert T.add(A, 2).tolist() == [3.0, 3.0, 3.0]
    assert T.mul(2, A).tolist() == [2.0, 2.0, 2.0]
    assert A.sub(0.5).dtype is T.float32
    assert T.tensor([1, 2]).add(0.5).dtype is T.float32
    assert T.tensor([1.0], dtype=T.float16).mul(2.5).dtype is T.float16


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (float, T.float64),
        (int, T.int64),
        (bool, T.bool),
        (complex, T.complex128),
        (T.int8, T.int8),
        (None, T.float32),
    ],
)
def test_dtype_argument_takes_python_types(given: Any, dtype: T.dtype) -> None:
    assert T.zeros(1, dtype=given).dtype is dtype


def test_device_argument_takes_strings_and_objects() -> None:
    assert T.zeros(1, device="cpu:0").device == T.device("cpu")
    assert T.zeros(1, device=T.device("meta")).is_meta
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        T.zeros(1, device="cuda")


def test_out_argument_receives_and_is_returned() -> None:
    out = T.empty(3)
    assert T.add(A, A, out=out) is out
    assert out.tolist() == [2.0, 2.0, 2.0]
    assert T.add(A, A, out=None) is not out


@pytest.mark.check
def test_inplace_method_returns_the_same_object() -> None:
    a = T.zeros(2)
    assert a.add_(1) is a


def test_several_results_are_named() -> None:
    r = T.max(T.tensor([[1.0, 3.0], [2.0, 0.0]]), 1)
    assert r.values.tolist() == [3.0, 2.0]
    assert r.indices.tolist() == [1, 0]
    values, indices = r
    assert values is r.values
    assert indices is r[1]
    assert type(r).__name__ == "max"


def test_out_of_several_results_is_a_tuple() -> None:
    values, indices = T.empty(2), T.empty(2, dtype=T.int64)
    r = T.max(T.tensor([[1.0, 3.0], [2.0, 0.0]]), 1, out=(values, indices))
    assert r.values is values
    assert indices.tolist() == [1, 0]
    with pytest.raises(TypeError):
        T.max(T.ones(2, 2), 1, out=values)


def test_requires_grad_of_factories() -> None:
    assert T.zeros(2, requires_grad=True).requires_grad
    assert not T.zeros(2, requires_grad=False).requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        T.zeros(2, dtype=T.int64, requires_grad=True)


def test_tensors_of_several_devices_are_refused() -> None:
    meta = T.ones(3, device="meta")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        T.add(A, meta)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        T.cat([A, meta])
    assert T.add(meta, T.tensor(1.0)).is_meta


def test_inplace_function_takes_no_number_to_change() -> None:
    with pytest.raises(TypeError, match=re.escape("must be Tensor, not int")):
        T.logit_(-1, 0)


def test_bools_are_floats_but_not_ints() -> None:
    assert T.nn.functional.leaky_relu(T.tensor([-3.0]), True).tolist() == [-3.0]
    assert T.quantile(T.tensor([1.0, 2.0]), True).item() == 2.0
    with pytest.raises(TypeError, match="must be int, not bool"):
        T.transpose(A, True, 0)


def test_tensors_of_one_element_stand_for_ints() -> None:
    one = T.tensor([2])
    assert T.zeros(one).shape == (2,)
    assert T.zeros((one, 3)).shape == (2, 3)
    assert T.arange(6).view(one, 3).shape == (2, 3)
    assert T.arange(6).repeat(T.tensor([[2]])).shape == (12,)
    assert T.topk(T.arange(3), one).values.tolist() == [2, 1]
    assert T.ones(2, 3).sum(T.tensor([0])).shape == (3,)
    assert T.nn.functional.pad(T.ones(2), (T.tensor([1]), 2)).shape == (5,)
    assert T.full((T.tensor([2], device="cpu"),), 1).shape == (2,)


@pytest.mark.parametrize(
    "call",
    [
        lambda: T.zeros(T.tensor([2.0])),
        lambda: T.zeros(T.tensor([2, 3])),
        lambda: T.zeros(T.tensor([True])),
        lambda: T.argmax(T.ones(2, 3), T.tensor([1])),  # no dims
        lambda: T.ones(2, 3).transpose(T.tensor([0]), 1),
    ],
)
def test_other_tensors_do_not(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()


def test_tensors_that_a_signature_takes_are_no_ints() -> None:
    pieces = T.tensor_split(T.arange(6), T.tensor([2]))
    assert [piece.tolist() for piece in pieces] == [[0, 1], [2, 3, 4, 5]]
    assert T.max(T.tensor([[0, 3]]), T.tensor([1])).tolist() == [[1, 3]]
    assert T.arange(3)[T.tensor([1])].tolist() == [1]


def test_only_the_first_of_a_list_tells_a_bool_from_an_int() -> None:
    assert T.zeros(2, True).shape == (2, 1)
    assert T.ones(2, 3).sum((0, True)).item() == 6
    with pytest.raises(TypeError):
        T.zeros((True, 2))


def test_factories_take_none_for_requires_grad() -> None:
    assert not T.eye(2, requires_grad=None).requires_grad  # type: ignore[call-overload]


def test_copy_takes_a_number() -> None:
    assert T.zeros(2).copy_(3).tolist() == [3.0, 3.0]
    assert T.zeros(2, dtype=T.int64).copy_(1.5).tolist() == [1, 1]


def test_to_without_arguments_is_the_tensor_itself() -> None:
    assert A.to() is A


def test_methods_take_several_ints_one_by_one() -> None:
    assert T.ones(1, 1, 2).squeeze(0, 1).shape == (2,)
    assert T.ones(1, 1, 2).squeeze_(0, 1).shape == (2,)
    assert T.ones(3, 2).count_nonzero(0, 1).item() == 6
    assert [part.shape for part in T.ones(3, 2).vsplit(1, 2)] == [(1, 2)] * 3
    assert len(T.ones(4, 2).vsplit(2)) == 2  # one int is a number of sections
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        T.squeeze(T.ones(1, 1), 0, 1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: T.nn.functional.pixel_shuffle(A, "x"),
            "'upscale_factor' (position 2) must be int",
        ),
        (
            lambda: T.nn.functional.alpha_dropout(None),
            "'input' (position 1) must be Tensor, not None",
        ),
        (lambda: T.nn.functional.alpha_dropout(A, "x"), "'p' (position 2) must be float, not str"),
        (
            lambda: T.nn.functional.pairwise_distance(A, 3),
            "'x2' (position 2) must be Tensor, not int",
        ),
        (lambda: T.fft.fftfreq(A), "argument 'n' (position 1) must be int, not Tensor"),
        (lambda: T.norm_except_dim(A, None), "'pow' (position 2) must be int, not NoneType"),
        (lambda: T.use_deterministic_algorithms(3), "'mode' (position 1) must be bool, not int"),
        (lambda: T.set_anomaly_enabled("x"), "'mode' (position 1) must be bool, not str"),
    ],
)
def test_functions_composed_in_python_name_the_wrong_argument(
    call: Callable[[], Any], text: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        call()


def test_a_call_that_was_refused_leaves_the_function_as_it_was() -> None:
    condition, a, b = T.tensor([True, False]), T.tensor([1.0, 2.0]), T.tensor([3.0, 4.0])
    for wrong in ((condition, a, object()), (object(), a, b), (condition, object(), b)):
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            T.where(*wrong)
        assert T.where(condition, a, b).tolist() == [1.0, 4.0]
        assert T.where(condition, a, 0.0).tolist() == [1.0, 0.0]
