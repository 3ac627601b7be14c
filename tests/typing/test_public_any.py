"""Where the sharing packages say ``Any`` in public: only what another program alone can know.

What other types say is checked by ``tests/typing/programs``, see ``tools/check_typing.py``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

#: Of what type a message or a published value is, its sender knows.
_OF_THE_SENDER = {
    "multiprocessing.queue.ConnectionWrapper.recv() -> Any",
    "service.Service.attach() -> Any",
    "service.Service.attach_module() -> Versioned[Any]",
    "service.Service.latest() -> Versioned[Any]",
    "service.Service.wait_newer() -> Versioned[Any]",
    "service.attach() -> Any",
    "service.attach_module() -> Versioned[Any]",
    "service.latest() -> Versioned[Any]",
    "service.wait_newer() -> Versioned[Any]",
}
#: Tensors of torch, which need not be installed where types are checked; arrays of a dtype that is
#: a string. The overloads say more for other arguments.
_OF_OTHER_LIBRARIES = {
    "multiprocessing.adoption.numpy_empty() -> NDArray[Any]",
    "multiprocessing.adoption.rebuild_torch() -> Any",
    "multiprocessing.adoption.reduce_torch() -> Any",
    "multiprocessing.adoption.reduce_torch(tensor: Any)",
    "multiprocessing.adoption.shared_below_torch(tensor: Any)",
    "multiprocessing.adoption.torch_empty() -> Any",
    "service.Service.empty() -> Any",
    "service.empty() -> Any",
}
#: What a queue is of, its variable says: ``numbers: Queue[int] = context.Queue()``.
_QUEUES = {
    f"multiprocessing.{where}{kind}() -> queues.{kind}[Any]"
    for where in ("", "context.BaseContext.")
    for kind in ("JoinableQueue", "Queue", "SimpleQueue")
} | {"service.Queue() -> _Queue[Any]", "service.Service.Queue() -> Queue[Any]"}
#: What a topic is of, its variable says; what only the package itself makes, no program types.
_TALK = {
    "service.Topic() -> _Topic[Any]",
    "service.Service.Topic() -> Topic[Any]",
    "service.Delivery.__init__(claim: Any)",
    "service.Loan.__init__(topic: Topic[Any])",
    "service.Loan.__init__(value: Any)",
    "service.Subscription.__init__(ring: Any)",
}
_OF_MULTIPROCESSING = "adoption context modes pool queue queues reductions spawn".split()
_MODULES = ["bridge", "hogwild", "inspect", "service", "multiprocessing"] + [
    f"multiprocessing.{name}" for name in _OF_MULTIPROCESSING
]


def _of_function(name: str, function: Any) -> Iterator[str]:
    for argument, kind in function.__annotations__.items():
        if re.search(r"\bAny\b", str(kind)):
            returns = argument == "return"
            yield f"{name}() -> {kind}" if returns else f"{name}({argument}: {kind})"


def _of_class(name: str, cls: type) -> Iterator[str]:
    for member, value in vars(cls).items():
        if member.startswith("_") and member not in ("__init__", "__call__"):
            continue
        function = value.fget if isinstance(value, property) else value
        function = getattr(function, "__func__", function)
        if inspect.isfunction(function):
            yield from _of_function(f"{name}.{member}", function)


def _of_module(module: str) -> Iterator[str]:
    found = importlib.import_module(f"shmtensor.{module}")
    own = {n for n, v in vars(found).items() if getattr(v, "__module__", "") == found.__name__}
    for name in sorted({*getattr(found, "__all__", ()), *own}):
        value = getattr(found, name)
        function = getattr(value, "__func__", value)
        is_ours = str(getattr(value, "__module__", "")).startswith("shmtensor.")
        if name.startswith("_") or not is_ours:
            continue
        if inspect.isclass(value):
            yield from _of_class(f"{module}.{name}", value)
        elif inspect.isfunction(function):
            yield from _of_function(f"{module}.{name}", function)


@pytest.mark.check
def test_any_stands_only_where_no_other_type_can() -> None:
    found = {text for module in _MODULES for text in _of_module(module)}
    assert found == _OF_THE_SENDER | _OF_OTHER_LIBRARIES | _QUEUES | _TALK
