"""The public functions of libshmtensor are those that are recorded, with the same prototypes.

``public_symbols.txt`` has a line for each function of ``csrc/capi/shmtensor.h``: the ABI version
that brought it, and its prototype. A function that is gone or has another prototype breaks
programs; a new one needs a line with a version above all others, which is then
``SHMTENSOR_ABI_VERSION``. The library of ``build/native`` exports just these. With libabigail's
``abidw``, their types are compared with ``public_abi.xml`` as well. ``public_symbols.py --record``
adds what is new.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tree import BUILD, CSRC, ROOT, report

HEADER = CSRC / "capi" / "shmtensor.h"
RECORD = ROOT / "tools" / "public_symbols.txt"
ABI = ROOT / "tools" / "public_abi.xml"
LIBRARY = BUILD / "libshmtensor.so.0"

_NOT_CODE = re.compile(r"/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
_PROTOTYPE = re.compile(r"^((?:const )?\w[\w ]*[ *]+)(shmtensor_\w+)\(([^;{]*)\);", re.M)


def declared() -> dict[str, str]:
    """The prototype of each function of the header."""
    text = _NOT_CODE.sub("", HEADER.read_text())
    found = {}
    for result, name, arguments in _PROTOTYPE.findall(text):
        found[name] = " ".join(f"{result.strip()} {name}({arguments})".split())
    return found


def abi_version() -> int:
    """SHMTENSOR_ABI_VERSION of the header."""
    found = re.search(r"^#define SHMTENSOR_ABI_VERSION (\d+)", HEADER.read_text(), re.M)
    assert found is not None
    return int(found[1])


def recorded() -> dict[str, tuple[int, str]]:
    """The version and the prototype of each recorded function."""
    rows = {}
    for line in RECORD.read_text().splitlines():
        if line and line[0] != "#":
            version, prototype = line.split(" ", 1)
            found = re.search(r"\b(shmtensor_\w+)\(", prototype)
            assert found is not None
            rows[found[1]] = (int(version), prototype)
    return rows


def exported() -> set[str] | None:
    """The public names of the built library; None: there is none, or no nm."""
    if not LIBRARY.exists() or shutil.which("nm") is None:
        return None
    command = ["nm", "-D", "--defined-only", str(LIBRARY)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in output.splitlines()]
    return {n.partition("@")[0] for n in names if n.endswith("@@SHMTENSOR_0")}


def symbol_findings() -> list[str]:
    """Functions that differ between the header, the record and the library."""
    now, before = declared(), recorded()
    name = RECORD.relative_to(ROOT)
    found = [f"{name}:1: {n} is gone from shmtensor.h" for n in sorted(before.keys() - now.keys())]
    found += [f"{name}:1: {n} is not recorded" for n in sorted(now.keys() - before.keys())]
    found += [
        f"{name}:1: {n} was {before[n][1]!r}, is {now[n]!r}"
        for n in sorted(now.keys() & before.keys())
        if now[n] != before[n][1]
    ]
    newest = max((version for version, _ in before.values()), default=0)
    if newest > abi_version():
        found.append(f"csrc/capi/shmtensor.h:1: SHMTENSOR_ABI_VERSION is below {newest}")
    names = exported()
    if names is not None and names != now.keys():
        differing = ", ".join(sorted(names ^ now.keys()))
        found.append(f"csrc/capi/shmtensor.h:1: declared or exported, not both: {differing}")
    return found


# The names that the extension uses change with every version.
_PRIVATE = """\
[suppress_function]
  symbol_name_not_regexp = ^shmtensor_
  drop = yes
[suppress_variable]
  name_not_regexp = ^shmtensor_
  drop = yes
"""


def _described(target: Path) -> None:
    """Let libabigail describe the public functions and their types."""
    with tempfile.TemporaryDirectory() as folder:
        # Private are all types that are not in these headers, which are known by their names.
        private, public = Path(folder, "private.suppr"), Path(folder, "public")
        private.write_text(_PRIVATE)
        public.mkdir()
        for header in (HEADER, HEADER.with_name("shmtensor_dlpack.h")):
            shutil.copy(header, public)
        command = ["abidw", "--suppressions", str(private), "--headers-dir", str(public)]
        command += ["--drop-private-types", "--no-corpus-path", "--no-comp-dir-path"]
        command += ["--no-show-locs", "--out-file", str(target), str(LIBRARY)]
        subprocess.run(command, check=True, capture_output=True)
    # The names of the private ones have a digest, which changes with each build.
    lines = target.read_text().splitlines(keepends=True)
    target.write_text("".join(line for line in lines if "SHMTENSOR_PRIVATE_" not in line))


def type_findings() -> list[str]:
    """What abidiff says of the types, where it is installed."""
    tools = [shutil.which(tool) for tool in ("abidw", "abidiff")]
    if None in tools or not LIBRARY.exists() or not ABI.exists():
        return []
    with tempfile.TemporaryDirectory() as folder:
        now = Path(folder, "now.xml")
        _described(now)
        command = ["abidiff", "--no-added-syms", str(ABI), str(now)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return []
    return [f"{ABI.relative_to(ROOT)}:1: the types of public functions have changed", result.stdout]


def record() -> None:
    """Add what is new, with the header's version, and describe the types anew."""
    rows = recorded() if RECORD.exists() else {}
    for name, prototype in declared().items():
        rows.setdefault(name, (abi_version(), prototype))
    head = "# The public functions of libshmtensor: since which ABI version, and the prototype.\n"
    lines = [f"{version} {prototype}\n" for version, prototype in rows.values()]
    RECORD.write_text(head + "".join(lines))
    if shutil.which("abidw") is not None:
        _described(ABI)


def main(arguments: list[str]) -> int:
    """Record, or check; returns the exit status."""
    if arguments == ["--record"]:
        record()
        return 0
    return report("public_symbols", symbol_findings() + type_findings())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
