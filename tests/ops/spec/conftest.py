"""No operator may hang: after two minutes the process ends with the stack of the call.

The guard is a thread of C, since a loop of C that never ends holds the interpreter.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CSRC = str(Path(__file__).resolve().parents[3] / "csrc")
if CSRC not in sys.path:
    sys.path.insert(0, CSRC)  # the generator's own reader of the specification

SECONDS = 120

#: Of the tests that run for every entry, `make check` runs those of these.
CHECKED = frozenset(
    "add.Tensor argmax bmm cat conv2d copy_ cumsum embedding exp fft_fft gather index.Tensor"
    " layer_norm linalg_solve matmul max_pool2d mean.dim nll_loss scaled_dot_product_attention"
    " softmax.int sort sum.dim_IntList view where.self".split()
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        entry = item.callspec.params.get("entry") if hasattr(item, "callspec") else None
        if entry is not None and entry.name in CHECKED:
            item.add_marker("check")


@pytest.fixture(scope="session")
def _terminal(request: pytest.FixtureRequest) -> Iterator[int]:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        number = os.dup(2)
    else:
        with capture.global_and_fixture_disabled():
            number = os.dup(2)
    yield number
    os.close(number)


@pytest.fixture(autouse=True)
def _hang_guard(_terminal: int) -> Iterator[None]:
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=_terminal)
    yield
    faulthandler.cancel_dump_traceback_later()
