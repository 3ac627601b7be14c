"""The tensor's Python object: identity, attributes, references, subclasses; small types."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import weakref
from typing import Any

import pytest

import shmtensor as T


@pytest.mark.check
def test_tensor_handed_out_twice_is_one_object() -> None:
    a = T.ones(2)
    assert a.contiguous() is a
    assert a.to(T.float32) is a
    assert T._C._tensor_from_place is not None
    b = a[0:1]
    assert b._base is a


def test_attributes_can_be_set() -> None:
    a = T.ones(2)
    a.note = "mine"
    assert a.note == "mine"
    assert a.__dict__ == {"note": "mine"}
    with pytest.raises(AttributeError):
        a.shape = (3,)


def test_plain_tensor_is_untracked_until_it_has_attributes() -> None:
    a = T.ones(2)
    assert not gc.is_tracked(a)
    a.note = 1
    assert gc.is_tracked(a)


def test_cycle_through_an_attribute_is_collected() -> None:
    a = T.ones(2)
    a.me = a
    ref = weakref.ref(a)
    del a
    gc.collect()
    assert ref() is None


def test_reused_wrapper_has_no_old_attributes() -> None:
    for _ in range(300):
        a = T.ones(2)
        assert not a.__dict__
        a.note = 1
    ref = weakref.ref(a)
    del a
    assert ref() is None


def test_weak_reference_dies_with_the_object() -> None:
    a = T.ones(2)
    seen: list[int] = []
    ref = weakref.ref(a, lambda _: seen.append(1))
    assert ref() is a
    del a
    assert seen == [1]


class Marked(T.Tensor):
    """A subclass with an attribute and a finalizer."""

    deleted = 0

    def __del__(self) -> None:
        Marked.deleted += 1


def test_subclass_instances_live_and_die() -> None:
    m = T.ones(3).as_subclass(Marked)
    assert isinstance(m, Marked)
    m.note = 3
    assert (m + 1).tolist() == [2.0, 2.0, 2.0]
    before = Marked.deleted
    del m
    gc.collect()
    assert Marked.deleted == before + 1


def test_make_subclass_detaches_and_shares() -> None:
    data = T.ones(2)
    m = T.Tensor._make_subclass(Marked, data, True)
    assert type(m) is Marked
    assert m.requires_grad
    assert m.is_leaf
    with T.no_grad():
        m.mul_(2)
    assert data.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError):
        T.Tensor._make_subclass(int, data)


def test_subclass_constructor() -> None:
    assert type(Marked(2, 3)) is Marked
    assert Marked([1.0]).tolist() == [1.0]


def test_properties() -> None:
    a = T.zeros(2, 3, dtype=T.float64)
    assert (a.ndim, a.dim(), a.numel(), a.nelement(), a.itemsize, a.nbytes) == (2, 2, 6, 6, 8, 48)
    assert a.stride() == (3, 1)
    assert a.size(-1) == 3
    assert a.size(dim=0) == 2
    assert isinstance(a.shape, T.Size)
    assert a.is_cpu
    assert not (a.is_meta or a.is_cuda or a.is_sparse or a.is_quantized)
    assert a.layout is T.strided
    assert a.names == (None, None)
    assert a.type() == "torch.DoubleTensor"
    assert a.type("torch.IntTensor").dtype is T.int32
    assert a.data_ptr() % 64 == 0
    with pytest.raises(
        IndexError, match=re.escape("expected to be in range of [-2, 1], but got 5")
    ):
        a.size(5)
    with pytest.warns(UserWarning, match="volatile"):
        assert a.volatile is False


def test_transposes() -> None:
    a = T.zeros(2, 3)
    assert a.T.shape == a.mT.shape == a.H.shape == a.mH.shape == (3, 2)
    with pytest.warns(UserWarning, match="deprecated"):
        assert T.zeros(2, 3, 4).T.shape == (4, 3, 2)
    with pytest.raises(RuntimeError, match=re.escape("Got 1-D tensor.")):
        T.zeros(3).mT
    with pytest.raises(RuntimeError, match=re.escape("consider using tensor.mH")):
        T.zeros(3, 4, 2).H


def test_parts_of_complex_tensors_are_views() -> None:
    z = T.tensor([1 + 2j, 3 - 1j])
    assert z.real.tolist() == [1.0, 3.0]
    assert z.imag.tolist() == [2.0, -1.0]
    z.imag = T.zeros(2)
    assert z.tolist() == [1 + 0j, 3 + 0j]
    with pytest.raises(
        RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"
    ):
        T.ones(2).imag


@pytest.mark.parametrize(
    ("method", "dtype"),
    [
        ("bool", T.bool),
        ("byte", T.uint8),
        ("char", T.int8),
        ("short", T.int16),
        ("int", T.int32),
        ("long", T.int64),
    ]
    + [
        ("half", T.float16),
        ("bfloat16", T.bfloat16),
        ("double", T.float64),
        ("cfloat", T.complex64),
    ],
)
def test_conversion_methods(method: str, dtype: T.dtype) -> None:
    a = T.tensor([1.0, 0.0])
    b = getattr(a, method)()
    assert b.dtype is dtype
    assert getattr(b, method)() is b


def test_to_takes_its_arguments_in_many_ways() -> None:
    a = T.ones(2)
    assert a.to("cpu") is a
    assert a.to(T.float64).dtype is T.float64
    assert a.to("cpu", T.int8).dtype is T.int8
    assert a.to(T.zeros(1, dtype=T.int16)).dtype is T.int16
    assert a.to(dtype=T.int32, device="cpu").dtype is T.int32
    assert a.to(T.float32, copy=True) is not a
    assert a.to("meta").is_meta
    channels_last = T.zeros(1, 2, 3, 4).to(memory_format=T.channels_last)
    assert channels_last.is_contiguous(memory_format=T.channels_last)


@pytest.mark.check
def test_size_is_a_tuple_of_ints() -> None:
    s = T.Size([2, 3])
    assert s == (2, 3)
    assert s.numel() == 6
    assert repr(s) == "torch.Size([2, 3])"
    assert isinstance(s + (4,), T.Size)
    assert isinstance(s[:1], T.Size)
    assert isinstance(s * 2, T.Size)
    assert s[0] == 2
    with pytest.raises(
        TypeError, match=re.escape("torch.Size() takes an iterable of 'int' (item 1 is 'str')")
    ):
        T.Size((1, "x"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [T.Size([2, 3]), T.float32, T.strided, T.channels_last, T.device("cpu", 0)], ids=repr
)
def test_small_types_survive_pickle_and_copy(value: Any) -> None:
    again = pickle.loads(pickle.dumps(value))
    assert again == value
    assert type(again) is type(value)
    assert copy.deepcopy(value) == value


def test_dtype_facts() -> None:
    assert repr(T.float32) == "torch.float32"
    assert T.half is T.float16
    assert T.long is T.int64
    assert T.float32.is_floating_point
    assert T.complex64.is_complex
    assert not T.uint8.is_signed
    assert T.float64.itemsize == 8
    assert T.float32.to_complex() is T.complex64
    assert T.complex128.to_real() is T.float64
    assert T.promote_types(T.int8, T.uint8) is T.int16
    assert T.result_type(T.tensor([1]), 1.5) is T.float32
    assert T.can_cast(T.int8, T.float32)
    assert not T.can_cast(T.float32, T.int8)


def test_promotion_takes_keywords() -> None:
    assert T.promote_types(type2=T.int8, type1=T.uint8) is T.int16
    assert T.can_cast(T.float32, to=T.int32) is False
    assert T.can_cast(from_=T.int32, to=T.float32) is True
    for call in (
        lambda: T.promote_types(T.int8),
        lambda: T.promote_types(T.int8, T.int8, T.int8),
        lambda: T.promote_types(T.int8, T.int8, type1=T.int8),
        lambda: T.promote_types(T.int8, type3=T.int8),
        lambda: T.can_cast(T.int8, to=3),
    ):
        with pytest.raises(TypeError, match="two arguments of type"):
            call()


def test_limits_of_dtypes() -> None:
    f = T.finfo(T.float32)
    assert (f.bits, f.eps, f.max, f.tiny) == (
        32,
        1.1920928955078125e-07,
        3.4028234663852886e38,
        1.1754943508222875e-38,
    )
    assert T.finfo(T.bfloat16).eps == 0.0078125
    assert T.finfo(T.float16).max == 65504.0
    assert T.finfo(T.complex128).dtype == "float64"
    assert (T.iinfo(T.int8).min, T.iinfo(T.uint64).max) == (-128, 2**64 - 1)
    with pytest.raises(TypeError, match="requires a floating point input type"):
        T.finfo(T.int8)
    with pytest.raises(TypeError, match="requires an integer input type"):
        T.iinfo(T.float32)


def test_devices() -> None:
    d = T.device("cpu:1")
    assert (d.type, d.index) == ("cpu", 1)
    assert repr(d) == "device(type='cpu', index=1)"
    assert str(T.device("meta")) == "meta"
    assert T.device("cpu") != T.device("cpu:0")
    assert hash(T.device("cpu")) == hash(T.device("cpu"))
    with pytest.raises(RuntimeError, match=re.escape("Invalid device string: 'cpu:x'")):
        T.device("cpu:x")


class Kept(T.Tensor):
    """A subclass that results of operators keep."""


class More(Kept):
    """A further one."""


def test_results_keep_the_operands_class() -> None:
    k = Kept([1.0, 2.0, 3.0])
    results = [
        k + 1,
        1 - k,
        k + T.ones(3),
        T.ones(3) * k,
        -k,
        k == k,
        k**2,
        k[0],
        k[1:],
        k[None, :],
    ]
    results += [k.sum(), k.clone(), k.view(3, 1), k.to(T.float64), k[None].T, k.split(1)[0]]
    results += [T.add(k, k), T.stack([k, k]), T.zeros_like(k), k.max(0).values, next(iter(k))]
    assert {type(r) for r in results} == {Kept}
    assert type(k.add_(1)) is Kept
    assert type(k.numpy()).__name__ == "ndarray"


def test_more_derived_class_wins() -> None:
    k, m = Kept([1.0]), More([1.0])
    assert type(k + m) is type(m + k) is type(T.add(k, m)) is More


def test_results_on_parameters_are_plain() -> None:
    p = T.nn.Parameter(T.ones(3))
    for r in (p + 1, p.clone(), p[0], p.sum(), p[None].T, p.data, T.ones(3) * p):
        assert type(r) is T.Tensor
    assert type(p + Kept([1.0, 1.0, 1.0])) is Kept


def test_class_may_ask_for_plain_results() -> None:
    class Plain(T.Tensor):
        __torch_function__ = T._C._disabled_torch_function_impl

    assert type(Plain([1.0]) + 1) is T.Tensor


def test_questions_whose_answer_is_the_same_for_every_dense_tensor() -> None:
    t = T.zeros(2, 3)
    assert (t.dense_dim(), t.sparse_dim(), T.get_device(t)) == (2, 0, -1)
    assert not any(getattr(t, f"is_{kind}") for kind in ("ipu", "maia", "mtia", "vulkan", "xla"))
    assert [v._is_view() for v in (t, t[0], t.clone())] == [False, True, False]
    with pytest.raises(TypeError, match="must be Tensor"):
        T.get_device(3)


def test_submodules_of_utils_need_no_import() -> None:
    assert T.from_dlpack(T.utils.dlpack.to_dlpack(T.ones(2))).tolist() == [1.0, 1.0]
    assert T.to_dlpack is T.utils.dlpack.to_dlpack
    assert T.utils._python_dispatch.TorchDispatchMode.__name__ in dir(T.utils._python_dispatch)
    assert "hooks" in dir(T.utils)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = T.utils.nothing


def test_fork_rng_takes_a_kind_of_device() -> None:
    T.manual_seed(1)
    with T.random.fork_rng(devices=[], device_type="cpu"):
        first = T.rand(3)
    assert T.rand(3).tolist() == first.tolist()
    with T.random.fork_rng(device_type="meta"):  # where nothing is drawn
        first = T.rand(3)
    assert T.rand(3).tolist() != first.tolist()
    with pytest.raises(RuntimeError, match="at start of device string: xyz"):
        T.random.fork_rng(device_type="xyz").__enter__()
    with pytest.raises(TypeError, match="not iterable"):
        T.random.fork_rng(devices=1).__enter__()
