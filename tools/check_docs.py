"""Whether everything public says what it does: modules, classes, functions, methods, properties.

What is public: names without an underscore, in modules without one. A text that only repeats the
signature does not count. Names from elsewhere (the standard library, NumPy) and names that a class
inherits are their owner's matter. ``make lint`` runs this when the package is built.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import shmtensor  # noqa: E402 - found by the path above

# Importing it makes "torch" mean this package, for good.
_NOT_IMPORTED = {"shmtensor.as_torch.site", "shmtensor.__main__"}
_MIN_LENGTH = 12  # without spaces: "The names." says too little
_SIGNATURE = re.compile(r"^\w+\(.*\)( -> .*)?$")


def public_modules() -> Iterator[types.ModuleType]:
    """The package and its public modules, each once."""
    yield shmtensor
    for info in pkgutil.walk_packages(shmtensor.__path__, "shmtensor."):
        hidden = any(part.startswith("_") for part in info.name.split("."))
        if hidden or any(info.name.startswith(name) for name in _NOT_IMPORTED):
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # parts of the standard library for other systems
            continue
        dir(module)  # loads it, when it is loaded at first use
        if module.__name__.startswith("shmtensor"):  # not the standard library's, under our name
            yield module


def lacks_text(thing: object) -> bool:
    """It has no doc string, or one that only shows the signature."""
    text = inspect.getdoc(thing) or ""
    lines = [line for line in text.splitlines() if not _SIGNATURE.match(line)]
    return len("".join("".join(lines).split())) < _MIN_LENGTH


def is_ours(thing: object) -> bool:
    """It is defined in this package."""
    module = getattr(thing, "__module__", None)
    if module is None and hasattr(thing, "__objclass__"):
        module = thing.__objclass__.__module__
    return module is None or module.split(".")[0] in ("shmtensor", "torch")


def members(owner: type) -> Iterator[tuple[str, object]]:
    """The public members that a class itself defines and that can have a text."""
    for name, member in vars(owner).items():
        if name.startswith("_"):
            continue
        plain = getattr(member, "__func__", member)
        kinds = (
            property,
            types.FunctionType,
            types.MethodDescriptorType,
            types.GetSetDescriptorType,
        )
        if isinstance(plain, kinds) or inspect.isclass(plain):
            yield name, plain


def _inherits_text(owner: type, name: str) -> bool:
    """A class above says what the member does."""
    return any(
        name in vars(base)
        and not lacks_text(getattr(vars(base)[name], "__func__", vars(base)[name]))
        for base in owner.__mro__[1:]
    )


def _describe(path: str, thing: object, seen: set[int]) -> Iterator[str]:
    if id(thing) in seen or not is_ours(thing):
        return
    seen.add(id(thing))
    if lacks_text(thing):
        yield path
    if not inspect.isclass(thing):
        return
    for name, member in members(thing):
        if not inspect.isclass(member) and lacks_text(member) and not _inherits_text(thing, name):
            yield f"{path}.{name}"


def undocumented() -> list[str]:
    """The names that say nothing, in order."""
    found: list[str] = []
    seen: set[int] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in public_modules():
            if lacks_text(module):
                found.append(module.__name__)
            for name in dir(module):
                thing = None if name.startswith("_") else getattr(module, name, None)
                if inspect.isclass(thing) or inspect.isroutine(thing):
                    found += _describe(f"{module.__name__}.{name}", thing, seen)
        found += _describe("shmtensor.Tensor", shmtensor.Tensor.__base__, seen)
    return sorted(set(found))


def main() -> int:
    """Print the names; returns 1 when there are any."""
    found = undocumented()
    print("\n".join(f"{name} has no doc string" for name in found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
