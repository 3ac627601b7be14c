"""Numbers that several nodes share, over MPI: values, lost nodes, and runs that stand on them."""

from __future__ import annotations

import os
import re
import signal

import pytest
from mpi_ranks import Ranks, require_mpi

import shmtensor as st
from shmtensor import hogwild

require_mpi()

pytestmark = pytest.mark.timeout(240)

STORE = """
import os, signal, time
import numpy as np
from shmtensor.hogwild import MpiStore, NodeLostError

store = MpiStore(lost_after=1.5)
me, n = store.node, store.n_nodes
print("pid", os.getpid())
"""

RUN = """
import os, time, warnings
import hogwild_cases as cases
import shmtensor
from shmtensor import hogwild

warnings.simplefilter("ignore")
def run(step, nodes, **options):
    def told(worker, batch, step=step):
        if worker.step == 30:
            print("training")
        return step(worker, batch)
    step = told
    with nodes:
        print("pid", os.getpid(), "leader", nodes.leader_pid)
        result = hogwild.run(cases.make_model, step, cases.data(), workers=1, view="none",
                             evaluate=cases.distance, nodes=nodes, **options)
    print("weights", [w.hex() for w in result.model.weight[0].tolist()])
    print("distance", result.metrics["distance"])
    print("lost", sorted(result.exchanges.lost), "rounds", result.exchanges.rounds, "end")
    return result
"""


def pid(ranks: Ranks, rank: int, name: str = "pid") -> int:
    return int(ranks.wait_for(rank, rf"{name} (\d+)").group(1))


def finished(ranks: Ranks, n: int) -> list[str]:
    """What all ranks printed, after a good end."""
    status = ranks.finish()
    texts = [ranks.text(rank) for rank in range(n)]
    assert status == 0, "\n---\n".join(texts)
    assert ranks.nothing_is_left()
    return texts


# --- the store ---------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3])
def test_all_that_is_pushed_is_there(job, n, dtype):
    script = f"""{STORE}
seen = np.zeros(1001, "{dtype}")
store.open(seen, 0)
ones = np.arange(1001, dtype="{dtype}")
for _ in range(20):
    for shard in range(n):
        where = store.bounds(shard)
        out = np.empty_like(ones[where])
        assert store.exchange(ones[where], shard, out)
        assert (out >= seen[where] + ones[where]).all(), "a value went back"
        seen[where] = out
        assert store.push(ones[where], shard)
store.barrier()
found = np.empty_like(ones)
for shard in range(n):
    assert store.pull(shard, found[store.bounds(shard)])
assert (found == 40 * n * ones).all(), found
store.close()
print("good")
"""
    assert all("good" in text for text in finished(job(n, script), n))


def test_all_begin_with_the_values_of_the_weightiest_node(job):
    script = f"""{STORE}
values = np.full(10, float(me))
store.open(values, [5, 9, 7][me])
assert (values == 1).all(), values
out = np.empty(3)
assert store.pull(0, out)
assert (out == 1).all(), out
store.close()
print("good")
"""
    assert all("good" in text for text in finished(job(3, script), 3))


def test_counters_barriers_and_sums(job):
    script = f"""{STORE}
store.open(np.zeros(4), 0)
numbers = [store.fetch_add(2, 1) for _ in range(50)]
assert numbers == sorted(set(numbers))
store.barrier()
assert store.fetch_add(2, 0) == 50 * n
for k in range(10):
    time.sleep(0.01 * (me == k % n))
    store.fetch_add(0, 1)
    store.barrier()
    assert store.fetch_add(0, 0) == n * (k + 1), "left before all had come"
    store.barrier()
values = np.arange(5.0) * (me + 1)
assert store.sum(values)
assert (values == np.arange(5.0) * (1 + 2 + 3)).all(), values
store.close()
print("good")
"""
    assert all("good" in text for text in finished(job(3, script), 3))


SURVIVORS = f"""{STORE}
reasons = {{}}
store.on_lost = lambda node, why: reasons.update({{node: why}})
values = np.zeros(9, np.float32)
store.open(values, 0)
for shard in range(n):
    where = store.bounds(shard)
    out = np.empty_like(values[where])
    assert store.exchange(np.ones_like(out), shard, out)
store.barrier()
for shard in range(n):
    assert store.pull(shard, values[store.bounds(shard)])
assert (values == 3).all()
store.barrier()
print("ready")
if me == 1:
    while True:
        store.poll()
out, n_refused = np.empty(3, np.float32), 0
while not (store.lost and store.exchange(np.ones(3, np.float32), 1, out)):
    n_refused += bool(store.lost)
    store.poll()
    time.sleep(1e-3)
assert reasons == store.lost and list(store.lost) == [1], store.lost
assert store.home(1) == 2 and store.live_nodes() == [0, 2]
store.barrier()
assert store.pull(1, out)
assert (out == 5).all(), out
values = np.ones(2)
while not store.sum(values):
    pass
assert (values == 2).all(), values
try:
    store.fetch_add(1, 1)
except NodeLostError as error:
    assert error.node == 1
else:
    raise AssertionError("a counter of a lost node")
store.close()
print("good")
"""


def test_a_killed_nodes_shard_gets_a_new_home(job):
    ranks = job(3, SURVIVORS)
    for rank in range(3):
        ranks.wait_for(rank, "ready")
    os.kill(pid(ranks, 1), signal.SIGKILL)
    for rank in (0, 2):
        ranks.wait_for(rank, "good")
    ranks.finish()
    assert ranks.nothing_is_left()


def test_a_node_that_slept_finds_itself_alone(job):
    script = f"""{STORE}
store.open(np.zeros(3), 0)
print("ready")
while not store.lost:
    store.poll()
    time.sleep(1e-3)
print("lost", store.lost)
while True:
    store.poll()
    time.sleep(1e-3)
"""
    ranks = job(2, script)
    for rank in range(2):
        ranks.wait_for(rank, "ready")
    os.kill(pid(ranks, 1), signal.SIGSTOP)
    ranks.wait_for(0, "lost .*no sign of life")
    os.kill(pid(ranks, 1), signal.SIGCONT)
    ranks.wait_for(1, "lost .*no sign of life")


def test_nodes_that_do_not_come_are_not_waited_for(job):
    script = """
import os, numpy as np
from pathlib import Path
from shmtensor.hogwild import MpiStore, NodeLostError
store = MpiStore(join_timeout=0.5)
if store.node == 0:
    try:
        store.open(np.zeros(3), 0)
    except NodeLostError as error:
        print("error", error)
    Path("told").touch()
else:
    while not Path("told").exists():
        store.poll()
os._exit(0)
"""
    ranks = job(2, script)
    ranks.wait_for(0, "error node 1 is lost: it did not come within 0.5 s")
    ranks.finish()


# --- runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "lr"),
    [
        ("method='accumulate', every=0.01", 0.1),
        ("method='average', every=0.01", 0.1),
        ("gain=1.0, every_steps=2", 0.03),  # differences are added up: smaller steps
    ],
)
def test_nodes_learn_together_and_end_with_the_same_parameters(job, options, lr):
    script = f"""{RUN}
def sgd(parameters):
    return shmtensor.optim.SGD(parameters, lr={lr})
run(cases.slow, hogwild.Nodes({options}), steps=300, make_optimizer=sgd)
"""
    texts = finished(job(2, script), 2)
    weights = [re.search("weights (.*)", text).group(1) for text in texts]
    assert weights[0] == weights[1]
    for text in texts:
        assert float(re.search("distance (.*)", text).group(1)) < 0.01
        assert int(re.search(r"rounds (\d+)", text).group(1)) > 5
        assert "lost []" in text


def test_one_node_alone_learns_what_it_learns_without_nodes(job):
    script = f"{RUN}\nrun(cases.squared_error, hogwild.Nodes(), steps=300)\n"
    (text,) = finished(job(1, script), 1)
    assert float(re.search("distance (.*)", text).group(1)) < 0.01


@pytest.mark.check
def test_a_fast_node_waits_for_a_slow_one(job):
    script = f"""{RUN}
def step(worker, batch):
    if worker.node == 1:
        time.sleep(0.02)
    return cases.squared_error(worker, batch)
run(step, hogwild.Nodes(every_steps=5, max_ahead=3), seconds=2.0)
"""
    texts = finished(job(2, script), 2)
    fast, slow = (int(re.search(r"rounds (\d+)", text).group(1)) for text in texts)
    assert slow > 3
    assert fast <= slow + 4


@pytest.mark.parametrize("method", ["accumulate", "average"])
def test_a_killed_node_is_reported_and_the_other_goes_on(job, method):
    script = f"""{RUN}
run(cases.slow, hogwild.Nodes(method="{method}", lost_after=1.5), seconds=6.0)
"""
    ranks = job(2, script)
    pids = [pid(ranks, rank) for rank in range(2)]
    leader = pid(ranks, 1, "leader")
    ranks.wait_for(0, "training")
    os.kill(pids[1], signal.SIGKILL)
    ranks.wait_for(0, "node 1 is lost: no sign of life for 1.*; node 0 continues")
    ranks.wait_for(0, r"lost \[1\] rounds \d+ end")
    assert float(re.search("distance (.*)", ranks.text(0)).group(1)) < 0.01
    ranks.finish()
    assert ranks.nothing_is_left()
    assert leader not in ranks.marked()


def test_a_node_killed_before_the_training_is_reported(job):
    script = f"""{RUN}
nodes = hogwild.Nodes(lost_after=1.5)
with nodes:
    print("pid", os.getpid())
    if nodes.node == 1:
        time.sleep(60)
    try:
        hogwild.run(cases.make_model, cases.slow, cases.data(), workers=1, steps=5, view="none",
                    nodes=nodes)
    except RuntimeError as error:
        print("error:", error)
"""
    ranks = job(2, script)
    pid(ranks, 0)
    os.kill(pid(ranks, 1), signal.SIGKILL)
    ranks.wait_for(0, "error: hogwild.run.*could not begin: node 1 is lost: no sign of life")
    ranks.finish()
    assert ranks.nothing_is_left()


def test_a_killed_leader_leaves_its_node_whole(job):
    script = f"{RUN}\nrun(cases.slow, hogwild.Nodes(lost_after=1.5), seconds=6.0)\n"
    ranks = job(2, script)
    leaders = [pid(ranks, rank, "leader") for rank in range(2)]
    ranks.wait_for(0, "training")
    os.kill(leaders[1], signal.SIGKILL)
    how = "the leader of node 1 ended with status -9"
    ranks.wait_for(1, f"node 0 is lost: {how}.*; node 1 continues")
    ranks.wait_for(0, "node 1 is lost: no sign of life")
    for rank in range(2):
        ranks.wait_for(rank, r"rounds \d+ end")
        assert float(re.search("distance (.*)", ranks.text(rank)).group(1)) < 0.01
    assert ranks.finish() == 0
    assert ranks.nothing_is_left()


def test_nodes_that_are_to_stop_leave_a_checkpoint_that_goes_on(job, tmp_path):
    script = f"""{RUN}
import sys
folder = {str(tmp_path)!r} + "/node" + os.environ.get("PMI_RANK", "0")
try:
    run(cases.slow, hogwild.Nodes(on_lost="stop", lost_after=1.5), seconds=30.0, folder=folder)
except hogwild.NodeLostError as error:
    print("stopped:", error)
"""
    ranks = job(2, script)
    pids = [pid(ranks, rank) for rank in range(2)]
    ranks.wait_for(0, "training")
    os.kill(pids[1], signal.SIGKILL)
    ranks.wait_for(0, "stopped: node 1 is lost: no sign of life")
    ranks.finish()
    assert ranks.nothing_is_left()
    saved = st.load(tmp_path / "node0" / "checkpoint.pt")
    assert saved["steps"][0] > 30
    again = f"""{RUN}
result = run(cases.slow, hogwild.Nodes(), steps={saved["steps"][0] + 300},
             folder={str(tmp_path / "node0")!r})
assert result.is_resumed
"""
    (text,) = finished(job(1, again, tmp_path / "again"), 1)
    assert float(re.search("distance (.*)", text).group(1)) < 0.01


def test_all_resume_with_the_parameters_of_the_node_that_came_furthest(job, tmp_path):
    script = f"""{RUN}
folder = {str(tmp_path)!r} + "/node" + os.environ["PMI_RANK"]
first = 2000 if os.environ["PMI_RANK"] == "1" else 1
hogwild.run(cases.make_model, cases.squared_error, cases.data(), workers=1, view="none",
            steps=first, folder=folder, resume=False)
seen = []
def step(worker, batch):
    if not seen:
        seen.append(cases.distance(worker.model)["distance"])
        assert seen[0] < 0.01, seen
    return 0.0
run(step, hogwild.Nodes(), steps=first + 5, folder=folder)
"""
    texts = finished(job(2, script), 2)
    for text in texts:
        assert float(re.search("distance (.*)", text).group(1)) < 0.01


# --- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"method": "sum"}, "method must be one of accumulate, average, got 'sum'"),
        ({"on_lost": "wait"}, "on_lost must be one of continue, stop, got 'wait'"),
        ({"every": 0.0}, "every must be above 0, got 0.0"),
        ({"max_ahead": 0}, "max_ahead must be above 0, got 0"),
        ({"every_steps": 0}, "every_steps must be above 0, got 0"),
        ({"gain": -1.0}, "gain must be above 0, got -1.0"),
    ],
)
def test_bad_arguments_are_refused(arguments, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        hogwild.Nodes(**arguments)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'shmtensor\[mpi\]'"):
        hogwild.Nodes()


def test_a_leader_that_fails_is_reported():
    def fails():
        raise OSError("no network")

    nodes = hogwild.Nodes(make_store=fails)
    with pytest.raises(RuntimeError, match="the leader could not join: OSError: no network"):
        nodes.__enter__()
