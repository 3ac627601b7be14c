"""A group of one process, and Hogwild training with one worker."""

from __future__ import annotations

import os
import tempfile

from typing_extensions import assert_type

import shmtensor as torch
import shmtensor.distributed as dist
from shmtensor import Tensor, hogwild, nn
from shmtensor.nn.parallel import DistributedDataParallel


def make_model() -> nn.Linear:
    return nn.Linear(4, 1)


def any_step(worker: hogwild.Worker, batch: Tensor) -> Tensor:
    assert_type(worker.model, nn.Module)
    return batch.sum()


def train_step(worker: hogwild.Worker[nn.Linear], batch: Tensor) -> Tensor:
    assert_type(worker.model.in_features, int)
    loss: Tensor = worker.model(batch).square().mean()
    return loss


def group() -> None:
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        x = torch.ones(3)
        dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        assert work is not None
        work.wait()
        assert_type(dist.get_rank(), int)
        assert_type(dist.get_world_size(), int)
        model = DistributedDataParallel(nn.Linear(3, 1))
        model(x).sum().backward()
        dist.destroy_process_group()


def train() -> None:
    result = hogwild.run(make_model, train_step, torch.ones(8, 4), 1, steps=2, view="none")
    assert_type(result.model, nn.Linear)
    hogwild.run(make_model, any_step, torch.ones(8, 4), 1, steps=2, view="none")


def main() -> None:
    group()
    train()
    print(torch.__version__, os.cpu_count())


if __name__ == "__main__":
    main()
