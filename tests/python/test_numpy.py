"""Memory shared with NumPy and other buffers: who keeps whom alive, and what is refused."""

from __future__ import annotations

import gc
import mmap
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as T

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_goes_both_ways_without_a_copy(name: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(name)
    t = T.from_numpy(array)
    assert t.dtype is getattr(T, name)
    assert t.tolist() == array.tolist()
    back = t.numpy()
    assert back.dtype == array.dtype
    back[0, 0] = 1
    assert array[0, 0] == 1


@pytest.mark.check
def test_strides_and_offsets_survive() -> None:
    array = np.arange(24.0).reshape(4, 6)
    t = T.from_numpy(array[1:, ::2].T)
    assert t.shape == (3, 3)
    assert t.stride() == (2, 6)
    assert t.tolist() == array[1:, ::2].T.tolist()
    assert T.arange(24.0).reshape(4, 6)[1:, ::2].T.numpy().tolist() == array[1:, ::2].T.tolist()


def test_tensor_keeps_the_array_alive() -> None:
    array = np.arange(1000.0)
    t = T.from_numpy(array)
    del array
    gc.collect()
    assert t[999].item() == 999.0


def test_array_keeps_the_tensor_alive() -> None:
    array = T.arange(1000.0).numpy()
    gc.collect()
    T.zeros(1000)
    assert array[999] == 999.0


def test_zero_dim_and_empty_go_both_ways() -> None:
    assert T.from_numpy(np.array(5)).tolist() == 5
    assert T.from_numpy(np.zeros((0, 3))).shape == (0, 3)
    assert T.tensor(5).numpy().shape == ()
    assert T.zeros(0, 3).numpy().shape == (0, 3)


def test_expanded_tensor_shows_repeated_memory() -> None:
    assert T.ones(1).expand(3).numpy().tolist() == [1.0, 1.0, 1.0]


def test_live_array_pins_the_storage() -> None:
    t = T.zeros(4)
    array = t.numpy()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        t.resize_(100000)
    assert array.tolist() == [0.0] * 4
    del array
    t.resize_(8)
    assert t.shape == (8,)


REFUSED: list[tuple[Any, type[Exception], str]] = [
    ([1], TypeError, "expected np.ndarray (got list)"),
    (np.ones(3)[::-1], ValueError, "At least one stride in the given numpy array is negative"),
    (np.array(["a"]), TypeError, "can't convert np.ndarray of type numpy.str_"),
    (np.array([object()]), TypeError, "can't convert np.ndarray of type numpy.object_"),
    (np.array([1], dtype=">i4"), ValueError, "byte order different from the native byte order"),
    (
        np.zeros(3, dtype="f4,i1")["f0"],
        ValueError,
        "strides not a multiple of the element byte size",
    ),
]


@pytest.mark.parametrize(("array", "kind", "text"), REFUSED, ids=[r[2][:30] for r in REFUSED])
def test_array_that_cannot_be_shared_is_refused(
    array: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        T.from_numpy(array)


def test_read_only_array_warns() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        T.from_numpy(array)


@pytest.mark.filterwarnings("error")
def test_copy_of_a_read_only_array_is_like_any_other() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    assert T.tensor(array).add_(1).tolist() == [1.0, 2.0, 3.0]
    assert (T.ones(3) == array).tolist() == [False, True, False]


def _mapped() -> Any:
    """Bytes that a store into is a fault."""
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)
    return memoryview(memory)


READ_ONLY: dict[str, Callable[[], Any]] = {
    "from_numpy": lambda: T.from_numpy(np.frombuffer(_mapped(), "f4", 4)),
    "as_tensor": lambda: T.as_tensor(np.frombuffer(_mapped(), "f4", 4)),
    "asarray": lambda: T.asarray(np.frombuffer(_mapped(), "f4", 4)),
    "from_dlpack": lambda: T.from_dlpack(np.frombuffer(_mapped(), "f4", 4)),
    "frombuffer": lambda: T.frombuffer(_mapped(), dtype=T.float32, count=4),
    "frombuffer of bytes": lambda: T.frombuffer(bytes(16), dtype=T.float32),
    "asarray of bytes": lambda: T.asarray(bytes(16), dtype=T.float32),
}


@pytest.mark.filterwarnings("ignore:The given")
@pytest.mark.parametrize("make", READ_ONLY)
def test_tensor_over_read_only_memory_is_read_only(make: str) -> None:
    t = READ_ONLY[make]()
    for write in (
        lambda: t.add_(1),
        lambda: t.__setitem__(0, 1),
        lambda: T.add(t, 1, out=t),
        lambda: t.view(2, 2).zero_(),
        lambda: t.untyped_storage().fill_(1),
    ):
        with pytest.raises(RuntimeError, match="read-only"):
            write()
    assert not t.numpy().flags.writeable
    assert memoryview(t).readonly
    assert (t + 1).tolist() == [1.0] * 4
    own = t.clone()
    own += 1
    assert own.tolist() == [1.0] * 4
    assert t.tolist() == [0.0] * 4
    t.share_memory_()  # a copy
    assert t.add_(1).tolist() == [1.0] * 4


@pytest.mark.filterwarnings("ignore:The given")
def test_gradients_do_not_accumulate_in_read_only_memory() -> None:
    weight = T.ones(4, requires_grad=True)
    weight.grad = READ_ONLY["from_numpy"]()
    with pytest.raises(RuntimeError, match="read-only"):
        (weight * 2).sum().backward()


@pytest.mark.check
def test_tensor_that_cannot_be_shown_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match=re.escape("Can't call numpy() on Tensor that requires grad.")
    ):
        T.ones(2, requires_grad=True).numpy()
    with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
        T.ones(2, dtype=T.bfloat16).numpy()
    with pytest.raises(TypeError, match="Got unsupported ScalarType ComplexHalf"):
        T.ones(2, dtype=T.complex32).numpy()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        T.ones(2, device="meta").numpy()
    assert T.ones(2, requires_grad=True).numpy(force=True).tolist() == [1.0, 1.0]


def test_numpy_functions_take_tensors() -> None:
    t = T.arange(4.0)
    assert np.sum(np.asarray(t)) == 6.0
    assert np.asarray(t, dtype=np.int32).dtype == np.int32
    assert np.array(t, copy=True).base is None
    assert np.stack([t, t]).shape == (2, 4)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(T.ones(2, requires_grad=True))


@pytest.mark.parametrize("name", ["int64", "uint64"])
def test_integers_of_eight_bytes_have_numpys_type_of_that_name(name: str) -> None:
    t = T.ones(2, dtype=getattr(T, name))
    for array in (t.numpy(), np.asarray(t)):
        assert array.dtype.num == np.dtype(name).num
        assert array.dtype.type is getattr(np, name)
    for other in ("longlong", "ulonglong", "int_", "uint", "intc", "uintc"):
        array = np.ones(2, dtype=other)
        assert T.from_numpy(array).numpy().dtype == array.dtype


def test_numpy_functions_of_tensors_give_tensors() -> None:
    tensor, array = T.ones(2), np.full(2, 3.0)
    for result in (tensor * array, tensor + array, tensor @ array, np.multiply(array, tensor)):
        assert isinstance(result, T.Tensor)
        assert result.dtype is T.float64
    assert np.sin(tensor).dtype is T.float32
    assert np.transpose(T.ones(2, 3)).shape == (3, 2)
    assert np.isnan(tensor).tolist() == [0, 0]
    assert np.isnan(tensor).dtype is T.uint8  # as in torch
    assert np.sqrt(T.tensor(4)).item() == 2.0


def test_an_array_is_compared_element_by_element() -> None:
    tensor = T.tensor([1, 2])
    assert (tensor == np.array([1, 3])).tolist() == [True, False]
    assert (np.array([1.0, 3.0]) == tensor).tolist() == [True, False]
    with pytest.raises(RuntimeError, match="must match"):
        tensor == np.ones(3)  # noqa: B015
    assert (tensor == np.array("a")) is False
    with pytest.raises(RuntimeError, match="requires grad"):
        T.ones(2, requires_grad=True) * np.ones(2)


def test_array_on_the_left_leaves_the_operator_to_the_tensor() -> None:
    r = np.float32(2) * T.ones(2)
    assert isinstance(r, T.Tensor)
    assert r.tolist() == [2.0, 2.0]


def test_memoryview_of_a_tensor_shows_its_bytes() -> None:
    t = T.tensor([[1, 2], [3, 4]], dtype=T.int32)
    view = memoryview(t)
    assert view.format == "i"
    assert view.tolist() == [[1, 2], [3, 4]]
    view[0, 0] = 9
    assert t[0, 0].item() == 9
    with pytest.raises(BufferError):
        memoryview(T.ones(1, dtype=T.bfloat16))


FROMBUFFER: list[tuple[bytes, dict[str, Any], str]] = [
    (
        b"abc",
        {"dtype": T.int32},
        "buffer length (3 bytes) after offset (0 bytes) must be a multiple of element size (4)",
    ),
    (
        b"abcd",
        {"dtype": T.int16, "count": 3},
        "requested buffer length (3 * 2 bytes) after offset (0 bytes) must not be greater",
    ),
    (
        b"abcd",
        {"dtype": T.int16, "offset": 4},
        "offset (4 bytes) must be non-negative and no greater than buffer length (4 bytes) minus 1",
    ),
    (b"abcd", {"dtype": T.int16, "offset": -1}, "offset (-1 bytes) must be non-negative"),
    (b"", {"dtype": T.int16}, "both buffer length (0) and count (-1) must not be 0"),
    (b"abcd", {"dtype": T.int16, "count": 0}, "both buffer length (4) and count (0) must not be 0"),
]


@pytest.mark.parametrize(
    ("data", "options", "text"), FROMBUFFER, ids=[f[2][:40] for f in FROMBUFFER]
)
def test_frombuffer_refuses_what_does_not_fit(
    data: bytes, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        T.frombuffer(bytearray(data), **options)


def test_frombuffer_shares_the_buffer() -> None:
    buffer = bytearray(b"\x01\x00\x02\x00\x03")
    t = T.frombuffer(buffer, dtype=T.int16, count=1, offset=2)
    assert t.tolist() == [2]
    buffer[2] = 7
    assert t.tolist() == [7]
    with pytest.raises(BufferError):
        buffer.append(1)


def test_numpy_2_finds_the_protocols_that_it_asks_for() -> None:
    t = T.tensor([1.0, 2.0])
    # What NumPy calls instead of its own functions; torch's tensors have neither.
    assert not hasattr(t, "__array_ufunc__")
    assert not hasattr(t, "__array_function__")
    assert np.asarray(t, copy=False).__array_interface__["data"][0] == t.data_ptr()
    assert np.array(t, copy=True).__array_interface__["data"][0] != t.data_ptr()
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, dtype="f8", copy=False)
    assert type(np.add.reduce(t)) is T.Tensor
    assert type(np.hypot(t[0], t[1])) is T.Tensor
    assert [type(part) for part in np.modf(t)] == [T.Tensor, T.Tensor]
    assert np.add(t, 1, out=np.zeros(2)).tolist() == [2.0, 3.0]
    assert np.concatenate([t, np.zeros(1)]).tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("make", ["from_numpy", "tensor", "as_tensor", "asarray"])
def test_the_first_array_of_a_process_may_be_of_a_derived_class(make: str) -> None:
    text = f"""
import numpy, tempfile, shmtensor
with tempfile.NamedTemporaryFile() as file:
    array = numpy.memmap(file.name, dtype="int64", mode="w+", shape=(3,))
    array[:] = [1, 2, 3]
    assert shmtensor.{make}(array).tolist() == [1, 2, 3]
    assert shmtensor.{make}(array).dtype is shmtensor.int64
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
