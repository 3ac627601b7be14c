"""Checks this machine for what sharing needs: kernel features, limits, permissions.

Each line shows what it found. If something is missing or could be better, a second line explains
what that means and how to fix it. The command changes nothing and touches no session.

exit status
  0  everything works; notes may have been printed
  1  something that sharing needs does not work
  2  wrong usage
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from shmtensor._cli._common import add_json_argument, check_lines, print_json
from shmtensor.inspect import check_machine

SUMMARY = "check this machine, and show how to fix what is missing"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the results of the checks."""
    checks = check_machine()
    if arguments.json:
        print_json([asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print("\n".join(check_lines(check, width)))
    return 1 if any(check.verdict == "bad" for check in checks) else 0
