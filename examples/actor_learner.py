"""Learn to balance a pole with several actor-learners that share a policy without locks (A3C).

    python examples/actor_learner.py                      # two actor-learners
    python examples/actor_learner.py --workers 4 --steps 2000
    python examples/actor_learner.py --resume runs/actor-learner-…

Each worker has its own cart-poles. It lets the shared policy act for a few steps, computes the
gradient of the actor-critic loss, and changes the shared parameters, while the others do the same.
All workers use one RMSprop; its averages are in shared memory beside the parameters. Instead of a
data set there is `rollouts`, which acts and yields what happened.

The return is the number of steps that a pole stays up, 500 at most; the curve shows it for the
policy that draws its actions, and for the greedy one, which reaches at least 450.

Source: Mnih et al., "Asynchronous methods for deep reinforcement learning", 2016, algorithm S3 (a
worker here acts with the shared parameters themselves, not with its own copy).
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common.cartpole import LONGEST, N_ACTIONS, N_STATE, CartPoles
from common.models import library
from common.program import (
    above_zero,
    add_run_options,
    check_resume,
    draw,
    meet,
    positive,
    results_folder,
    run,
    run_arguments,
)

from shmtensor import hogwild
from shmtensor.utils.safetensors import save_file

GOAL = 450  # mean return of the greedy policy
STEPS, QUICK_STEPS = 4000, 2500  # of all workers together
N_EPISODES = 50  # that an evaluation plays
VALUE_WEIGHT, ENTROPY_WEIGHT = 0.5, 0.01


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="A3C: actor-learners balance a pole with one shared policy. The greedy policy "
        f"keeps it up for {GOAL} of {LONGEST} steps on average, also with --quick."
    )
    parser.add_argument("--steps", type=positive, help=f"gradient steps of all workers ({STEPS})")
    parser.add_argument("--poles", type=positive, default=8, help="cart-poles of a worker (8)")
    parser.add_argument(
        "--length", type=positive, default=32, help="steps between two gradients (32)"
    )
    parser.add_argument("--width", type=positive, default=64, help="of the hidden layers (64)")
    parser.add_argument("--lr", type=above_zero, default=3e-3, help="step size at first (0.003)")
    parser.add_argument("--discount", type=float, default=0.99, help="of later rewards (0.99)")
    add_run_options(parser)
    options = parser.parse_args(arguments)
    if not 0 <= options.discount < 1:
        parser.error(f"--discount must be in [0, 1), got {options.discount}")
    options.steps = options.steps or (QUICK_STEPS if options.quick else STEPS)
    return options


def make_model(name: str, width: int) -> Any:
    """Of states ``(N, 4)``: in each row a score for each action, then the value."""
    nn = library(name).nn
    return nn.Sequential(
        *(nn.Linear(N_STATE, width), nn.Tanh()),
        *(nn.Linear(width, width), nn.Tanh()),
        nn.Linear(width, N_ACTIONS + 1),
    )


def look(name: str, model: Any, states: Any) -> tuple[Any, Any]:
    """The probability of pushing right and the value, as arrays ``(N,)``, of each state."""
    core = library(name).core
    with core.no_grad():
        out = model(core.from_numpy(states.astype(np.float32))).numpy()
    return 1 / (1 + np.exp(out[:, 0] - out[:, 1])), out[:, N_ACTIONS]


def rollouts(name: str, options: argparse.Namespace, worker: Any) -> Iterator[tuple[Any, ...]]:
    """Act with the worker's model, without end; yields states, actions and returns."""
    core = library(name).core
    random = np.random.default_rng((options.seed, worker.rank, worker.step))
    poles = CartPoles(options.poles, random)
    while True:
        steps = []
        for _ in range(options.length):
            states = poles.state
            probability, _ = look(name, worker.model, states)
            actions = (random.random(options.poles) < probability).astype(np.int64)
            fallen, ended = poles.step(actions)
            rewards = np.full(options.poles, 1 - options.discount)  # so that values are up to 1
            if ended.any():  # a pole that is still up would have gone on: its value stands for that
                rewards += options.discount * ended * look(name, worker.model, poles.state)[1]
            poles.begin_again(fallen | ended)
            steps.append((states, actions, rewards, ~(fallen | ended)))
        states, actions, rewards, goes_on = (
            np.stack(arrays) for arrays in zip(*steps, strict=True)
        )
        returns, later = np.empty_like(rewards), look(name, worker.model, poles.state)[1]
        for t in reversed(range(options.length)):
            later = returns[t] = rewards[t] + options.discount * goes_on[t] * later
        yield (
            core.from_numpy(states.reshape(-1, N_STATE).astype(np.float32)),
            core.from_numpy(actions.reshape(-1)),
            core.from_numpy(returns.reshape(-1).astype(np.float32)),
        )


def learn(name: str, options: argparse.Namespace, worker: Any, rollout: Any) -> Any:
    """The loss of a rollout: policy gradient, error of the values, and a bonus for entropy."""
    lib = library(name)
    left = 1 - worker.step * options.workers / options.steps
    for group in worker.optimizer.param_groups:  # of this process; the averages are shared
        group["lr"] = options.lr * max(0.0, left)
    states, actions, returns = rollout
    out = worker.model(states)
    log_probabilities = lib.nn.functional.log_softmax(out[:, :N_ACTIONS], dim=1)
    surprise = returns - out[:, N_ACTIONS]
    chosen = log_probabilities.gather(1, actions.unsqueeze(1)).squeeze(1)
    entropy = -(log_probabilities.exp() * log_probabilities).sum(1).mean()
    return (
        -(chosen * surprise.detach()).mean()
        + VALUE_WEIGHT * surprise.pow(2).mean()
        - ENTROPY_WEIGHT * entropy
    )


def play(name: str, seed: int, model: Any) -> dict[str, float]:
    """Mean returns of the greedy policy and of the one that draws, over whole episodes."""
    random = np.random.default_rng(seed)
    returns = {}
    for kind in ("greedy return", "drawn return"):
        poles, is_up = CartPoles(N_EPISODES, random), np.ones(N_EPISODES, dtype=bool)
        lengths = np.zeros(N_EPISODES)
        while is_up.any():
            probability, _ = look(name, model, poles.state)
            bar = 0.5 if kind == "greedy return" else random.random(N_EPISODES)
            fallen, ended = poles.step((bar < probability).astype(np.int64))
            lengths += is_up
            is_up &= ~(fallen | ended)
        returns[kind] = float(lengths.mean())
    return returns


def make_optimizer(name: str, options: argparse.Namespace, parameters: Any) -> Any:
    """RMSprop, as the paper takes it."""
    return library(name).optim.RMSprop(parameters, lr=options.lr, alpha=0.99, eps=1e-3)


def train(
    name: str, options: argparse.Namespace, folder: Path | None, trainer: Any = hogwild.run
) -> Any:
    """Train with shmtensor, or with another library and what trains its models."""
    lib = library(name)
    lib.core.manual_seed(options.seed)
    return trainer(
        functools.partial(make_model, name, options.width),
        functools.partial(learn, name, options),
        functools.partial(rollouts, name, options),
        options.workers,
        make_optimizer=functools.partial(make_optimizer, name, options),
        shared_optimizer=True,
        steps=-(-options.steps // options.workers),
        evaluate=functools.partial(play, name, options.seed),
        title=f"actor-learners, {name}",
        **run_arguments(options, folder),
    )


def run_program(options: argparse.Namespace, folder: Path) -> None:
    """Train, write, and say what came out."""
    check_resume(options)
    result = train("shmtensor", options, folder)
    table, model = folder / "curve.csv", folder / "model.safetensors"
    result.write_csv(table)
    save_file(dict(result.model.state_dict()), model)
    title = f"A3C on cart-poles, {options.workers} actor-learners"
    written = [table, model, *draw({"": result.points}, folder / "curve.png", title)]
    moves = result.steps_per_second * options.poles * options.length
    print(
        f"greedy return {result.metrics['greedy return']:.1f}   {result.steps} steps in "
        f"{result.seconds:.2f} s = {result.steps_per_second:.0f} steps/s, {moves:.0f} moves/s"
    )
    n_lost = len(result.lost_workers)
    if n_lost:
        print(f"  {options.workers - n_lost} of {options.workers} workers finished")
    print("wrote " + ", ".join(str(path) for path in written))
    meet(options, "greedy return", result.metrics["greedy return"], at_least=GOAL)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parse(arguments)
    folder = results_folder(options, "actor-learner")
    return run("actor_learner", options, folder, lambda: run_program(options, folder))


if __name__ == "__main__":
    sys.exit(main())
