"""Two network namespaces with a cable between them, which is pulled out: as real machines have it.

Each namespace has a service, a bridge and the programs that use them in one process. Abstract
sockets are of a network namespace, so neither can reach the service of the other. Needs the
rights to make namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import service_programs
import waiting

pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed")

_MACHINE = """
import ast, queue, sys, threading
import shmtensor
from shmtensor.bridge import Bridge
from shmtensor.errors import ServerLostError
from shmtensor.service import Service

service = Service(sys.argv[1], start=True)
bridge = None

def link(**how):
    global bridge
    bridge = Bridge(service, **how)
    bridge.start()

def row(name):
    return next(vars(row) for row in bridge.status().names if row.name == name)

def publish(topic, n, nbytes):
    for i in range(n):
        message = shmtensor.full((nbytes // 8,), i, dtype=shmtensor.int64)
        topic.publish(message)

def serve(name):
    def answer():
        for request in service.Server(name):
            with request:
                if request.value == "wait":
                    held.append(request)
                    taken.set()
                    ended.wait()
                elif request.value == "bad":
                    raise ValueError("no good")
                request.reply(request.value)
    threading.Thread(target=answer, daemon=True).start()

def error_of(work):
    try:
        work()
    except Exception as error:
        return type(error).__name__, str(error)

held, taken, ended = [], threading.Event(), threading.Event()
for line in sys.stdin:
    kind = "eval" if line.startswith("=") else "exec"
    found = eval(compile(line.lstrip("="), "<test>", kind), globals())
    print(repr(found), flush=True)
"""


class Machine:
    """A process in a network namespace of its own, which runs what it is told."""

    def __init__(self, run: type[service_programs.Program], number: int) -> None:
        name = service_programs.unused_name()
        self._program = run(_MACHINE, name, prefix=("unshare", "-n"))
        self.pid = self._program.process.pid
        self.address = f"10.77.7.{number}"
        self.device = f"shmt{number}"
        assert self.get("1 + 1") == 2

    def do(self, statement: str) -> None:
        """Run a statement."""
        self._program.say(statement)
        assert self._program.line() == "None"

    def get(self, expression: str) -> Any:
        """Return the value of an expression."""
        self._program.say("=" + expression)
        return eval(self._program.line())

    def until(self, expression: str) -> None:
        waiting.until(lambda: self.get(expression))

    def ip(self, *words: str) -> None:
        command = ["nsenter", "-t", str(self.pid), "-n", "ip", *words]
        subprocess.run(command, check=True, capture_output=True)

    def plug(self) -> None:
        self.ip("link", "set", self.device, "up")

    def unplug(self) -> None:
        self.ip("link", "set", self.device, "down")

    def sent_bytes(self) -> int:
        """What the device has sent."""
        lines = Path(f"/proc/{self.pid}/net/dev").read_text().splitlines()
        fields = next(line.split() for line in lines if line.strip().startswith(self.device))
        return int(fields[9])


def _why_not() -> str:
    """Why this process cannot make network namespaces; empty: it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    if missing:
        return f"there is no {missing[0]}"
    command = "ip link add shmtp type veth peer name shmtq"
    tried = subprocess.run(
        ["unshare", "-n", "sh", "-c", command], capture_output=True, text=True, check=False
    )
    return tried.stderr.strip()


@pytest.fixture
def machines(run: type[service_programs.Program]) -> Iterator[tuple[Machine, Machine]]:
    """Two machines with a cable between them."""
    reason = _why_not()
    if reason:
        pytest.skip(reason)
    here, there = Machine(run, 1), Machine(run, 2)
    subprocess.run(
        f"ip link add {here.device} netns {here.pid} type veth "
        f"peer name {there.device} netns {there.pid}".split(),
        check=True,
    )
    for machine in (here, there):
        machine.ip("addr", "add", f"{machine.address}/24", "dev", machine.device)
        machine.ip("link", "set", "lo", "up")
        machine.plug()
    yield here, there
    for machine in (here, there):
        machine.do("bridge.close()")


def link(here: Machine, there: Machine, **shared: tuple[str, ...]) -> None:
    """Bridge them; the first one owns values and calls."""
    topics, values = shared.get("topics", ()), shared.get("values", ())
    calls = shared.get("calls", ())
    address = f"tcp/{here.address}:7447"
    here.do(f"link(listen={address!r}, topics={topics}, values={values}, calls={calls})")
    there.do(
        f"link(connect={address!r}, topics={topics}, remote_values={values}, remote_calls={calls})"
    )
    for machine in (here, there):
        assert machine.get(f"bridge.wait_up({waiting.HANG_S})")


def cut(here: Machine, there: Machine) -> None:
    """Pull out the cable; both notice it."""
    here.unplug()
    for machine in (here, there):
        assert machine.get(f"bridge.wait_down({waiting.HANG_S})")


def mend(here: Machine, there: Machine) -> None:
    here.plug()
    for machine in (here, there):
        assert machine.get(f"bridge.wait_up({waiting.HANG_S})")


Both = tuple[Machine, Machine]


@pytest.mark.check
def test_a_message_crosses_once_for_all_subscribers(machines: Both) -> None:
    here, there = machines
    link(here, there, topics=("frames",))
    for machine in machines:
        machine.do("frames = service.Topic('frames')")
        machine.do("seen = [frames.subscribe() for _ in range(3)]")
        machine.until("frames.n_subscribers == 4")
    before = here.sent_bytes()
    here.do("publish(frames, 1, 4_000_000)")
    assert there.get("[len(s.get()) for s in seen]") == [500_000] * 3
    assert 4_000_000 <= here.sent_bytes() - before < 4_600_000
    there.do("frames.publish('back')")
    assert here.get("[s.get() if len(s.get()) == 500_000 else None for s in seen]") == ["back"] * 3
    assert here.get("row('frames')['n_sent']") == 1


def test_nothing_is_lost_or_doubled_by_a_cut_where_publishers_wait(machines: Both) -> None:
    here, there = machines
    link(here, there, topics=("steps",))
    for machine in machines:
        machine.do("steps = service.Topic('steps', depth=2, overflow='block')")
        machine.until("steps.n_subscribers == 1")
    there.do("seen = steps.subscribe()")
    here.do("publishing = threading.Thread(target=publish, args=(steps, 200, 100_000))")
    here.do("publishing.start()")
    assert there.get("[int(seen.get()[0]) for _ in range(30)]") == list(range(30))
    cut(here, there)
    mend(here, there)
    assert there.get("[int(seen.get()[0]) for _ in range(170)]") == list(range(30, 200))
    here.do("publishing.join()")
    assert here.get("row('steps')['n_lost'], row('steps')['n_sent']") == (0, 200)
    assert there.get("row('steps')['n_received']") == 200
    assert here.get("bridge.status().n_ups") == 2


def test_a_topic_that_drops_keeps_the_newest_during_a_cut(machines: Both) -> None:
    here, there = machines
    link(here, there, topics=("frames",))
    for machine in machines:
        machine.do("frames = service.Topic('frames', depth=4)")
        machine.until("frames.n_subscribers == 1")
    there.do("seen = frames.subscribe()")
    here.do("frames.publish('before')")
    assert there.get("seen.get()") == "before"
    cut(here, there)
    here.do("publish(frames, 100, 1000)")
    here.until("(row('frames')['n_lost'], row('frames')['n_sent']) == (96, 1)")
    mend(here, there)
    assert there.get("[int(seen.get()[0]) for _ in range(4)]") == [96, 97, 98, 99]


def test_the_newest_version_and_the_next_calls_arrive_after_a_cut(machines: Both) -> None:
    here, there = machines
    link(here, there, values=("step",), calls=("f",))
    here.do("serve('f')")
    here.do("service.publish('step', 1)")
    assert there.get("service.wait_newer('step', 0).value") == 1
    there.do("f = service.Client('f')")
    assert there.get("f.call(5)") == 5
    assert there.get("error_of(lambda: f.call('bad'))") == ("ValueError", "no good")
    there.do("future = f.submit('wait')")
    assert here.get("taken.wait()")
    cut(here, there)
    lost = (
        "ServerLostError",
        "the link to the other machine is lost: its bridge has gone, or cannot be reached",
    )
    assert there.get("error_of(future.result)") == lost
    assert there.get("error_of(lambda: f.call(6))") == lost
    here.until("not held[0].is_wanted")
    here.do("ended.set()")
    for n in range(2, 6):
        here.do(f"service.publish('step', {n})")
    mend(here, there)
    there.until("service.attach('step') == 5")
    assert there.get("f.call(7)") == 7


def test_a_bridge_ends_within_a_moment_while_the_cable_is_out(machines: Both) -> None:
    here, there = machines
    link(here, there, topics=("frames",))
    here.do("frames = service.Topic('frames', depth=64)")
    here.until("frames.n_subscribers == 1")
    here.unplug()
    here.do("publish(frames, 64, 1_000_000)")  # into a network that takes no more
    here.until("row('frames')['n_sent'] > 0")
    here.do("bridge.close()")
    here.do("bridge = Bridge(service, listen='tcp/10.77.7.1:7448')")
