"""Every file has tests that `make check` runs; a new file says which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

#: Files without one.
SLOW = {
    "as_torch/test_programs.py",
    "examples/test_add_an_operator.py",
    "examples/test_bench_examples.py",
    "shm/test_crash.py",
    "shm/test_faults.py",
}
DEMONSTRATIONS = {  # make examples runs them
    f"examples/test_{name}.py"
    for name in (
        "actor_learner char_lm data_parallel hogwild hogwild_mpi hogwild_sparse image_pipeline"
        " inference_server parameter_server word_vectors"
    ).split()
}
MARKED_BY_CONFTEST = {"ops/spec"}
NEED_TORCH = {
    "distributions/test_torch.py",
    "namespaces/test_signatures.py",
    "nn/test_weights_of_torch.py",
    "optim/test_against_torch.py",
}


def _files() -> dict[str, str]:
    paths = {path.relative_to(TESTS): path for path in TESTS.rglob("test_*.py")}
    return {
        name.as_posix(): path.read_text()
        for name, path in paths.items()
        if name.parts[0] != "stress" and name.parent.as_posix() not in MARKED_BY_CONFTEST
    }


@pytest.mark.check
def test_every_file_has_tests_that_make_check_runs() -> None:
    without = {
        name
        for name, text in _files().items()
        if not re.search(r"^@pytest\.mark\.check$|marks=\[pytest\.mark\.check\]", text, re.M)
    }
    assert without == SLOW | DEMONSTRATIONS | NEED_TORCH


@pytest.mark.check
def test_no_slow_test_is_among_them() -> None:
    both = re.compile(r"^@pytest\.mark\.check\n(?:@.*\n|[ )\]].*\n)*@pytest\.mark\.slow", re.M)
    assert [name for name, text in _files().items() if both.search(text)] == []
