"""examples/actor_learner.py as a user runs it, and the cart-poles that it plays with."""

from __future__ import annotations

import csv
import math
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from programs import EXAMPLES, Run, check_refusals, finished, to_its_end

PROGRAM = EXAMPLES / "actor_learner.py"
FOREVER = ("--steps", "1000000")

pytestmark = pytest.mark.timeout(300)


def start(started: list[Run], out: Path, *arguments: str, folder: str = "--out") -> Run:
    run = Run(PROGRAM.name, out, *arguments, folder=folder)
    started.append(run)
    return run


def wait_until_it_learns(run: Run) -> None:
    run.wait_for(r"training [1-9].*training [1-9].*greedy return")


def greedy_return_in(text: str) -> float:
    found = re.search(r"(?m)^greedy return ([\d.]+)", text)
    assert found, text
    return float(found.group(1))


@pytest.fixture(scope="module")
def balanced(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a quick run printed, and its folder."""
    out = tmp_path_factory.mktemp("balanced") / "run"
    return to_its_end(PROGRAM, out, "--quick", "--check"), out


def test_the_policy_balances_and_leaves_its_files(balanced):
    text, out = balanced
    assert greedy_return_in(text) >= 450
    with open(out / "curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["greedy return"]) == pytest.approx(greedy_return_in(text), abs=0.1)
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "model.safetensors").stat().st_size > 1000


def test_killed_worker_is_reported_and_the_other_goes_on(started, tmp_path):
    run = start(started, tmp_path / "run", *FOREVER, "--seconds", "5", "--start-method", "spawn")
    pids = run.worker_pids()
    wait_until_it_learns(run)
    os.kill(pids[0], signal.SIGKILL)
    text = finished(run)
    assert "worker 0 killed by SIGKILL after" in text
    assert "1 of 2 workers finished" in text


def test_killed_parent_takes_all_with_it(started, tmp_path):
    run = start(started, tmp_path / "run", *FOREVER)
    run.worker_pids()
    wait_until_it_learns(run)
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


def test_a_run_goes_on_after_everything_was_killed(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, "--checkpoint-every", "0.2")
    first.wait_for(r"^ +[12]\.\d s ")
    first.kill_all()
    assert first.nothing_is_left()
    again = start(started, out, "--quick", "--check", folder="--resume")
    first_shown = again.wait_for(r"training (\d+)")
    assert int(first_shown.group(1)) > 0
    assert greedy_return_in(finished(again)) >= 450


def test_bad_input_is_a_message_not_a_traceback(balanced, tmp_path):
    out = str(balanced[1])
    cases = {
        ("--discount", "1"): "--discount must be in [0, 1)",
        ("--poles", "0"): "--poles",
        ("--resume", "nowhere"): "nowhere has no checkpoint.pt to resume from",
        ("--resume", out, "--width", "8"): "is of another model",
        ("--resume", out, "--workers", "1"): "is of a run with workers 2",
    }
    check_refusals(PROGRAM, tmp_path, cases)


# --- the environment ---------------------------------------------------------------------------


@pytest.fixture
def cartpole(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from common import cartpole

    return cartpole


def test_an_upright_pole_turns_against_the_push(cartpole):
    poles = cartpole.CartPoles(2, np.random.default_rng(0))
    poles.state[:] = 0
    poles.step(np.array([0, 1]))
    # At rest: 1.1 kg are pushed by 10 N; the pole's inertia is 0.5 m (4/3 - 0.1/1.1).
    turning = 10 / 1.1 / (0.5 * (4 / 3 - 0.1 / 1.1))
    moving = 10 / 1.1 + 0.1 * 0.5 * turning / 1.1
    expected = 0.02 * np.array([[0, -moving, 0, turning], [0, moving, 0, -turning]])
    np.testing.assert_allclose(poles.state, expected, rtol=1e-12, atol=1e-15)


def test_a_pole_that_is_left_alone_falls(cartpole):
    poles = cartpole.CartPoles(1, np.random.default_rng(0))
    poles.state[:] = [0, 0, 0.01, 0]
    for _ in range(40):
        angle = poles.state[0, 2]
        fallen, ended = poles.step(np.array([int(angle < 0)]))  # away from it
        assert not ended.any()
        if fallen.any():
            break
    assert fallen.all()
    assert abs(poles.state[0, 2]) > math.radians(12)
    poles.begin_again(fallen)
    assert np.abs(poles.state).max() <= 0.05
    assert poles.ages[0] == 0


def test_an_episode_has_an_end(cartpole):
    poles = cartpole.CartPoles(3, np.random.default_rng(0))
    for age in range(1, cartpole.LONGEST + 1):
        poles.state[:] = 0
        fallen, ended = poles.step(np.array([0, 1, 0]))
        assert not fallen.any()
        assert ended.all() == (age == cartpole.LONGEST)


def test_returns_are_discounted_and_end_with_the_episode(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import actor_learner

    from shmtensor import nn

    options = actor_learner.parse(["--poles", "2", "--length", "60", "--discount", "0.5"])
    model = actor_learner.make_model("shmtensor", 4)
    nn.init.zeros_(model[4].weight)
    model[4].bias.detach()[:] = 0.0
    model[4].bias.detach()[2] = 7.0  # the value of every state

    class Worker:
        rank = step = 0

    Worker.model = model
    states, actions, returns = next(actor_learner.rollouts("shmtensor", options, Worker))
    assert states.shape == (120, 4)
    assert set(actions.tolist()) == {0, 1}
    rows = returns.reshape(60, 2)
    assert rows[-1].tolist() == [0.5 + 0.5 * 7.0] * 2  # the value stands for what follows
    before_last = [row for row in rows[:-1].reshape(-1).tolist() if row == 0.5]
    assert before_last  # a pole fell: nothing follows
