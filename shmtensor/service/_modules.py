"""Publishes modules, and makes modules from published tensors.

A published module consists of its parameters and buffers, and a pickle of the rest that refers to
them. Reading a pickle can run any code. So it is read only if the kernel and the manager say that
no process of another user can be a member of the service.
"""

from __future__ import annotations

import base64
import io
import os
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from shmtensor._boundary import storage as _c
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor._core._tensor import Tensor
from shmtensor.errors import HandleError
from shmtensor.service._libraries import Library, is_module, is_torch_module, parameter_class
from shmtensor.storage import UntypedStorage, from_files

__all__ = [
    "assign",
    "file_identity",
    "is_state",
    "library_of",
    "open_file",
    "pack_skeleton",
    "rebuild",
    "state_of",
]


def library_of(module: object) -> Library:
    """Return the library of a module.

    Raises:
        TypeError: It is not a module.
    """
    if is_module(module):
        return "shmtensor"
    if is_torch_module(module):
        return "torch"
    raise TypeError(f"attach_module(): expected a module, got {type(module).__name__}")


def state_of(module: Any) -> OrderedDict[str, Any]:
    """Return the parameters and buffers by name. A tensor with two names is returned twice."""
    state: OrderedDict[str, Any] = OrderedDict()
    for name, parameter in module.named_parameters(remove_duplicate=False):
        state[name] = parameter
    for name, buffer in module.named_buffers(remove_duplicate=False):
        state[name] = buffer
    return state


def is_state(value: object) -> bool:
    """Whether a published value has the form of a module's state: tensors by name."""
    return isinstance(value, dict) and all(hasattr(t, "data_ptr") for t in value.values())


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, state: Mapping[str, object]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._names = {id(tensor): name for name, tensor in state.items()}

    def persistent_id(self, obj: Any) -> Any:
        return self._names.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, state: Mapping[str, object], library: Library) -> None:
        super().__init__(file)
        self._state = state
        self._is_ours = library == "shmtensor"

    def find_class(self, module: str, name: str) -> Any:
        # A program under as_torch has published it: Note [Names under torch].
        if self._is_ours and module.partition(".")[0] == "torch":
            module = "shmtensor" + module.removeprefix("torch")
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        return self._state[pid]


def pack_skeleton(module: object, state: Mapping[str, object]) -> str | None:
    """Return a pickle of the module without its tensors, as text; None: it cannot be pickled."""
    file = io.BytesIO()
    try:
        _Pickler(file, state).dump(module)
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
        raise_of_handler(error)
        return None  # a lambda, a local class, an open file: readers must pass a module
    return base64.b64encode(file.getvalue()).decode()


def rebuild(skeleton: str, state: Mapping[str, object], library: Library) -> Any:
    """Unpickle what `pack_skeleton` returned, with these tensors of *library*.

    Raises:
        HandleError: The pickle is damaged.
        RuntimeError: The module's class cannot be found in this program, or it is a module of
            another library.
    """
    try:
        file = io.BytesIO(base64.b64decode(skeleton, validate=True))
        module = _Unpickler(file, state, library).load()
    except (AttributeError, ImportError) as error:
        raise_of_handler(error)
        raise RuntimeError(
            f"attach_module(): this program does not have the module's class ({error}); make the "
            "module and pass it"
        ) from error
    except MemoryError:
        raise
    except Exception as error:
        raise_of_handler(error)
        raise HandleError(
            f"the pickle of a published module, {len(skeleton)} characters of base64, is damaged: "
            f"{type(error).__name__}: {error}"
        ) from error
    is_fitting = is_torch_module(module) if library == "torch" else is_module(module)
    if not is_fitting:
        raise RuntimeError(
            f"attach_module(): expected a module of {library}, got {type(module).__qualname__} of "
            f"{type(module).__module__}; as_= says which library it is of"
        )
    return module


def assign(module: Any, state: Mapping[str, Any], library: Library) -> None:
    """Replace the parameters and buffers of a module of *library* by the tensors, without copying.

    Raises:
        RuntimeError: Names or shapes differ; then nothing is changed.
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
    new: dict[int, Any] = {}
    parameter = parameter_class(library)
    for name, present in own.items():
        path, _, last = name.rpartition(".")
        owner = module.get_submodule(path)
        if last in owner._parameters:
            if id(present) not in new:
                new[id(present)] = parameter(state[name].detach(), present.requires_grad)
            owner._parameters[last] = new[id(present)]
        else:
            owner._buffers[last] = state[name].detach()


# --- files --------------------------------------------------------------------------------------


def file_identity(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the identity of a file, which differs from that of other files and of a changed file.

    Raises:
        SafetensorsError: It is not a valid safetensors file.
        ValueError: It is a device or a pipe.
        OSError: It cannot be read.
    """
    from shmtensor.utils import safetensors  # few programs publish files, and it loads NumPy

    full = os.path.realpath(os.fspath(path))
    with from_files.open_regular(full) as (file, _):
        safetensors.check_file(file)
        found = os.fstat(file.fileno())
    return {
        "path": full,
        "device": found.st_dev,
        "inode": found.st_ino,
        "nbytes": found.st_size,
        "changed_ns": found.st_mtime_ns,
    }


def open_file(identity: Mapping[str, Any], writable: bool) -> dict[str, Tensor]:
    """Map a published file. All processes that map it share its pages.

    Args:
        identity: From `file_identity`.
        writable: Allow writes, which stay in this process; otherwise they raise.

    Raises:
        RuntimeError: The file was replaced or has changed.
        OSError: This user cannot read it.
    """
    from shmtensor.utils import safetensors

    path = str(identity["path"])
    try:
        fd = from_files.open_descriptor(path, os.O_RDONLY)
    except ValueError as error:
        raise RuntimeError(f"the published file has changed: {error}") from None
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
        ref = _c.map_file(path, found.st_size, flags, fd)
    finally:
        os.close(fd)
    return safetensors.tensors_of(UntypedStorage._own(ref))
