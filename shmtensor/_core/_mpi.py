"""What two users of MPI have in common: nodes of Hogwild runs, and process groups."""

from __future__ import annotations

import os
import signal
import threading

__all__ = ["ignore_signal_of_mpiexec", "is_rank", "reason_of"]

# By these a process knows that a launcher has started it as a rank.
_RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def is_rank() -> bool:
    """Whether mpiexec, srun or the like has started this process."""
    return any(name in os.environ for name in _RANK_VARIABLES)


def ignore_signal_of_mpiexec() -> None:
    """Live on when MPICH's mpiexec tells, by SIGUSR1, that another rank has ended.

    It does so as long as this process lives, so the signal stays ignored.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def reason_of(error: Exception) -> str:
    """The last line of MPI's error, which says what happened; those before say where."""
    return "MPI says: " + str(error).strip().splitlines()[-1].strip("\x00 ")
