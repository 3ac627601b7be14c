"""What the page is told of a live session."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as T
import shmtensor.multiprocessing as mp
from shmtensor import _cli
from shmtensor.dashboard import Observer, state
from shmtensor.dashboard.arena import Blocks, map_of
from shmtensor.dashboard.curves import read_curve
from shmtensor.inspect import Session


def _own(site: Any, path: str = "") -> dict[str, Any]:
    told = json.loads(site.ask(path or f"/state.json?session={site.session}").content)
    return next(row for row in told["sessions"] if row["session"] == site.session)


def _cells(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for band in row["map"]["bands"] for cell in band["cells"]]


@pytest.mark.check
def test_state_shows_processes_and_the_map(site: Any) -> None:
    kept = T.zeros(3001, dtype=T.uint8, shared=True)
    row = _own(site)
    (client,) = [c for c in row["clients"] if c["pid"] == os.getpid()]
    assert client["held_bytes"] >= client["alone_bytes"] >= kept.numel()
    (cell,) = [c for c in _cells(row) if c.get("nbytes") == 3001]
    assert (cell["kind"], cell["client"], cell["n_used"]) == ("alone", client["client"], 1)
    assert cell["first"] == cell["last"]
    assert row["pids"][str(client["client"])] == os.getpid()
    used = sum(c["n_used"] for c in _cells(row))
    assert used == sum(kind["n_used"] for kind in row["map"]["kinds"])


def test_only_the_chosen_session_has_details(site: Any) -> None:
    told = json.loads(site.ask(f"/state.json?session={site.session}").content)
    assert [row["session"] for row in told["sessions"] if "map" in row] == [site.session]
    told = json.loads(site.ask("/state.json?session=").content)
    assert len([row for row in told["sessions"] if "map" in row]) == 1
    told = json.loads(site.ask("/state.json").content)
    assert all("map" in row for row in told["sessions"])


def test_queue_has_rates_from_the_second_look_on(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "_FRESH_S", 0.0)
    queue = mp.get_context("fork").Queue(77)
    try:
        queue.put(1)
        while queue.qsize() < 1:
            pass

        def view() -> dict[str, Any]:
            return next(q for q in _own(site)["queues"] if q["max_messages"] == 77)

        observer = Observer(site.session)
        site.server.observer = observer
        first = view()
        assert (first["put_per_s"], first["got_per_s"], first["n_messages"]) == (None, None, 1)
        for _ in range(5):
            queue.put(2)
        while queue.qsize() < 6:
            pass
        observer._answers.clear()
        second = view()
        assert second["put_per_s"] > 0
        assert second["got_per_s"] == 0
        for _ in range(6):
            queue.get()
        observer._answers.clear()
        third = view()
        assert third["put_per_s"] == 0
        assert third["got_per_s"] > 0
        assert any(c["kind"] == "queue" for c in _cells(_own(site)))
    finally:
        queue.close()
        queue.join_thread()


_TALKER = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1], start=True)
topic, go = service.Topic("frames", depth=2), service.Event("go")
subscriptions = [topic.subscribe() for _ in range(2)]
server, client, jobs = service.Server("double"), service.Client("double"), service.Queue("jobs")
print("silent", flush=True)
sys.stdin.readline()
for i in range(3):
    topic.publish(i)
futures = [client.submit(1)]
request, = server.take(timeout=60)
futures.append(client.submit(2))
go.set()
jobs.put(1)
delivery = jobs.get(ack=True)
print("busy", flush=True)
sys.stdin.readline()
"""


@pytest.mark.check
def test_topics_servers_and_events_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_FRESH_S", 0.0)
    service = f"dashboard-{os.getpid()}-{uuid.uuid4().hex}"
    talker = subprocess.Popen(
        [sys.executable, "-c", _TALKER, service],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert talker.stdin is not None and talker.stdout is not None
    observer = Observer(service)

    def view() -> dict[str, Any]:
        observer._answers.clear()
        (row,) = observer.state("")["sessions"]
        return dict(row)

    try:
        assert talker.stdout.readline() == "silent\n"
        first = view()
        talker.stdin.write("\n")
        talker.stdin.flush()
        assert talker.stdout.readline() == "busy\n"
        second = view()
    finally:
        talker.kill()
        talker.communicate()
    (frames,), (double,) = first["topics"], first["servers"]
    assert (frames["n_subscribers"], frames["n_lost"], frames["published_per_s"]) == (2, 0, None)
    assert (double["n_waiting"], double["requests_per_s"]) == (0, None)
    assert first["events"] == [{"name": "go", "is_set": False}]
    (frames,), (double,) = second["topics"], second["servers"]
    assert (frames["lag"], frames["depth"], frames["n_lost"]) == (2, 2, 2)
    assert frames["published_per_s"] > 0 and double["requests_per_s"] > 0
    assert (double["n_waiting"], double["n_requests"]) == (1, 2)
    assert second["events"] == [{"name": "go", "is_set": True}]
    assert {q["name"]: q["n_unacknowledged"] for q in second["queues"]} == {"jobs": 1}
    counts = [second[f"n_{what}"] for what in ("topics", "servers", "events", "queues")]
    assert counts == [1, 1, 1, 1]


def test_a_full_queue_does_not_look_like_an_empty_one(site: Any) -> None:
    queue = mp.get_context("fork").Queue(2)
    try:
        looks = []
        for value in range(2):
            queue.put(value)
            while queue.qsize() < value + 1:
                pass
            site.server.observer = Observer(site.session)
            (found,) = [q for q in _own(site)["queues"] if q["max_messages"] == 2]
            looks.append(found["is_full"])
        assert looks == [False, True]
        queue.get()
        queue.get()
    finally:
        queue.close()
        queue.join_thread()


def test_metrics_are_prometheus_text(site: Any) -> None:
    answer = site.ask("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = answer.content.decode().splitlines()
    assert any(f'session="{site.session}"' in line for line in lines)
    assert "# TYPE shmtensor_queue_put_total counter" in lines


def test_hostile_label_is_plain_text(site: Any, hostile: str) -> None:
    (row,) = [
        row
        for row in json.loads(site.ask("/state.json").content)["sessions"]
        if any(c["label"].startswith("<img") for c in row["clients"])
    ]
    (client,) = row["clients"]
    assert client["label"] == hostile.replace("\n", "\\n").replace("\u202e", "\\u202e")
    assert hostile.encode() not in site.ask("/").content


def test_answers_are_shared_while_fresh(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_FRESH_S", 1000.0)
    assert site.ask("/state.json").content == site.ask("/state.json").content
    assert site.ask("/metrics").content == site.ask("/metrics").content


@pytest.mark.check
def test_published_names_are_listed(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    program = """
import sys
import shmtensor as T
from shmtensor.service import Service
service = Service(sys.argv[1], start=True)
service.publish("weights<b>", T.zeros(1000, dtype=T.uint8))
service.publish("weights<b>", T.ones(1000, dtype=T.uint8))
print("ready", flush=True)
sys.stdin.read()
"""
    name = f"dash-{uuid.uuid4().hex[:12]}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    with subprocess.Popen(
        [sys.executable, "-c", program, name],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            site.server.observer = Observer(name)
            told = json.loads(site.ask("/state.json").content)
            (row,) = told["sessions"]
            (published,) = row["names"]
            assert row["service"] == name
            assert (published["name"], published["version"]) == ("weights<b>", 2)
            assert (published["pid"], published["nbytes"]) == (process.pid, 1000)
            assert published["publisher"] == str(process.pid)
            assert 0 <= published["age_s"] < 600
            metrics = site.ask("/metrics").content.decode()
            labels = rf'session="{row["session"]}",service="{name}",name="weights<b>"'
            assert f"shmtensor_name_version{{{labels}}} 2\n" in metrics
            assert f"shmtensor_name_bytes{{{labels}}} 1000\n" in metrics
            assert re.search(rf"^shmtensor_name_age_seconds{{{labels}}} \d", metrics, re.M)
            assert _cli.main(["ls", "-s", name]) == 0
            listed = capsys.readouterr().out
            assert re.search(rf"weights<b> +value +2 +1000 B +\d+ s +{process.pid}\n", listed)
            assert {"name", "shared"} & {kind["kind"] for kind in row["map"]["kinds"]}
        finally:
            process.communicate(timeout=60)


def test_million_blocks_stay_few_cells() -> None:
    n = 1_000_000
    number = np.arange(n)
    for slab_blocks in (65536, 16):
        blocks = Blocks(
            number=number,
            slab=number // slab_blocks,
            owner=np.ones(n, np.int64),
            nbytes=np.full(n, 10),
            capacity=64 << (number // slab_blocks) % 5,
            n_leases=np.zeros(n, np.int64),
            n_messages=np.zeros(n, np.int64),
            held_by=np.where(number % 10 == 0, -1, 7),
            holders={},
        )
        told = map_of(blocks)
        cells = [cell for band in told["bands"] for cell in band["cells"]]
        assert len(cells) <= 2500
        assert sum(cell["n_used"] for cell in cells) == n
        assert sum(cell.get("nbytes", 0) for cell in cells) == 10 * n
        assert {(c["kind"], c.get("client")) for c in cells if c["n_used"]} == {("alone", 7)}
        assert told["kinds"][0] == {
            "kind": "alone",
            "client": 7,
            "n_used": n * 9 // 10,
            "nbytes": n * 9,
        }


def test_blocks_in_arrays_are_those_of_the_session(site: Any) -> None:
    kept = [T.zeros(100 + i, shared=True) for i in range(30)]
    with Session(os.environ["SHMTENSOR_MANAGER"].removeprefix("@")) as session:
        arrays = Blocks.of(session)
        plain = {b.block: b for b in session.blocks()}
    for i, number in enumerate(arrays.number):
        if number in plain and arrays.nbytes[i] == plain[number].nbytes:
            held = plain[number].holders
            if len(held) == 1 and not plain[number].is_queue:
                assert arrays.held_by[i] == held[0]
    assert len(arrays.number) >= len(kept)


def test_map_shows_runs_that_are_not_in_use() -> None:
    number = np.array([3, 4, 9])
    one = np.ones(3, np.int64)
    blocks = Blocks(number, one, one, one, 64 * one, one, one, np.array([1, -1, 0]), {4: [1, 2]})
    (band,) = map_of(blocks)["bands"]
    assert [(c["kind"], c["first"], c["last"]) for c in band["cells"]] == [
        ("alone", 3, 3),
        ("shared", 4, 4),
        ("free", 5, 8),
        ("name", 9, 9),
    ]
    assert band["cells"][1]["holders"] == [1, 2]
    assert blocks.leases_by_owner() == {1: 3}


def test_map_of_tables_that_a_member_has_written_over() -> None:
    wild = np.array([2**32 - 1, 0, 7])
    big = np.array([2**63 - 1, -1, 0])
    blocks = Blocks(np.arange(3), wild, wild, big, big, wild, wild, np.array([4607, -5, -2]), {})
    json.dumps(map_of(blocks), allow_nan=False)
    assert blocks.leases_by_owner() == {2**32 - 1: 2**32 - 1, 7: 7}


def test_empty_map() -> None:
    none = np.zeros(0, np.int64)
    blocks = Blocks(none, none, none, none, none, none, none, none, {})
    assert map_of(blocks) == {"blocks_per_cell": 1, "kinds": [], "bands": []}
    assert blocks.leases_by_owner() == {}


def test_curve_of_a_run(tmp_path: Path) -> None:
    assert "no curve.csv" in read_curve(str(tmp_path))["message"]
    table = tmp_path / "curve.csv"
    table.write_text("seconds,steps,loss,accuracy\n0,0,2.5,\n1,10,nan,0.5\n2,20,1.5,0.75\nbroken\n")
    curve = read_curve(str(tmp_path))
    assert curve["seconds"] == [0, 1, 2]
    assert curve["series"] == [
        {"name": "loss", "values": [2.5, None, 1.5]},
        {"name": "accuracy", "values": [None, 0.5, 0.75]},
    ]
    rows = "\n".join(f"{i},{i},{1 / (i + 1)}" for i in range(5000))
    table.write_text("seconds,steps,loss\n" + rows)
    curve = read_curve(str(tmp_path))
    assert len(curve["seconds"]) == 400
    assert (curve["seconds"][0], curve["seconds"][-1]) == (0, 4999)
    table.write_text("a,b\n1,2\n")
    assert "seconds" in read_curve(str(tmp_path))["message"]
    table.unlink()
    os.mkfifo(table)
    assert "not a file" in read_curve(str(tmp_path))["message"]
