"""Read-write, read-only and copy-on-write: what each lets a process write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import service_programs as programs

import shmtensor as T
from shmtensor.service import Service

_WRITES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda t: t.add_(1),
    "copy_": lambda t: t.copy_(T.zeros(4)),
    "fill_": lambda t: t.fill_(1),
    "zero_": lambda t: t.zero_(),
    "setitem": lambda t: t.__setitem__(0, 5.0),
    "setitem slice": lambda t: t[1:].__setitem__(slice(0, 2), 5.0),
    "setitem mask": lambda t: t.__setitem__(t > 1, 0.0),
    "setitem index": lambda t: t.__setitem__(T.tensor([0, 1]), T.ones(2)),
    "out": lambda t: T.add(T.ones(4), 1, out=t),
    "out of a reduction": lambda t: T.sum(T.ones(4, 4), 0, out=t),
    "out of matmul": lambda t: T.matmul(T.ones(4, 4), T.ones(4), out=t),
    "out of cat": lambda t: T.cat([T.ones(2), T.ones(2)], out=t),
    "view": lambda t: t.view(2, 2).mul_(2),
    "normal_": lambda t: t.normal_(),
    "uniform_": lambda t: t.uniform_(),
    "scatter_": lambda t: t.scatter_(0, T.tensor([0]), 1.0),
    "index_add_": lambda t: t.index_add_(0, T.tensor([0]), T.ones(1)),
    "index_put_": lambda t: t.index_put_((T.tensor([0]),), T.ones(1)),
    "masked_fill_": lambda t: t.masked_fill_(t > 0, 1.0),
    "clamp_": lambda t: t.clamp_(0, 1),
    "storage": lambda t: t.untyped_storage().fill_(0),
    "storage item": lambda t: t.untyped_storage().__setitem__(0, 1),
    "in inference mode": lambda t: _in_inference_mode(t),
    "library": lambda t: T.ops.aten.add_(t, 1),
}


def _in_inference_mode(t: Any) -> None:
    with T.inference_mode():
        t.add_(1)


@pytest.mark.parametrize("write", _WRITES)
def test_operators_refuse_to_write_read_only_tensors(service: Service, write: str) -> None:
    service.publish("values", T.arange(4.0))
    tensor = service.attach("values", "ro")
    with pytest.raises((RuntimeError, TypeError), match=r"read-only|readonly"):
        _WRITES[write](tensor)
    assert tensor.tolist() == [0, 1, 2, 3]


@pytest.mark.check
def test_read_only_tensors_can_be_used_and_reshaped(service: Service) -> None:
    service.publish("values", T.arange(4.0))
    tensor = service.attach("values", "ro")
    assert (tensor + 1).sum().item() == 10
    assert tensor.unsqueeze_(0).shape == (1, 4)
    assert not tensor.numpy().flags.writeable
    copy = tensor.clone()
    copy.add_(1)
    weight = service.attach("values", "ro").requires_grad_()
    (weight * 2).sum().backward()
    assert weight.grad.tolist() == [2, 2, 2, 2]


def test_optimizer_refuses_read_only_parameters(service: Service) -> None:
    service.publish("p", T.nn.Parameter(T.ones(3)))
    parameter = service.attach("p", "ro")
    parameter.sum().backward()
    with pytest.raises(RuntimeError, match="read-only"):
        T.optim.SGD([parameter], lr=0.1).step()


def test_read_only_tensor_is_not_sent(service: Service) -> None:
    service.publish("values", T.arange(4.0))
    tensor = service.attach("values", "ro")
    for share in ("_share_filename_cpu_", "_share_filename_", "_share_fd_", "_share_fd_cpu_"):
        with pytest.raises(RuntimeError, match=r"read-only storage .* cannot be sent"):
            getattr(tensor.untyped_storage(), share)()


def test_modes_of_one_value_beside_each_other(service: Service) -> None:
    service.publish("values", T.arange(4.0))
    written = service.attach("values", "rw")
    read = service.attach("values", "ro")
    own = service.attach("values", "cow")
    own[0] = 100
    written[1] = 200
    assert written.tolist() == [0, 200, 2, 3]
    assert read.tolist() == [0, 200, 2, 3]
    assert own[0].item() == 100
    del written, own
    assert read.tolist() == [0, 200, 2, 3]


@pytest.mark.check
def test_copy_on_write_of_a_part_of_a_page(service: Service) -> None:
    for i in range(20):
        service.publish(f"small {i}", T.full((10,), float(i)))
    tensors = [service.attach(f"small {i}", "cow") for i in range(20)]
    for tensor in tensors:
        tensor.add_(1)
    for i in range(20):
        assert (service.attach(f"small {i}") == i).all()
        assert (tensors[i] == i + 1).all()


def test_unknown_mode(service: Service) -> None:
    with pytest.raises(ValueError, match="mode must be one of"):
        service.attach("values", "w")


# How this process may use the arena, for each descriptor that it has of it.
_ARENA_MODES = """
import fcntl, os

def arena_modes():
    modes = []
    for number in os.listdir("/proc/self/fd"):
        try:
            if "shmtensor-arena" in os.readlink(f"/proc/self/fd/{number}"):
                modes.append(fcntl.fcntl(int(number), fcntl.F_GETFL) & os.O_ACCMODE)
        except OSError:
            pass  # of the listing itself
    return modes
"""

_READ_ONLY_CLIENT = (
    _ARENA_MODES
    + """
import ctypes, os, sys
from shmtensor.service import Service

def maps():
    return [line.split()[1] for line in open("/proc/self/maps") if "shmtensor-arena" in line]

service = Service(sys.argv[1])
tensor = service.attach("values", "ro")
assert maps() == ["r--s"], maps()
assert arena_modes() == [os.O_RDONLY], arena_modes()
page = tensor.data_ptr() & ~4095
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mprotect(ctypes.c_void_p(page), 4096, 3) == -1
assert ctypes.get_errno() == 13, ctypes.get_errno()
try:
    tensor.add_(1)
    raise SystemExit("written")
except RuntimeError as error:
    assert "read-only" in str(error)
for share in ("_share_filename_", "_share_fd_"):
    try:
        getattr(tensor.untyped_storage(), share)()
        raise SystemExit(share)
    except RuntimeError as error:
        assert "read-only" in str(error)
print("refused", flush=True)
sys.stdin.readline()
service.attach("values", "rw")[0] = 50
assert tensor[0].item() == 50
tensor.is_shared()
try:
    tensor.add_(1)
    raise SystemExit("written")
except RuntimeError as error:
    assert "read-only" in str(error)
pid = os.fork()
if pid == 0:
    ok = service.attach("values", "ro")[0].item() == 50 and tensor[0].item() == 50
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
)


def test_process_that_only_reads_has_no_way_to_write(
    service: Service, run: type[programs.Program]
) -> None:
    service.publish("values", T.arange(4.0))
    reader = run(_READ_ONLY_CLIENT, service._name)
    assert reader.line() == "refused"
    assert service.attach("values").tolist() == [0, 1, 2, 3]
    reader.say()
    reader.finish()
    assert service.attach("values")[0].item() == 50


_REJOINS_TO_READ = (
    _ARENA_MODES
    + """
import os, sys
from shmtensor.service import Service

service = Service(sys.argv[1])
before = service.attach("values", mode="ro")
assert arena_modes() == [os.O_RDONLY], arena_modes()
os.closerange(3, os.sysconf("SC_OPEN_MAX"))
after = service.attach("values", mode="cow")  # asks the manager for the arena
assert arena_modes() == [os.O_RDONLY], arena_modes()
assert before.tolist() == after.tolist() == [0, 1, 2, 3]
"""
)


def test_a_reader_that_joins_again_still_reads_only(
    service: Service, run: type[programs.Program]
) -> None:
    service.publish("values", T.arange(4.0))
    run(_REJOINS_TO_READ, service._name).finish()
