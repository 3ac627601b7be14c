"""The steps on a block's record, by threads, with and without ThreadSanitizer; and free ranges.

Sanitizers see the threads of one process only, so the clients are threads here. Processes that are
killed are in test_crash.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import native
import pytest

_SOURCES = (
    "shm/block.c",
    "shm/lease.c",
    "shm/lease_audit.c",
    "os/clock.c",
    "os/descriptor.c",
    "os/memfd.c",
    "os/process.c",
    "os/stat.c",
    "os/users.c",
    "os/failpoint.c",
    "base/error.c",
)


def _build(program: Path, source: str, *flags: str) -> None:
    generated = native.generated_directory()
    include = [f"-I{generated.parent}", f"-I{generated}", f"-I{native.CSRC}"]
    sources = [Path(__file__).parent / source, *(native.CSRC / name for name in _SOURCES)]
    compiler = os.environ.get("CC", "gcc").split()
    common = ["-std=gnu11", "-g", "-pthread", *flags, *include]
    subprocess.run([*compiler, *common, *sources, "-o", program], check=True)


@pytest.mark.check
@pytest.mark.parametrize(
    ("flags", "n_turns"), [(("-O2",), 200_000), (("-O1", "-fsanitize=thread"), 20_000)]
)
def test_blocks_change_hands_in_order(flags: tuple[str, ...], n_turns: int, tmp_path: Path) -> None:
    program = tmp_path / "protocol"
    _build(program, "protocol.c", *flags)
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    result = subprocess.run(
        [program, str(n_turns)], capture_output=True, text=True, env=env, timeout=150, check=False
    )
    assert result.returncode == 0, result.stderr[:3000]
    assert int(result.stdout) > 100
