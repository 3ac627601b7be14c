"""Tensors that are born in shared memory: ``shared=True`` of every factory.

What happens to shared memory afterwards is in tests/multiprocessing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import shmtensor as T

FACTORIES: dict[str, Callable[..., T.Tensor]] = {
    "empty": lambda **k: T.empty(2, 3, **k),
    "zeros": lambda **k: T.zeros((2, 3), **k),
    "ones": lambda **k: T.ones(2, 3, **k),
    "full": lambda **k: T.full((2, 3), 5, **k),
    "rand": lambda **k: T.rand(2, 3, **k),
    "randn": lambda **k: T.randn(2, 3, **k),
    "randint": lambda **k: T.randint(0, 4, (2, 3), **k),
    "arange": lambda **k: T.arange(6, **k),
    "linspace": lambda **k: T.linspace(0, 1, 6, **k),
    "eye": lambda **k: T.eye(3, **k),
    "empty_strided": lambda **k: T.empty_strided((2, 3), (1, 2), **k),
    "zeros_like": lambda **k: T.zeros_like(T.rand(2, 3), **k),
    "empty_like": lambda **k: T.empty_like(T.rand(3, 2).t(), **k),
    "full_like": lambda **k: T.full_like(T.rand(2, 3), 4, **k),
    "rand_like": lambda **k: T.rand_like(T.rand(2, 3), **k),
    "new_zeros": lambda **k: T.rand(2).new_zeros(2, 3, **k),
    "new_empty": lambda **k: T.rand(2).new_empty((2, 3), **k),
    "new_full": lambda **k: T.rand(2).new_full((2, 3), 7, **k),
    "new_tensor": lambda **k: T.rand(2).new_tensor([1, 2], **k),
    "tensor": lambda **k: T.tensor([[1.0, 2.0]], **k),
    "as_tensor": lambda **k: T.as_tensor([1, 2], **k),
    "from_numpy": lambda **k: T.from_numpy(np.arange(4), **k),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factory_makes_shared_memory_only_when_asked(name: str) -> None:
    private, shared = FACTORIES[name](shared=False), FACTORIES[name](shared=True)
    assert shared.is_shared()
    assert not private.is_shared()
    assert (shared.shape, shared.stride()) == (private.shape, private.stride())
    assert shared.dtype == private.dtype
    if "rand" not in name and "empty" not in name:
        assert shared.equal(private)
    assert not T.empty(3).is_shared()


@pytest.mark.check
def test_large_zeros_are_zero_in_recycled_shared_memory() -> None:
    n = 6_000_000  # above the size from which private zeros are untouched pages
    T.full((n,), 9.0, shared=True)
    assert not T.zeros(n, shared=True).any()


def test_shared_factory_takes_the_other_keywords() -> None:
    t = T.rand(3, dtype=T.float64, requires_grad=True, shared=True)
    assert (t.dtype, t.requires_grad, t.is_leaf) == (T.float64, True, True)
    t.sum().backward()
    assert t.grad is not None
    assert not t.grad.is_shared()
    generator = T.Generator().manual_seed(3)
    wanted = T.rand(4, generator=T.Generator().manual_seed(3))
    assert T.rand(4, generator=generator, shared=True).equal(wanted)


def test_empty_tensor_is_shared() -> None:
    assert T.empty(0, 3, shared=True).is_shared()


def test_share_memory_of_a_shared_tensor_keeps_its_address() -> None:
    t = T.ones(4, shared=True)
    address = t.data_ptr()
    assert t.share_memory_().data_ptr() == address


@pytest.mark.check
def test_as_tensor_copies_only_what_is_not_shared() -> None:
    shared = T.ones(3, shared=True)
    assert T.as_tensor(shared, shared=True) is shared
    private = T.ones(3)
    copy = T.as_tensor(private, shared=True)
    assert copy.is_shared()
    assert copy.data_ptr() != private.data_ptr()
    assert not T.as_tensor(np.ones(3)).is_shared()


def test_from_numpy_shared_is_a_copy() -> None:
    array = np.arange(3)
    t = T.from_numpy(array, shared=True)
    array[0] = 7
    assert t.tolist() == [0, 1, 2]


def test_failing_factory_leaves_no_trace() -> None:
    with pytest.raises(RuntimeError):
        T.empty(-1, shared=True)
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1"):
        T.tensor([[1, 2], [3]], shared=True)
    assert not T.empty(3).is_shared()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: T.empty(3, out=T.empty(3), shared=True),
            RuntimeError,
            r"empty\(\): shared=True and out= exclude each other",
        ),
        (
            lambda: T.zeros(3, device="meta", shared=True),
            NotImplementedError,
            r"zeros\(\): shared=True on a meta device",
        ),
        (
            lambda: T.tensor([3], device="meta", shared=True),
            NotImplementedError,
            r"tensor\(\): shared=True on a meta device",
        ),
        (lambda: T.ones(3, shared=1), TypeError, "argument 'shared' must be bool, not int"),
        (lambda: T.tensor(3, shared="yes"), TypeError, "argument 'shared' must be bool, not str"),
        (lambda: T.add(T.ones(1), 1, shared=True), TypeError, "unexpected keyword argument"),
    ],
)
def test_bad_use_of_shared_is_named(
    call: Callable[[], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        call()


def test_request_beyond_the_arena_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match=str(1 << 60)):
        T.empty(1 << 60, dtype=T.uint8, shared=True)
