"""What the import changes in the standard library, and a Python that lacks a part of it.

That the changed functions do their work is in test_reductions.py, test_abandoned_messages.py,
test_abandoned_arguments.py and tests/tools/test_inspector.py.
"""

from __future__ import annotations

import ast
import json
import multiprocessing as standard
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from shmtensor.multiprocessing import _stdlib

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "standard-library.md"
USED = {f"{where}.{n}": loss for where, names, loss in _stdlib.USED for n in names.split()}
LOSSES = {part: change.loss for part, change in _stdlib.CHANGES.items()} | USED
#: Private names in `multiprocessing` without which the rest works; some without which it doesn't.
OPTIONAL = {
    part.rpartition(".")[2]
    for part, loss in LOSSES.items()
    if loss is not None and re.fullmatch(r"multiprocessing\..*\._\w+", part)
} - {"_default_context", "_args_from_interpreter_flags"}  # needed too; also subprocess's name
NEEDED = {"_children", "_extra_reducers", "_helper_reraises_exception", "_popen"}


def _table(heading: str) -> list[list[str]]:
    """The rows of the first table under a heading of the page, without its head."""
    text = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


def _parts(heading: str) -> list[str]:
    """The names in the first two columns of such a table."""
    found = []
    for where, names, *_ in _table(heading):
        found += [f"{where.strip(' `')}.{name}" for name in re.findall(r"`(\w+)`", names)]
    return found


# --- the list ---------------------------------------------------------------------------------


@pytest.mark.check
def test_page_lists_what_is_changed() -> None:
    assert sorted(_parts("Changed")) == sorted(_stdlib.CHANGES)


@pytest.mark.check
def test_page_lists_what_is_used() -> None:
    assert sorted(_parts("Used")) == sorted(USED)


_DIFFERENCE = """
import importlib, json, multiprocessing, os, pkgutil, sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

names = [f"multiprocessing.{m.name}" for m in pkgutil.iter_modules(multiprocessing.__path__)]
names += "copyreg contextlib logging pickle queue selectors socket subprocess threading".split()
for name in names:
    if not name.endswith("win32"):
        importlib.import_module(name)
standard = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in sys.stdlib_module_names}


def parts():
    found = {}
    for name, module in standard.items():
        for key, value in list(vars(module).items()):
            if callable(value):
                found[f"{name}.{key}"] = value
            if isinstance(value, type) and value.__module__ == name:
                members = {f"{name}.{key}.{k}": v for k, v in vars(value).items()}
                found.update({k: v for k, v in members.items() if is_code(v)})
    return found


def is_code(value):
    return callable(value) or isinstance(value, (classmethod, staticmethod, property))


before, environment = parts(), dict(os.environ)
import shmtensor
from shmtensor import distributed, hogwild, inspect, service
for module in pkgutil.iter_modules(shmtensor.multiprocessing.__path__):
    importlib.import_module(f"shmtensor.multiprocessing.{module.name}")
import shmtensor.utils.data
_stdlib = shmtensor.multiprocessing._stdlib
changed = parts()
_stdlib.install()
assert parts() == changed
differs = [n for n in changed if changed[n] is not before.get(n)]
differs += [n for n in before if n not in changed]
# What classes and modules note of themselves: abstract methods, warnings given.
differs = [n for n in differs if not n.rpartition(".")[2].startswith(("__", "_abc_"))]
sets = [n for n in os.environ if os.environ[n] != environment.get(n)]
print(json.dumps([sorted(differs), sets]))
"""


def test_nothing_else_differs_after_the_import(scripts: Any) -> None:
    differs, variables = json.loads(scripts(_DIFFERENCE).finish())
    assert differs == sorted(_stdlib.CHANGES)
    assert variables == ["SHMTENSOR_MANAGER"]


# --- another Python ---------------------------------------------------------------------------

_TENSORS_TRAVEL = """
import json, warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        import shmtensor as st
        import shmtensor.multiprocessing as mp
        import mp_children
        mp.Pool
        import shmtensor.multiprocessing.pool
    except ImportError as error:
        print(json.dumps(str(error)))
        raise SystemExit(0) from None

if __name__ == "__main__":
    tensor = st.ones(3)
    left, right = mp.Pipe()
    left.send(["a", tensor])
    received = right.recv()[1]
    received += 1
    for method in ("fork", "spawn", "forkserver"):
        total = st.zeros(1).share_memory_()
        child = mp.get_context(method).Process(target=mp_children.add_all, args=([tensor], total))
        child.start()
        child.join()
        assert child.exitcode == 0, method
        assert total.item() == 6, (method, total)
    with mp.get_context("spawn").Pool(1) as pool:
        assert pool.map(abs, [-tensor])[0].tolist() == [2, 2, 2]
    print(json.dumps([str(w.message) for w in caught]))
"""


def _without(folder: Path, name: str) -> None:
    """Write a standard package in which one name is another one everywhere."""
    package = folder / "multiprocessing"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(standard.__file__).parent, package, ignore=ignored)
    for path in package.rglob("*.py"):
        path.write_text(re.sub(rf"\b{name}\b", f"{name}_of_later", path.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(OPTIONAL | NEEDED))
def test_part_of_another_name_is_named_and_tensors_travel_without_it(
    name: str, scripts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(tmp_path, name)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = json.loads(scripts(_TENSORS_TRAVEL).finish())
    parts = [part for part in LOSSES if part.endswith(f".{name}")]
    if name in NEEDED:
        beginning = f"shmtensor needs {parts[0]}, which this Python does not have; use a Python"
        assert said.startswith(beginning)
    else:
        assert sorted(said) == sorted(f"this Python has no {p}, so {LOSSES[p]}" for p in parts)


# --- the lint ---------------------------------------------------------------------------------

_REACHES = {
    "from multiprocessing.pool import _PoolCache": "multiprocessing.pool._PoolCache",
    "import threading\nthreading._shutdown()": "threading._shutdown",
    "import pickle as p\nx = p.Pickler\nx._y": "pickle.Pickler._y",
    "import os\nos.environ['A'] = 'b'": "os.environ[...]",
    "from os import environ\nenviron.update(A='b')": "os.environ.update",
    "from multiprocessing import util\nutil.Finalize = None": "multiprocessing.util.Finalize",
    "from queue import Queue\nsetattr(Queue, 'put', None)": "queue.Queue.put",
    "def f(process): return process._popen": "_popen",
    "def f(process): return getattr(process, '_config')": "_config",
    "import threading\nclass T(threading.Thread):\n def run(self): self._started": "_started",
    "import multiprocessing.pool as p\nclass P(p.Pool):\n def _map_async(self): 0": "_map_async",
}
_NO_REACHES = [
    "import os, sys\nos._exit(sys._getframe().f_lineno)",
    "class P:\n def __init__(self): self._popen = 0\ndef f(p): return p._popen",
    "from shmtensor.multiprocessing import context\ncontext._default_context",
    "import os\nos.environ.get('A')\nprint(os.environ['A'])",
]


@pytest.fixture
def lint(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import check_stdlib

    def found(text: str) -> list[str]:
        file = check_stdlib._File(ast.parse(text))
        foreign = check_stdlib.listed() - file.defined
        return [what for _, what in check_stdlib._findings(file, foreign)]

    yield found
    for name in ("check_stdlib", "tree"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("text", _REACHES)
def test_lint_finds_a_reach_into_the_standard_library(text: str, lint: Any) -> None:
    assert lint(text) == [_REACHES[text]]


@pytest.mark.parametrize("text", _NO_REACHES)
def test_lint_passes_what_is_documented_or_the_package_s_own(text: str, lint: Any) -> None:
    assert lint(text) == []
