"""What a message keeps of tensors, arrays and generators, and through whom it may go.

Not covered: memory and aliasing of plain tensors (test_messages).
"""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import io
import multiprocessing as standard
import pickle
import warnings
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import mp_pool_tasks as tasks
import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import reductions
from shmtensor.nn import Linear, Parameter
from shmtensor.optim import SGD
from shmtensor.utils.hooks import unserializable_hook

METHODS = ("fork", "spawn", "forkserver")


class Named(st.Tensor):
    """A subclass, which has attributes."""


def _sent(item: Any) -> Any:
    """Pass through the pickler of messages."""
    return pickle.loads(ForkingPickler.dumps(item))


# --- tensors ----------------------------------------------------------------------------------


@pytest.mark.check
def test_generator_goes_on_where_it_was() -> None:
    generator = st.Generator().manual_seed(11)
    st.rand(5, generator=generator)
    again = _sent(generator)
    assert again.initial_seed() == 11
    assert st.equal(st.rand(5, generator=generator), st.rand(5, generator=again))


def test_subclass_keeps_its_type_and_attributes() -> None:
    tensor = st.ones(3).as_subclass(Named)
    tensor.unit = "m"
    again = _sent([tensor, tensor[1:]])
    assert [type(t) for t in again] == [Named, Named]
    assert again[0].unit == "m"
    assert again[0].data_ptr() == tensor.data_ptr()
    assert again[1].data_ptr() == tensor.data_ptr() + 4


def test_parameter_loses_gradient_attributes_and_hooks_with_a_warning() -> None:
    parameter = Parameter(st.ones(3))
    parameter.grad = st.ones(3)
    parameter.note = 1
    parameter.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match="backward hook .* on tensor will not be serialized"):
        again = _sent(parameter)
    assert type(again) is Parameter
    assert again.grad is None
    assert not hasattr(again, "note")
    assert again.data_ptr() == parameter.data_ptr()


def test_marked_hook_does_not_warn() -> None:
    leaf = st.ones(3, requires_grad=True)
    leaf.register_hook(unserializable_hook(lambda grad: grad))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _sent(leaf).requires_grad
    leaf.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match="will not be serialized"):
        _sent(leaf)


def test_meta_tensor_keeps_its_geometry_and_requires_grad() -> None:
    tensor = st.empty(3, 4, device="meta", dtype=st.float64).t().requires_grad_()
    again = _sent(tensor)
    assert (again.shape, again.stride(), again.dtype) == ((4, 3), (1, 4), st.float64)
    assert again.requires_grad
    assert again.is_meta


def test_conjugate_and_negative_arrive_with_their_values() -> None:
    values = st.tensor([1 - 2j, 3 + 4j])
    for tensor in (values.conj(), values.imag, -values, values.conj().imag):
        assert _sent(tensor).tolist() == tensor.tolist()


def test_expanded_and_empty_keep_their_geometry() -> None:
    assert _sent(st.ones(3).expand(4, 3)).stride() == (0, 1)
    assert _sent(st.empty(0, 4)).shape == (0, 4)


# --- NumPy ------------------------------------------------------------------------------------


@pytest.fixture
def _shared_numpy() -> Iterator[None]:
    mp.share_numpy()
    yield
    mp.share_numpy(False)
    assert not reductions.shares_numpy()


def test_arrays_are_copied_into_the_message_by_default() -> None:
    array = np.arange(10000.0)
    assert len(ForkingPickler.dumps(array)) > array.nbytes
    assert np.array_equal(_sent(array), array)


@pytest.mark.usefixtures("_shared_numpy")
@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.arange(12).reshape(3, 4)),
        np.arange(24, dtype=np.int16).reshape(4, 6)[::2, ::-1],
        np.array(5.0),
        np.zeros((0, 3), np.float32),
        np.array(["a", "bcd"]),
        np.array([(1, 2.5)], dtype=[("n", "i4"), ("x", "f8")]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.arange(4, dtype=">i4"),
        np.array([None, "x"], dtype=object),
        np.ma.masked_array([1, 2], [True, False]),
        np.broadcast_to(np.ones(3), (4, 3)),
    ],
    ids=lambda a: f"{a.dtype.str}-{a.shape}",
)
def test_shared_array_has_type_shape_and_values(array: Any) -> None:
    again = _sent(array)
    assert type(again) is type(array)
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert np.array_equal(again, array)
    assert again.flags.writeable == array.flags.writeable or array.nbytes == 0
    assert again.flags.fnc == array.flags.fnc


@pytest.mark.usefixtures("_shared_numpy")
def test_message_of_a_shared_array_is_short() -> None:
    array = np.arange(10000.0)
    message = ForkingPickler.dumps(array)
    assert len(message) < 600
    again = pickle.loads(message)
    again[0] = 5
    assert array[0] == 0  # a copy was sent


@pytest.mark.usefixtures("_shared_numpy")
def test_array_over_a_shared_tensor_is_the_same_memory() -> None:
    tensor = st.zeros(4, 6).share_memory_()
    view = tensor.numpy()[1:, ::2]
    again = _sent(_sent(view))
    again[0, 1] = 7
    assert tensor[1, 2] == 7
    assert again.strides == view.strides


@pytest.mark.usefixtures("_shared_numpy")
@pytest.mark.parametrize("method", METHODS)
def test_arrays_come_back_from_workers_as_shared_memory(method: str) -> None:
    array = np.arange(5000.0)
    with mp.get_context(method).Pool(1) as pool:
        assert np.array_equal(pool.apply(tasks.same, (array,)), array)
        pool.close()
        pool.join()


# --- through the standard library -------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_executor_shares_arguments_and_results(method: str) -> None:
    tensor = st.zeros(4)
    context = mp.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        back = executor.submit(tasks.add_one, tensor).result(timeout=60)
    assert back.data_ptr() == tensor.data_ptr()
    assert tensor.tolist() == [1.0] * 4


@pytest.mark.check
def test_standard_queues_and_pipes_carry_handles() -> None:
    context = standard.get_context("fork")
    tensor = st.arange(4)
    queue, simple = context.Queue(), context.SimpleQueue()
    queue.put(tensor)
    simple.put(tensor)
    assert queue.get().data_ptr() == simple.get().data_ptr() == tensor.data_ptr()
    queue.close()
    queue.join_thread()
    simple.close()
    left, right = standard.Pipe()
    with left, right:
        left.send([tensor])
        assert right.recv()[0].data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_manager_holds_tensors_that_are_shared(method: str) -> None:
    with mp.get_context(method).Manager() as manager:
        items, named, queue = manager.list([st.zeros(3)]), manager.dict(), manager.Queue()
        items[0].add_(1)
        assert items[0].tolist() == [1.0] * 3
        named["t"] = items[0]
        queue.put(named["t"])
        received = queue.get(timeout=60)
        received.add_(1)
        assert items[0].tolist() == [2.0] * 3


# --- modules and optimizers -------------------------------------------------------------------


def test_shared_module_shares_its_gradients() -> None:
    module = Linear(2, 2)
    module(st.ones(1, 2)).sum().backward()
    assert module.share_memory() is module
    for parameter in module.parameters():
        assert parameter.is_shared()
        assert parameter.grad.is_shared()
    again = _sent(module)
    assert again.weight.data_ptr() == module.weight.data_ptr()


def test_shared_optimizer_sends_its_state_by_handle() -> None:
    module = Linear(2, 2).share_memory()
    optimizer = SGD(module.parameters(), lr=0.1, momentum=0.9)
    optimizer.share_memory()
    again = _sent((module, optimizer))[1]
    for parameter, state in again.state.items():
        assert parameter.is_shared()
        for value in state.values():
            assert not isinstance(value, st.Tensor) or value.is_shared()
    addresses = [s["momentum_buffer"].data_ptr() for s in again.state.values()]
    assert addresses == [s["momentum_buffer"].data_ptr() for s in optimizer.state.values()]


# --- names for third parties ------------------------------------------------------------------


def test_weak_references_of_one_storage_are_equal_and_expire() -> None:
    tensor, other = st.zeros(3), st.zeros(3)
    a, b = (reductions.StorageWeakRef(t.untyped_storage()) for t in (tensor, tensor[1:]))
    assert a == b
    assert hash(a) == hash(b)
    assert a != reductions.StorageWeakRef(other.untyped_storage())
    assert a != 3
    assert not a.expired()
    del tensor
    assert a.expired()
    assert b.expired()
    again = reductions.StorageWeakRef.from_weakref(other.untyped_storage()._weak_ref())
    assert again == reductions.StorageWeakRef(other.untyped_storage())


def test_descriptors_of_one_file_have_one_id() -> None:
    with open(__file__) as a, open(__file__) as b, open("/dev/null") as c:
        assert reductions.fd_id(a.fileno()) == reductions.fd_id(b.fileno())
        assert reductions.fd_id(a.fileno()) != reductions.fd_id(c.fileno())


def test_reductions_survive_a_second_initialisation() -> None:
    reductions.init_reductions()
    tensor = st.ones(2)
    buffer = io.BytesIO()
    ForkingPickler(buffer, 5).dump(tensor)
    assert pickle.loads(buffer.getvalue()).data_ptr() == tensor.data_ptr()


# --- files ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def _cache_forgets() -> Iterator[None]:
    yield
    reductions.shared_cache.free_dead_references()


def _mapped(path: Any, nbytes: int) -> st.Tensor:
    storage = st.UntypedStorage.from_file(str(path), True, nbytes)
    return st.empty(0).set_(storage)


def test_shared_map_of_a_file_is_shared_and_knows_its_file(tmp_path: Any) -> None:
    tensor = _mapped(tmp_path / "data", 40)
    assert tensor.is_shared()
    assert tensor.share_memory_() is tensor
    assert tensor.untyped_storage().filename == str(tmp_path / "data")
    assert tensor.storage().filename == str(tmp_path / "data")
    assert st.zeros(3).untyped_storage().filename is None


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_tensor_over_a_file_stays_over_it_when_sent(method: str, tmp_path: Any) -> None:
    tensor = _mapped(tmp_path / "data", 40)
    with mp.get_context(method).Pool(1) as pool:
        back = pool.apply(tasks.add_one, (tensor[2:4],))
        pool.close()
        pool.join()
    assert back.untyped_storage() is tensor.untyped_storage()
    assert np.fromfile(tmp_path / "data", np.float32).tolist() == [0, 0, 1, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["SimpleQueue", "Queue"])
def test_storages_and_tensors_of_a_file_are_aliases_in_queues(kind: str, tmp_path: Any) -> None:
    tensor = _mapped(tmp_path / "data", 40)
    queue = getattr(mp.get_context("fork"), kind)()
    queue.put([tensor.requires_grad_(), tensor.detach()[1:], tensor.untyped_storage()])
    whole, part, storage = queue.get()
    queue.close()
    assert whole.requires_grad
    assert part.data_ptr() == tensor.data_ptr() + 4
    assert storage is tensor.untyped_storage()


def test_cache_forgets_storages_that_are_gone(tmp_path: Any) -> None:
    cache = reductions.SharedCache()
    kept = _mapped(tmp_path / "kept", 8).untyped_storage()
    cache["kept"] = reductions.StorageWeakRef(kept)
    for i in range(200):
        cache[i] = reductions.StorageWeakRef(st.UntypedStorage(8))
    assert len(cache) < 100
    assert not cache["kept"].expired()


def test_storage_from_cache_is_the_live_one(tmp_path: Any) -> None:
    storage = _mapped(tmp_path / "data", 8).untyped_storage()
    key = (storage.filename, 8)
    reductions.shared_cache[key] = reductions.StorageWeakRef(storage)
    assert reductions.storage_from_cache(st.UntypedStorage, key) is storage
    del storage
    assert reductions.storage_from_cache(st.UntypedStorage, key) is None


@pytest.mark.check
def test_weak_reference_is_counted_once() -> None:
    storage = st.UntypedStorage(8)
    ref = reductions.StorageWeakRef(storage)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a StorageWeakRef is of one process"):
            copied(ref)
    gc.collect()
    assert not ref.expired()
    del storage
    assert ref.expired()
