"""The self-test of an installed package: needs nothing that the package itself does not need.

Each section is a module of this package with a list ``CHECKS``. A section runs in a process of its
own, so that a crash or a hang is a result like any other; it prints a line of JSON for each check.
"""

from __future__ import annotations

from shmtensor.testing._selftest.command import main as main

__all__ = ["main"]
