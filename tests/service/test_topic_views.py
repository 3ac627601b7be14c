"""Topics and servers as the tools see them, from outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import service_programs as programs
import waiting

from shmtensor import _cli, inspect
from shmtensor.inspect import Session, as_prometheus, as_rows
from shmtensor.service import Service

_SCRIBBLE = """
import mmap, os, struct, sys
from shmtensor.service import Service
service = Service(sys.argv[1])
topic = service.Topic("frames")
subscription = topic.subscribe()
links = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
path = next(p for p in links if os.path.islink(p) and "shmtensor-arena" in os.readlink(p))
with open(path, "r+b") as file:
    memory = mmap.mmap(file.fileno(), 1 << 26)
at = memory.find(struct.pack("Q", 0x3143504F54544D53))
assert at >= 0
what, value = sys.argv[2:]
places = {"magic": 0, "slots_end": 12, "depth": 16, "overflow": 21}
offset = {**places, "slot": 96 + 8, "slot_depth": 96 + 16}[what]
struct.pack_into("I", memory, at + offset, int(value))
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def session(service: Service) -> Iterator[Session]:
    (found,) = inspect.open_sessions(service._name)
    with found:
        yield found


@pytest.mark.check
def test_topic_shows_its_subscribers(service: Service, session: Session) -> None:
    topic = service.Topic("frames", depth=3, history=2, overflow="drop_newest")
    slow, fast = topic.subscribe(), topic.subscribe()
    for i in range(5):
        topic.publish(i)
        fast.get(0)
    view = session.topics()["frames"]
    assert (view.n_subscribers, view.n_published, view.lag, view.n_lost) == (2, 5, 3, 2)
    assert (view.depth, view.history, view.overflow) == (3, 2, "drop_newest")
    slow.close()
    view = session.topics()["frames"]
    assert (view.n_subscribers, view.lag) == (1, 0)
    assert view.n_lost == 2, "what the gone have lost stays lost"


@pytest.mark.check
def test_what_is_inside_topics_and_events_is_no_queue(
    service: Service, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {q.block for q in session.queues()}
    topic = service.Topic("frames", history=1)
    kept = [topic.subscribe() for _ in range(3)]
    jobs, go, server = service.Queue("jobs"), service.Event("go"), service.Server("double")
    topic.publish(1)
    jobs.put(1)
    jobs.get(ack=True)
    assert sorted(session.names_of_queues().values()) == ["double", "jobs"]
    named = session.names_of_queues()
    assert {q.block for q in session.queues()} - before == set(named)
    assert not session.events()["go"].is_set
    go.set()
    assert session.events()["go"].is_set
    assert _cli.main(["ls", "--queues", "--session", service._name]) == 0
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[-1] for line in shown.splitlines() if line.strip()}
    assert {block: rows[str(block)] for block in named} == named
    assert len(kept) == 3 and server.qsize() == 0


def test_killed_subscribers_do_not_count(
    service: Service, session: Session, run: type[programs.Program]
) -> None:
    topic = service.Topic("frames")
    viewer = run(
        "import sys; from shmtensor.service import Service\n"
        "s = Service(sys.argv[1]).Topic('frames').subscribe(); print('open', flush=True)\n"
        "sys.stdin.read()",
        service._name,
    )
    assert viewer.line() == "open"
    topic.publish(1)
    assert session.topics()["frames"].lag == 1
    viewer.kill()
    waiting.until(lambda: session.topics()["frames"].n_subscribers == 0)


@pytest.mark.check
def test_server_shows_its_requests(service: Service, session: Session) -> None:
    with service.Server("double", 7) as server, service.Client("double") as client:
        client.submit(1)
        client.submit(2)
        view = session.servers()["double"]
        assert (view.n_waiting, view.n_requests, view.max_waiting) == (2, 2, 7)
        server.take()[0].reply(1)
        assert session.servers()["double"].n_waiting == 1
        server.take()[0].reply(1)


@pytest.mark.check
def test_tools_show_topics_and_servers(
    service: Service, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, server = service.Topic("frames", depth=2), service.Server("double")
    subscription = topic.subscribe()
    for i in range(3):
        topic.publish(i)
    for words in ("ls", "top --plain -n 1"):
        assert _cli.main([*words.split(), "-s", service._name]) == 0
        rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert rows[rows.index("TOPIC SUBSCRIBERS PUBLISHED LAG LOST") + 1] == "frames 1 3 2 of 2 1"
        assert rows[rows.index("SERVER WAITING REQUESTS") + 1] == "double 0 0"
    assert rows[next(i for i, row in enumerate(rows) if "PUT/S" in row) + 1].endswith(" double")
    lines = as_prometheus(as_rows([session])).splitlines()
    labels = f'session="{session.name}",service="{service._name}",name='
    for line in (
        f'topic_subscribers{{{labels}"frames"}} 1',
        f'topic_published_total{{{labels}"frames"}} 3',
        f'topic_lost_total{{{labels}"frames"}} 1',
        f'topic_lag{{{labels}"frames"}} 2',
        f'server_waiting{{{labels}"double"}} 0',
    ):
        assert f"shmtensor_{line}" in lines
    assert subscription.qsize() == 2 and server.qsize() == 0


@pytest.mark.parametrize(
    ("what", "value", "is_there"),
    [
        ("magic", "1", False),
        ("depth", "4000000000", False),
        ("overflow", "4", False),
        ("slots_end", "4000000000", True),
        ("slot", "4000000000", True),
        ("slot_depth", "4000000000", True),
    ],
)
def test_damaged_topics(what: str, value: str, is_there: bool, run: type[programs.Program]) -> None:
    with programs.serving() as (name, _):
        member = run(_SCRIBBLE, name, what, value)
        assert member.line() == "written"
        (session,) = inspect.open_sessions(name)
        with session:
            assert ("frames" in session.topics()) == is_there
            assert session.servers() == {}
