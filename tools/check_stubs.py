"""Compare the types that checkers see with what there is at run time: ``make types``.

This is stubtest without `shmtensor.as_torch`. Importing that gives the package's classes other
names in the whole process, and nothing that is tested later is called as its source says.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from mypy import stubtest

_NAMES_THE_REST = "shmtensor.as_torch"


def main() -> int:
    """Run stubtest; returns its exit status."""
    every_module = stubtest.build_stubs

    def without_as_torch(*args: Any, **kwargs: Any) -> list[str]:
        return [m for m in every_module(*args, **kwargs) if not m.startswith(_NAMES_THE_REST)]

    stubtest.build_stubs = without_as_torch
    sys.modules[_NAMES_THE_REST] = ModuleType(_NAMES_THE_REST)  # the package loads it when asked
    options = ["--mypy-config-file", "pyproject.toml", "--allowlist", "tools/stubtest_allow.txt"]
    return stubtest.test_stubs(stubtest.parse_options(["shmtensor", *options]))


if __name__ == "__main__":
    sys.exit(main())
