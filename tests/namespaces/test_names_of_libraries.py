"""Small names that libraries import from inner modules of torch."""

from __future__ import annotations

import importlib
import io

import pytest

import shmtensor as T
from shmtensor import nn


@pytest.mark.check
def test_extension_answers_questions_of_libraries():
    x = T.zeros(4)
    assert T._C._is_alias_of(x, x[1:])
    assert not T._C._is_alias_of(x, T.zeros(4))
    assert T._C._get_default_device() == "cpu"
    assert not T._C._is_torch_function_mode_enabled()
    assert isinstance(T.Tensor, T._C._TensorMeta)
    parsed = T._C._nn._parse_to("cpu", T.float64, True)
    assert parsed == (T.device("cpu"), T.float64, True, None)
    assert T._C._nn._parse_to(T.ones(1)) == (T.device("cpu"), T.float32, False, None)


def test_functorch_tells_batched_tensors():
    functorch = importlib.import_module("shmtensor._C._functorch")
    assert T._C._functorch is functorch
    assert not functorch.is_batchedtensor(T.ones(2))
    seen = []

    def look(x):
        seen.append((functorch.is_batchedtensor(x), functorch.maybe_get_bdim(x)))
        seen.append((functorch.get_unwrapped(x).shape, functorch.maybe_get_level(x)))
        seen.append(T._C._are_functorch_transforms_active())
        return x

    T.func.vmap(look, in_dims=1)(T.ones(2, 3))
    assert seen == [(True, 1), ((2, 3), 1), True]
    assert not T._C._are_functorch_transforms_active()
    assert functorch.maybe_get_bdim(T.ones(2)) == functorch.maybe_get_level(T.ones(2)) == -1


def test_indices_change_between_coo_and_csr():
    rows = T.tensor([0, 0, 2])
    begins = T._convert_indices_from_coo_to_csr(rows, 4)
    assert begins.tolist() == [0, 2, 2, 3, 3]
    assert T._convert_indices_from_coo_to_csr(rows, 4, out_int32=True).dtype is T.int32
    columns = T.tensor([5, 6, 7])
    assert T._convert_indices_from_csr_to_coo(begins, columns).tolist() == [[0, 0, 2], [5, 6, 7]]
    swapped = T._convert_indices_from_csr_to_coo(begins, columns, out_int32=True, transpose=True)
    assert swapped.tolist() == [[5, 6, 7], [0, 0, 2]]
    assert swapped.dtype is T.int32


def test_small_functions_of_the_package():
    assert T._shape_as_tensor(T.zeros(2, 3)).tolist() == [2, 3]
    T._assert_async(T.tensor(1))
    with pytest.raises(RuntimeError, match="boo"):
        T._assert_async(T.tensor(0), "boo")
    sparse = T.eye(2).to_sparse()
    assert T.dsmm(sparse, T.ones(2, 1)).tolist() == [[1], [1]]
    assert isinstance(sparse, T.sparse.FloatTensor)
    assert not isinstance(sparse, T.sparse.DoubleTensor)
    assert not isinstance(T.ones(2), T.sparse.FloatTensor)


@pytest.mark.check
def test_tensors_are_swapped_in_place():
    p = nn.Parameter(T.ones(2))
    p.grad = T.full((2,), 5.0)
    p.mark = "p"
    t = T.arange(3.0)
    T.utils.swap_tensors(p, t)
    assert type(p) is T.Tensor
    assert p.tolist() == [0, 1, 2]
    assert type(t) is nn.Parameter
    assert t.tolist() == [1, 1]
    assert t.requires_grad
    assert t.grad.tolist() == [5, 5]
    assert t.mark == "p"
    assert not p.requires_grad
    with pytest.raises(RuntimeError, match="grad_fn"):
        T.utils.swap_tensors(t * 2, p)


def test_contexts_decorate_functions_and_generators():
    from shmtensor.utils._contextlib import (
        _DecoratorContextManager,
        _NoParamDecoratorContextManager,
        context_decorator,
    )

    log: list[str] = []

    class Logged(_DecoratorContextManager):
        def __enter__(self):
            log.append("in")

        def __exit__(self, *error):
            log.append("out")

    @Logged()
    def double(x):
        log.append(f"{x}")
        return 2 * x

    assert double(3) == 6
    assert log == ["in", "3", "out"]
    log.clear()

    @Logged()
    def steps():
        got = yield 1
        log.append(f"got {got}")
        yield 2

    running = steps()
    assert next(running) == 1
    log.append("between")
    assert running.send(5) == 2
    assert log == ["in", "out", "between", "in", "got 5", "out"]
    running.close()

    class Bare(_NoParamDecoratorContextManager, Logged):
        pass

    assert Bare(lambda: 7)() == 7
    with pytest.raises(RuntimeError, match="class"):
        context_decorator(Logged(), dict)


def test_records_of_an_archive_are_read_one_by_one():
    file = io.BytesIO()
    T.save({"a": T.arange(3)}, file)
    reader = T.PyTorchFileReader(file)
    assert "data.pkl" in reader.get_all_records()
    assert reader.has_record("data/0")
    assert not reader.has_record("data/1")
    assert reader.version() == 3
    assert len(reader.serialization_id()) == 40
    assert reader.get_storage_from_record("data/0", 3, T.int64).tolist() == [0, 1, 2]
    begin = reader.get_record_offset("data/0")
    assert file.getvalue()[begin : begin + 24] == reader.get_record("data/0")
    with pytest.raises(RuntimeError, match="no record 'b'"):
        reader.get_record("b")
    with pytest.raises(RuntimeError, match="24 bytes"):
        reader.get_storage_from_record("data/0", 4, T.int64)
    with pytest.raises(RuntimeError, match="not an archive"):
        T.PyTorchFileReader(io.BytesIO(b"none"))


def test_parts_of_texts_are_those_of_whole_texts():
    from shmtensor import _tensor_str as texts

    x = T.tensor([[1.5, 2.0], [3.0, 4.0]])
    values = texts._tensor_str(x, len("tensor("))
    assert f"tensor({values})" == repr(x)
    assert texts._add_suffixes("Index(" + "[1]", ["a=1"], 6) == "Index([1], a=1)"
    assert texts._add_suffixes("Index(" + "[1]", ["a=1"], 6, True) == "Index([1],\n      a=1)"
    assert texts._str_intern(x, tensor_contents="...") == "tensor(...)"
    with texts.printoptions(precision=1):
        assert texts.PRINT_OPTS.precision == 1
        assert repr(T.tensor(0.25)) == "tensor(0.2)"
    assert texts.PRINT_OPTS.precision == 4


def test_absent_classes_have_no_instances():
    from shmtensor._subclasses.fake_tensor import FakeTensor, is_fake
    from shmtensor.distributed import checkpoint

    assert not is_fake(T.ones(1))
    assert not isinstance(T.ones(1), FakeTensor)
    with pytest.raises(NotImplementedError, match="meta"):
        FakeTensor()
    with pytest.raises(NotImplementedError, match="whole tensors"):
        checkpoint.save({})
    assert not importlib.import_module("shmtensor.distributed.rpc").is_available()
    assert T.utils._python_dispatch.is_traceable_wrapper_subclass(T.ones(1)) is False
    assert T._utils._get_device_module("cpu") is T.cpu
    with pytest.raises(RuntimeError, match="'nothing'"):
        T._utils._get_device_module("nothing")
