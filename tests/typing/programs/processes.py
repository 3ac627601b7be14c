"""Queues, processes, pools and a service."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import shmtensor as torch
import shmtensor.multiprocessing as mp
from shmtensor import Tensor, service
from shmtensor.multiprocessing.pool import Pool
from shmtensor.multiprocessing.queues import Queue, SimpleQueue


def work(rank: int, weights: Tensor, queue: Queue) -> None:
    weights[rank] += 1.0
    queue.put(weights[rank])


def double(x: Tensor) -> Tensor:
    return x * 2


def main() -> None:
    context = mp.get_context("spawn")
    assert_type(context, mp.context.SpawnContext)
    weights = torch.zeros(2, 3, shared=True)
    queue = context.Queue(4)
    assert_type(queue, Queue)
    assert_type(mp.SimpleQueue().empty(), bool)
    simple: SimpleQueue = context.SimpleQueue()
    simple.put({"x": weights})
    numbers: Queue[int] = context.Queue()
    numbers.put_many([1, 2])
    assert_type(numbers.get(), int)
    assert_type(numbers.get_many(1, 60.0), list[int])
    assert_type(queue.qsize(), int)
    mp.spawn(work, args=(weights, queue), nprocs=2)
    received: Tensor = queue.get(timeout=60)
    print(received, queue.get(timeout=60), simple.get()["x"].sum())
    queue.put_many([weights, mp.lend(weights)])
    first, second = queue.get_many(2, 60.0)
    print(first, second)
    with context.Pool(1) as pool:
        assert_type(pool, Pool)
        print(pool.map(double, [weights]))
    name = f"typing-{os.getpid()}"
    assert_type(service.publish(name, {"weights": weights}), int)
    print(service.attach(name)["weights"].sum())
    assert_type(service.empty(2), Tensor)
    assert_type(service.empty(2, as_="numpy"), NDArray[Any])
    assert_type(torch.numpy_empty(2), NDArray[np.float64])
    assert_type(torch.numpy_empty(2, np.int32), NDArray[np.int32])
    service.unpublish(name)


if __name__ == "__main__":
    main()
