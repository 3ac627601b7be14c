"""Several processes that step with one state: without locks, and exactly.

Every test is a program of its own, since processes that join a session or a service stay in it.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import shmtensor

_HEAD = """
import os, signal, sys
import shmtensor as torch
import shmtensor.multiprocessing as mp
from shmtensor import nn, optim

N_WORKERS, N_STEPS = 3, 40

def model_of(value):
    layer = nn.Linear(3, 2).share_memory()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(value)
    return layer

def step_with_ones(layer, optimizer):
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()

def work(layer, optimizer, n_steps):
    for _ in range(n_steps):
        step_with_ones(layer, optimizer)

def run(context, target, *arguments):
    workers = [context.Process(target=target, args=arguments) for _ in range(N_WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [worker.exitcode for worker in workers]
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[str]]:
    """Run a program after ``_HEAD``, with a default service of its own; gives what it prints."""

    def run(text: str, *arguments: str) -> list[str]:
        root = str(Path(shmtensor.__file__).parents[1])
        env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
        env["PYTHONPATH"] = os.pathsep.join([root, env.get("PYTHONPATH", "")])
        env["SHMTENSOR_SERVICE"] = f"test-{os.getpid()}-{secrets.token_hex(8)}"
        path = tmp_path / "program.py"  # a file, which spawned children import
        head, _, main = text.partition("# main\n")
        path.write_text(
            _HEAD + head + "if __name__ == '__main__':\n" + textwrap.indent(main, "    ")
        )
        done = subprocess.run(
            [sys.executable, str(path), *arguments],
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


_COUNT = """
# main
layer = model_of(0.0)
optimizer = optim.SGD(layer.parameters(), lr=1.0)
optimizer.share_memory(exact=True)
print(run(mp.get_context(sys.argv[1]), work, layer, optimizer, N_STEPS))
print(layer.weight.tolist(), layer.bias.tolist())
"""


@pytest.mark.check
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_no_exact_step_is_lost(run: Callable[..., list[str]], method: str) -> None:
    codes, values = run(_COUNT, method)
    assert codes == "[0, 0, 0]"
    assert values == "[[-120.0, -120.0, -120.0], [-120.0, -120.0, -120.0]] [-120.0, -120.0]"


_ADAM = """
# main
layer = model_of(0.0)
optimizer = getattr(optim, sys.argv[2])(layer.parameters())
optimizer.share_memory(exact=True)
print(all(v.is_shared() for s in optimizer.state.values() for v in s.values()))
print(run(mp.get_context(sys.argv[1]), work, layer, optimizer, N_STEPS))
print([s["step"].item() for s in optimizer.state.values()])
alone = model_of(0.0)
other = getattr(optim, sys.argv[2])(alone.parameters())
work(alone, other, N_WORKERS * N_STEPS)
print(all(torch.equal(a, b) for a, b in zip(layer.parameters(), alone.parameters())))
"""


@pytest.mark.parametrize(
    "name",
    [
        "Adam",
        "NAdam",
        "RAdam",
        "Adamax",
        "Adagrad",
        "Adadelta",
        "RMSprop",
        "Rprop",
        "ASGD",
        "Adafactor",
    ],
)
def test_exact_steps_of_several_processes_are_those_of_one(
    run: Callable[..., list[str]], name: str
) -> None:
    assert run(_ADAM, "fork", name) == ["True", "[0, 0, 0]", "[120.0, 120.0]", "True"]


_WITHOUT_LOCK = """
# main
layer = model_of(0.0)
optimizer = optim.Adam(layer.parameters(), lr=0.01)
optimizer.share_memory()
print(run(mp.get_context("fork"), work, layer, optimizer, N_STEPS))
counts = [s["step"].item() for s in optimizer.state.values()]
print(all(N_STEPS <= count <= N_WORKERS * N_STEPS for count in counts))
values = torch.cat([p.detach().reshape(-1) for p in layer.parameters()])
print(bool(torch.isfinite(values).all() and (values < 0).all()))
"""


def test_steps_without_lock_share_the_state(run: Callable[..., list[str]]) -> None:
    assert run(_WITHOUT_LOCK) == ["[0, 0, 0]", "True", "True"]


_KILL = """
def die_inside(layer, optimizer):
    def closure():
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.step(closure)

# main
context = mp.get_context(sys.argv[1])
layer = model_of(0.0)
optimizer = optim.SGD(layer.parameters(), lr=1.0)
optimizer.share_memory(exact=True)
victim = context.Process(target=die_inside, args=(layer, optimizer))
workers = [context.Process(target=work, args=(layer, optimizer, N_STEPS)) for _ in range(2)]
for process in (workers[0], victim, workers[1]):
    process.start()
for process in (*workers, victim):
    process.join()
print([process.exitcode for process in (*workers, victim)])
step_with_ones(layer, optimizer)
print(layer.bias.tolist())
"""


@pytest.mark.check
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_killed_inside_a_step_blocks_nobody(
    run: Callable[..., list[str]], method: str
) -> None:
    assert run(_KILL, method) == ["[0, 0, -9]", "[-81.0, -81.0]"]


_NESTED = """
# main
layer = model_of(0.0)
first, second = (optim.SGD(layer.parameters(), lr=1.0) for _ in range(2))
first.share_memory(exact=True)
second.__dict__["_step_lock"] = first.__dict__["_step_lock"]
for parameter in layer.parameters():
    parameter.grad = torch.ones_like(parameter)
first.step(second.step)
print(layer.bias.tolist())
first.share_memory()
print("_step_lock" in first.__dict__)
many = [optim.SGD(layer.parameters(), lr=1.0) for _ in range(200)]
for optimizer in many:
    optimizer.share_memory(exact=True)
    optimizer.step()
print(layer.bias.tolist())
"""


def test_a_step_may_contain_a_step_and_optimizers_may_be_many(
    run: Callable[..., list[str]],
) -> None:
    assert run(_NESTED) == ["[-2.0, -2.0]", "False", "[-202.0, -202.0]"]


_USER = """
class Counting(optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    def _init_state(self, group, param):
        self.state[param].setdefault("history", [torch.zeros(2), {"n": torch.zeros(())}])

    @torch.no_grad()
    def step(self, closure=None):
        for state in self.state.values():
            state["history"][1]["n"] += 1

# main
layer = model_of(0.0)
optimizer = Counting(layer.parameters())
optimizer.share_memory(exact=True)
run(mp.get_context("fork"), work, layer, optimizer, N_STEPS)
print([s["history"][1]["n"].item() for s in optimizer.state.values()])
try:
    optim.LBFGS(layer.parameters()).share_memory()
except RuntimeError as error:
    print(error)
"""


def test_state_in_lists_is_shared_and_a_growing_history_is_refused(
    run: Callable[..., list[str]],
) -> None:
    counts, refusal = run(_USER)
    assert counts == "[120.0, 120.0]"
    assert "history of LBFGS is a list that grows" in refusal


_WALKS = """
SIZES = (5000,), (3,), (7, 700), (1,), (40, 50), (20000,)

def tensors(generator):
    made = [torch.randn(size, generator=generator) for size in SIZES]
    made[4] = made[4].t()  # lies otherwise than its gradient
    return made

def stepped(make, seed, n_threads, shared):
    torch.set_num_threads(n_threads)
    generator = torch.Generator().manual_seed(seed)
    parameters, gradients = tensors(generator), tensors(generator)
    gradients[4] = gradients[4].contiguous()
    parameters = [nn.Parameter(p.share_memory_() if shared else p) for p in parameters]
    optimizer = make(parameters)
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    for _ in range(3):
        optimizer.step()
    return [p.detach().clone() for p in parameters]

def work(queue):
    for make in MAKE:
        for n_threads in (1, 2):
            ours, plain = (stepped(make, 7, n_threads, shared) for shared in (True, False))
            queue.put(all(map(torch.equal, ours, plain)))

MAKE = (
    lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: optim.Adam(p, lr=0.1, amsgrad=True),
)
# main
context = mp.get_context("fork")
queue = context.SimpleQueue()
assert run(context, work, queue) == [0] * N_WORKERS
print(*(queue.get() for _ in range(N_WORKERS * len(MAKE) * 2)))
"""


def test_every_process_makes_the_same_step_whichever_way_it_walks(
    run: Callable[..., list[str]],
) -> None:
    """Processes walk shared parameters in different orders; the values do not depend on that."""
    (values,) = run(_WALKS)
    assert values.split() == ["True"] * 12
