"""Publishers, readers and managers that end or are killed: what stays and what goes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

import pytest
import service_programs as programs
import waiting

from shmtensor.service import Service

_PUBLISHER = """
import sys
import shmtensor as T
from shmtensor.service import Service
service = Service(sys.argv[1])
for i in range(3):
    service.publish("fleeting", T.full((100_000,), 1.0))
    service.publish("lasting", T.full((100_000,), 2.0), persist=True)
print("published", flush=True)
sys.stdin.readline()
"""


@pytest.mark.check
@pytest.mark.parametrize("how", ["exits", "is killed"])
def test_names_vanish_with_their_publisher_unless_they_persist(
    service: Service, run: type[programs.Program], how: str
) -> None:
    publisher = run(_PUBLISHER, service._name)
    assert publisher.line() == "published"
    assert set(service.list()) == {"fleeting", "lasting"}
    assert [e.persists for e in (service.info("fleeting"), service.info("lasting"))] == [0, 1]
    kept = service.attach("fleeting")
    if how == "exits":
        publisher.say()
        publisher.finish()
    else:
        publisher.kill()
    waiting.until(lambda: set(service.list()) == {"lasting"})
    assert (kept == 1).all()
    assert (service.attach("lasting") == 2).all()


def test_memory_of_killed_publishers_and_readers_comes_back(
    service: Service, run: type[programs.Program]
) -> None:
    before = service.status().granted_bytes
    publisher = run(_PUBLISHER, service._name)
    assert publisher.line() == "published"
    reader = run(
        "import sys; from shmtensor.service import Service\n"
        "kept = Service(sys.argv[1]).attach('fleeting'); print('has it', flush=True)\n"
        "sys.stdin.readline()",
        service._name,
    )
    assert reader.line() == "has it"
    publisher.kill()
    service.unpublish("lasting")
    reader.kill()
    waiting.until(lambda: service.status().granted_bytes <= before)


_SURVIVOR = """
import os, signal, sys, time
import shmtensor as T
from shmtensor.service import Service
service = Service(sys.argv[1])
service.publish("mine", T.arange(5.0))
kept = service.attach("lasting", "rw")
print("ready", flush=True)
sys.stdin.readline()
assert service.attach("mine").tolist() == [0, 1, 2, 3, 4]  # without a manager
assert service.publish("mine", T.ones(5)) == 2
print(service.status().manager_pid, flush=True)
assert (kept == 2).all()
assert service.attach("lasting").sum().item() == 2 * 100_000
sys.stdin.readline()
"""


def test_names_survive_the_manager(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        publisher = run(_PUBLISHER, name)
        assert publisher.line() == "published"
        survivor = run(_SURVIVOR, name)
        assert survivor.line() == "ready"
        server.kill()
        survivor.say()
        manager = int(survivor.line())
        assert manager != server.pid
        # A newcomer finds the successor; the publisher is still there, so are its names.
        newcomer = run(
            "import sys; from shmtensor.service import Service\n"
            "service = Service(sys.argv[1])\n"
            "print(sorted(service.list()), service.attach('mine').tolist())",
            name,
        )
        assert newcomer.finish() == "['fleeting', 'lasting', 'mine'] [1.0, 1.0, 1.0, 1.0, 1.0]\n"
        # The publisher's end is seen by the successor.
        publisher.kill()
        waiter = run(
            "import sys, time; from shmtensor.service import Service\n"
            "service = Service(sys.argv[1])\n"
            "while 'fleeting' in service.list(): time.sleep(0.02)\n"
            "service.unpublish('lasting')",
            name,
        )
        waiter.finish()
        survivor.say()
        survivor.finish()
        waiting.until(lambda: not waiting.runs(manager))


_PUBLISHES_ON = """
import select, sys
import shmtensor as T
from shmtensor.service import Service
service = Service(sys.argv[1])
published = 0
while not select.select([sys.stdin], [], [], 0.0)[0]:
    assert service.publish("mine", T.full((1_000_000,), 1.0)) > published
    published = service.version("mine")
    if published == 1:
        print("ready", flush=True)
"""


def _managers_of(name: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"--name={name}" in (entry / "cmdline").read_text():
                found.append(int(entry.name))
    return found


def test_calls_outlive_managers_that_are_killed_one_after_another(
    run: type[programs.Program],
) -> None:
    with programs.serving() as (name, server):
        publisher = run(_PUBLISHES_ON, name)
        assert publisher.line() == "ready"
        server.kill()
        for i in range(12):
            waiting.until(lambda: _managers_of(name))
            time.sleep(0.002 * (i % 4))  # while it is asked, or before
            for pid in _managers_of(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        publisher.say()
        publisher.finish()


def test_newcomer_revives_a_service_whose_manager_was_killed(
    run: type[programs.Program],
) -> None:
    with programs.serving() as (name, server):
        publisher = run(_PUBLISHER, name)
        assert publisher.line() == "published"
        server.kill()
        newcomer = run(
            "import sys; from shmtensor.service import Service\n"
            "service = Service(sys.argv[1])\n"
            "print(service.attach('lasting').sum().item())\n"
            "service.unpublish('lasting')",  # else its manager stays
            name,
        )
        assert newcomer.finish() == "200000.0\n"


def test_reader_alone_revives_the_manager(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        publisher = run(_PUBLISHER, name)
        assert publisher.line() == "published"
        reader = run(
            "import sys; from shmtensor.service import Service\n"
            "service = Service(sys.argv[1])\n"
            "kept = service.attach('lasting', 'ro'); print('ready', flush=True)\n"
            "sys.stdin.readline()\n"
            "service.unpublish('lasting')\n"
            "assert (kept == 2).all()\n"
            "service.publish('lasting', kept + 1)\n"
            "print(service.attach('lasting').sum().item())",
            name,
        )
        assert reader.line() == "ready"
        publisher.kill()
        server.kill()
        reader.say()
        assert reader.finish() == "300000.0\n"


_DEFAULT = """
import sys
import shmtensor as T
from shmtensor import service
service.publish("x", T.arange(3.0), persist=sys.argv[1] == "persist")
print(service.status().manager_pid, flush=True)
"""


@pytest.mark.check
def test_wait_ends_with_an_error_when_the_service_ends(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        waiter = run(
            "import sys; from shmtensor.service import Service\n"
            "from shmtensor.errors import ManagerError\n"
            "service = Service(sys.argv[1])\n"
            "service.publish('x', 1); print('ready', flush=True)\n"
            "try: service.wait_newer('x', 1)\n"
            "except ManagerError as error: print('ended:', error)",
            name,
        )
        assert waiter.line() == "ready"
        assert server.terminate() == 0
        assert waiter.finish().startswith("ended:")


def test_waiting_can_be_interrupted(run: type[programs.Program]) -> None:
    with programs.serving() as (name, _):
        waiter = run(
            "import sys; from shmtensor.service import Service\n"
            "service = Service(sys.argv[1]); service.list(); print('ready', flush=True)\n"
            "try: service.wait_newer('x', 0)\n"
            "except KeyboardInterrupt: print('interrupted')",
            name,
        )
        assert waiter.line() == "ready"
        waiter.process.send_signal(signal.SIGINT)
        # The signal may come before the wait begins, which is a KeyboardInterrupt elsewhere.
        out, _err = waiter.process.communicate(timeout=programs.WAIT_S)
        assert "interrupted" in out or waiter.process.returncode != 0


def test_values_of_an_ended_service_stay_usable(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        holder = run(
            "import sys; from shmtensor.service import Service\n"
            "from shmtensor.errors import ManagerError\n"
            "import shmtensor as T\n"
            "service = Service(sys.argv[1])\n"
            "service.publish('x', T.ones(1000)); kept = service.attach('x', 'rw')\n"
            "print('ready', flush=True); sys.stdin.readline()\n"
            "kept += 1; assert (kept == 2).all()\n"
            "try: service.publish('x', 1)\n"
            "except ManagerError as error: print(error, flush=True)\n"
            "sys.stdin.readline()\n"
            "assert service.list() == {}, service.list()\n"
            "service.publish('x', kept); print(service.attach('x').sum().item())",
            name,
        )
        assert holder.line() == "ready"
        assert server.terminate() == 0
        holder.say()
        assert f'no service "{name}" runs' in holder.line()
        again = programs.Server("--name", name)
        try:
            holder.say()
            assert holder.finish() == "2000.0\n"
        finally:
            again.kill()


def test_default_service_starts_at_first_use_and_ends_when_unused(
    run: type[programs.Program],
) -> None:
    # Another one than that of the user, who may be using it.
    env = {"SHMTENSOR_SERVICE": programs.unused_name()}
    first = run(_DEFAULT, "no", env=env)
    manager = int(first.finish())
    waiting.until(lambda: not waiting.runs(manager))
    starter = run(_DEFAULT, "persist", env=env)
    manager = int(starter.finish())
    user = run(
        "from shmtensor import service\n"
        "print(service.status().manager_pid, service.attach('x').tolist())\n"
        "service.unpublish('x')",
        env=env,
    )
    assert user.finish() == f"{manager} [0.0, 1.0, 2.0]\n"
    waiting.until(lambda: not waiting.runs(manager))


def test_process_is_member_of_several_services_and_its_session(
    service: Service, run: type[programs.Program]
) -> None:
    with programs.serving() as (name, _):
        member = run(
            "import sys\n"
            "import shmtensor as T\n"
            "import shmtensor.multiprocessing as mp\n"
            "from shmtensor.service import Service\n"
            "def work(q, x): x += 1; q.put(x * 2)\n"
            "a, b = Service(sys.argv[1]), Service(sys.argv[2])\n"
            "a.publish('t', T.ones(3)); b.publish('t', a.attach('t') * 2)\n"
            "x, y = a.attach('t', 'rw'), b.attach('t')\n"
            "mp = mp.get_context('fork'); q = mp.Queue()\n"
            "p = mp.Process(target=work, args=(q, x)); p.start(); z = q.get(); p.join()\n"
            "assert p.exitcode == 0\n"
            "print(x.tolist(), y.tolist(), z.tolist())",
            name,
            service._name,
        )
        assert member.finish() == "[2.0, 2.0, 2.0] [2.0, 2.0, 2.0] [4.0, 4.0, 4.0]\n"


_MANY_IN_TURN = """
import os, signal, sys, time
import shmtensor as T
from shmtensor.errors import ManagerError
from shmtensor.service import Service
from waiting import until

service = Service(sys.argv[1])
kept, before = [], None

def is_served():
    try:
        service.list()
    except ManagerError:
        return False
    return True

for i in range(80):
    pid = os.fork()
    if pid == 0:
        try:
            service._handle.serve(0, 0, -1)  # becomes the manager
        finally:
            os._exit(1)
    try:
        until(is_served)
        service.publish("x", T.full((10,), float(i)))
        value = service.attach("x")
        assert value.sum() == 10 * i
        if i % 40 == 0:
            kept.append(value)
        del value
    finally:
        os.kill(pid, signal.SIGTERM)
        assert os.waitpid(pid, 0)[1] == 0
    if i == 5:
        before = len(os.listdir("/proc/self/fd")), len(open("/proc/self/maps").readlines())
after = len(os.listdir("/proc/self/fd")), len(open("/proc/self/maps").readlines())
assert after[0] - before[0] <= 3, (before, after)  # of the one with the second kept value
assert after[1] - before[1] <= 10, (before, after)
assert [value[0].item() for value in kept] == [0, 40]
"""


def test_services_that_ended_are_forgotten(run: type[programs.Program]) -> None:
    run(_MANY_IN_TURN, programs.unused_name()).finish()


_FORKED_PUBLISHER = """
import os, signal, sys, time
from shmtensor.service import Service
service = Service(sys.argv[1])
topic = service.Topic("t", depth=1, overflow="block")
print("open", flush=True)
sys.stdin.readline()
topic.publish(1)
manager = service.status().manager_pid
os.kill(manager, signal.SIGSTOP)  # so it gives the child no connection
if os.fork() == 0:
    signal.alarm(100)  # its parent is killed when the test fails
    os.kill(manager, signal.SIGCONT)
    print("publishes", flush=True)
    topic.publish(2)
    print("published", flush=True)
    os._exit(0)
os.wait()
"""


def test_waiting_child_without_a_connection_revives_the_manager(
    run: type[programs.Program],
) -> None:
    with programs.serving() as (name, server):
        publisher = run(_FORKED_PUBLISHER, name)
        assert publisher.line() == "open"
        viewer = run(
            "import sys; from shmtensor.service import Service\n"
            "s = Service(sys.argv[1]).Topic('t').subscribe(); print('open', flush=True)\n"
            "sys.stdin.readline()",
            name,
        )
        assert viewer.line() == "open"
        publisher.say()
        assert publisher.line() == "publishes"
        time.sleep(0.3)
        server.kill()
        viewer.kill()
        assert publisher.process.stdout is not None
        assert select.select([publisher.process.stdout], [], [], programs.WAIT_S)[0]
        assert publisher.line() == "published"
