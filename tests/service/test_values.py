"""Publishing and attaching values. Modes: test_modes.py; deaths: test_deaths.py."""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import service_programs as programs

import shmtensor as T
from shmtensor.errors import ManagerError
from shmtensor.service import Service

_READER = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1])
print(service.attach(sys.argv[2])["w"].sum().item(), flush=True)
"""


@pytest.mark.check
def test_program_attaches_what_another_published(
    service: Service, run: type[programs.Program]
) -> None:
    service.publish("weights", {"w": T.arange(10.0)})
    assert run(_READER, service._name, "weights").finish() == "45.0\n"


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        7,
        -(2**70),
        2.5,
        "text \N{SNOWMAN}",
        b"\x00\xff",
        [],
        (1, [2, (3,)]),
        {"a": 1, 2: "b", None: False},
        OrderedDict([("z", 1), ("a", 2)]),
    ],
)
def test_plain_values_come_back_as_they_are(service: Service, value: Any) -> None:
    service.publish("plain", value)
    back = service.attach("plain")
    assert back == value
    assert type(back) is type(value)


def test_floats_that_json_has_not(service: Service) -> None:
    service.publish("floats", [math.inf, -math.inf, math.nan])
    back = service.attach("floats")
    assert back[:2] == [math.inf, -math.inf]
    assert math.isnan(back[2])


@pytest.mark.parametrize(
    "dtype", [T.float32, T.bfloat16, T.int64, T.bool, T.complex64, T.complex32, T.uint8]
)
def test_tensors_keep_dtype_sizes_and_strides(service: Service, dtype: Any) -> None:
    tensor = T.ones(3, 4).to(dtype).t()
    service.publish("tensor", tensor)
    back = service.attach("tensor")
    assert back.dtype == dtype
    assert back.shape == tensor.shape
    assert T.equal(back, tensor)


def test_tensors_without_elements_and_dimensions(service: Service) -> None:
    service.publish("odd", [T.empty(0, 3), T.tensor(4.0)])
    empty, scalar = service.attach("odd")
    assert empty.shape == (0, 3)
    assert scalar.item() == 4.0


def test_views_of_one_storage_stay_aliases(service: Service) -> None:
    base = T.zeros(10)
    service.publish("views", [base[:5], base[2:8]])
    left, right = service.attach("views", "rw")
    left[3] = 9
    assert right[1].item() == 9
    assert base[3].item() == 0  # the publisher's own was copied


def test_part_of_a_large_storage_is_published_alone(service: Service) -> None:
    service.publish("part", T.zeros(1000, 1000)[0, :10])
    assert service.info("part").nbytes == 40


def test_parameter_comes_back_as_one(service: Service) -> None:
    service.publish("parameter", T.nn.Parameter(T.ones(2), requires_grad=False))
    back = service.attach("parameter")
    assert isinstance(back, T.nn.Parameter)
    assert not back.requires_grad


def test_tensor_of_the_service_is_published_as_it_is(service: Service) -> None:
    live = service.empty(4).fill_(1)
    service.publish("live", live)
    live[0] = 5
    assert service.attach("live")[0].item() == 5
    service.attach("live", "rw")[1] = 6
    assert live[1].item() == 6


def test_attached_values_are_read_only_unless_asked_otherwise(service: Service) -> None:
    service.publish("values", T.zeros(2))
    for value in (service.attach("values"), service.latest("values").value):
        with pytest.raises(RuntimeError, match="read-only"):
            value[0] = 1
    service.attach("values", "rw")[0] = 1
    assert service.attach("values").tolist() == [1, 0]


def test_versions_grow_also_after_unpublish(service: Service) -> None:
    first = service.publish("counted", T.zeros(1))
    assert service.publish("counted", T.zeros(1)) == first + 1
    service.unpublish("counted")
    assert service.publish("counted", T.zeros(1)) == first + 2
    assert service.version("counted") == first + 2


@pytest.mark.check
def test_reader_keeps_its_version(service: Service) -> None:
    service.publish("kept", T.full((1000,), 1.0))
    old, version = service.latest("kept")
    for i in range(2, 20):
        service.publish("kept", T.full((1000,), float(i)))
    assert service.latest("kept").version == version + 18
    assert (old == 1).all()
    service.unpublish("kept")
    assert (old == 1).all()


def test_old_versions_give_their_memory_back(service: Service) -> None:
    before = service.status().granted_bytes
    for i in range(50):
        service.publish("large", T.full((1 << 20,), float(i)))
    assert service.status().granted_bytes < before + 8 * (4 << 20)


def test_unknown_name(service: Service) -> None:
    for method in (service.attach, service.latest, service.version, service.unpublish):
        with pytest.raises(KeyError, match='nothing is published as "nobody"'):
            method("nobody")


@pytest.mark.parametrize("name", ["", "x" * 128, "a\0b"])
def test_bad_names(service: Service, name: str) -> None:
    with pytest.raises(ValueError, match="name must have 1 to 127 bytes"):
        service.publish(name, 1)


def test_names_that_are_no_text(service: Service) -> None:
    with pytest.raises(TypeError, match="a name must be a str, got int"):
        service.Topic(3)  # type: ignore[arg-type]


def test_longest_name(service: Service) -> None:
    service.publish("x" * 127, 1)
    assert list(service.list()) == ["x" * 127]


def test_values_that_cannot_be_published(service: Service) -> None:
    with pytest.raises(TypeError, match="got set"):
        service.publish("bad", {1, 2})
    with pytest.raises(TypeError, match="keys must be"):
        service.publish("bad", {(1,): 2})
    with pytest.raises(RuntimeError, match="not a leaf"):
        service.publish("bad", T.ones(1, requires_grad=True) * 2)
    with pytest.raises(NotImplementedError, match="meta"):
        service.publish("bad", T.empty(1, device="meta"))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested deeper"):
        service.publish("bad", loop)
    assert service.list() == {}


@pytest.mark.parametrize("version", [-1, 1 << 64, 1 << 70])
def test_a_version_is_counted_from_0(service: Service, version: int) -> None:
    with pytest.raises(ValueError, match=f"version must be a number .* got {version}$"):
        service.wait_newer("step", version, 0)


@pytest.mark.parametrize("owner", [-1, (1 << 32) - 1, 1 << 70])
def test_an_owner_is_the_id_of_a_user(owner: int) -> None:
    for name in (None, "any"):
        with pytest.raises(ValueError, match=f"owner must be the id of a user, got {owner}$"):
            Service(name, owner=owner)


def test_wait_newer_returns_at_once_when_there_is_one(service: Service) -> None:
    version = service.publish("waited", T.ones(1))
    assert service.wait_newer("waited", version - 1, timeout=0).version == version
    with pytest.raises(TimeoutError, match="no version of 'waited' above"):
        service.wait_newer("waited", version, timeout=0)


_WAITER = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1])
version = 0
while version < 5:
    print("waiting", flush=True)
    value, version = service.wait_newer("news", version)
    assert (value == value[0]).all()
print("done", version, flush=True)
"""


def test_waiter_is_woken_by_a_name_and_by_each_version(
    service: Service, run: type[programs.Program]
) -> None:
    waiter = run(_WAITER, service._name)
    assert waiter.line() == "waiting"
    for _ in range(5):
        service.publish("news", T.full((1000,), 1.0))
    assert waiter.finish().splitlines()[-1].startswith("done")


_STORM = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1])
last = 0
while last < int(sys.argv[2]):
    value, version = service.wait_newer("storm", last)
    assert version > last
    assert value["a"][0].item() == value["b"].item(), "torn"
    assert (value["a"] == value["a"][0]).all(), "torn"
    last = version
"""


def test_readers_never_see_half_a_version(service: Service, run: type[programs.Program]) -> None:
    readers = [run(_STORM, service._name, "300") for _ in range(2)]
    for i in range(300):
        service.publish("storm", {"a": T.full((5000,), float(i)), "b": T.tensor(float(i))})
    for reader in readers:
        reader.finish()


# --- the object -------------------------------------------------------------------------------


def test_a_with_block_closes_a_service(service: Service) -> None:
    with Service(service._name) as mine:
        mine.publish("value", T.ones(2))
        value = mine.attach("value")
    assert repr(mine) == f"<Service {service._name!r}, closed>"
    for call in (mine.list, lambda: mine.attach("value"), lambda: mine.Lock("lock")):
        with pytest.raises(ValueError, match=r"is used after close\(\)"):
            call()
    assert value.tolist() == [1, 1]
    assert service.attach("value").tolist() == [1, 1]
    mine.close()


def test_repr_says_which_service() -> None:
    assert repr(Service("unused")) == "<Service 'unused'>"
    assert repr(Service(socket="/tmp/s", owner=7)).endswith(", socket='/tmp/s', owner=7>")


def test_names_of_services_that_are_none(tmp_path: Path) -> None:
    for name in ("a\0b", ""):
        with pytest.raises(ValueError, match=r"NUL|needs a name"):
            Service(name)
    for other in (b"name", 3):
        with pytest.raises(TypeError, match="the name of a service must be a str, got"):
            Service(other)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NUL"):
        Service("name", socket="/tmp/a\0b")
    for path in (tmp_path / "none", os.fsencode(tmp_path / "none")):
        with pytest.raises(ManagerError, match=r'no service at ".*/none" runs'):
            Service("name", socket=path).list()  # type: ignore[arg-type]
