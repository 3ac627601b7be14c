"""Values of the derivative language, and how well they fit the arguments of an operator."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from codegen.spec.model import Operator
from codegen.spec.schema import Argument, Type

TENSOR = Type("Tensor")
MAYBE_TENSOR = Type("Tensor", optional=True)
TENSORS = Type("Tensor", is_list=True)
SCALAR, INT, FLOAT, BOOL, STR = map(Type, ("Scalar", "int", "float", "bool", "str"))
INTS = Type("int", is_list=True)
FLOATS = Type("float", is_list=True)
DTYPE, DEVICE, MEMORY_FORMAT = map(Type, ("ScalarType", "Device", "MemoryFormat"))
NONE = Type("None")
TUPLE = Type("tuple")

NUMBERS = ("bool", "int", "float")


@dataclass
class Value:
    """A lowered expression: C code of a static type.

    ``owned``: the code is a local that holds a reference, and nobody uses it again.
    ``local``: the name of the C local that holds the value, when it was made for this value.
    ``small``: an int that counts dims or elements of a list, or the like: sums fit in 64 bits.
    ``positive``: an int that is at least 0, such as a size: differences fit in 64 bits.
    """

    code: str
    type: Type
    owned: bool = False
    items: list[Value] = field(default_factory=list)
    literal: bool = False
    local: str = ""
    small: bool = False
    positive: bool = False

    def renamed(self, old: str, new: str) -> Value:
        """The same value where the C local *old* is called *new*."""
        return replace(
            self,
            code=re.sub(rf"\b{old}\b", new, self.code),
            local=new if self.local == old else self.local,
            items=[item.renamed(old, new) for item in self.items],
        )


def unwrapped(test: str) -> str:
    """The C of a condition without parentheses around all of it."""
    depth = 0
    for at, sign in enumerate(test):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return test[1:-1] if 0 < at == len(test) - 1 else test
    return test


def is_number(kind: Type) -> bool:
    """A bool, int or float whose kind is known and that is there."""
    return kind.base in NUMBERS and not kind.is_list and not kind.optional


def cost(have: Type, want: Type) -> int | None:
    """How far a value of *have* is from *want*; None when it does not fit."""
    if have == NONE:
        return 0 if want.optional or (want.base == "Tensor" and want.element_optional) else None
    if have == TUPLE:
        return None
    if have.is_list or want.is_list:
        return _list_cost(have, want)
    if have.base == want.base:
        if have.optional == want.optional:
            return 0
        return 1 if want.optional else None if have.base in NUMBERS else 3
    if want.base == "Tensor":
        return 8 if have.base in (*NUMBERS, "Scalar") and not have.optional else None
    if want.base == "Scalar":
        return 1 if have.base in NUMBERS else None
    if have.base == "Scalar":
        return 5 if want.base in NUMBERS else None
    ladder = {"bool": 0, "int": 1, "float": 2}
    if have.base in ladder and want.base in ladder:
        step = ladder[want.base] - ladder[have.base]
        return step if step > 0 and not have.optional else None
    return None


def _list_cost(have: Type, want: Type) -> int | None:
    if have.is_list and want.is_list:
        if have.base == want.base:
            return 1 if have.optional and not want.optional else 0
        return None
    if have.is_list:
        return None
    if want.base == "int" and want.size and have.base == "int" and not have.optional:
        return 2
    return None


def bind(
    op: Operator, arguments: list[Value], keywords: dict[str, Value]
) -> tuple[int, list[Value | None]] | None:
    """Match a call with an operator's arguments; the cost, or None when they do not fit."""
    positional: list[Argument] = list(op.schema.arguments)  # keyword-only ones may follow
    if len(arguments) > len(positional):
        return None
    given: dict[str, Value] = {a.name: v for a, v in zip(positional, arguments, strict=False)}
    for name, value in keywords.items():
        if name in given or op.schema.argument(name) is None:
            return None
        given[name] = value
    total = 0
    bound: list[Value | None] = []
    for argument in op.schema.arguments:
        value_or_none = given.get(argument.name)
        if value_or_none is None:
            if argument.default is None:
                return None
            bound.append(None)
            continue
        distance = cost(value_or_none.type, argument.type)
        if distance is None:
            return None
        total += distance
        bound.append(value_or_none)
    return total, bound
