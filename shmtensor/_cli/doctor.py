"""Checks what sharing depends on: kernel features, limits, permissions.

Each line says what was found; where something is missing or could be better, what that means and
what to do about it. Nothing is changed, and no session is touched.

exit status
  0  everything works; notes may have been printed
  1  something that sharing needs does not work
  2  wrong use
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from shmtensor.inspect import check_machine

SUMMARY = "check kernel features, limits and permissions"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings."""
    checks = check_machine()
    if arguments.json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print(f"{check.verdict:<4}  {check.name:<{width}}  {check.found}")
            if check.advice:
                print(f"{'':<{width + 8}}{check.advice}")
    return 1 if any(check.verdict == "bad" for check in checks) else 0
