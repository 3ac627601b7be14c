"""What the package raises and warns with: one tree, that docs/errors.md shows.

Texts of errors are held by the tests of what raises them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import waiting

import shmtensor as st
from shmtensor import errors

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
# Importing the first makes "torch" mean this package, for good; the other needs a package.
_NOT_IMPORTED = ("shmtensor.as_torch", "shmtensor.utils.tensorboard")
#: Modules of names for what is not here; the page names them together.
_STAND_INS = ("jit", "fx", "onnx", "package", "cuda", "mtia", "_dynamo")


def _public_modules(package: ModuleType) -> Iterator[ModuleType]:
    """Its modules, and theirs; `pkgutil.walk_packages` would import what must not be."""
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        is_private = info.name.rpartition(".")[2].startswith("_")
        if is_private or info.name in _NOT_IMPORTED or info.name.endswith("win32"):
            continue
        module = importlib.import_module(info.name)
        yield module
        if info.ispkg:
            yield from _public_modules(module)


def _public_exceptions() -> dict[str, type[BaseException]]:
    """Exceptions of this package that a public module shows, by the place where one finds them."""
    found: dict[str, type[BaseException]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in _public_modules(st):
            for name, value in list(vars(module).items()):
                is_ours = inspect.isclass(value) and value.__module__.startswith("shmtensor")
                if is_ours and issubclass(value, BaseException) and not name.startswith("_"):
                    found[f"{module.__name__}.{name}"] = value
    return found


_EXCEPTIONS = _public_exceptions()


@pytest.mark.check
def test_every_exception_has_one_base() -> None:
    others = {
        place: cls
        for place, cls in _EXCEPTIONS.items()
        if not issubclass(cls, (errors.ShmTensorError, Warning))
    }
    assert others == {}


def test_the_page_has_the_tree() -> None:
    rows = dict(re.findall(r"^\|[^`]*`([\w.]+)` \|([^|]*)\|", _PAGE.read_text(), re.M))
    shown: set[type[BaseException]] = set()
    for place, bases in rows.items():
        module, _, name = f"shmtensor.{place}".rpartition(".")
        cls = getattr(importlib.import_module(module), name)
        shown.add(cls)
        for base in re.findall(r"`([\w.]+)`", bases):
            assert base.rpartition(".")[2] in [c.__name__ for c in cls.__mro__], place
    wanted = {
        cls
        for place, cls in _EXCEPTIONS.items()
        if issubclass(cls, errors.ShmTensorError) and place.split(".")[1] not in _STAND_INS
    }
    wanted = {cls for cls in wanted if cls.__module__.split(".")[1] not in _STAND_INS}
    assert {c.__qualname__ for c in wanted - shown} == set()


def _timeouts() -> Iterator[tuple[str, object]]:
    """Calls that take a timeout, of what programs share through; inner ones have no default."""
    for name in ("service", "multiprocessing", "posix", "bridge", "hogwild", "inspect"):
        package = importlib.import_module(f"shmtensor.{name}")
        own = [package]
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            own.append(importlib.import_module(info.name))
        for module in own:
            for place, value in list(vars(module).items()):
                if place.startswith("_") or getattr(value, "__module__", "") != module.__name__:
                    continue
                members = list(vars(value).items()) if inspect.isclass(value) else []
                if hasattr(package, place):
                    members.append((place, value))
                for member, function in members:
                    if inspect.isfunction(function) and not member.startswith("_"):
                        found = inspect.signature(function).parameters.get("timeout")
                        if found is not None and found.default is not found.empty:
                            yield f"{name}.{place}.{member}", found.default


def test_the_page_has_every_timeout() -> None:
    text = _PAGE.read_text().partition("## Timeouts")[2]
    rows = re.findall(r"^\|([^|]*`[^|]*)\|([^|]*)\|", text, re.M)
    shown = {
        (call.partition("(")[0].rpartition(".")[2], default)
        for calls, defaults in rows
        for call in re.findall(r"`([\w.]+)", calls)
        for default in (0, None)
        if str(default) in defaults
    }
    missing = [
        (place, default)
        for place, default in _timeouts()
        if (place.rpartition(".")[2], default) not in shown
    ]
    assert missing == []


def test_each_keeps_the_built_in() -> None:
    for cls, built_in in (
        (errors.NotPublishedError, KeyError),
        (errors.WaitTimeoutError, TimeoutError),
        (errors.OutOfMemoryError, MemoryError),
        (errors.ManagerError, RuntimeError),
        (errors.ShmTensorWarning, UserWarning),
    ):
        assert issubclass(cls, built_in)
    assert str(errors.NotPublishedError("a text")) == "a text"  # KeyError alone would quote it


@pytest.mark.check
def test_too_large_a_tensor_is_the_same_error_by_both_ways() -> None:
    for make in (lambda: st.empty(1 << 46), lambda: st.UntypedStorage(1 << 48)):
        with pytest.raises(errors.OutOfMemoryError):
            make()


def test_threads_of_the_package_have_names() -> None:
    from shmtensor.multiprocessing.pool import Pool

    before = set(threading.enumerate())
    with Pool(1, context=st.multiprocessing.get_context("spawn")) as pool:
        names = {thread.name for thread in set(threading.enumerate()) - before}
        pool.map(abs, [-1])
    assert names
    assert all(name.startswith("shmtensor-") for name in names), names


def test_threads_of_loops_and_queues_have_names() -> None:
    threads = st.get_num_threads()
    st.set_num_threads(2)
    wanted = {"shmtensor-loops", "shmtensor-ready"}
    try:
        queue = st.multiprocessing.SimpleQueue()
        queue.fileno()
        (st.ones(1 << 22) + 1).sum()
        waiting.until(lambda: wanted <= _thread_names(), _thread_names)  # a thread names itself
    finally:
        st.set_num_threads(threads)


def _thread_names() -> set[str]:
    return {task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")}
