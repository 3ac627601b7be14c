"""A service with more names than its first tables have room for."""

from __future__ import annotations

import os
import resource

import pytest
import service_programs as programs

import shmtensor as T
from shmtensor.service import Service

_N = 2500  # the index grows twice on the way


@pytest.mark.check
def test_names_are_found_while_tables_grow(service: Service, run: type[programs.Program]) -> None:
    # A reader that never stops looks one name up while the tables change under it.
    service.publish("steady", T.ones(1))
    reader = run(
        "import sys; from shmtensor.service import Service\n"
        "s = Service(sys.argv[1]); s.version('steady'); print('reads', flush=True)\n"
        "import threading; done = threading.Event()\n"
        "threading.Thread(target=lambda: (sys.stdin.readline(), done.set())).start()\n"
        "n = 0\n"
        "while not done.is_set():\n"
        "    s.version('steady'); n += 1\n"
        "print(n)",
        service._name,
    )
    assert reader.line() == "reads"
    value = service.empty(1)
    for i in range(_N):
        service.publish(f"name {i}", value)
    reader.say()
    assert int(reader.finish()) > 0
    found = service.list()
    assert len(found) == _N + 1 == service.status().n_names
    assert all(service.version(f"name {i}") == found[f"name {i}"].version for i in range(_N))
    for i in range(0, _N, 2):
        service.unpublish(f"name {i}")
    assert len(service.list()) == _N // 2 + 1
    for i in range(_N):
        assert (f"name {i}" in found) and (i % 2 == 0) == (_is_gone(service, f"name {i}"))


def _is_gone(service: Service, name: str) -> bool:
    try:
        service.version(name)
    except KeyError:
        return True
    return False


_COMING_AND_GOING = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1])
value = service.empty(1)
first = service.publish("0", value)
for i in range(1500):
    last = service.publish(f"{i}", value)
    service.unpublish(f"{i}")
print("many", flush=True)
sys.stdin.readline()
for i in range(1500, 5000):
    version = service.publish(f"{i}", value)
    service.unpublish(f"{i}")
assert version > last, "versions go on where an entry serves another name"
assert service.publish("0", value) > first, "so they do when the name is used again"
print("more", flush=True)
sys.stdin.readline()
"""


def test_names_that_come_and_go_take_no_more_memory(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        publisher = run(_COMING_AND_GOING, name)
        assert publisher.line() == "many"
        before = _file_bytes(server.process.pid)
        publisher.say()
        assert publisher.line() == "more"
        assert _file_bytes(server.process.pid) <= before + (64 << 10)
        publisher.say()
        publisher.finish()


def _file_bytes(pid: int) -> int:
    """Memory of the control file, which the manager has open."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{fd}"
        if "shmtensor-control" in os.readlink(path):
            return os.stat(path).st_blocks * 512
    raise AssertionError("the manager has no control file")


def test_an_empty_service_has_few_pages() -> None:
    with programs.serving() as (_, server):
        assert _file_bytes(server.process.pid) < 64 << 10


_SURVIVING = f"""
import sys, time
from shmtensor.service import Service
service = Service(sys.argv[1])
values = [service.empty(1).fill_(i) for i in range(50)]
for i in range({_N}):
    service.publish(f"name {{i}}", values[i % 50])
print("published", flush=True)
sys.stdin.readline()
assert len(service.list()) == {_N}
assert service.attach("name 1234").item() == 1234 % 50
assert service.publish("one more", values[0]) > 0
service.unpublish("name 7")
try:
    service.version("name 7")
except KeyError:
    print(service.version("one more") > 0, flush=True)
"""


def test_next_manager_finds_all_names(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        user = run(_SURVIVING, name)
        assert user.line() == "published"
        server.kill()
        again = programs.Server("--name", name)
        try:
            user.say()
            assert user.line() == "True"
            user.finish()
        finally:
            again.kill()


def test_many_locks(service: Service) -> None:
    locks = [service.Lock(f"lock {i}") for i in range(300)]
    assert all(lock.acquire(timeout=programs.WAIT_S) for lock in locks)
    for lock in locks:
        lock.release()


_TOO_MANY = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1])
try:
    for i in range(3000):
        service.publish(f"name {i}", i)
except RuntimeError as error:
    print(error, flush=True)
for name in service.list():
    service.unpublish(name)
service.publish("again", 1)
print(service.attach("again"), flush=True)
"""


def test_more_names_than_there_are(run: type[programs.Program]) -> None:
    # The control file of a small session has room for 512.
    small = (12 << 20, 12 << 20)
    with programs.serving(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, small)) as (
        name,
        _,
    ):
        user = run(_TOO_MANY, name)
        assert user.line() == "all 512 names of the service are taken"
        assert user.line() == "1"
        user.finish()
