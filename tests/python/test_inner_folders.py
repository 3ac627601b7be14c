"""Modules of the inner folders have the names that they would have in the package itself.

That their classes are there once is in test_later_parts.py.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import shmtensor

_ROOT = Path(shmtensor.__file__).parent
# For each of the modules in a process of its own, which has loaded nothing but the package.
_EACH = """
import importlib, os, sys
from pathlib import Path
import shmtensor
from shmtensor import _core

create = _core.Alias.create_module


def create_loaded(self, spec):
    module = sys.modules.get(self._name)
    assert not module or not module.__spec__._initializing, f"{spec.name} while it is being loaded"
    return create(self, spec)


_core.Alias.create_module = create_loaded


def check(folder, name):
    module = importlib.import_module(f"shmtensor.{folder}.{name}")
    assert importlib.import_module(f"shmtensor.{name}") is module
    assert module.__spec__.name == module.__name__ == f"shmtensor.{name}"


for folder in ("_core", "_torch"):
    inside = Path(shmtensor.__file__).parent / folder
    for path in inside.rglob("*.py"):
        parts = path.relative_to(inside).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if name == "__init__":
            continue
        if pid := os.fork():
            assert os.waitpid(pid, 0)[1] == 0, (folder, name)
            continue
        try:
            check(folder, name)
        except BaseException as error:
            print(folder, name, error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
"""
_AS_TORCH = """
import shmtensor.as_torch
import torch.cuda, torch._dynamo, torch._utils, torch._tensor, torch.backends.cudnn as cudnn
from torch.cuda import amp
from torch._tensor import Tensor
import shmtensor._core._utils, shmtensor._torch._dynamo
import shmtensor._torch.cuda.amp, shmtensor._torch.backends.cudnn

assert torch.cuda is shmtensor.cuda is shmtensor._torch.cuda and Tensor is torch.Tensor
assert amp is shmtensor._torch.cuda.amp and cudnn is shmtensor._torch.backends.cudnn
assert torch._utils is shmtensor._core._utils and torch._dynamo is shmtensor._torch._dynamo
assert amp.autocast.__module__ == "torch.cuda.amp.autocast_mode"
"""
_WITHOUT_IMPORT = """
import sys, shmtensor
names = "dashboard files hogwild inspect multiprocessing service shm".split()
assert {f"shmtensor.{name}" for name in names} & set(sys.modules) == {"shmtensor.multiprocessing"}
assert set(names) <= set(dir(shmtensor))
assert shmtensor.service.publish and shmtensor.hogwild.run and shmtensor.inspect.as_rows
assert shmtensor.dashboard.Server and shmtensor.files.load_npy and shmtensor.shm.arena
"""


@pytest.mark.check
@pytest.mark.parametrize("code", [_EACH, _AS_TORCH, _WITHOUT_IMPORT], ids=["each", "torch", "dir"])
def test_a_module_is_one_object_under_all_its_names(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_name_is_in_two_folders() -> None:
    folders = (_ROOT, _ROOT / "_core", _ROOT / "_torch")
    paths = [p for folder in folders for p in folder.iterdir() if not p.name.startswith("__")]
    names = [p.stem for p in paths if p.suffix == ".py" or (p / "__init__.py").exists()]
    assert len(names) == len(set(names))


@pytest.mark.check
def test_a_module_that_is_missing_is_said_to_be() -> None:
    for name in ("shmtensor._core._missing", "shmtensor._torch._missing", "shmtensor._missing"):
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'shmtensor\._missing'"):
            __import__(name)


def test_dir_leaves_out_what_is_not_here() -> None:
    listed = set(dir(shmtensor))
    absent = {"cuda", "jit", "onnx", "export", "float8_e5m2", "ScriptModule", "has_cuda"}
    assert not absent & listed
    assert all(hasattr(shmtensor, name) for name in absent)


# Pickles and checkpoints of every version contain these; each names an object that is there.
_PICKLED_NAMES = """
_C._named_result _C._rebuild_message
_absent_dtypes.qscheme _dispatch_keys.DispatchKey _fork_locks.module_lock
_pickling.rebuild_meta_storage _pickling.rebuild_sparse _pickling.rebuild_storage
_pickling.rebuild_subclass _pickling.rebuild_tensor
_streams.Event _streams.Stream _symbols.SymInt _tensor.Tensor
_utils._rebuild_meta_tensor_no_storage _utils._rebuild_parameter _utils._rebuild_sparse_tensor
_utils._rebuild_tensor_v2
cuda.amp.grad_scaler.GradScaler fx.graph_module.GraphModule fx.node.Node
jit.ScriptModule onnx.errors.OnnxExporterError torch_version.TorchVersion
"""


@pytest.mark.parametrize("name", _PICKLED_NAMES.split())
def test_a_pickled_name_is_found(name: str) -> None:
    module, _, attribute = f"shmtensor.{name}".rpartition(".")
    found = pickle.loads(f"c{module}\n{attribute}\n.".encode())
    assert found is not None and pickle.loads(pickle.dumps(found)) is found


def test_tensors_are_pickled_by_names_without_folders() -> None:
    values = [
        shmtensor.ones(2),
        shmtensor.ones(2, device="meta"),
        shmtensor.ones(2).to_sparse(),
        shmtensor.nn.Parameter(shmtensor.ones(2)),
        shmtensor.nn.Linear(2, 2),
        shmtensor.version.torch_version,
        shmtensor.float32,
        shmtensor.Generator(),
    ]
    for value in values:
        data = pickle.dumps(value)
        assert b"_core" not in data and b"_torch." not in data
        assert type(pickle.loads(data)) is type(value)
