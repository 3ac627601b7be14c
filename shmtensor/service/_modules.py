"""Modules in a service: their tensors by name, and how a module is made of them again.

A module is published as its parameters and buffers. Beside them lies a pickle of the rest, in which
the tensors are references. A pickle can run anything when it is read, so it is read only when the
manager says that a process of the reader's own user published it, and never in a service that is
open to a group, whose members could have changed it.
"""

from __future__ import annotations

import base64
import io
import os
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from shmtensor import nn
from shmtensor._boundary import storage as _c
from shmtensor._tensor import Tensor
from shmtensor.storage import UntypedStorage
from shmtensor.utils import safetensors

__all__ = ["assign", "file_identity", "open_file", "pack_skeleton", "rebuild", "state_of"]


def state_of(module: nn.Module) -> OrderedDict[str, Tensor]:
    """Return the parameters and buffers by name; one that has two names is there twice."""
    state: OrderedDict[str, Tensor] = OrderedDict()
    for name, parameter in module.named_parameters(remove_duplicate=False):
        state[name] = parameter
    for name, buffer in module.named_buffers(remove_duplicate=False):
        state[name] = buffer
    return state


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, state: Mapping[str, Tensor]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._names = {id(tensor): name for name, tensor in state.items()}

    def persistent_id(self, obj: Any) -> Any:
        return self._names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, state: Mapping[str, Tensor]) -> None:
        super().__init__(file)
        self._state = state

    def persistent_load(self, pid: Any) -> Any:
        return self._state[pid]


def pack_skeleton(module: nn.Module, state: Mapping[str, Tensor]) -> str | None:
    """Return the module without its tensors as text; None when it cannot be pickled."""
    file = io.BytesIO()
    try:
        _Pickler(file, state).dump(module)
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        return None  # a lambda, a local class, an open file: readers bring a module of their own
    return base64.b64encode(file.getvalue()).decode()


def rebuild(skeleton: str, state: Mapping[str, Tensor]) -> nn.Module:
    """Return the module of `pack_skeleton` with these tensors.

    Raises:
        RuntimeError: Its class cannot be found in this program.
    """
    try:
        module = _Unpickler(io.BytesIO(base64.b64decode(skeleton)), state).load()
    except (AttributeError, ImportError) as error:
        raise RuntimeError(
            f"attach_module(): this program has not got the module's class ({error}); make the "
            "module and pass it"
        ) from error
    if not isinstance(module, nn.Module):
        raise RuntimeError(f"attach_module(): expected a module, got {type(module).__name__}")
    return module


def assign(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Put the tensors in the place of the module's own parameters and buffers, without copying.

    Raises:
        RuntimeError: Names or shapes differ; nothing is changed then.
    """
    own = state_of(module)
    missing = [name for name in own if name not in state]
    surplus = [name for name in state if name not in own]
    wrong = [
        f"{name}: {tuple(state[name].shape)} for {tuple(own[name].shape)}"
        for name in own
        if name in state and state[name].shape != own[name].shape
    ]
    if missing or surplus or wrong:
        raise RuntimeError(
            f"attach_module(): the module does not fit: missing {missing}, unexpected {surplus}, "
            f"shapes {wrong}"
        )
    new: dict[int, nn.Parameter] = {}
    for name, present in own.items():
        path, _, last = name.rpartition(".")
        owner = module.get_submodule(path)
        if last in owner._parameters:
            if id(present) not in new:
                new[id(present)] = nn.Parameter(state[name].detach(), present.requires_grad)
            owner._parameters[last] = new[id(present)]
        else:
            owner._buffers[last] = state[name].detach()


# --- files --------------------------------------------------------------------------------------


def file_identity(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what tells this file from another one, or from its later content.

    Raises:
        SafetensorsError: It is no valid safetensors file.
        OSError: It cannot be read.
    """
    full = os.path.realpath(os.fspath(path))
    safetensors.read_metadata(full)
    found = os.stat(full)
    return {
        "path": full,
        "device": found.st_dev,
        "inode": found.st_ino,
        "nbytes": found.st_size,
        "changed_ns": found.st_mtime_ns,
    }


def open_file(identity: Mapping[str, Any], writable: bool) -> dict[str, Tensor]:
    """Map a published file; its pages are those that every process which maps it shares.

    Args:
        identity: Of `file_identity`.
        writable: Let writes stay in this process, instead of refusing them.

    Raises:
        RuntimeError: The file is another one by now, or has changed.
        OSError: It cannot be read by this user.
    """
    path = str(identity["path"])
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        now = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        then = tuple(identity[key] for key in ("device", "inode", "nbytes", "changed_ns"))
        if now != then:
            raise RuntimeError(
                f"the published file {path} has changed: device, inode, bytes and time were "
                f"{then}, now {now}"
            )
        flags = _c.FILE_WRITABLE if writable else 0
        # By the descriptor: what was looked at is what is mapped.
        ref = _c.map_file(f"/proc/self/fd/{fd}", found.st_size, flags)
    finally:
        os.close(fd)
    return safetensors.tensors_of(UntypedStorage._own(ref))
