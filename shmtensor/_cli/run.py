"""Runs a torch program with shmtensor in torch's place.

  shmtensor run --as-torch train.py --epochs 3
  shmtensor run --as-torch -m package.module

`import torch` gives shmtensor in the program, in its worker processes, and in the Python programs
that it starts. You don't need torch; if it is installed, it is not used. This command exits with
the program's status.
"""

from __future__ import annotations

import argparse
import os
import sys

from shmtensor.multiprocessing._stdlib import interpreter_flags

SUMMARY = "run a torch program with shmtensor"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--as-torch", action="store_true", required=True, help="use shmtensor as torch"
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="at the end, list the torch names that the program used, and those it missed",
    )
    parser.add_argument("-m", action="store_true", dest="is_module", help="PROGRAM is a module")
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or a module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Become the program. Returns only when there is none: 2."""
    from shmtensor import as_torch  # changes what `import torch` means in this process

    if not arguments.is_module and not os.path.isfile(arguments.program):
        print(f"shmtensor run: {arguments.program}: no such file", file=sys.stderr)
        return 2
    old_path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = as_torch.SITE + (os.pathsep + old_path if old_path else "")
    if arguments.report:
        os.environ[as_torch.REPORT_VARIABLE] = str(os.getpid())
    module = ["-m"] if arguments.is_module else []
    command = [
        sys.executable,
        *interpreter_flags(),
        *module,
        arguments.program,
        *arguments.arguments,
    ]
    sys.stdout.flush()
    os.execv(sys.executable, command)
