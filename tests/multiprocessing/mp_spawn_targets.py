"""What the children of `spawn` and `start_processes` run in the tests."""

from __future__ import annotations

import multiprocessing.util
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import waiting

import shmtensor.multiprocessing as mp


def write_index(index: int, shared: Any, base: float) -> None:
    shared[index] = base + index


def check_is_spawned(index: int) -> None:
    assert multiprocessing.get_start_method() == "spawn"


def raise_if(index: int, bad: int) -> None:
    if index == bad:
        raise ValueError(f"legitimate exception from process {index}")


def kill_self(index: int, signum: int) -> None:
    os.kill(os.getpid(), signum)
    time.sleep(1000)


def interrupt_self(index: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1000)


def handle_interrupt(index: int) -> None:
    try:
        interrupt_self(index)
    except KeyboardInterrupt:
        return


def interrupt_self_after_registering(index: int, path: str) -> None:
    multiprocessing.util.Finalize(None, Path(path).write_text, ("done",), exitpriority=0)
    interrupt_self(index)


def exit_with(index: int, code: int) -> None:
    sys.exit(code)


def raise_or_end_later(index: int, bad: int) -> None:
    raise_if(index, bad)
    time.sleep(0.5)


def raise_or_sleep(index: int, bad: int) -> None:
    raise_if(index, bad)
    time.sleep(1000)


def raise_or_finish_slowly(index: int, flag: Any) -> None:
    if index == 0:
        raise ValueError("the first process fails")
    time.sleep(0.2)
    flag.fill_(1)


def raise_or_ignore(index: int, ready: Any) -> None:
    if index == 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ready.fill_(1)
        time.sleep(1000)
    while ready.item() == 0:
        time.sleep(0.01)
    raise ValueError("the first process fails")


def announce_and_sleep(index: int) -> None:
    print(os.getpid(), flush=True)
    waiting.sleep_until_a_signal()


def end_with_parent_and_sleep() -> None:
    mp.end_with_parent()
    print(os.getpid(), flush=True)
    time.sleep(1000)


def wait_for_file(index: int, path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


def announce_and_hold_the_interpreter(index: int) -> None:
    print(os.getpid(), flush=True)
    re.fullmatch("(a+)+b", "a" * 60)  # takes years, in one call that holds the interpreter's lock


def end_with_parent_and_hold_the_interpreter() -> None:
    mp.end_with_parent()
    announce_and_hold_the_interpreter(0)
