"""The wire protocol and the fail points: C headers, and the tables that the documentation shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from codegen.emit.emitter import Emitter
from codegen.spec.errors import SpecError
from codegen.spec.loader import Entry, Text, check_order, load_entries, load_mapping

_SIZES = {"char": 1, "uint16_t": 2, "uint32_t": 4, "int32_t": 4, "uint64_t": 8}
_MAX_MESSAGES = 0x7F  # a reply is marked by 0x80
_SPEC = "csrc/spec/wire.yaml"


@dataclass(frozen=True)
class Field:
    """A field of the packet; ``length`` is 0 unless it is an array."""

    name: str
    ctype: str
    length: int
    offset: int
    doc: str

    @property
    def nbytes(self) -> int:
        """Its size in the packet."""
        return _SIZES[self.ctype] * max(self.length, 1)


@dataclass(frozen=True)
class Message:
    """A message; ``code`` is its position in the list, from 1."""

    code: int
    name: str
    from_anyone: bool
    has_reply: bool
    doc: str
    says: tuple[tuple[str, str], ...]
    files: tuple[str, ...]
    answers: tuple[tuple[str, str], ...]
    answer_files: tuple[str, ...]


@dataclass(frozen=True)
class Wire:
    """All of ``wire.yaml``."""

    magic: int
    version: int
    fields: tuple[Field, ...]
    messages: tuple[Message, ...]

    @property
    def packet_bytes(self) -> int:
        """The size of every packet."""
        return self.fields[-1].offset + self.fields[-1].nbytes


@dataclass(frozen=True)
class FailPoint:
    """A row of ``failpoints.yaml``."""

    name: str
    scenario: str
    who: str
    left: str
    repair: str


# --- reading --------------------------------------------------------------------------------------


def _load_fields(entries: list[Entry]) -> tuple[Field, ...]:
    fields: list[Field] = []
    offset = 0
    for entry in entries:
        entry.check_keys(("name", "ctype", "length", "doc"), ("name", "ctype", "doc"))
        ctype = entry.text("ctype")
        if ctype not in _SIZES:
            raise SpecError(ctype.where, f"ctype '{ctype}' is none of {', '.join(_SIZES)}")
        if offset % _SIZES[ctype] != 0:
            raise SpecError(entry.where, f"a hole before '{entry.text('name')}' at {offset}")
        length = entry.number("length")
        field = Field(str(entry.text("name")), str(ctype), length, offset, str(entry.text("doc")))
        if any(field.name == other.name for other in fields):
            raise SpecError(entry.where, f"field '{field.name}' is given twice")
        fields.append(field)
        offset += field.nbytes
    return tuple(fields)


def _meanings(entry: Entry, key: str, fields: set[str]) -> tuple[tuple[str, str], ...]:
    pairs = entry.mapping(key)
    for name, _ in pairs:
        if name not in fields:
            raise SpecError(name.where, f"the packet has no field '{name}'")
    return tuple((str(name), str(meaning)) for name, meaning in pairs)


def _load_message(code: int, entry: Entry, fields: set[str]) -> Message:
    required = ("name", "from", "reply", "doc")
    entry.check_keys((*required, "says", "files", "answers", "answer_files"), required)
    sender = entry.text("from")
    if sender not in ("anyone", "client"):
        raise SpecError(sender.where, f"'from' must be anyone or client, got '{sender}'")
    has_reply = entry.flag("reply")
    if not has_reply and ("answers" in entry or "answer_files" in entry):
        raise SpecError(entry.where, "a message without a reply has no answers")
    return Message(
        code=code,
        name=str(entry.text("name")),
        from_anyone=sender == "anyone",
        has_reply=has_reply,
        doc=str(entry.text("doc")),
        says=_meanings(entry, "says", fields),
        files=tuple(map(str, entry.texts("files"))),
        answers=_meanings(entry, "answers", fields),
        answer_files=tuple(map(str, entry.texts("answer_files"))),
    )


def load_wire(path: Path, root: Path) -> Wire:
    """Read and check ``wire.yaml``.

    Raises:
        SpecError: A hole in the packet, a field or message twice, an unknown field.
    """
    top = load_mapping(path, root)
    keys = ("magic", "version", "packet", "messages")
    top.check_keys(keys, keys)
    fields = _load_fields(top.entries("packet"))
    names = {field.name for field in fields}
    entries = top.entries("messages")
    messages = tuple(_load_message(i, entry, names) for i, entry in enumerate(entries, 1))
    seen: dict[str, Text] = {}
    for entry in entries:
        name = entry.text("name")
        if name in seen:
            raise SpecError(name.where, f"'{name}' is given twice (first at {seen[name].where})")
        seen[name] = name
    if len(messages) > _MAX_MESSAGES:
        raise SpecError(top.where, f"{len(messages)} messages, at most {_MAX_MESSAGES} fit")
    return Wire(int(top.text("magic"), 0), top.number("version"), fields, messages)


def load_failpoints(path: Path, root: Path) -> tuple[FailPoint, ...]:
    """Read and check ``failpoints.yaml``.

    Raises:
        SpecError: A missing key, an unsorted or repeated point.
    """
    entries = load_entries(path, root)
    keys = ("point", "scenario", "who", "left", "repair")
    for entry in entries:
        entry.check_keys(keys, keys)
        point = entry.text("point")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", point):
            raise SpecError(point.where, f"'{point}' is no name of a fail point")
        if entry.text("who") not in ("client", "manager"):
            raise SpecError(entry.where_of("who"), "'who' must be client or manager")
    check_order(entries, "point")
    return tuple(FailPoint(*(str(entry.text(key)) for key in keys)) for entry in entries)


# --- C --------------------------------------------------------------------------------------------


def _packet(wire: Wire) -> str:
    lines = ["typedef struct shmt__packet {"]
    for field in wire.fields:
        array = "[SHMT_WIRE_TEXT]" if field.name == "text" else ""
        if field.length and not array:
            array = f"[{field.length}]"
        lines.append(f"  {field.ctype} {field.name}{array}; /* {field.doc} */")
    lines += [
        "} shmt__packet;",
        f'_Static_assert(sizeof(shmt__packet) == {wire.packet_bytes}, "packet");',
    ]
    for field in wire.fields:
        lines.append(
            f"_Static_assert(offsetof(shmt__packet, {field.name}) == {field.offset}, "
            f'"{field.name}");'
        )
    return "\n".join(lines)


def emit_protocol(emitter: Emitter, wire: Wire, points: tuple[FailPoint, ...]) -> None:
    """Write ``generated/wire.h`` and ``generated/failpoints.h``."""
    text = next((field.length for field in wire.fields if field.name == "text"), 0)
    enum = "".join(f"  SHMT_MESSAGE_{m.name} = {m.code},\n" for m in wire.messages)
    rows = " \\\n".join(
        f"  X({m.name}, {int(m.from_anyone)}, {int(m.has_reply)})" for m in wire.messages
    )
    emitter.c_file(
        "wire.h",
        "the packets between clients and the manager.",
        _SPEC,
        "#include <stddef.h>\n#include <stdint.h>\n\n"
        f"#define SHMT_WIRE_MAGIC UINT32_C({wire.magic:#010x})\n\n"
        f"enum {{ SHMT_WIRE_VERSION = {wire.version}, SHMT_WIRE_TEXT = {text} }};\n\n"
        f"typedef enum shmt__message {{\n{enum}  SHMT_MESSAGE_REPLY = 0x80,\n}} shmt__message;\n\n"
        "/* X(name, a connection may send it before HELLO and FORK, it has a reply) for each. */\n"
        f"#define SHMT_FOR_EACH_MESSAGE(X) \\\n{rows}\n\n{_packet(wire)}",
    )
    emitter.c_file(
        "failpoints.h",
        "the names that SHMT_FAILPOINT takes.",
        "csrc/spec/failpoints.yaml",
        "typedef enum shmt__failpoint_name {\n"
        + "".join(f"  SHMT_POINT_{point.name},\n" for point in points)
        + "  SHMT_N_POINTS,\n} shmt__failpoint_name;",
    )


# --- documentation --------------------------------------------------------------------------------


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def _cell(pairs: tuple[tuple[str, str], ...], files: tuple[str, ...]) -> str:
    parts = [f"`{name}`: {meaning}" for name, meaning in pairs]
    parts += [f"[{file}]" for file in files]
    return "; ".join(parts) or "–"


def wire_tables(wire: Wire) -> dict[str, str]:
    """The tables of docs/wire-protocol.md, by the name of their place."""
    packet = [
        (
            str(field.offset),
            f"`{field.name}`",
            f"`{field.ctype}[{field.length}]`" if field.length else f"`{field.ctype}`",
            field.doc,
        )
        for field in wire.fields
    ]
    messages = [
        (
            str(m.code),
            f"`{m.name}`",
            "anyone" if m.from_anyone else "client",
            m.doc,
            _cell(m.says, m.files),
            _cell(m.answers, m.answer_files) if m.has_reply else "no reply",
        )
        for m in wire.messages
    ]
    return {
        "packet": _table(("offset", "field", "type", "meaning"), packet),
        "messages": _table(("type", "name", "from", "what", "says", "answer"), messages),
    }


def failpoint_table(points: tuple[FailPoint, ...]) -> str:
    """The table of docs/shared-memory.md."""
    rows = [(f"`{p.name}`", p.who, p.left, p.repair) for p in points]
    return _table(("step", "killed", "left half done", "who repairs, how"), rows)
