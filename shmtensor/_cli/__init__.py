"""The ``shmtensor`` command: one module of this package for each sub-command.

A module's name is the sub-command's; modules that begin with an underscore are shared helpers. A
sub-command's module has

    SUMMARY    one line for ``shmtensor --help``; its docstring is the text of its own ``--help``
    configure  takes the sub-command's `argparse.ArgumentParser` and adds its arguments
    run        takes the parsed arguments, does the work, returns the exit status
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, cast

from shmtensor import __version__
from shmtensor.inspect.processes import printable

__all__ = ["main"]


class Command(Protocol):
    """The attributes of a sub-command's module."""

    SUMMARY: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shmtensor", description="Serve, inspect and clean up shared tensors."
    )
    parser.add_argument("--version", action="version", version=f"shmtensor {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")

    def show_help(_: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(_run=show_help, _parser=parser)
    for name in _names():
        module = importlib.import_module(f"{__name__}.{name}")
        command = cast(Command, module)
        sub = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.configure(sub)
        sub.set_defaults(_run=command.run, _parser=sub)
    return parser


@contextlib.contextmanager
def _outputs() -> Iterator[None]:
    """Write to nowhere what would go to a descriptor that was closed before the start."""
    with contextlib.ExitStack() as stack:
        nowhere = stack.enter_context(open(os.devnull, "w"))
        if sys.stdout is None:
            stack.enter_context(contextlib.redirect_stdout(nowhere))
        if sys.stderr is None:
            stack.enter_context(contextlib.redirect_stderr(nowhere))
        yield


def _escaped(error: BaseException) -> str:
    """Return the lines of an error for a terminal: they may have names that others have given."""
    return "\n".join(map(printable, str(error).splitlines()))


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so that the final flush finds no closed pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (default: the process's); an empty one shows the help.

    Returns:
        The exit status. 0: done. 1: failed; the reason is on standard error. 2: wrong usage. 1
        also, without a message, when the reader of the output has closed it, as `head` does.

    Raises:
        SystemExit: For wrong usage, ``--help`` and ``--version``.
    """
    with _outputs():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    try:
        try:
            arguments, unknown = _parser().parse_known_args(argv)
            if unknown:  # with the usage of the sub-command, which argparse would not show
                arguments._parser.error(f"unrecognized arguments: {' '.join(unknown)}")
            return cast("Callable[[argparse.Namespace], int]", arguments._run)(arguments)
        finally:
            sys.stdout.flush()  # here, where the error of a closed pipe is caught
    except BrokenPipeError:
        _discard_output()
        return 1
    except KeyboardInterrupt:
        return 130
    except (OSError, RuntimeError, ValueError, MemoryError, LookupError) as error:
        print(f"shmtensor: {_escaped(error)}", file=sys.stderr)
        return 1
