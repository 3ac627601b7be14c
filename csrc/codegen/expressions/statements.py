"""The C statements of one block: what is written, its locals, and when they are released."""

from __future__ import annotations

import re

from codegen.expressions.values import INT, NONE, Value
from codegen.spec.c_types import c_name
from codegen.spec.errors import SpecError

#: Names that :meth:`Statements.local` may give.
_LIKE_OURS = re.compile(r"(t|n|i|shape|list|element)\d+")
_CALL = re.compile(r" *SHMT_TRY\(((?:shmt|composite)_\w+\(.*\))\);\n")
_DECLARATION = re.compile(r"( *)SHMT_AUTO\(shmt_tensor\) (\w+) = 0;")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _release_early(lines: list[str], temporaries: set[str]) -> list[str]:
    """Release each temporary after its last use, where calls that may need the memory follow."""
    releases: dict[int, str] = {}
    for at, line in enumerate(lines):
        found = _DECLARATION.match(line)
        if not found or found[2] not in temporaries:
            continue
        depth, name = len(found[1]), found[2]
        end = next((i for i in range(at, len(lines)) if _indent(lines[i]) < depth), len(lines))
        uses = [i for i in range(at, end) if re.search(rf"\b{name}\b", lines[i])]
        last = uses[-1]
        while _indent(lines[last]) > depth or lines[last].strip() == "} else {":
            last += 1
        given = (f"SHMT_TAKE({name})", f"shmt__finish_reuse(&{name}", "return")
        is_given = any(text in lines[uses[-1]] for text in given)
        if not is_given and any("SHMT_TRY(" in later for later in lines[last + 1 : end]):
            release = f"{found[1]}shmt__tensor_release(SHMT_TAKE({name}));\n"
            releases[last] = releases.get(last, "") + release
    return [line + releases.get(i, "") for i, line in enumerate(lines)]


class Statements:
    """The statements of a block.

    Args:
        where: ``file:line`` of what they are made from.
        indent: Before each of them.
    """

    def __init__(self, where: str, indent: str) -> None:
        self.where = where
        self.indent = indent
        self.lines: list[str] = []
        self.counter = [0]
        self.temporaries: set[str] = set()
        #: C names in use, where the names of blocks become those of C locals; None: they do not.
        self.taken: set[str] | None = None
        self.bound: dict[str, Value] = {}

    def fail(self, message: str) -> SpecError:
        return SpecError(self.where, message)

    def emit(self, line: str) -> None:
        """Add a statement."""
        self.lines.append(f"{self.indent}{line}\n")

    def local(self, prefix: str) -> str:
        """A fresh local name."""
        while True:
            self.counter[0] += 1
            name = f"{prefix}{self.counter[0]}"
            if not self.taken or name not in self.taken:
                return name

    def fresh(self, name: str) -> str:
        """A C name like *name* that is not taken; it is afterwards."""
        assert self.taken is not None
        stem, number = c_name(name), 1
        if _LIKE_OURS.fullmatch(stem):
            stem = f"{stem}_"
        local = stem
        while local in self.taken:
            number += 1
            local = f"{stem}_{number}"
        self.taken.add(local)
        return local

    def declares(self, local: str) -> bool:
        """Is *local* a C local of this block, not of one around it?"""
        declaration = re.compile(rf" *\w[\w()]*[ *]+{local}( = .*)?;\n")
        return any(declaration.fullmatch(line) for line in self.lines)

    def rename(self, old: str, new: str) -> None:
        """Give a local of this block another name."""
        self.lines = [re.sub(rf"\b{old}\b", new, line) for line in self.lines]
        self.bound = {name: value.renamed(old, new) for name, value in self.bound.items()}
        if old in self.temporaries:
            self.temporaries.add(new)

    def temporary(self) -> str:
        """Declare a local tensor, NULL at first, that is released after its last use."""
        name = self.local("t")
        self.temporaries.add(name)
        self.emit(f"SHMT_AUTO(shmt_tensor) {name} = 0;")
        return name

    def checked(self, word: str, left: str, right: str) -> Value:
        """Emit the sum (``add``), difference or product of two ints, which must fit in 64 bits."""
        name = self.local("n")
        self.emit(f"int64_t {name} = 0;")
        self.emit(f"SHMT_TRY(shmt__int_{word}({left}, {right}, &{name}));")
        return Value(name, INT, local=name)

    def text(self) -> str:
        """The statements so far, with tensors released where they are not needed any more."""
        return "".join(_release_early(self.lines, self.temporaries))

    def give(self, value: Value, target: str) -> None:
        """Emit ``target = new reference to value``; *target* is NULL before, and may be after."""
        call = self.take_last_call([value], [f"&{target}".replace("&*", "")])
        if call:
            self.emit(f"SHMT_TRY({call});")
        elif value.type == NONE:
            self.emit(f"{target} = 0;")
        elif value.owned:
            self.emit(f"{target} = SHMT_TAKE({value.code});")
        else:  # what an output mask leaves out is NULL, though its type is no optional one
            self.emit(f"{target} = {value.code} ? shmt__tensor_ref({value.code}) : 0;")

    def take_last_call(self, values: list[Value], pointers: list[str]) -> str:
        """The call that was emitted last, with *pointers* for its results, where they are *values*.

        It is not emitted any more, nor are the locals for these results. Empty where they are not.
        """
        found = _CALL.fullmatch(self.lines[-1]) if self.lines else None
        if not found or not all(v.owned and re.search(rf"&{v.code}\b", found[1]) for v in values):
            return ""
        declared = [f"{self.indent}SHMT_AUTO(shmt_tensor) {v.code} = 0;\n" for v in values]
        if any(self.lines.count(line) != 1 for line in declared):
            return ""
        del self.lines[-1]
        call = found[1]
        for value, line, pointer in zip(values, declared, pointers, strict=True):
            self.lines.remove(line)
            call = re.sub(rf"&{value.code}\b", pointer, call)
        return call
