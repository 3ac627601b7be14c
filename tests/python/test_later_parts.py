"""The parts of the package that are loaded when they are first asked for."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest
import waiting

import shmtensor


@pytest.mark.check
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("package.nn, package.save, package._conj", id="attributes"),
        pytest.param("from shmtensor import fft, load, _log_softmax", id="from-import"),
        pytest.param("import shmtensor.nn.functional as F; package.optim", id="submodule-first"),
        pytest.param("assert {'nn', 'load', 'add'} <= set(dir(package)); package.nn", id="dir"),
        pytest.param(
            "from threading import Thread\n"
            "found = []\n"
            "ask = lambda: found.append((package.nn.Linear, package.stft))\n"
            "threads = [Thread(target=ask) for _ in range(8)]\n"
            "for t in threads: t.start()\n"
            "for t in threads: t.join()\n"
            "assert len(found) == 8",
            id="threads",
        ),
    ],
)
def test_they_are_found_and_then_stay(code: str) -> None:
    program = (
        "import sys, shmtensor as package\n"
        "assert 'shmtensor.nn' not in sys.modules and not hasattr(package, '__wrapped__')\n"
        f"assert 'shmtensor.nn' not in sys.modules\n{code}\n"
        "assert '__getattr__' not in vars(package) and package.serialization.load is package.load\n"
        "try: package.missing\n"
        "except AttributeError as e: assert str(e) == \"module 'shmtensor' has no attribute "
        "'missing'\"\n"
        "else: raise AssertionError\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


# For each submodule in a process of its own: no class is there twice, each module has its spec.
_SUBMODULES = """
import collections, gc, importlib, os, pkgutil, sys
import shmtensor

for package in pkgutil.iter_modules(shmtensor.__path__):
    exec(f"from shmtensor import {package.name}")


def find_classes():
    return [c for c in gc.get_objects() if issubclass(type(c), type)]


known = find_classes()
gc.freeze()  # so that each process looks at its new objects only


def check(name):
    try:
        module = importlib.import_module(name)
    except ImportError:  # it needs something that is not installed
        return
    assert module is sys.modules[name] or ".multiprocessing." in name, module
    classes = known + find_classes()
    named_as_base = {b for c in classes for b in c.__bases__ if b.__qualname__ == c.__qualname__}
    names = [f"{c.__module__}.{c.__qualname__}" for c in classes if c not in named_as_base]
    names = [n for n in names if n.startswith("shmtensor.") and "<locals>" not in n]
    twice = [n for n, count in collections.Counter(names).items() if count > 1]
    assert not twice, (name, twice)
    for n, m in list(sys.modules.items()):
        has_file = n.startswith("shmtensor.") and getattr(m, "__file__", None)
        assert not has_file or m.__spec__ is not None, n


for package in pkgutil.iter_modules(shmtensor.__path__):
    if not package.ispkg:
        continue
    module = getattr(shmtensor, package.name)
    for submodule in pkgutil.iter_modules(module.__spec__.submodule_search_locations):
        if submodule.name == "__main__":
            continue
        pid = os.fork()
        if pid == 0:
            try:
                check(f"{module.__name__}.{submodule.name}")
            except AssertionError as error:
                print(error, file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
"""
_ONE_OF_EACH = """
from shmtensor import distributions, nn, optim
from shmtensor.optim.optimizer import Optimizer
from shmtensor.optim.lr_scheduler import LRScheduler
from shmtensor.distributions.normal import Normal
from shmtensor.nn.modules.module import Module

assert isinstance(nn.Linear(1, 1), Module) and distributions.Normal is Normal
sgd = optim.SGD(nn.Linear(1, 1).parameters(), lr=1)
assert isinstance(sgd, Optimizer) and isinstance(optim.lr_scheduler.StepLR(sgd, 1), LRScheduler)
"""

# They wait for each other's modules: the package imports its submodule, whose import needs it.
_THREADS = """
import faulthandler, importlib, sys, threading
from shmtensor import optim

faulthandler.dump_traceback_later(30, exit=True)
sys.setswitchinterval(1e-6)
start = threading.Barrier(2)
calls = [lambda: importlib.import_module("shmtensor.optim.optimizer"), lambda: optim.SGD]
threads = [threading.Thread(target=lambda c=c: (start.wait(), c())) for c in calls]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert optim.Optimizer is importlib.import_module("shmtensor.optim.optimizer").Optimizer
"""


@pytest.mark.parametrize(
    "code", [_SUBMODULES, _ONE_OF_EACH, _THREADS], ids=["all", "classes", "threads"]
)
def test_a_submodule_is_loaded_once(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120 * waiting.SLOWER,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_version_is_that_of_the_distribution() -> None:
    assert shmtensor.__version__ == importlib.metadata.version("shmtensor")
