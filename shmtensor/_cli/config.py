"""Prints what a compiler needs to use libshmtensor from C and C++.

    gcc program.c $(shmtensor config --cflags --libs)

The library is found again at run time where it lies now. For programs that are installed elsewhere,
or built with CMake, take the file of pkg-config in the folder that --pkgconfig prints.

exit status
  0  done
  2  wrong usage
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from shmtensor import _C, __version__

SUMMARY = "print the flags to compile and link programs in C and C++"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--cflags", action="store_true", help="flags of the compiler")
    parser.add_argument("--libs", action="store_true", help="flags of the linker")
    parser.add_argument("--include", action="store_true", help="the folder of the headers")
    parser.add_argument("--pkgconfig", action="store_true", help="the folder of shmtensor.pc")
    parser.add_argument("--lib-version", action="store_true", help="the version")


def run(arguments: argparse.Namespace) -> int:
    """Print what was asked for, in one line."""
    # Beside the extension, not beside this file: a sanitizer build has a package tree of links.
    package = Path(str(_C.__file__)).resolve().parent
    include, libraries = package / "include", package / "lib"
    parts = []
    if arguments.lib_version:
        parts.append(__version__)
    if arguments.include:
        parts.append(shlex.quote(str(include)))
    if arguments.pkgconfig:
        parts.append(shlex.quote(str(libraries / "pkgconfig")))
    if arguments.cflags:
        parts.append(f"-I{shlex.quote(str(include))}")
    if arguments.libs:
        folder = shlex.quote(str(libraries))
        parts.append(f"-L{folder} -lshmtensor -Wl,-rpath,{folder}")
    if not parts:
        print("shmtensor config: say what to print, as --cflags --libs", file=sys.stderr)
        return 2
    print(" ".join(parts))
    return 0
