"""Train one model with several processes that write its parameters without locks (Hogwild).

    python train_together.py

`shmtensor.hogwild.run` does the same with evaluation, checkpoints and lost workers.
"""

import shmtensor
from shmtensor import multiprocessing as mp
from shmtensor import nn, optim

N_STEPS, BATCH = 2000, 32


def make_data() -> tuple[shmtensor.Tensor, shmtensor.Tensor]:
    """Points in a square, and whether they are in a ring."""
    points = shmtensor.rand(4000, 2) * 2 - 1
    distance = points.norm(dim=1)
    return points, ((distance > 0.4) & (distance < 0.8)).float()


def train(rank: int, model: nn.Module, points: shmtensor.Tensor, labels: shmtensor.Tensor) -> None:
    """Be a worker: its gradients are its own, the parameters are everybody's."""
    shmtensor.manual_seed(rank)
    shmtensor.set_num_threads(1)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(N_STEPS):
        chosen = shmtensor.randint(0, len(points), (BATCH,))
        scores = model(points[chosen]).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            print(f"worker {rank}, step {step:4}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    shmtensor.manual_seed(0)
    points, labels = make_data()
    model = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
    )
    model.share_memory()
    arguments = (model, points.share_memory_(), labels.share_memory_())
    mp.spawn(train, args=arguments, nprocs=2)
    points, labels = make_data()  # others than those that it has seen
    right = ((model(points).squeeze(1) > 0) == labels.bool()).float().mean().item()
    print(f"{right:.1%} of new points are classified correctly")
