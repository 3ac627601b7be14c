"""Queues that take arrays of NumPy and tensors of torch, and hand them over in shared memory."""

from __future__ import annotations

import gc
import importlib.util
import subprocess
import sys
import weakref
from typing import Any

import adoption_children as children
import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp

METHODS = ["fork", "spawn", "forkserver"]
KINDS = ["Queue", "SimpleQueue", "JoinableQueue"]


def sent_and_received(value: Any, adopt: Any) -> Any:
    queue = mp.SimpleQueue(adopt=adopt)
    queue.put(value)
    return queue.get()


@pytest.mark.check
@pytest.mark.parametrize("adopt", ["jax", ["numpy", "jax"], "num"])
def test_an_unknown_library_is_refused(adopt: Any) -> None:
    with pytest.raises(ValueError, match="adopt should name some of"):
        mp.Queue(adopt=adopt)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_torch_that_is_not_installed_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="torch"):
        mp.Queue(adopt="torch")


# --- NumPy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_go_to_a_process_and_back(kind: str, method: str) -> None:
    with children.echoing(mp.get_context(method), kind, "numpy") as (out, back):
        array = st.numpy_empty((3, 4), np.float32)
        array[:] = np.arange(12).reshape(3, 4)
        out.put({"a": array[1:], "b": [np.arange(3), "text"]})
        answer = back.get()
        assert type(answer["a"]) is np.ndarray
        assert answer["a"].tolist() == array[1:].tolist()
        assert answer["b"][0].tolist() == [0, 1, 2]
        answer["a"][0, 0] = 50
        assert array[1, 0] == 50


def test_new_arrays_have_the_dtype_and_shape() -> None:
    assert st.numpy_empty(3).dtype == np.float64
    assert st.numpy_empty(3).shape == (3,)
    assert st.numpy_empty((2, 0, 3), np.int16).shape == (2, 0, 3)
    pair = st.numpy_empty(2, [("a", np.int8), ("b", np.float64)])
    pair["b"] = 1.5
    assert sent_and_received(pair, "numpy")["b"].tolist() == [1.5, 1.5]
    with pytest.raises(TypeError, match="objects cannot be in shared memory"):
        st.numpy_empty(3, object)
    with pytest.raises(ValueError, match=r"negative, got \(2, -1\)"):
        st.numpy_empty((2, -1))


@pytest.mark.parametrize("method", METHODS)
def test_tasks_and_results_of_a_pool_share_arrays(method: str) -> None:
    arrays = [st.numpy_empty(3), st.numpy_empty(3)]
    for array in arrays:
        array[:] = range(3)
    with mp.get_context(method).Pool(2, adopt="numpy") as pool:
        results = pool.map(children.doubled, arrays)
    for array, (part, more) in zip(arrays, results, strict=True):
        assert array.tolist() == [0, 2, 4]
        assert more.tolist() == [1, 3, 5]
        array[2] = 7
        assert part.tolist() == [2, 7]


def test_a_pool_that_adopts_nothing_copies() -> None:
    array = st.numpy_empty(3)
    array[:] = range(3)
    with mp.get_context("fork").Pool(1) as pool:
        assert pool.apply(children.doubled, (array,))[0].tolist() == [2, 4]
    assert array.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="adopt should name some of"):
        mp.Pool(1, adopt="jax")


def test_making_an_array_loads_no_more_than_it_needs() -> None:
    program = (
        "import sys, numpy, shmtensor\n"
        "before = set(sys.modules)\n"
        "shmtensor.numpy_empty(3)\n"
        "print(sorted({sys.modules[name].__name__ for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = ["shmtensor._torch_memory", "shmtensor.multiprocessing.adoption"]
    assert done.stdout == f"{loaded}\n"


def test_a_queue_that_adopts_nothing_copies() -> None:
    array = st.numpy_empty(3)
    array[:] = 1
    received = sent_and_received(array, None)
    received[:] = 2
    assert array.tolist() == [1, 1, 1]


# --- torch ------------------------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_torch_tensors_go_to_a_process_and_back(torch: Any, kind: str, method: str) -> None:
    with children.echoing(mp.get_context(method), kind, ["torch", "numpy"]) as (out, back):
        tensor = st.torch_empty(3, 4)
        tensor.copy_(torch.arange(12.0).view(3, 4))
        out.put((tensor[1:], torch.ones(2, dtype=torch.int64), np.zeros(2), st.ones(2)))
        view, ones, zeros, ours = back.get()
        assert [type(v) for v in (view, ones, zeros)] == [torch.Tensor, torch.Tensor, np.ndarray]
        assert type(ours) is st.Tensor
        assert torch.equal(view, tensor[1:])
        assert ones.dtype == torch.int64
        view[0, 0] = 50
        assert tensor[1, 0] == 50


def test_tasks_and_results_of_a_pool_share_torch_tensors(torch: Any) -> None:
    tensor = st.torch_empty(3)
    tensor.copy_(torch.arange(3))
    with mp.get_context("fork").Pool(1, adopt="torch") as pool:
        part, more = pool.apply(children.doubled, (tensor,))
    assert tensor.tolist() == [0, 2, 4]
    assert more.tolist() == [1, 3, 5]
    assert part.data_ptr() == tensor[1:].data_ptr()


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize(
    "make",
    [
        lambda torch: torch.randn(3, 4).t(),
        lambda torch: torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        lambda torch: torch.randn(5)[::2],
        lambda torch: torch.ones(3, dtype=torch.bfloat16),
        lambda torch: torch.tensor([True, False]),
        lambda torch: torch.randn(3, dtype=torch.complex64).conj(),
        lambda torch: torch.tensor(2.5),
        lambda torch: torch.zeros(0, 3),
        lambda torch: torch.eye(3).to_sparse(),
        lambda torch: torch.ones(2, requires_grad=True),
    ],
)
def test_layouts_dtypes_and_flags_arrive(torch: Any, make: Any) -> None:
    tensor = make(torch)
    received = sent_and_received(tensor, "torch")
    assert received.dtype == tensor.dtype
    assert received.shape == tensor.shape
    assert received.layout == tensor.layout
    assert received.requires_grad == tensor.requires_grad
    assert torch.equal(received.to_dense(), tensor.to_dense().resolve_conj())


def test_what_is_in_our_memory_is_not_copied(torch: Any) -> None:
    tensor = st.torch_empty((4, 5), dtype=torch.float64)
    assert tensor.dtype == torch.float64
    for value in (tensor, tensor[1:, 2], tensor.t(), tensor.view(-1)[3:7]):
        received = sent_and_received(value, "torch")
        assert received.data_ptr() == value.data_ptr()
        assert received.stride() == value.stride()
        again = sent_and_received(received[..., :1], "torch")
        assert again.data_ptr() == value.data_ptr()
    number = tensor.view(torch.int64)
    assert sent_and_received(number, "torch").data_ptr() == tensor.data_ptr()


@pytest.mark.check
def test_views_in_one_message_share_memory(torch: Any) -> None:
    tensor = st.torch_empty(4).zero_()
    whole, part = sent_and_received([tensor, tensor[1:]], "torch")
    part[0] = 7
    assert whole.tolist() == tensor.tolist() == [0, 7, 0, 0]


def test_a_result_of_a_calculation_that_requires_grad_is_refused(torch: Any) -> None:
    queue = mp.SimpleQueue(adopt="torch")
    with pytest.raises(RuntimeError, match="non-leaf tensor"):
        queue.put(torch.ones(2, requires_grad=True) * 2)


def test_memory_is_freed_with_the_last_tensor(torch: Any) -> None:
    tensor = st.torch_empty(8)
    received = sent_and_received(tensor[5:], "torch")
    memory = [weakref.ref(t.untyped_storage()._shmtensor_holder) for t in (tensor, received)]
    del tensor
    gc.collect()
    assert memory[1]() is not None
    received = received[1:]
    gc.collect()
    assert memory[1]() is not None
    del received
    gc.collect()
    assert [held() for held in memory] == [None, None]


def test_new_tensors_have_torchs_default_dtype(torch: Any) -> None:
    assert st.torch_empty(2, 3).dtype == torch.get_default_dtype()
    assert st.torch_empty(()).shape == ()
    assert st.torch_empty(0).numel() == 0


_TORCHS_OWN = ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2"]
_TORCHS_OWN += ["uint4", "int4", "bits16", "bits8"]


@pytest.mark.parametrize("name", _TORCHS_OWN)
@pytest.mark.parametrize("transposed", [False, True])
def test_dtypes_that_only_torch_has_arrive_as_they_were(
    torch: Any, name: str, transposed: bool
) -> None:
    dtype = getattr(torch, name)
    integers = torch.int16 if dtype.itemsize == 2 else torch.uint8
    tensor = torch.arange(6).to(integers).view(2, 3).view(dtype)
    tensor = tensor.t() if transposed else tensor
    received = sent_and_received({"a": [tensor]}, "torch")["a"][0]
    assert received.dtype is dtype
    assert received.view(integers).tolist() == tensor.view(integers).tolist()
    assert received.stride() == tensor.stride()


def test_float8_in_shared_memory_is_not_copied(torch: Any) -> None:
    tensor = st.torch_empty((4, 5), dtype=torch.float8_e5m2)
    assert (tensor.dtype, tensor.shape) == (torch.float8_e5m2, (4, 5))
    received = sent_and_received(tensor[1:, 2], "torch")
    assert received.data_ptr() == tensor[1:, 2].data_ptr()
    assert received.dtype is torch.float8_e5m2
    tensor.view(torch.uint8)[1, 2] = 0x3C
    assert received.to(torch.float32)[0] == 1
    leaf = torch.ones(2).to(torch.float8_e5m2).requires_grad_()
    assert sent_and_received(leaf, "torch").requires_grad


# --- lent, and copy-on-write --------------------------------------------------------------------


@pytest.mark.parametrize("adopt", [None, "numpy"])
def test_a_lent_array_is_read_only_and_shows_what_is_written(adopt: Any) -> None:
    array = st.numpy_empty((3, 4), np.float32)
    array[:] = 1
    received = sent_and_received({"a": mp.lend(array[1:, ::2])}, adopt)["a"]
    assert type(received) is np.ndarray
    assert (received.dtype, received.shape) == (np.float32, (2, 2))
    array[1, 2] = 5
    assert received.tolist() == [[1, 5], [1, 1]]
    with pytest.raises(ValueError, match="read-only"):
        received[0, 0] = 2


def test_a_cow_array_keeps_its_receivers_changes_to_itself() -> None:
    array = st.numpy_empty(3, [("a", np.int32), ("b", np.float64)])
    array["a"] = 1
    received = sent_and_received(mp.cow(array), None)
    received["a"][0] = 7
    assert received["a"].tolist() == [7, 1, 1]
    assert array["a"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("send", [mp.lend, mp.cow])
def test_only_arrays_in_shared_memory_are_lent(send: Any) -> None:
    assert repr(send(np.zeros(2))) == f"{send.__name__}(array([0., 0.]))"
    for array in (np.zeros(2), np.array([object()])):
        with pytest.raises(BufferError, match=rf"{send.__name__}\(\): .* shmtensor.numpy_empty"):
            sent_and_received(send(array), None)
    for value in (None, [1], "text"):
        with pytest.raises(TypeError, match="expected a tensor or an array"):
            send(value)


def test_torch_tensors_are_lent(torch: Any) -> None:
    tensor = st.torch_empty(2, 3).zero_()
    lent, own = sent_and_received([mp.lend(tensor[1:]), mp.cow(tensor)], None)
    assert [type(lent), type(own)] == [torch.Tensor, torch.Tensor]
    own[0, 0] = 5
    tensor[1, 2] = 7
    assert lent.tolist() == [[0, 0, 7]]
    assert tensor[0, 0] == 0
    eighth = st.torch_empty(2, dtype=torch.float8_e5m2).fill_(1)
    assert sent_and_received(mp.lend(eighth), None).dtype is torch.float8_e5m2
    with pytest.raises(BufferError, match=r"lend\(\): .* shmtensor.torch_empty"):
        sent_and_received(mp.lend(torch.ones(2)), None)


@pytest.mark.parametrize("sizes", [2**62, (2**40, 2**40), 2**80])
def test_more_than_there_can_be_is_a_memory_error(sizes: Any) -> None:
    with pytest.raises(MemoryError):
        st.numpy_empty(sizes)
