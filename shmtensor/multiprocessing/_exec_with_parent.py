"""Become another program that is killed when this process's parent ends.

This is run by its path, in an interpreter of its own without any packages, so that the parent need
not run Python between fork and exec, where a lock of one of its threads may be held forever::

    python -I -S _exec_with_parent.py <parent's process id> <descriptor> <variable> <program> ...

An error is written to the descriptor, which is closed when the program runs. The variable, if it is
not empty, is removed: an interpreter that starts in the C locale sets LC_CTYPE for its children.

The kernel's parent-death signal is the one that lasts beyond exec. It is sent when the thread ends
that started this process, so that has to be the parent's main thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

__all__: list[str] = []  # a program, and no module for others

_PR_SET_PDEATHSIG = 1


def _main(parent: int, errors: int, variable: str, *command: str) -> None:
    os.set_inheritable(errors, False)
    os.environ.pop(variable, None)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # an interpreter ignores them
        signal.signal(number, signal.SIG_DFL)
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        os.write(errors, b"prctl() failed")
    elif os.getppid() == parent:
        try:
            os.execvpe(command[0], command, os.environ)
        except OSError as error:
            os.write(errors, f"{command[0]}: {error.strerror}".encode("utf-8", "backslashreplace"))
    os._exit(127)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
