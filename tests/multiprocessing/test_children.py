"""Children whose status nobody knows, and forked copies of the program that started children."""

from __future__ import annotations

import os
from typing import Any

import pytest

import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing._children import Child
from shmtensor.multiprocessing._exit_status import in_words, signal_name
from shmtensor.multiprocessing._report import Report

# Each has `work`, which uses children and prints what came of it.
_USERS = {
    "Pool": """
import os
import shmtensor.multiprocessing as mp

def work():
    with mp.Pool(2) as pool:
        print(pool.map(abs, [-1, -2, -3]))
        aside()
        print(pool.map(abs, [-4, -5]))
        try:
            pool.apply(os._exit, (7,))
        except mp.pool.WorkerLostError as error:
            print(type(error).__name__, error.exitcode)
        print(pool.apply(abs, (-6,)))
""",
    "DataLoader": """
import os
from shmtensor.utils.data import DataLoader

class Numbers:
    def __len__(self):
        return 8
    def __getitem__(self, i):
        if i == 7:
            os._exit(7)
        return i

def work():
    iterator = iter(DataLoader(Numbers(), num_workers=1, batch_size=2, prefetch_factor=1))
    print([next(iterator).tolist() for _ in range(2)])
    aside()
    print(next(iterator).tolist())
    try:
        next(iterator)
    except RuntimeError as error:
        print("code 7" in str(error), "an unknown status" in str(error))
""",
    "hogwild": """
import os, signal, time
import shmtensor as st
from shmtensor import hogwild, nn

went_aside = st.zeros(1, shared=True)

def interrupted(*_):
    aside()
    went_aside.fill_(1)

signal.signal(signal.SIGUSR1, interrupted)

def step(worker, batch):
    if worker.rank == 1 and worker.step == 3:
        os._exit(7)
    if worker.rank == 0 and worker.step == 2:
        os.kill(os.getppid(), signal.SIGUSR1)
        while went_aside.item() == 0:
            time.sleep(0.001)
    return worker.model(batch).square().mean()

def work():
    result = hogwild.run(
        lambda: nn.Linear(2, 1), step, st.ones(16, 2), workers=2, steps=5, batch_size=2,
        view="none", start_method="fork", on_failure="continue")
    print([(w.state, w.steps, w.end.partition(" (")[0]) for w in result.workers])
""",
}

_KNOWN = {
    "Pool": "[1, 2, 3]\n[4, 5]\nWorkerLostError 7\n6\n",
    "DataLoader": "[[0, 1], [2, 3]]\n[4, 5]\nTrue False\n",
    "hogwild": "[('finished', 5, ''), ('lost', 3, 'ended with status 7')]\n",
}

_UNKNOWN = {
    "Pool": "[1, 2, 3]\n[4, 5]\nWorkerLostError None\n6\n",
    "DataLoader": "[[0, 1], [2, 3]]\n[4, 5]\nFalse True\n",
    "hogwild": "[('finished', 5, ''), ('lost', 3, 'ended with an unknown status')]\n",
}

_ASIDE = {
    "nothing": "def aside(): pass\n",
    # A forked copy of the program ends while the children of the original work.
    "a fork that exits": """
import os, sys

def aside():
    pid = os.fork()
    if pid == 0:
        sys.stdout = open(os.devnull, "w")
        sys.stderr = open(os.devnull, "w")
        sys.exit(0)
    os.waitpid(pid, 0)
""",
}


def _program(user: str, aside: str, *, before: str = "") -> str:
    return f"{_ASIDE[aside]}\n{_USERS[user]}\n{before}\nwork()\n"


@pytest.mark.parametrize("user", _USERS)
def test_sigchld_ignored(scripts: Any, user: str) -> None:
    ignored = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    assert scripts(_program(user, "nothing", before=ignored)).finish() == _UNKNOWN[user]


@pytest.mark.parametrize("user", _USERS)
def test_a_forked_copy_that_exits_ends_no_child_of_the_original(scripts: Any, user: str) -> None:
    assert scripts(_program(user, "a fork that exits")).finish() == _KNOWN[user]


@pytest.mark.check
def test_a_forked_copy_ends_no_processes_of_the_standard_library_either(scripts: Any) -> None:
    script = scripts(
        """
import os, sys, time
import shmtensor.multiprocessing as mp

process = mp.get_context("fork").Process(target=time.sleep, args=(1000,), daemon=True)
process.start()
pid = os.fork()
if pid == 0:
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert process.is_alive()
process.kill()
process.join()
print(process.exitcode)
"""
    )
    assert script.finish() == "-9\n"


def test_statuses_in_words() -> None:
    assert in_words(3) == "ended with status 3"
    assert in_words(0) == "ended with status 0"
    assert in_words(-9) == "was killed by SIGKILL"
    assert in_words(-63) == "was killed by signal 63"
    assert in_words(None).startswith("ended with an unknown status")
    assert in_words(7, ended="exited with code") == "exited with code 7"
    assert in_words(-15, killed="killed by") == "killed by SIGTERM"
    assert signal_name(-2) == "SIGINT"
    assert signal_name(None) is signal_name(0) is signal_name(1) is None


@pytest.mark.check
def test_numbers_that_the_program_took_for_its_own_files_are_left_alone() -> None:
    report, child = Report(), Child(mp.get_context("fork").Process(target=str))
    child.start()
    numbers = [report.fileno(), child.sentinel]
    with open(os.devnull) as file:
        for number in numbers:
            os.dup2(file.fileno(), number)
        assert report.fileno() == -1
        assert child.wait(60)  # by the standard sentinel
        assert child.status() == 0
        report.close()
        child.close()
        for number in numbers:
            assert os.fstat(number) == os.fstat(file.fileno())
            os.close(number)


def test_a_report_has_text_of_any_kind() -> None:
    report = Report()
    assert report.text() == ""
    for text in ("first, which is longer", "second \udc80", ""):
        report.write(text)
        assert report.text() == text.encode("utf-8", "backslashreplace").decode()
    report.close()
