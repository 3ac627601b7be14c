"""Shared memory under loaders: used again batch by batch, and given back, whoever is killed.

Each test also ends with what the session had before it (conftest).
"""

from __future__ import annotations

import gc
import os
import signal
from typing import Any

import loader_datasets as sets
import numpy as np
import pytest
import waiting
from session_figures import granted_bytes, used_bytes, wait_until_used_bytes

import shmtensor as st
from shmtensor.utils.data import DataLoader, Dataset, TensorDataset

pytestmark = pytest.mark.usefixtures("nothing_is_left")

BATCH = 8
BATCH_BYTES = BATCH * 3 * 64 * 64 * 4
#: Processes are given memory in slabs of about so much.
SLAB_BYTES = 8 << 20


class Kept(Dataset[Any]):
    """Samples are private tensors that the dataset keeps."""

    def __init__(self, n: int) -> None:
        self.images = [st.full((3, 64, 64), float(i)) for i in range(n)]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.images[index]


def _kill_and_see(iterator: Any, n_workers: int) -> None:
    """Kill workers and go on until that is reported; holds no batch afterwards."""
    for worker in iterator._workers[:n_workers]:
        os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="is killed by signal: Killed"):
        for _ in iterator:
            pass


def _peak(loader: DataLoader[Any], first: int = 10) -> tuple[int, int]:
    """The most that is granted after some batches, and at the end."""
    early = late = 0
    for i, _ in enumerate(loader):
        if i == first:
            early = granted_bytes()
        if i >= first and i % 20 == 0:
            late = max(late, granted_bytes())
    return early, late


@pytest.mark.check
@pytest.mark.parametrize("persistent", [False, True])
def test_a_long_pass_uses_the_same_blocks_again(persistent: bool) -> None:
    dataset = sets.Calls(sets.image, 300 * BATCH)
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=2, persistent_workers=persistent)
    early, late = _peak(loader)
    # Workers that fall behind are given a few slabs more. Batches that stayed would take 118 MB.
    assert late <= early + 6 * SLAB_BYTES


@pytest.mark.parametrize(
    ("dataset", "kwargs"),
    [
        pytest.param(Kept(20), {"batch_size": None}, id="private samples"),
        pytest.param(
            sets.Calls(sets.image, 20),
            {"batch_size": BATCH, "collate_fn": sets.private_batch},
            id="private batches",
        ),
        pytest.param(
            sets.Calls(sets.image, 20),
            {"batch_size": BATCH, "collate_fn": sets.array_batch},
            id="arrays",
        ),
        pytest.param(TensorDataset(st.rand(20, 3, 64, 64)), {"batch_size": BATCH}, id="rows"),
        pytest.param(TensorDataset(st.rand(20, 3, 64, 64)), {"batch_size": None}, id="views"),
    ],
)
def test_nothing_grows_from_pass_to_pass(dataset: Any, kwargs: Any) -> None:
    loader = DataLoader(dataset, num_workers=1, persistent_workers=True, **kwargs)
    for _ in loader:
        pass
    after_one = granted_bytes()
    for _ in range(60):
        for _ in loader:
            pass
    # A worker that falls behind is given one more slab; what every pass left would be 59 MB.
    assert granted_bytes() <= after_one + 3 * SLAB_BYTES


def test_batches_that_are_kept_stay_whole() -> None:
    loader = DataLoader(sets.Calls(sets.image, 20 * BATCH), batch_size=BATCH, num_workers=2)
    kept = list(loader)
    gc.collect()
    assert st.equal(st.cat(kept)[:, 1, 2, 3], st.arange(20.0 * BATCH))


def test_a_dataset_stays_private_when_its_samples_travel() -> None:
    dataset = Kept(4)
    loader = DataLoader(dataset, batch_size=None, num_workers=0)
    assert next(iter(loader)) is dataset.images[0]
    before = used_bytes()
    iterator = iter(DataLoader(dataset, batch_size=None, num_workers=1, prefetch_factor=4))
    received = list(iterator)
    assert all(image.is_shared() for image in received)
    assert not any(image.is_shared() for image in dataset.images)
    assert [image[0, 0, 0].item() for image in received] == [0, 1, 2, 3]
    del received, iterator
    wait_until_used_bytes(before)


def test_views_of_a_large_private_tensor_travel_alone() -> None:
    large = st.rand(1000, 3, 64, 64)  # 49 MB
    before = granted_bytes()
    loader = DataLoader(TensorDataset(large), batch_size=None, sampler=range(5), num_workers=1)
    for i, (image,) in enumerate(loader):
        assert st.equal(image, large[i])
        assert image.untyped_storage().nbytes() == 3 * 64 * 64 * 4
    assert granted_bytes() - before < large.nbytes // 2
    assert not large.is_shared()


@pytest.mark.check
@pytest.mark.parametrize("in_order", [True, False])
def test_workers_killed_at_any_time_leave_nothing(in_order: bool) -> None:
    dataset = sets.Calls(sets.image, 10**6)
    before = used_bytes()
    for n_batches in range(12):
        loader = DataLoader(dataset, batch_size=BATCH, num_workers=2, in_order=in_order)
        iterator = iter(loader)
        for _ in range(n_batches):
            next(iterator)
        _kill_and_see(iterator, 1 + n_batches % 2)
        del iterator
    wait_until_used_bytes(before)


def test_a_batch_outlives_its_killed_worker() -> None:
    iterator = iter(DataLoader(sets.Calls(sets.image, 10**6), batch_size=BATCH, num_workers=1))
    batch = next(iterator)
    _kill_and_see(iterator, 1)
    del iterator
    assert batch[:, 0, 0, 0].tolist() == list(range(BATCH))


def test_leaving_early_gives_back_what_was_made_ahead() -> None:
    before = used_bytes()
    loader = DataLoader(
        sets.Calls(sets.image, 10**6), batch_size=BATCH, num_workers=2, prefetch_factor=8
    )
    iterator = iter(loader)
    next(iterator)
    waiting.until(lambda: used_bytes() - before > 8 * BATCH_BYTES)
    del iterator
    wait_until_used_bytes(before)


def test_persistent_workers_give_back_what_an_early_end_left() -> None:
    loader = DataLoader(
        sets.Calls(sets.image, 100 * BATCH),
        batch_size=BATCH,
        num_workers=2,
        prefetch_factor=8,
        persistent_workers=True,
    )
    for _ in range(10):
        iterator = iter(loader)
        next(iterator)
    assert sum(len(batch) for batch in loader) == 100 * BATCH
    # The queues of the workers, and what belongs to this pass.
    waiting.until(lambda: used_bytes() < 8 * BATCH_BYTES)


def test_empty_tensors_and_arrays_travel() -> None:
    def nothing(index: int) -> Any:
        return st.empty(0, 3), np.empty((0,)), st.empty(0).to("meta")

    for first, second, third in DataLoader(sets.Calls(nothing, 3), batch_size=None, num_workers=1):
        assert first.shape == (0, 3)
        assert second.shape == (0,)
        assert third.is_meta
