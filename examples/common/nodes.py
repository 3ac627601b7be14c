"""Start a program once for each node, so that the nodes survive each other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

__all__ = ["is_rank", "start_nodes"]

# By these a process knows that mpiexec, srun or the like has started it as a rank.
_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")


def is_rank() -> bool:
    """Whether this process is a rank of a job already."""
    return any(name in os.environ for name in _RANKS)


def start_nodes(program: str, n_nodes: int, arguments: list[str]) -> NoReturn:
    """Run *program* as several ranks on this machine: this process becomes mpiexec.

    Each rank gets a proxy of its own, as on machines of its own: a proxy kills all its ranks when
    one of them is killed. The other proxies only tell theirs, as automatic clean-up is disabled.

    Raises:
        FileNotFoundError: MPICH's mpiexec is not installed.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or "HYDRA" not in _version(found):
        raise FileNotFoundError(
            "MPICH's mpiexec is not installed: pip install 'shmtensor[mpi]', or start this program "
            "by the mpiexec that is here"
        )
    hosts = ",".join(f"127.0.0.{1 + k}" for k in range(n_nodes))
    os.execv(
        found,
        [
            *(found, "-launcher", "fork", "-hosts", hosts, "-ppn", "1", "-n", str(n_nodes)),
            *("-disable-auto-cleanup", sys.executable, program, *arguments),
        ],
    )


def _version(mpiexec: str) -> str:
    try:
        answer = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout
