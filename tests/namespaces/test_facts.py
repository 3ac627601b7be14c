"""`version`, `types`, checks, symbolic sizes, and the small names that libraries import."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T
from shmtensor.torch_version import TorchVersion
from shmtensor.types import Device, Number, Storage

# --- versions ------------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("1.9", "1.10"),
        ("2.13.0a1", "2.13.0"),
        ("2.13.0.dev20250101", "2.13.0a0"),
        ("2.13", "2.13.0.post1"),
        ("2.13.0", "2.13.0+cpu"),
        ("2.13.0rc1", "2.13.0rc2"),
        ("1!1.0", "1!1.1"),
        ("3.0", "1!1.0"),
    ],
)
def test_versions_are_ordered(smaller: str, larger: str) -> None:
    version = TorchVersion(smaller)
    assert version < larger and version <= larger and version != larger
    assert TorchVersion(larger) > smaller and TorchVersion(larger) >= smaller


def test_versions_equal_tuples_and_texts() -> None:
    version = TorchVersion("2.13.0")
    assert version == "2.13" and version == (2, 13) and version >= (2, 13, 0) and version < (3,)
    assert not version < (2, 9) and version.split(".")[1] == "13"
    assert TorchVersion("no version") > "a text"


def test_the_version_of_the_interface_is_parsed() -> None:
    assert TorchVersion(T.version.torch_version) >= (2, 0)
    assert T.version.__version__ == T.__version__
    assert T.version.cuda is None and T.version.hip is None and T.version.debug is False


# --- checks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "error"),
    [
        ("_check", RuntimeError),
        ("_check_index", IndexError),
        ("_check_value", ValueError),
        ("_check_type", TypeError),
        ("_check_not_implemented", NotImplementedError),
    ],
)
def test_checks_raise_their_error(check: str, error: type[Exception]) -> None:
    function = getattr(T, check)
    function(True, lambda: "unused")
    with pytest.raises(error, match="a reason"):
        function(False, lambda: "a reason")
    with pytest.raises(TypeError, match="bool"):
        function(T.ones(1), None)


def test_assert_and_sizes() -> None:
    T._assert(T.tensor(True), "fine")
    with pytest.raises(AssertionError, match="not fine"):
        T._assert(False, "not fine")
    T._check_is_size(3)
    with pytest.raises(RuntimeError):
        T._check_is_size(-1)
    with pytest.raises(ValueError, match="all"):
        T._check_tensor_all_with(ValueError, T.tensor([True, False]), lambda: "all")


def test_tensors_and_numbers_are_asserted() -> None:
    T._assert_async(T.tensor(2.0))
    T._assert_scalar(True, "unused")
    for wrong, text in (
        (lambda: T._assert_async(T.tensor(0)), "nonzero value, but got zero"),
        (lambda: T._assert_async(T.tensor(False), "a reason"), "a reason"),
        (lambda: T._assert_async(T.ones(2)), "more than one value is ambiguous"),
        (lambda: T._assert_scalar(0, "a reason"), "a reason"),
    ):
        with pytest.raises(RuntimeError, match=text):
            wrong()
    x = T.ones(2, 3)
    T._assert_tensor_metadata(x)
    T._assert_tensor_metadata(x, (2, 3), [3, 1], T.float32, device="cpu", layout=T.strided)
    for given, text in (
        ({"size": []}, r"sizes mismatch! Expected: \[\], Got: \[2, 3\]"),
        ({"stride": [1, 2]}, "strides mismatch"),
        ({"dtype": T.float64}, "dtype mismatch"),
        ({"device": "meta"}, "device mismatch! Expected: meta, Got: cpu"),
        ({"layout": T.sparse_coo}, "layout mismatch"),
    ):
        with pytest.raises(RuntimeError, match=text):
            T._assert_tensor_metadata(x, **given)


def test_all_and_any_of_bools() -> None:
    x = T.tensor([True, False])
    assert T.equal(T._is_all_true(x), T.tensor(False))
    assert T.equal(T._is_any_true(x), T.tensor(True))
    for function in (T._is_all_true, T._is_any_true):
        with pytest.raises(RuntimeError, match="bools"):
            function(T.ones(2))


def test_ranges_of_sizes() -> None:
    T.sym_constrain_range(5, min=5, max=5)
    T.sym_constrain_range(-5)
    T.sym_constrain_range_for_size(0, max=3)
    largest = (1 << 63) - 1
    for wrong, text in (
        (lambda: T.sym_constrain_range(5, max=3), rf"for 5 between \[{-largest - 1}, 3\]"),
        (lambda: T.sym_constrain_range(5, min=7), rf"for 5 between \[7, {largest}\]"),
        (lambda: T.sym_constrain_range(5, min=9, max=1), "Got min=9 max=1"),
        (lambda: T.sym_constrain_range_for_size(-1), rf"for -1 between \[0, {largest}\]"),
        (lambda: T.sym_constrain_range_for_size(0, max=2), "greater than 2. got: 2"),
    ):
        with pytest.raises(RuntimeError, match=text):
            wrong()


def test_plain_numbers_stand_for_sizes() -> None:
    assert T.sym_max(2, 3) == 3 and T.sym_min(2, 3) == 2 and T.sym_int(2.7) == 2
    assert T.sym_not(False) is True and T.sym_float(2) == 2.0 and T.sym_ite(True, 1, 2) == 1
    assert not isinstance(3, T.SymInt)


# --- branches and loops --------------------------------------------------------------------------


def test_cond_calls_one_branch() -> None:
    assert T.cond(T.tensor(True), lambda x: x + 1, lambda x: x - 1, (3,)) == 4
    assert T.cond(False, lambda: 1, lambda: 2) == 2
    with pytest.raises(RuntimeError, match="single-element"):
        T.cond(T.ones(2), lambda: 1, lambda: 2)


@pytest.mark.check
def test_while_loop_carries_values() -> None:
    loop = T._higher_order_ops.while_loop
    n, total = loop(lambda n, s: n < 4, lambda n, s: (n + 1, s + n), (0, T.tensor(0)))
    assert n == 4 and total == 6
    with pytest.raises(RuntimeError, match="2 values"):
        loop(lambda n, s: n < 1, lambda n, s: (n + 1,), (0, 0))


# --- names of what is not here -------------------------------------------------------------------


def test_dtypes_without_tensors_are_names() -> None:
    assert T.float8_e4m3fn != T.float16 and T.ones(1).dtype != T.float8_e4m3fn
    assert T.finfo(T.float8_e4m3fn).max == 448 and T.finfo(T.float8_e5m2).bits == 8
    assert T.float8_e5m2.itemsize == 1 and T.qint32.itemsize == 4 and T.int4.is_signed
    assert repr(T.quint8) == "torch.quint8" and repr(T.per_tensor_affine).endswith("affine")
    for name in (T.float8_e4m3fn, T.uint4, T.per_channel_symmetric):
        assert pickle.loads(pickle.dumps(name)) is name
    with pytest.raises(TypeError, match="dtype"):
        T.zeros(2, dtype=T.float8_e4m3fn)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dtype"):
        T.finfo(T.uint4)  # type: ignore[arg-type]


def test_registered_classes_are_missing() -> None:
    with pytest.raises(RuntimeError, match=r"'own\.Thing', but it does not exist"):
        T.classes.own.Thing
    with pytest.raises(OSError, match=r"file\.so"):
        T.classes.load_library("file.so")
    with pytest.raises(OSError, match=r"file\.so"):
        T.ops.load_library("file.so")


def test_types_describe_values() -> None:
    assert isinstance(T.ones(1).untyped_storage(), Storage.__args__)  # type: ignore[attr-defined]
    assert isinstance(3.5, Number.__args__) and str in Device.__args__  # type: ignore[attr-defined]


def test_private_names_that_libraries_call() -> None:
    assert T._C._log_api_usage_once("a.name") is None
    assert T._C._get_tracing_state() is None and not T._C._jit_can_fuse_on_cpu()
    assert not isinstance(T.ones(1), T._C.Graph | T._C.Value)
    functional = T.nn.functional
    assert functional._pair(3) == (3, 3) and functional._single((4,)) == (4,)
    assert functional._Reduction.get_enum("mean") == 1
    assert not functional.has_torch_function_variadic(T.ones(1))
    assert T.functional.einsum is T.einsum and T._VF.lstm_cell is T.lstm_cell
    assert T.nn.modules.module._addindent("a\nb", 2) == "a\n  b"
    assert T.nn.modules.module._IncompatibleKeys([], []).missing_keys == []
    with pytest.raises(AttributeError, match="_no_such_name"):
        functional._no_such_name


class Loud(T.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise KeyError("asked")


def test_tensor_classes_are_silent_in_a_context() -> None:
    loud = T.ones(2).as_subclass(Loud)
    with pytest.raises(KeyError):
        T.add(loud, 1)
    for context in (T._C.DisableTorchFunction, T._C.DisableTorchFunctionSubclass):
        with context():
            assert T.add(loud, 1).sum() == 4


EXPRESSIONS = """
m.version.debug, m.version.cuda, m.version.hip
m.torch_version.TorchVersion('1.10.0a') > '1.9', m.torch_version.TorchVersion('2.13') == (2, 13)
m.torch_version.TorchVersion('abc') > '1.9'
m._check(False, lambda: 'a')
m._check(3)
m._check_index(False, 'text')
m._check_tensor_all(m.tensor([True, False]), lambda: 'b')
m._check_tensor_all(m.ones(2))
m._assert(False, 'c')
m.sym_max(2, 3.0), m.sym_min(2, 3), m.sym_int(-2.7), m.sym_float(3), m.sym_not(True), m.sym_sqrt(4)
m.cond(True, lambda a: a, lambda a: -a, (m.ones(1),))
m.is_vulkan_available(), m.is_distributed(m.ones(1)), m.ones(1).is_distributed()
m.finfo(m.float8_e4m3fn), m.finfo(m.float8_e4m3fnuz), m.finfo(m.float8_e5m2)
m.finfo(m.float8_e5m2fnuz)
m.finfo(m.float8_e8m0fnu), m.finfo(m.float8_e8m0fnu).tiny
m.float8_e4m3fn, m.float8_e4m3fn.itemsize, m.float8_e4m3fn.is_signed
m.float8_e4m3fn.is_floating_point
m.float8_e8m0fnu.is_signed, m.int4.itemsize, m.uint7.is_signed, m.bits16.itemsize, m.qint32.itemsize
m.per_tensor_affine, m.per_channel_affine_float_qparams
m.classes.a.b
issubclass(m.OutOfMemoryError, RuntimeError), issubclass(m.AcceleratorError, RuntimeError)
m._C._get_tracing_state(), m._C._log_api_usage_once('x'), m._C._get_privateuse1_backend_name()
m.nn.modules.module._addindent('a\\nb\\nc', 4)
m.nn.functional._pair(3), m.nn.functional._triple([1, 2, 3])
m.nn.functional._list_with_default([None, 3], [1, 2, 4])
m.nn.functional._Reduction.get_enum('sum'), m.nn.functional._Reduction.get_enum('x')
m._prims_common.is_contiguous_or_false(m.ones(2, 3).t()), m._prims_common.is_integer_dtype(m.int8)
m._prims_common.is_float_dtype(m.complex64), m._prims_common.is_boolean_dtype(m.bool)
m.asarray(m.arange(3).untyped_storage(), dtype=m.uint8)
m.asarray(m.ones(3).untyped_storage()[4:], dtype=m.float32)
m.ones(2)._typed_storage().tolist()
m.functional.norm(m.ones(4)), m.functional.unique(m.tensor([1, 1, 2]))
"""


def test_outcomes_are_torch_s() -> None:
    assert differences(EXPRESSIONS, modules=["torch_version", "_prims_common", "functional"]) == []
