"""Every fact once: what the documentation and the sources say of messages and fail points.

``python tests/shm/test_protocol_tables.py`` writes the documentation's tables anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"

sys.path.insert(0, str(CSRC))

from codegen.emit.protocol import (  # noqa: E402
    failpoint_table,
    load_failpoints,
    load_wire,
    wire_tables,
)
from codegen.spec.errors import SpecError  # noqa: E402 -- found by the path above

_PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.S)


def _tables() -> dict[str, str]:
    wire = load_wire(CSRC / "spec" / "wire.yaml", ROOT)
    points = load_failpoints(CSRC / "spec" / "failpoints.yaml", ROOT)
    return {**wire_tables(wire), "failpoints": failpoint_table(points)}


def _filled(text: str) -> str:
    tables = _tables()
    return _PLACE.sub(lambda m: f"{m[1]}{tables[m[2]]}\n{m[3]}", text)


@pytest.mark.check
@pytest.mark.parametrize("page", ["wire-protocol.md", "shared-memory.md"])
def test_documentation_shows_the_tables_of_the_specification(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert _PLACE.search(text)
    assert text == _filled(text), f"run: python {Path(__file__).relative_to(ROOT)}"


def test_every_failpoint_is_in_the_sources_once_or_more() -> None:
    used = {
        point
        for path in CSRC.rglob("*.c")
        for point in re.findall(r"SHMT_FAILPOINT\((\w+)\)", path.read_text())
    }
    points = load_failpoints(CSRC / "spec" / "failpoints.yaml", ROOT)
    assert used == {point.name for point in points}


@pytest.mark.check
def test_every_scenario_of_a_failpoint_has_a_test() -> None:
    points = load_failpoints(CSRC / "spec" / "failpoints.yaml", ROOT)
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for scenario in {point.scenario for point in points}:
        assert f'native.failpoints("{scenario}")' in tests, scenario


_PACKET = """
magic: '1'
version: 1
packet:
- {name: magic, ctype: uint32_t, doc: x}
- {name: text, ctype: char, length: 4, doc: x}
"""


@pytest.mark.parametrize(
    ("packet", "messages", "error"),
    [
        ("- {name: wide, ctype: uint64_t, doc: x}\n- {name: a, ctype: char, doc: x}\n"
         "- {name: b, ctype: uint16_t, doc: x}\n", "", "a hole before 'b'"),
        ("- {name: magic, ctype: uint32_t, doc: x}\n", "", "'magic' is given twice"),
        ("", "- {name: A, from: all, reply: true, doc: x}", "anyone or client"),
        ("", "- {name: A, from: client, reply: true, doc: x, says: {size: y}}", "no field 'size'"),
        ("", "- {name: A, from: client, reply: false, doc: x, answers: {magic: y}}", "no answers"),
        ("", "- {name: A, from: client, reply: true, doc: x}\n"
         "- {name: A, from: client, reply: true, doc: x}", "'A' is given twice"),
    ],
)  # fmt: skip
def test_wrong_specification_is_refused(
    packet: str, messages: str, error: str, tmp_path: Path
) -> None:
    path = tmp_path / "wire.yaml"
    path.write_text(f"{_PACKET}{packet}messages:\n{messages or '  []'}\n")
    with pytest.raises(SpecError, match=error):
        load_wire(path, tmp_path)


def _rewrite() -> None:
    for page in ("wire-protocol.md", "shared-memory.md"):
        path = ROOT / "docs" / page
        path.write_text(_filled(path.read_text()))


if __name__ == "__main__":
    _rewrite()
