"""Every schema type in C: declaration, boxing, signature letter. The one place that knows."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.spec.schema import Argument, Return, Schema, Type


@dataclass(frozen=True)
class CType:
    """How a schema type is passed.

    Attributes:
        name: The C type, ``shmt_tensor*``.
        letter: Its place in a signature's name.
        tag: ``SHMT_VALUE_<tag>`` of a boxed value.
        member: ``v.<member>`` of a boxed value.
        enum: ``SHMT_TYPE_<enum>`` of run-time schemas.
        none: The C expression that stands for None; empty when there is none.
        is_none: A C test with ``%s`` for the expression; empty when it is never none.
        box: A C expression with ``%s`` of the member's type.
        unbox: A C expression with ``%s`` for the member.
    """

    name: str
    letter: str
    tag: str
    member: str
    enum: str
    none: str = ""
    is_none: str = ""
    box: str = "%s"
    unbox: str = "%s"


def _enumerated(name: str, enum: str, none: str) -> CType:
    return CType(name, "e", "INT", "i", enum, none, "%s < 0", "%s", "(int)%s")


_PLAIN: dict[str, CType] = {
    "Tensor": CType("shmt_tensor*", "T", "TENSOR", "tensor", "TENSOR", "(void*)0", "!%s"),
    "Scalar": CType(
        "shmt_scalar",
        "S",
        "SCALAR",
        "scalar",
        "SCALAR",
        "shmt__scalar_none()",
        "%s.tag == SHMT_SCALAR_NONE",
    ),
    "int": CType("int64_t", "i", "INT", "i", "INT"),
    "float": CType("double", "f", "FLOAT", "d", "FLOAT"),
    "bool": CType("bool", "b", "BOOL", "b", "BOOL"),
    "str": CType("const char*", "s", "STR", "str", "STR", "(const char*)0", "!%s"),
    "ScalarType": _enumerated("shmt_dtype", "DTYPE", "SHMT_DTYPE_NONE"),
    "Layout": _enumerated("shmt_layout", "LAYOUT", "SHMT_LAYOUT_NONE"),
    "Device": _enumerated("shmt_device", "DEVICE", "SHMT_DEVICE_NONE"),
    "MemoryFormat": _enumerated("shmt_memory_format", "MEMORY_FORMAT", "SHMT_MEMORY_FORMAT_NONE"),
    "Generator": CType(
        "shmt_generator*", "G", "GENERATOR", "generator", "GENERATOR", "(void*)0", "!%s"
    ),
    "Storage": CType("shmt_storage*", "O", "STORAGE", "storage", "STORAGE", "(void*)0", "!%s"),
}


def _optional(base: str, letter: str, tag: str, member: str) -> CType:
    name = f"shmt_opt_{base}"
    return CType(
        name,
        letter,
        tag,
        member,
        tag,
        f"(({name}){{0}})",
        "!%s.has",
        "%s.value",
        f"(({name}){{%s, true}})",
    )


_OPTIONAL: dict[str, CType] = {
    "int": _optional("int", "I", "INT", "i"),
    "float": _optional("float", "F", "FLOAT", "d"),
    "bool": _optional("bool", "B", "BOOL", "b"),
}
_LISTS: dict[str, CType] = {
    "Tensor": CType("shmt_tensors", "L", "TENSORS", "tensors", "TENSORS", "((shmt_tensors){0, 0})"),
    "int": CType("shmt_ints", "v", "INTS", "ints", "INTS", "SHMT_INTS_NONE", "%s.len < 0"),
    "float": CType(
        "shmt_floats", "w", "FLOATS", "floats", "FLOATS", "((shmt_floats){0, -1})", "%s.len < 0"
    ),
}


def c_type(kind: Type) -> CType:
    """The C form of an argument's type."""
    if kind.is_list:
        return _LISTS[kind.base]
    if kind.optional and kind.base in _OPTIONAL:
        return _OPTIONAL[kind.base]
    return _PLAIN[kind.base]


def by_letter() -> dict[str, CType]:
    """A C type for each letter; those that share one are passed and boxed alike."""
    tables = (_PLAIN, _OPTIONAL, _LISTS)
    return {kind.letter: kind for table in tables for kind in table.values()}


def argument_letters(schema: Schema) -> str:
    """A letter for each argument."""
    return "".join(c_type(argument.type).letter for argument in schema.arguments)


def result_type(kind: Type) -> str:
    """The C type a result pointer points to."""
    return "shmt_tensor_vec" if kind.is_tensor_list else c_type(kind).name


def result_names(schema: Schema) -> list[str]:
    """Names of the C result pointers: ``out``, or ``out0``, ``out1``, ..."""
    new = schema.new_returns
    taken = {a.name for a in schema.arguments}
    stem = "out" if "out" not in taken else "out_"
    return [stem] if len(new) == 1 else [f"{stem}{i}" for i in range(len(new))]


_C_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while bool true false ks result status self_ op node "
    "below".split()
)


def c_name(argument: Argument | str) -> str:
    """An argument's name as a C parameter; C words and our own locals get a trailing ``_``."""
    name = argument if isinstance(argument, str) else argument.name
    return f"{name}_" if name in _C_WORDS else name


def parameters(schema: Schema) -> list[str]:
    """C parameters without the key set: ``shmt_tensor* self``, ..., ``shmt_tensor** out``."""
    result = [f"{c_type(a.type).name} {c_name(a)}" for a in schema.arguments]
    for index, name in zip(schema.new_returns, result_names(schema), strict=True):
        result.append(f"{result_type(schema.returns[index].type)}* {name}")
    return result


def call_arguments(schema: Schema) -> list[str]:
    """The names of :func:`parameters`."""
    return [c_name(a) for a in schema.arguments] + result_names(schema)


def signature(schema: Schema) -> str:
    """The name of a C signature; equal names mean equal parameters and returns.

    Letters of the arguments, ``_``, then per return the letter of a new value or the number of
    the argument it is.
    """
    letters = argument_letters(schema)
    returns = ""
    for i, value in enumerate(schema.returns):
        index = schema.returned_argument(i)
        returns += c_type(value.type).letter if index is None else f"{index}"
    return f"{letters}_{returns}"


def kernel_type(schema: Schema) -> str:
    """The typedef of the unboxed kernel, in generated/signatures.h."""
    return f"shmt__fn_{signature(schema)}"


def returns_tensor_like(value: Return) -> bool:
    """Tensor or Tensor[]."""
    return value.type.base == "Tensor"


def default_expression(argument: Argument) -> str | None:
    """The C expression of an argument's default; None when it has none.

    Raises:
        ValueError: The default's text does not fit the type.
    """
    text = argument.default
    if text is None:
        return None
    kind, ctype = argument.type, c_type(argument.type)
    if text == "None":
        if not (kind.optional and ctype.none):
            raise ValueError(f"default None, but {kind} is not optional")
        return ctype.none
    if kind.is_list:
        return _list_default(kind, text)
    if kind.base == "Scalar":
        return _scalar_default(text)
    if kind.base == "int":
        return _wrap(kind, str(int(text)), "int")
    if kind.base == "float":
        return _wrap(kind, _float(text), "float")
    if kind.base == "bool":
        if text not in ("True", "False"):
            raise ValueError(f"default '{text}' is neither True nor False")
        return _wrap(kind, text.lower(), "bool")
    if kind.base == "str":
        if len(text) < 2 or text[0] not in "'\"":
            raise ValueError(f"default {text} of a str must be quoted")
        return '"' + text[1:-1] + '"'
    if kind.base == "MemoryFormat":
        names = {
            "contiguous_format": "SHMT_CONTIGUOUS_FORMAT",
            "preserve_format": "SHMT_PRESERVE_FORMAT",
            "channels_last": "SHMT_CHANNELS_LAST",
            "channels_last_3d": "SHMT_CHANNELS_LAST_3D",
        }
        if text in names:
            return names[text]
    if kind.base == "ScalarType":
        return {"long": "SHMT_INT64", "float": "SHMT_FLOAT32"}.get(text, f"SHMT_{text.upper()}")
    raise ValueError(f"default '{text}' does not fit {kind}")


def _float(text: str) -> str:
    value = float(text)
    if value != value:
        return '__builtin_nan("")'
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}__builtin_inf()"
    return repr(value)


def _wrap(kind: Type, value: str, base: str) -> str:
    return f"((shmt_opt_{base}){{{value}, true}})" if kind.optional else value


def _scalar_default(text: str) -> str:
    if text in ("True", "False"):
        return f"shmt__scalar_bool({text.lower()})"
    try:
        return f"shmt__scalar_int({int(text)})"
    except ValueError:
        return f"shmt__scalar_float({_float(text)})"


def _list_default(kind: Type, text: str) -> str:
    if kind.base == "Tensor":
        raise ValueError("a Tensor[] has no default")
    if not text.startswith("["):
        if kind.base == "int" and kind.size:
            return f"SHMT_INTS({', '.join([str(int(text))] * kind.size)})"
        raise ValueError(f"default '{text}' does not fit {kind}")
    items = [item.strip() for item in text[1:-1].split(",") if item.strip()]
    if kind.base == "float":
        values = ", ".join(_float(item) for item in items)
        if not items:
            return "((shmt_floats){0, 0})"
        return f"((shmt_floats){{(const double[]){{{values}}}, {len(items)}}})"
    if not items:
        return "SHMT_INTS_EMPTY"
    return f"SHMT_INTS({', '.join(str(int(item)) for item in items)})"


def c_string(text: str) -> str:
    """A C string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
