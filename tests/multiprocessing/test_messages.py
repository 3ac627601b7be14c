"""Tensors, storages and what is made of them, through the standard queues, pipes, pools and
arguments.

Not covered: who dies when (test_lifetime, test_kill), the protocol below (tests/shm).
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import mp_children
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.nn import Parameter

METHODS = ("fork", "spawn", "forkserver")


class _Echo:
    """A forked child that sends everything back."""

    def __init__(self) -> None:
        context = mp.get_context("fork")
        self.there, self.back = context.SimpleQueue(), context.SimpleQueue()
        self.process = context.Process(
            target=mp_children.echo, args=(self.there, self.back), daemon=True
        )
        self.process.start()

    def __call__(self, item: Any) -> Any:
        self.there.put(item)
        return self.back.get()

    def close(self) -> None:
        self.there.put(None)
        self.process.join()
        self.there.close()
        self.back.close()


@pytest.fixture
def echo() -> Any:
    made = _Echo()
    yield made
    made.close()


@pytest.mark.parametrize("method", METHODS)
def test_write_of_child_is_seen_by_parent(method: str) -> None:
    context = mp.get_context(method)
    there, back = context.SimpleQueue(), context.SimpleQueue()
    child = context.Process(target=mp_children.add_one, args=(there, back))
    child.start()
    tensor = st.zeros(100)
    there.put(tensor)
    assert back.get() == "done"
    child.join()
    assert tensor.is_shared()
    assert tensor.sum() == 100
    there.close()
    back.close()


@pytest.mark.parametrize("method", METHODS)
def test_process_argument_is_the_same_memory(method: str) -> None:
    tensor = st.zeros(8).share_memory_()
    child = mp.get_context(method).Process(target=mp_children.add_to_argument, args=(tensor,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert tensor.tolist() == [1.0] * 8


@pytest.mark.parametrize("method", METHODS)
def test_aliases_stay_aliases_within_and_across_messages(method: str) -> None:
    context = mp.get_context(method)
    there, back = context.Queue(), context.SimpleQueue()
    child = context.Process(target=mp_children.check_aliases, args=(there, back))
    child.start()
    tensor = st.zeros(10)
    there.put([tensor, tensor.view(2, 5)])
    there.put(tensor)
    assert back.get() == (True, 42.0, True)
    child.join()
    assert tensor[0] == 42
    there.close()
    there.join_thread()
    back.close()


@pytest.mark.check
def test_pool_maps_over_tensors() -> None:
    with mp.get_context("fork").Pool(2) as pool:
        results = pool.map(mp_children.double, [st.ones(4), st.full((2,), 3.0)])
        pool.close()
        pool.join()
    assert [r.tolist() for r in results] == [[2.0] * 4, [6.0] * 2]


def test_pipe_carries_tensors_both_ways() -> None:
    left, right = mp.Pipe()
    tensor = st.arange(5)
    left.send(tensor)
    received = right.recv()
    assert received.data_ptr() == tensor.data_ptr()
    right.send(received[1:3])
    assert left.recv().tolist() == [1, 2]
    left.close()
    right.close()


def test_tensor_that_comes_back_is_the_same_memory(echo: Any) -> None:
    tensor = st.randn(64)
    back = echo(tensor)
    assert back.data_ptr() == tensor.data_ptr()
    assert back.untyped_storage() is tensor.untyped_storage()


@pytest.mark.check
@pytest.mark.parametrize("n", [2046, 2047, 2048, 2049, 10_000, 70_000])
def test_many_tensors_of_one_message_arrive_in_order(n: int, echo: Any) -> None:
    tensors = [st.full((2,), float(i), shared=True) for i in range(n)]
    came = echo([*tensors, tensors[0]])
    assert [t.data_ptr() for t in came] == [t.data_ptr() for t in (*tensors, tensors[0])]
    assert came[0] is came[-1]


@pytest.mark.parametrize("kind", ["Pipe", "Queue"])
def test_many_tensors_pass_other_channels(kind: str) -> None:
    tensors = [st.full((2,), float(i), shared=True) for i in range(5000)]
    if kind == "Pipe":
        reader, writer = mp.Pipe(False)
        thread = threading.Thread(target=writer.send, args=(tensors,))
        thread.start()
        came = reader.recv()
        thread.join()
        reader.close()
        writer.close()
    else:
        queue = mp.Queue()
        queue.put(tensors)
        came = queue.get()
        queue.close()
        queue.join_thread()
    assert [t.data_ptr() for t in came] == [t.data_ptr() for t in tensors]


@pytest.mark.parametrize(
    "dtype",
    [
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
        "float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128",
    ],
)  # fmt: skip
def test_dtype_is_kept(dtype: str, echo: Any) -> None:
    tensor = st.ones(3, dtype=getattr(st, dtype))
    back = echo(tensor)
    assert back.dtype is tensor.dtype
    assert back.tolist() == tensor.tolist()


def test_geometry_of_views_is_kept(echo: Any) -> None:
    base = st.arange(24, dtype=st.float32).view(2, 3, 4)
    for view in (
        base[1],
        base.transpose(0, 2),
        base[:, ::2, 1:],
        base[0, 0].expand(5, 4),
        base[1, 2, 3],
    ):
        back = echo(view)
        assert back.shape == view.shape
        assert back.stride() == view.stride()
        assert back.storage_offset() == view.storage_offset()
        assert back.tolist() == view.tolist()


def test_empty_tensor_keeps_shape_and_is_shared(echo: Any) -> None:
    back = echo(st.empty(0, 5))
    assert back.shape == (0, 5)
    assert back.is_shared()


def test_meta_tensor_travels_without_data(echo: Any) -> None:
    back = echo(st.empty(3, 4, device="meta"))
    assert back.is_meta
    assert back.shape == (3, 4)


@pytest.mark.check
def test_leaf_keeps_requires_grad_and_not_grad(echo: Any) -> None:
    leaf = st.ones(3, requires_grad=True)
    leaf.sum().backward()
    back = echo(leaf)
    assert back.requires_grad
    assert back.is_leaf
    assert back.grad is None


def test_nonleaf_that_requires_grad_is_refused() -> None:
    queue = mp.SimpleQueue()
    product = st.ones(3, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        queue.put(product)
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        queue.put(product[1:])
    queue.put(product.detach())
    assert queue.get().tolist() == [2.0] * 3
    queue.close()


def test_parameter_keeps_its_type(echo: Any) -> None:
    for parameter in (
        Parameter(st.ones(4)),
        Parameter(st.ones(4, dtype=st.int64), requires_grad=False),
    ):
        back = echo(parameter)
        assert type(back) is Parameter
        assert back.requires_grad is parameter.requires_grad
        assert back.data_ptr() == parameter.data_ptr()


def test_storages_alias_the_tensors_beside_them(echo: Any) -> None:
    tensor = st.arange(6)
    back, untyped, typed = echo((tensor, tensor.untyped_storage(), tensor.storage()))
    assert untyped is back.untyped_storage()
    assert typed.dtype is st.int64
    assert typed.data_ptr() == back.data_ptr()


def test_shared_storage_does_not_grow() -> None:
    tensor = st.zeros(4).share_memory_()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        tensor.resize_(100)
    with pytest.raises(RuntimeError, match="not resizable"):
        tensor.untyped_storage().resize_(1000)
    assert tensor.tolist() == [0.0] * 4


def test_sharing_with_live_numpy_view_is_refused() -> None:
    tensor = st.zeros(4)
    array = tensor.numpy()
    with pytest.raises(BufferError, match="live export"):
        tensor.share_memory_()
    array[0] = 3
    assert tensor[0] == 3
    del array
    tensor.share_memory_()
    assert tensor.tolist() == [3.0, 0.0, 0.0, 0.0]


def test_share_memory_twice_keeps_the_memory() -> None:
    tensor = st.zeros(4).share_memory_()
    address = tensor.data_ptr()
    assert tensor.share_memory_() is tensor
    assert tensor.data_ptr() == address
    assert tensor[1:].is_shared()
    assert not tensor.clone().is_shared()


def test_lists_that_another_thread_exchanges_are_told_apart() -> None:
    """A tensor is shared without the interpreter's lock; the new list may get the old address."""
    queue = mp.SimpleQueue()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10.0)  # threads change where the lock is given up
    try:
        for _ in range(20):
            outer: list[Any] = [[0], st.ones(1 << 20), None]
            may_begin = threading.Lock()
            may_begin.acquire()

            def exchange(outer: list[Any] = outer, may_begin: Any = may_begin) -> None:
                may_begin.acquire()
                outer[0] = None
                outer[2] = [2]

            thread = threading.Thread(target=exchange)
            thread.start()
            may_begin.release()
            queue.put(outer)
            thread.join()
            assert queue.get()[2] in (None, [2])
    finally:
        sys.setswitchinterval(interval)
        queue.close()
