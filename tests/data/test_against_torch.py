"""The same seeds, orders, batches and refusals as torch's loader, samplers and datasets."""

from __future__ import annotations

import gc
import random
import warnings
from collections.abc import Callable
from typing import Any

import loader_datasets as sets
import numpy as np
import pytest

import shmtensor as st
import shmtensor.utils.data as ours
import shmtensor.utils.data.distributed

torch = pytest.importorskip("torch")

theirs: Any = torch.utils.data

SEEDS = [0, 1, 2**40 + 7]
TEN = list(range(10))


class Pair:
    """A library and its names, so that one piece of code runs with either."""

    def __init__(self, base: Any, data: Any) -> None:
        self.base = base
        self.data = data

    def generator(self, seed: int) -> Any:
        return self.base.Generator().manual_seed(seed)


BOTH = (Pair(st, ours), Pair(torch, theirs))


def _state(library: Pair) -> bytes:
    return bytes(library.base.get_rng_state().numpy())


def _plain(value: Any) -> Any:
    """A batch as lists and numbers."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    return (str(value.dtype), value.tolist()) if hasattr(value, "tolist") else value


def _same(function: Callable[[Pair], Any], seed: int = 0) -> None:
    """Check that the library makes no difference, neither to the default generator."""
    results = []
    for library in BOTH:
        library.base.manual_seed(seed)
        value = _plain(function(library))
        results.append((value, _state(library)))
    assert results[0] == results[1]


# --- draws ---


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"num_samples": 7},
        {"num_samples": 20},
        {"num_samples": 25},
        {"replacement": True},
        {"replacement": True, "num_samples": 64},
        {"replacement": True, "num_samples": 70},
    ],
)
def test_random_sampler(seed: int, kwargs: Any) -> None:
    def passes(library: Pair) -> Any:
        sampler = library.data.RandomSampler(TEN, **kwargs)
        generator = library.generator(seed)
        own = library.data.RandomSampler(TEN, generator=generator, **kwargs)
        return [list(s) for s in (sampler, sampler, own, own, own)]

    _same(passes, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_other_samplers(seed: int) -> None:
    def passes(library: Pair) -> Any:
        data = library.data
        samplers = [
            data.SubsetRandomSampler([3, 1, 4, 1, 5]),
            data.SubsetRandomSampler([3, 1, 4], generator=library.generator(seed)),
            data.WeightedRandomSampler([0.1, 2, 0.5, 3], 30),
            data.WeightedRandomSampler([0.1, 2, 0.5, 3], 3, replacement=False),
            data.WeightedRandomSampler([1, 2], 9, generator=library.generator(seed)),
            data.BatchSampler(data.RandomSampler(TEN), 3, True),
        ]
        return [list(sampler) for sampler in samplers for _ in range(2)]

    _same(passes, seed)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("n", [1, 3, 10, 12])
def test_distributed_sampler(n: int, shuffle: bool, drop_last: bool) -> None:
    def shares(library: Pair) -> Any:
        drawn = []
        for rank in range(4):
            sampler = library.data.distributed.DistributedSampler(
                range(n), 4, rank, shuffle=shuffle, seed=5, drop_last=drop_last
            )
            for epoch in (0, 3):
                sampler.set_epoch(epoch)
                drawn.append((len(sampler), list(sampler)))
        return drawn

    _same(shares)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_split(seed: int) -> None:
    def parts(library: Pair) -> Any:
        split = library.data.random_split
        generator = library.generator(seed)
        made = [split(TEN, [3, 7]), split(TEN, [0.5, 0.3, 0.2]), split(TEN, [4, 6], generator)]
        return [list(part.indices) for parts in made for part in parts]

    _same(parts, seed)


# --- batches ---


def _describe(index: int) -> Any:
    point = {"x": np.full(3, index, np.float32), "n": index}
    return point, [float(index), f"name {index}"], np.int16(index)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True, "shuffle": True},
        {"shuffle": True, "batch_size": 3},
        {"shuffle": True, "batch_size": 3, "num_workers": 2},
        {"shuffle": True, "batch_size": 3, "num_workers": 2, "persistent_workers": True},
        {"batch_size": None},
        {"batch_sampler": [[1, 2], [0]], "num_workers": 1},
        {"sampler": [5, 1, 2], "batch_size": 2},
    ],
)
def test_passes(seed: int, kwargs: Any) -> None:
    def passes(library: Pair) -> Any:
        loader = library.data.DataLoader(sets.Calls(_describe, 10), **kwargs)
        first = list(loader)
        iterator = iter(loader)
        second = next(iterator)
        del iterator
        return first, second, len(loader), list(loader)

    _same(passes, seed)


@pytest.mark.check
@pytest.mark.parametrize("n_workers", [0, 2])
def test_passes_by_a_generator(n_workers: int) -> None:
    def passes(library: Pair) -> Any:
        generator = library.generator(9)
        loader = library.data.DataLoader(
            TEN, shuffle=True, batch_size=4, generator=generator, num_workers=n_workers
        )
        return list(loader), list(loader), generator.get_state().tolist()

    _same(passes)


def _draws(index: int) -> Any:
    """What the generators of a worker draw, whichever library's worker it is."""
    info = ours.get_worker_info() or theirs.get_worker_info()
    if isinstance(info, ours._utils.worker.WorkerInfo):
        own, initial = st.rand(2).tolist(), st.initial_seed()
    else:
        own, initial = torch.rand(2).tolist(), torch.initial_seed()
    return info.id, info.seed, initial, random.random(), float(np.random.rand()), own


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_of_workers(seed: int) -> None:
    def drawn(library: Pair) -> Any:
        loader = library.data.DataLoader(
            sets.Calls(_draws, 6), batch_size=None, num_workers=2, persistent_workers=True
        )
        return [_plain(sample) for sample in loader], [_plain(sample) for sample in loader]

    _same(drawn, seed)


@pytest.mark.parametrize("counts", [[3, 1], [1, 3], [0, 5], [7, 2], [5, 5]])
@pytest.mark.parametrize(
    "kwargs", [{}, {"batch_size": 2}, {"batch_size": 2, "drop_last": True}, {"batch_size": None}]
)
def test_streams(counts: list[int], kwargs: Any) -> None:
    def passes(library: Pair) -> Any:
        class Stream(library.data.IterableDataset):  # type: ignore[name-defined,misc]
            def __iter__(self) -> Any:
                worker = library.data.get_worker_info().id
                return iter(range(100 * worker, 100 * worker + counts[worker]))

        return list(library.data.DataLoader(Stream(), num_workers=2, **kwargs))

    _same(passes)


# --- samples ---


@pytest.mark.parametrize(
    "samples",
    [
        [1, 2],
        [1, 2.5],
        [2.5, 1],
        [True, 3],
        ["a", "b"],
        [b"a"],
        [{"a": 1, "b": (2, "x")}, {"a": 3, "b": (4, "y")}],
        [np.ones((2, 2), np.float16), np.zeros((2, 2), np.float16)],
        [np.ones(2), np.ones(2, np.float32)],
        [np.array(1), np.array(2)],
        [np.float32(1), np.float32(2)],
        [range(2), range(2)],
        [[1, 2], [3]],
        [None],
        [{1}],
        [1j],
        [np.ones(2), np.ones(3)],
        [np.array(["a"])],
        [np.array([None])],
        [{"a": 1}, {"b": 1}],
        [2**70],
        [],
    ],
    ids=str,
)
def test_collate(samples: Any) -> None:
    outcomes = []
    for library in BOTH:
        try:
            outcomes.append(_plain(library.data.default_collate(samples)))
        except Exception as error:
            outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]


# --- refusals ---

_CALLS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("workers", lambda b, d: d.DataLoader(TEN, num_workers=-1)),
    ("timeout", lambda b, d: d.DataLoader(TEN, timeout=-1)),
    ("prefetch without workers", lambda b, d: d.DataLoader(TEN, prefetch_factor=2)),
    ("prefetch", lambda b, d: d.DataLoader(TEN, num_workers=1, prefetch_factor=-2)),
    ("no prefetch", lambda b, d: iter(d.DataLoader(TEN, num_workers=1, prefetch_factor=0))),
    ("persistent", lambda b, d: d.DataLoader(TEN, persistent_workers=True)),
    ("context", lambda b, d: d.DataLoader(TEN, multiprocessing_context="fork")),
    ("method", lambda b, d: d.DataLoader(TEN, num_workers=1, multiprocessing_context="x")),
    ("kind", lambda b, d: d.DataLoader(TEN, num_workers=1, multiprocessing_context=3)),
    ("two orders", lambda b, d: d.DataLoader(TEN, sampler=[1], shuffle=True)),
    ("two sizes", lambda b, d: d.DataLoader(TEN, batch_size=2, batch_sampler=[[1]])),
    ("drop nothing", lambda b, d: d.DataLoader(TEN, batch_size=None, drop_last=True)),
    ("size", lambda b, d: d.DataLoader(TEN, batch_size=0)),
    ("size of a kind", lambda b, d: d.DataLoader(TEN, batch_size=1.5)),
    ("shuffle nothing", lambda b, d: d.DataLoader([], shuffle=True)),
    ("no length", lambda b, d: len(d.DataLoader(TEN, sampler=iter(TEN)))),
    ("set", lambda b, d: setattr(d.DataLoader(TEN), "batch_size", 3)),
    ("wait in vain", lambda b, d: iter(d.DataLoader(TEN, timeout=3))),
    ("replacement", lambda b, d: d.RandomSampler(TEN, replacement=3)),
    ("samples", lambda b, d: d.RandomSampler(TEN, num_samples=-3)),
    ("weights", lambda b, d: d.WeightedRandomSampler([[1, 2]], 2)),
    ("weighted", lambda b, d: d.WeightedRandomSampler([1, 2], True)),
    ("once", lambda b, d: d.WeightedRandomSampler([1, 2], 2, replacement=1)),
    ("too many", lambda b, d: list(d.WeightedRandomSampler([1, 2], 5, False))),
    ("batch", lambda b, d: d.BatchSampler(TEN, True, False)),
    ("last", lambda b, d: d.BatchSampler(TEN, 1, 1)),
    ("sampler", lambda b, d: iter(d.Sampler())),
    ("rows", lambda b, d: d.TensorDataset(b.ones(2), b.ones(3))),
    ("row", lambda b, d: d.TensorDataset(b.ones(()))),
    ("no rows", lambda b, d: len(d.TensorDataset())),
    ("empty stack", lambda b, d: d.StackDataset()),
    ("two stacks", lambda b, d: d.StackDataset(TEN, a=TEN)),
    ("uneven stack", lambda b, d: d.StackDataset(TEN, [1])),
    ("empty row", lambda b, d: d.ConcatDataset([])),
    ("before", lambda b, d: d.ConcatDataset([TEN])[-11]),
    ("behind", lambda b, d: d.ConcatDataset([TEN])[10]),
    ("chain", lambda b, d: list(d.ChainDataset([TEN]))),
    ("base", lambda b, d: d.Dataset()[0]),
    ("split", lambda b, d: d.random_split(TEN, [3, 3])),
    ("fraction", lambda b, d: d.random_split(TEN, [-0.5, 1.5])),
    ("rank", lambda b, d: d.distributed.DistributedSampler(TEN, 2, 2)),
]


@pytest.mark.parametrize("call", [call for _, call in _CALLS], ids=[name for name, _ in _CALLS])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # torch's __del__
def test_refusals(call: Callable[[Any, Any], Any]) -> None:
    outcomes = []
    for library in BOTH:
        with pytest.raises(Exception) as e:
            call(library.base, library.data)
        outcomes.append((type(e.value), str(e.value)))
    del e
    gc.collect()  # what torch leaves half made complains here, rather than in another test
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"num_workers": 5000}, "will create 5000 worker processes"),
        ({"pin_memory": True}, "no accelerator is found"),
        ({"pin_memory": True, "pin_memory_device": "cuda"}, "pin_memory_device is deprecated"),
    ],
)
def test_warnings(kwargs: Any, text: str) -> None:
    if torch.accelerator.is_available():
        pytest.skip("torch has an accelerator")
    heard = []
    for library in BOTH:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader = library.data.DataLoader(TEN, **kwargs)
            if loader.num_workers == 0:
                list(loader)
        heard.append([(w.category, str(w.message)) for w in caught])
    assert heard[0] == heard[1]
    assert any(text in message for _, message in heard[0])
