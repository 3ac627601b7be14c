"""Programs about who is a member of a session: what they begin with, and how they are run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import waiting

PREPARE = """
import fcntl, gc, os, signal, struct, subprocess, sys, time
from multiprocessing.reduction import ForkingPickler
import pickle
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from waiting import let_the_manager_look, until

N_PARAMS, LOCKS = 4607, 1 << 60

def occupy(numbers):
    '''Lock free client numbers, as many processes would; returns the descriptor that keeps them.'''
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if os.path.islink(path) and "shmtensor-control" in os.readlink(path):
            fd = os.open(path, os.O_RDWR)
            break
    for number in numbers:
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, LOCKS + number, 1, 0)
        try:
            fcntl.fcntl(fd, 37, lock)  # F_OFD_SETLK
        except OSError:
            pass  # a process has it
    return fd

def churn():
    '''Use whatever memory is free.'''
    return [st.full((n,), -1.0, shared=True) for n in (16, 1000, 100_000) for _ in range(50)]
"""


def run(program: str, *arguments: str, prepare: str = PREPARE) -> str:
    """Run *program* in a session of its own; it must succeed. Returns its error output."""
    environment = {k: v for k, v in os.environ.items() if k != "SHMTENSOR_MANAGER"}
    result = subprocess.run(
        [sys.executable, "-c", prepare + program, *arguments],
        env={**environment, "PYTHONPATH": waiting.python_path()},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    return result.stderr


def can_unshare(*flags: str) -> bool:
    """May processes get namespaces of their own here?"""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    return (
        subprocess.run([unshare, *flags, "true"], capture_output=True, check=False).returncode == 0
    )
