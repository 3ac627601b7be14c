"""Modules in a service, and safetensors files published by their place."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import service_programs as programs

import shmtensor as T
from shmtensor import nn
from shmtensor.errors import HandleError
from shmtensor.service import Service, _modules
from shmtensor.utils import safetensors


def _model() -> nn.Module:
    T.manual_seed(1)
    return _with_buffer(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))


def _with_buffer(model: nn.Module) -> nn.Module:
    model.register_buffer("steps", T.zeros(2), persistent=False)
    return model


@pytest.mark.check
def test_module_is_attached_by_another_program(
    service: Service, run: type[programs.Program]
) -> None:
    model = _model().eval()
    service.publish("model", model)
    user = run(
        "import sys; import shmtensor as T; from shmtensor.service import Service\n"
        "model = Service(sys.argv[1]).attach_module('model').value\n"
        "assert not model.training\n"
        "print(model(T.ones(1, 3)).tolist())\n"
        "try: model[0].weight.data.add_(1)\n"
        "except RuntimeError as error: print('read-only' in str(error))",
        service._name,
    )
    assert user.finish().split("\n")[:2] == [str(model(T.ones(1, 3)).tolist()), "True"]


def test_module_takes_the_published_tensors(service: Service) -> None:
    service.publish_module("model", _model())
    mine, _ = service.attach_module("model", _model(), mode="rw")
    other, _ = service.attach_module("model", mode="rw")
    with T.no_grad():
        mine[0].weight.fill_(7)
    assert (other[0].weight == 7).all()
    assert isinstance(mine[0].weight, nn.Parameter)
    assert other.steps.is_shared()
    assert set(service.attach("model")) == {*mine.state_dict(), "steps"}


def test_the_version_that_was_attached_is_known(service: Service) -> None:
    first = service.publish("model", _model())
    model = _model()
    seen = service.wait_newer("model", 0).version
    second = service.publish("model", _model())
    attached = service.attach_module("model", model)  # a later one than wait_newer saw
    assert (seen, attached.version) == (first, second)
    assert attached.value is model
    with pytest.raises(TimeoutError):
        service.wait_newer("model", attached.version, timeout=0)


def test_what_is_no_module_is_refused(service: Service) -> None:
    service.publish("model", _model())
    with pytest.raises(TypeError, match="expected a module, got dict"):
        service.attach_module("model", {})
    with pytest.raises(TypeError, match="expected a module or a path, got dict"):
        service.publish_module("model", {})
    with pytest.raises(ValueError, match="NumPy has no modules"):
        service.attach_module("model", as_="numpy")


def test_tied_parameters_stay_tied(service: Service) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    service.publish_module("tied", model)
    attached, _ = service.attach_module("tied", mode="rw")
    assert attached[0].weight.data_ptr() == attached[1].weight.data_ptr()
    target = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    target[1].weight = target[0].weight
    service.attach_module("tied", target)
    assert target[0].weight is target[1].weight


def test_module_that_does_not_fit(service: Service) -> None:
    service.publish_module("model", _model())
    with pytest.raises(RuntimeError, match="does not fit: missing"):
        service.attach_module("model", nn.Linear(2, 2))
    small = _with_buffer(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)))
    before = small[0].weight
    with pytest.raises(RuntimeError, match=r"0\.weight: \(4, 3\) for \(4, 2\)"):
        service.attach_module("model", small)
    assert small[0].weight is before
    service.publish("tensor", T.ones(1))
    with pytest.raises(RuntimeError, match="is not a module"):
        service.attach_module("tensor")


@pytest.mark.check
def test_module_that_cannot_be_pickled_needs_one_to_attach(service: Service) -> None:
    class Local(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(T.ones(2))

    service.publish_module("local", Local())
    with pytest.raises(RuntimeError, match="make the module and pass it"):
        service.attach_module("local")
    assert (service.attach_module("local", Local()).value.weight == 1).all()


def test_class_that_the_reader_has_not(service: Service, run: type[programs.Program]) -> None:
    publisher = run(
        "import sys; import shmtensor as T; from shmtensor.service import Service\n"
        "class Own(T.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__(); self.w = T.nn.Parameter(T.ones(2))\n"
        "Service(sys.argv[1]).publish('own', Own(), persist=True)",
        service._name,
    )
    publisher.finish()
    with pytest.raises(RuntimeError, match="does not have the module's class"):
        service.attach_module("own")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    safetensors.save_file(dict(_model().state_dict()), path)
    return path


def test_file_is_mapped_not_copied(service: Service, file: Path) -> None:
    before = service.status().granted_bytes
    service.publish_module("file", file)
    assert service.status().granted_bytes - before <= 1 << 16
    state = service.attach("file", "ro")
    assert str(file) in Path("/proc/self/maps").read_text()
    assert T.equal(state["0.weight"], _model()[0].weight)
    with pytest.raises(RuntimeError, match="read-only"):
        state["0.weight"].zero_()
    model, _ = service.attach_module("file", nn.Sequential(*_model().children()))
    assert T.equal(model[2].bias, _model()[2].bias)


def test_writes_to_a_copy_on_write_file_stay_here(service: Service, file: Path) -> None:
    content = file.read_bytes()
    service.publish_module("file", os.fspath(file))
    service.attach("file", "cow")["0.weight"].zero_()
    assert file.read_bytes() == content
    assert service.attach("file", "ro")["0.weight"].abs().sum().item() > 0
    with pytest.raises(ValueError, match="'ro' or 'cow'"):
        service.attach("file", "rw")


def test_file_that_changed_is_refused(service: Service, file: Path) -> None:
    service.publish_module("file", file)
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(RuntimeError, match="has changed"):
        service.attach("file", "ro")
    file.unlink()
    with pytest.raises(FileNotFoundError):
        service.attach("file", "ro")


def test_file_that_is_none(service: Service, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"x" * 100)
    with pytest.raises(safetensors.SafetensorsError):
        service.publish_module("file", tmp_path / "bad")
    with pytest.raises(FileNotFoundError):
        service.publish_module("file", tmp_path / "none")


def _damaged(skeleton: str) -> Iterator[str]:
    """Skeletons that end early, are no base64 or no pickle, or name tensors that are not there."""
    pickled = base64.b64decode(skeleton)
    yield from ("", "!!!!", "abc", "\0", skeleton[:-40])
    for changed in (b"no pickle", pickled[:-1], pickled[: len(pickled) // 2]):
        yield base64.b64encode(changed).decode()
    yield base64.b64encode(pickled.replace(b"0.weight", b"9.weight")).decode()


def test_damaged_pickle_of_a_module_is_damage(service: Service) -> None:
    model = _model()
    state = _modules.state_of(model)
    whole = _modules.pack_skeleton(model, state)
    assert whole is not None
    assert b"0.weight" in base64.b64decode(whole)
    for skeleton in _damaged(whole):
        service._publish("model", "module", state, {"skeleton": skeleton}, False, None)
        with pytest.raises(HandleError, match="'model': the pickle of a published module"):
            service.attach_module("model")
    service._publish("model", "module", state, {"skeleton": whole}, False, None)
    assert isinstance(service.attach_module("model").value, nn.Module)


def test_module_of_a_program_under_torchs_name(
    service: Service, run: type[programs.Program]
) -> None:
    user = run(
        "import shmtensor.as_torch, sys; import torch\n"
        "from shmtensor.service import Service\n"
        "assert torch.nn.Linear.__module__ == 'torch.nn.modules.linear'\n"
        "Service(sys.argv[1]).publish('theirs', torch.nn.Sequential(torch.nn.Linear(3, 2)))\n"
        "model = Service(sys.argv[1]).attach_module('ours').value\n"
        "assert type(model[0]) is torch.nn.Linear\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n",
        service._name,
    )
    service.publish("ours", _model())
    assert user.line() == "ready"
    model = service.attach_module("theirs").value
    assert type(model[0]) is nn.Linear
    assert model(T.ones(1, 3)).shape == (1, 2)
