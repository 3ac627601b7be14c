"""torch's schema grammar as frozen values that print back to the same string.

::

    name[.overload](type name[=default], *, type name, ...) -> type | (type [name], ...) | ()
    type:   base [ (alias) ] [ ? ] [ [N] [ ? ] ]      Tensor(a!)   Tensor?[]   int[2]?   float
    alias:  a    a!    a -> *
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

BASES = (
    "Tensor",
    "Scalar",
    "int",
    "float",
    "bool",
    "str",
    "ScalarType",
    "Layout",
    "Device",
    "MemoryFormat",
    "Generator",
    "Storage",
)
LIST_BASES = ("Tensor", "int", "float")

_HEAD = re.compile(r"([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?\(")
_TYPE = re.compile(
    r"([A-Za-z_]\w*)"  # base
    r"(?:\(([a-z])(!?)( -> \*)?\))?"  # alias
    r"(\?)?(?:(\[(\d*)\])(\?)?)?"
)
_ALIAS_AFTER_LIST = re.compile(r"\(([a-z])(!?)( -> \*)?\)")
_NAME = re.compile(r"[A-Za-z_]\w*")


class SchemaError(Exception):
    """A schema string does not follow the grammar; the message has the position."""


@dataclass(frozen=True)
class Alias:
    """``(a)``, ``(a!)`` or ``(a -> *)``."""

    name: str
    write: bool = False
    to_any: bool = False

    def __str__(self) -> str:
        return f"({self.name}{'!' if self.write else ''}{' -> *' if self.to_any else ''})"


@dataclass(frozen=True)
class Type:
    """A type of the grammar.

    Attributes:
        base: One of :data:`BASES`.
        optional: ``T?``; for a list, ``T[]?``.
        is_list: ``T[]``.
        size: ``N`` of ``int[N]``; 0 when free.
        element_optional: ``T?[]``.
        alias: Aliasing mark, if any.
    """

    base: str
    optional: bool = False
    is_list: bool = False
    size: int = 0
    element_optional: bool = False
    alias: Alias | None = None

    def __str__(self) -> str:
        text = self.base + (str(self.alias) if self.alias else "")
        if not self.is_list:
            return text + ("?" if self.optional else "")
        text += "?" if self.element_optional else ""
        text += f"[{self.size or ''}]"
        return text + ("?" if self.optional else "")

    @property
    def is_tensor(self) -> bool:
        """Tensor or Tensor?, not a list."""
        return self.base == "Tensor" and not self.is_list

    @property
    def is_tensor_list(self) -> bool:
        """Tensor[] or Tensor?[]."""
        return self.base == "Tensor" and self.is_list


@dataclass(frozen=True)
class Argument:
    """One argument; ``default`` is None when it must be given."""

    type: Type
    name: str
    default: str | None = None
    keyword_only: bool = False
    is_out: bool = False

    @property
    def is_reduction(self) -> bool:
        """The code of a loss's reduction; from Python its name will do too."""
        return self.name == "reduction" and str(self.type) == "int"

    def __str__(self) -> str:
        tail = "" if self.default is None else f"={self.default}"
        return f"{self.type} {self.name}{tail}"


@dataclass(frozen=True)
class Return:
    """One returned value; ``name`` may be empty."""

    type: Type
    name: str = ""

    def __str__(self) -> str:
        return f"{self.type} {self.name}".rstrip()


@dataclass(frozen=True)
class Schema:
    """An operator's name, arguments and returns."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]

    def __str__(self) -> str:
        parts = []
        star = False
        for argument in self.arguments:
            if argument.keyword_only and not star:
                parts.append("*")
                star = True
            parts.append(str(argument))
        returns = ", ".join(map(str, self.returns))
        if len(self.returns) != 1 or self.returns[0].name:
            returns = f"({returns})"
        return f"{self.full_name}({', '.join(parts)}) -> {returns}"

    @property
    def full_name(self) -> str:
        """``name`` or ``name.overload``."""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def ident(self) -> str:
        """The name as part of a C identifier: ``add__Tensor`` for ``add_.Tensor``."""
        return self.full_name.replace(".", "_")

    def argument(self, name: str) -> Argument | None:
        """The argument called *name*."""
        return next((a for a in self.arguments if a.name == name), None)

    def returned_argument(self, index: int) -> int | None:
        """Which written argument return number *index* is; None when it is a new value."""
        alias = self.returns[index].type.alias
        if alias is None or not alias.write:
            return None
        for i, argument in enumerate(self.arguments):
            mark = argument.type.alias
            if mark is not None and mark.write and mark.name == alias.name:
                return i
        return None

    @property
    def new_returns(self) -> tuple[int, ...]:
        """Numbers of the returns that are values of their own, hence C result pointers."""
        return tuple(i for i in range(len(self.returns)) if self.returned_argument(i) is None)

    @property
    def written(self) -> tuple[Argument, ...]:
        """Arguments marked ``(a!)``."""
        return tuple(a for a in self.arguments if a.type.alias and a.type.alias.write)

    @property
    def is_view(self) -> bool:
        """Some result shares memory with an argument that is not written to."""
        return any(r.type.alias and not r.type.alias.write for r in self.returns)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, message: str) -> SchemaError:
        return SchemaError(f"{message} at column {self.at + 1} of '{self.text}'")

    def skip(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.skip(token):
            raise self.fail(f"expected '{token.strip()}'")

    def parse_type(self) -> Type:
        match = _TYPE.match(self.text, self.at)
        if match is None:
            raise self.fail("expected a type")
        base, alias, write, to_any, question, brackets, size, list_question = match.groups()
        if base not in BASES:
            hint = " (write int)" if base == "SymInt" else ""
            raise self.fail(f"unknown type '{base}'{hint}")
        self.at = match.end()
        mark = Alias(alias, bool(write), bool(to_any)) if alias else None
        if brackets is None:
            return Type(base, optional=bool(question), alias=mark)
        if base not in LIST_BASES:
            raise self.fail(f"there are no lists of {base}")
        if size and base == "Tensor":
            raise self.fail("Tensor lists have no fixed size")
        return Type(
            base,
            optional=bool(list_question),
            is_list=True,
            size=int(size or 0),
            element_optional=bool(question),
            alias=mark,
        )

    def parse_name(self) -> str:
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.fail("expected a name")
        self.at = match.end()
        return match.group()

    def parse_default(self) -> str:
        start = self.at
        if self.skip("["):
            end = self.text.find("]", self.at)
            if end < 0:
                raise self.fail("expected ']'")
            self.at = end + 1
        elif self.text[self.at : self.at + 1] in ("'", '"'):
            end = self.text.find(self.text[self.at], self.at + 1)
            if end < 0:
                raise self.fail("expected the end of the text")
            self.at = end + 1
        else:
            match = re.compile(r"[^,)\s]+").match(self.text, self.at)
            if match is None:
                raise self.fail("expected a default")
            self.at = match.end()
        return self.text[start : self.at]

    def parse_arguments(self) -> list[Argument]:
        arguments: list[Argument] = []
        keyword_only = False
        if self.skip(")"):
            return arguments
        while True:
            if self.skip("*"):
                if keyword_only:
                    raise self.fail("'*' stands twice")
                keyword_only = True
            else:
                kind = self.parse_type()
                self.expect(" ")
                name = self.parse_name()
                default = self.parse_default() if self.skip("=") else None
                if any(a.name == name for a in arguments):
                    raise self.fail(f"argument '{name}' is given twice before")
                arguments.append(Argument(kind, name, default, keyword_only))
            if self.skip(")"):
                return arguments
            self.expect(", ")

    def parse_return(self) -> Return:
        kind = self.parse_type()
        mark = self.text[self.at : self.at + 1]
        if mark == " " and _NAME.match(self.text, self.at + 1):
            self.at += 1
            return Return(kind, self.parse_name())
        return Return(kind)

    def parse(self) -> Schema:
        head = _HEAD.match(self.text)
        if head is None:
            raise self.fail("expected name( or name.overload(")
        self.at = head.end()
        arguments = self.parse_arguments()
        self.expect(" -> ")
        returns: list[Return] = []
        if self.skip("("):
            while not self.skip(")"):
                if returns:
                    self.expect(", ")
                returns.append(self.parse_return())
        else:
            returns.append(self.parse_return())
        if self.at != len(self.text):
            raise self.fail("nothing more expected")
        schema = Schema(head.group(1), head.group(2) or "", tuple(arguments), tuple(returns))
        return _mark_outputs(schema)


def _mark_outputs(schema: Schema) -> Schema:
    returned = {schema.returned_argument(i) for i in range(len(schema.returns))}
    arguments = tuple(
        replace(a, is_out=True) if a.keyword_only and i in returned else a
        for i, a in enumerate(schema.arguments)
    )
    return replace(schema, arguments=arguments)


def parse(text: str) -> Schema:
    """Parse a schema string.

    Raises:
        SchemaError: It does not follow the grammar, or does not print back to itself.
    """
    schema = _Parser(text).parse()
    if str(schema) != text:
        raise SchemaError(f"'{text}' must be written '{schema}'")
    return schema


def to_inplace(schema: Schema) -> Schema:
    """``f(Tensor self, ...) -> Tensor`` as ``f_(Tensor(a!) self, ...) -> Tensor(a!)``.

    Raises:
        SchemaError: The first argument is no plain Tensor, or there is not one plain result.
    """
    if not schema.arguments or str(schema.arguments[0].type) not in ("Tensor", "Tensor(a)"):
        raise SchemaError("an in-place form needs a first argument 'Tensor'")
    if len(schema.returns) != 1 or not schema.returns[0].type.is_tensor:
        raise SchemaError("an in-place form needs one result 'Tensor'")
    written = Type("Tensor", alias=Alias("a", write=True))
    first = replace(schema.arguments[0], type=written)
    return Schema(
        f"{schema.name}_", schema.overload, (first, *schema.arguments[1:]), (Return(written),)
    )


def out_overload(overload: str) -> str:
    """The overload of the out= form: ``out`` for none or Tensor, else ``<overload>_out``."""
    return "out" if overload in ("", "Tensor") else f"{overload}_out"


def to_out(schema: Schema) -> Schema:
    """``f(...) -> Tensor`` as ``f.out(..., *, Tensor(a!) out) -> Tensor(a!)``.

    Several results become keyword arguments of their own, named as the results are.

    Raises:
        SchemaError: A result is no plain Tensor, or an argument already has its name.
    """
    arguments = list(schema.arguments)
    returns = []
    for i, result in enumerate(schema.returns):
        if not result.type.is_tensor or result.type.alias:
            raise SchemaError("an out= form needs results that are plain Tensors")
        written = Type("Tensor", alias=Alias(chr(ord("a") + i), write=True))
        single = len(schema.returns) == 1
        name = "out" if single else (result.name or f"out{i}")
        if any(a.name == name for a in arguments):
            raise SchemaError(f"argument '{name}' has the name of an output")
        arguments.append(Argument(written, name, None, keyword_only=True, is_out=True))
        returns.append(Return(written, result.name))
    return Schema(schema.name, out_overload(schema.overload), tuple(arguments), tuple(returns))
