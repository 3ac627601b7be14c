"""Batches for NumPy and torch, samples from them, and datasets in shared memory."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import loader_datasets as sets
import numpy as np
import pytest
from session_figures import resident_bytes, used_bytes, wait_until_used_bytes

import shmtensor as st
from shmtensor.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    SharedTensorDataset,
    TensorDataset,
    default_collate,
    default_convert,
)

pytestmark = pytest.mark.usefixtures("nothing_is_left")

METHODS = ["fork", "spawn", "forkserver"]


# --- NumPy ---


@pytest.mark.check
@pytest.mark.parametrize("n_workers", [0, 2])
def test_numpy_batches_show_the_memory_of_tensors(n_workers: int) -> None:
    loader = DataLoader(
        sets.Calls(sets.row, 4), batch_size=2, num_workers=n_workers, output="numpy"
    )
    for i, (images, labels) in enumerate(loader):
        assert type(images) is np.ndarray
        assert images.dtype == np.float32
        assert images.shape == (2, 3, 4)
        assert images[:, 0, 0].tolist() == labels.tolist() == [2 * i, 2 * i + 1]
        if n_workers:
            tensor = images.base if not isinstance(images.base, memoryview) else images.base.obj
            assert isinstance(tensor, st.Tensor)
            assert tensor.is_shared()
            assert tensor.data_ptr() == images.ctypes.data


def test_numpy_batches_keep_their_memory() -> None:
    before = used_bytes()
    kept = [
        images
        for images, _ in DataLoader(
            sets.Calls(sets.row, 40), batch_size=2, num_workers=2, output="numpy"
        )
    ]
    gc.collect()
    assert [int(images[1, 2, 3]) for images in kept] == list(range(1, 40, 2))
    del kept
    wait_until_used_bytes(before)


def test_other_values_stay_as_they_are() -> None:
    data = [{"x": np.ones(2), "name": "a"}, {"x": np.ones(2), "name": "b"}]
    (batch,) = DataLoader(data, batch_size=2, output="numpy")
    assert type(batch["x"]) is np.ndarray
    assert batch["name"] == ["a", "b"]
    loader = DataLoader(data, batch_size=None, output="numpy", collate_fn=lambda d: d)
    assert next(iter(loader)) is data[0]


def test_numpy_has_no_bfloat16() -> None:
    loader = DataLoader([st.ones(2, dtype=st.bfloat16)], output="numpy")
    with pytest.raises(TypeError, match="BFloat16"):
        next(iter(loader))


def test_arrays_of_collate_functions_arrive_in_shared_memory() -> None:
    loader = DataLoader(
        sets.Calls(sets.image, 4), batch_size=2, num_workers=1, collate_fn=sets.array_batch
    )
    for i, images in enumerate(loader):
        assert type(images) is np.ndarray
        assert images[:, 0, 0, 0].tolist() == [2 * i, 2 * i + 1]
        owner: Any = images
        while isinstance(owner, np.ndarray):
            owner = owner.base
        tensor = owner.obj if isinstance(owner, memoryview) else owner
        assert tensor.is_shared()


# --- torch ---


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("n_workers", [0, 2])
def test_torch_batches_show_the_memory_of_tensors(torch: Any, n_workers: int) -> None:
    before = used_bytes()
    loader = DataLoader(
        sets.Calls(sets.row, 40), batch_size=2, num_workers=n_workers, output="torch"
    )
    kept = []
    for images, labels in loader:
        assert type(images) is torch.Tensor
        assert images.dtype == torch.float32
        assert labels.dtype == torch.int64
        kept.append(images)
    gc.collect()
    assert [int(images[1, 2, 3]) for images in kept] == list(range(1, 40, 2))
    if n_workers:
        # One block each, and nothing beside it.
        assert used_bytes() - before >= 20 * kept[0].nbytes
    kept[0].fill_(-1)
    del kept, images, labels
    wait_until_used_bytes(before)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bool", "uint8", "int32", "complex64"])
def test_dtypes_reach_torch(torch: Any, dtype: str) -> None:
    sample = st.ones(3).to(getattr(st, dtype))
    (batch,) = DataLoader([sample, sample], batch_size=2, output="torch", num_workers=1)
    assert batch.dtype == getattr(torch, dtype)
    assert batch.shape == (2, 3)
    assert bool((batch == 1).all())


def test_torch_samples_are_collated_from_their_memory(torch: Any) -> None:
    samples = [torch.full((2, 3), float(i)) for i in range(4)]
    batch = default_collate(samples)
    assert type(batch) is st.Tensor
    assert batch[:, 0, 0].tolist() == [0, 1, 2, 3]
    mixed = default_collate([{"x": s, "n": i} for i, s in enumerate(samples)])
    assert mixed["x"].shape == (4, 2, 3)
    wrapped = default_convert(samples[0])
    assert type(wrapped) is st.Tensor
    wrapped.fill_(7)
    assert samples[0][0, 0].item() == 7
    with pytest.raises(BufferError, match="require gradient"):
        default_collate([torch.ones(2, requires_grad=True)])
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        default_collate([torch.ones(2), torch.ones(3)])


@pytest.mark.parametrize(
    ("method", "output"),
    [("fork", None), ("fork", "numpy"), ("fork", "torch"), ("spawn", "torch")],
)
def test_torch_datasets_go_through_workers(torch: Any, method: str, output: Any) -> None:
    dataset = TorchRows(torch.arange(12.0).view(6, 2))
    loader = DataLoader(
        dataset, batch_size=3, num_workers=1, multiprocessing_context=method, output=output
    )
    kind = {None: st.Tensor, "numpy": np.ndarray, "torch": torch.Tensor}[output]
    batches = list(loader)
    assert [type(batch) for batch in batches] == [kind, kind]
    assert [batch.tolist() for batch in batches] == [
        [[0, 1], [2, 3], [4, 5]],
        [[6, 7], [8, 9], [10, 11]],
    ]


@pytest.mark.check
def test_torch_tensors_of_collate_functions_arrive_as_such(torch: Any) -> None:
    def collate(samples: Any) -> Any:
        leaf = torch.stack(samples).requires_grad_()
        return leaf, torch.ones(2, dtype=torch.bool)

    loader = DataLoader(
        [torch.full((2,), float(i)) for i in range(4)],
        batch_size=2,
        num_workers=1,
        collate_fn=collate,
    )
    for i, (leaf, flags) in enumerate(loader):
        assert type(leaf) is torch.Tensor
        assert leaf.requires_grad
        assert leaf.is_leaf
        assert leaf[:, 0].tolist() == [2 * i, 2 * i + 1]
        assert flags.dtype == torch.bool


def test_torch_is_seeded_in_workers(torch: Any) -> None:
    def draw(index: int) -> Any:
        return torch.rand(1).item(), torch.initial_seed(), torch.get_num_threads()

    drawn = list(DataLoader(sets.Calls(draw, 4), batch_size=None, num_workers=2))
    assert len({value for value, _, _ in drawn}) == 4
    assert drawn[1][1] == drawn[0][1] + 1
    assert {threads for _, _, threads in drawn} == {1}


@pytest.mark.parametrize("n_workers", [0, 2])
def test_torch_streams_are_streams(torch: Any, n_workers: int) -> None:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[name-defined,misc]
        def __iter__(self) -> Any:
            info = torch.utils.data.get_worker_info()
            first, step = (0, 1) if info is None else (info.id, info.num_workers)
            return iter(torch.arange(6.0)[first::step])

    loader = DataLoader(Stream(), batch_size=None, num_workers=n_workers, output="torch")
    batches = list(loader)
    assert all(type(batch) is torch.Tensor for batch in batches)
    assert [batch.item() for batch in batches] == [0, 1, 2, 3, 4, 5]
    chained = ChainDataset([Stream()])
    assert len(list(chained)) == 6
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        ConcatDataset([Stream()])


def test_torch_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match="torch"):
        DataLoader([1], output="torch")
    assert [batch.item() for batch in DataLoader([1, 2])] == [1, 2]


class TorchRows(Dataset[Any]):
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


# --- one copy for all ---


class Addressed(SharedTensorDataset):
    """Samples say where they lie in the storage, and write themselves down."""

    def __getitem__(self, index: Any) -> Any:
        (rows,) = self.tensors
        rows[index, 1] = 2 * rows[index, 0]
        return rows[index, 0].item(), rows.is_shared()


@pytest.mark.parametrize("method", METHODS)
def test_shared_datasets_are_read_where_they_are(method: str) -> None:
    rows = st.stack([st.arange(10.0), st.zeros(10)], dim=1)
    dataset = Addressed(rows)
    assert rows.is_shared()
    loader = DataLoader(dataset, batch_size=5, num_workers=2, multiprocessing_context=method)
    values = [(numbers.tolist(), flags.tolist()) for numbers, flags in loader]
    assert values == [([0, 1, 2, 3, 4], [True] * 5), ([5, 6, 7, 8, 9], [True] * 5)]
    assert rows[:, 1].tolist() == [2 * i for i in range(10)]  # what workers wrote


def _own_bytes(pid: int) -> int:
    """Memory of a process that is neither shared nor a file's."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("RssAnon:")[2].split()[0])


@pytest.mark.skipif("SHMTENSOR_SANITIZER" in os.environ, reason="a sanitizer's shadow is resident")
@pytest.mark.parametrize("method", METHODS)
def test_workers_have_no_copies(method: str) -> None:
    images = st.rand(2000, 3, 64, 64)  # 98 MB
    dataset = SharedTensorDataset(images, st.arange(2000))
    before = resident_bytes()
    loader = DataLoader(dataset, batch_size=10, num_workers=2, multiprocessing_context=method)
    iterator = iter(loader)
    for i, (batch, labels) in enumerate(iterator):
        assert labels[0].item() == 10 * i
        assert st.equal(batch[0], images[10 * i])
        if i == 190:  # they have read nearly all
            if method != "fork":  # these have nothing else of this process
                assert all(_own_bytes(w.pid) < images.nbytes // 2 for w in iterator._workers)
            assert resident_bytes() - before < images.nbytes // 4


def test_shared_datasets_take_arrays_and_torch_tensors(torch: Any) -> None:
    array = np.arange(6).reshape(3, 2)
    dataset = SharedTensorDataset(array, torch.arange(3.0), st.arange(3))
    assert isinstance(dataset, TensorDataset)
    assert all(tensor.is_shared() for tensor in dataset.tensors)
    array[...] = 0
    first, second, third = dataset[1]
    assert (first.tolist(), second.item(), third.item()) == ([2, 3], 1.0, 1)
    again = SharedTensorDataset(*dataset.tensors)
    assert again.tensors[0].data_ptr() == dataset.tensors[0].data_ptr()


def test_shared_datasets_leave_no_private_memory_behind() -> None:
    own = _own_bytes(os.getpid())
    images = st.ones(10_000_000)
    assert _own_bytes(os.getpid()) - own > 35_000_000
    dataset = SharedTensorDataset(images)
    assert _own_bytes(os.getpid()) - own < 10_000_000
    assert dataset[3] == (1,)


def test_shared_datasets_refuse_what_they_cannot_hold() -> None:
    with pytest.raises(TypeError, match="expected tensors, arrays or tensors of torch, got list"):
        SharedTensorDataset([1, 2])
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        SharedTensorDataset(st.ones(2), np.ones(3))


def test_a_dataset_is_read_once_and_kept() -> None:
    calls: list[int] = []

    def sample(index: int) -> Any:
        calls.append(index)
        return np.full((2, 2), index, np.float32), index, 2.5

    dataset = SharedTensorDataset.from_dataset(sets.Calls(sample, 5))
    assert calls == [0, 1, 2, 3, 4]
    assert len(dataset) == 5
    image, label, weight = dataset[3]
    assert image.tolist() == [[3, 3], [3, 3]]
    assert label.item() == 3
    assert weight.item() == 2.5
    assert [t.dtype for t in dataset.tensors] == [st.float32, st.int64, st.float32]
    assert all(t.is_shared() for t in dataset.tensors)
    single = SharedTensorDataset.from_dataset(sets.Calls(sets.itself, 3))
    assert [sample[0].item() for sample in single] == [0, 1, 2]  # type: ignore[attr-defined]


def test_a_dataset_of_unlike_samples_cannot_be_kept() -> None:
    with pytest.raises(RuntimeError, match=r"sample 2 is .*\(2,\).*expected .*\(1,\)"):
        SharedTensorDataset.from_dataset([st.ones(1), st.ones(1), st.ones(2)])
    with pytest.raises(RuntimeError, match="sample 1 is"):
        SharedTensorDataset.from_dataset([(st.ones(1), 1), (st.ones(1),)])
    with pytest.raises(IndexError, match="the dataset is empty"):
        SharedTensorDataset.from_dataset([])


@pytest.mark.parametrize("n_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [2, None])
def test_float8_samples_of_torch_become_float8_batches(
    n_workers: int, batch_size: int | None
) -> None:
    torch = pytest.importorskip("torch")
    samples = [(torch.full((3,), i).to(torch.float8_e5m2), i) for i in range(4)]
    loader = DataLoader(samples, batch_size=batch_size, num_workers=n_workers, output="torch")
    got = [values for values, _ in loader]
    assert all(type(v) is torch.Tensor and v.dtype is torch.float8_e5m2 for v in got)
    flat = torch.cat([v.to(torch.float32).reshape(-1) for v in got])
    assert flat.tolist() == [float(i) for i in range(4) for _ in range(3)]
    with pytest.raises(RuntimeError, match="of others"):
        default_collate([samples[0][0], torch.zeros(3)])
