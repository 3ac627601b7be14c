"""Actors play with the newest policy and send what happened; a learner improves the policy.

    python actors_and_learner.py

The game: guess which of eight levers pays most. The policy is in shared memory, so an actor
always plays by the newest one, and nobody needs to send it. The results go through a queue.
"""

import shmtensor
from shmtensor import multiprocessing as mp
from shmtensor import nn, optim

PAYS = shmtensor.tensor([0.1, 0.3, 0.2, 0.9, 0.4, 0.5, 0.6, 0.7])
N_ACTORS, N_BATCHES, BATCH = 2, 150, 64


def act(rank: int, policy: nn.Parameter, played: mp.Queue) -> None:
    """Play, and send batches of (levers, rewards)."""
    shmtensor.manual_seed(rank)
    for _ in range(N_BATCHES // N_ACTORS):
        levers = policy.detach().softmax(0).multinomial(BATCH, replacement=True)
        played.put((levers, PAYS[levers] + 0.1 * shmtensor.randn(BATCH)))


def learn(policy: nn.Parameter, played: mp.Queue) -> None:
    """Make levers that paid more than the average likelier: the policy gradient."""
    optimizer = optim.SGD([policy], lr=1.0)
    for batch in range(N_BATCHES):
        levers, rewards = played.get()
        log_probabilities = policy.log_softmax(0)[levers]
        loss = -((rewards - rewards.mean()) * log_probabilities).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if batch % 30 == 0:
            print(f"batch {batch:3}: mean reward {rewards.mean().item():.3f}", flush=True)


if __name__ == "__main__":
    policy = nn.Parameter(shmtensor.zeros(len(PAYS), shared=True))
    played = mp.Queue(maxsize=4)  # an actor that is far ahead waits
    actors = [mp.Process(target=act, args=(r, policy, played)) for r in range(N_ACTORS)]
    for actor in actors:
        actor.start()
    learn(policy, played)
    for actor in actors:
        actor.join()
    best = int(policy.argmax())
    print(f"the policy pulls lever {best} {policy.softmax(0)[best].item():.0%} of the time")
