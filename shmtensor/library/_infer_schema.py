"""The schema of an operator, read off the annotations of a function."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = ["infer_schema"]

_PLAIN = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    _C.dtype: "ScalarType",
    _C.device: "Device",
}
_NUMBER = {int, float, bool}
_LISTS = (list, collections.abc.Sequence)
_LIST_ELEMENTS = ("Tensor", "Tensor?", "SymInt", "float")


class _Signature:
    """A function's signature, and errors that show it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = inspect.signature(function)
        try:
            self.hints = typing.get_type_hints(function)
        except NameError as error:
            raise self.error(f"Unsupported type annotation: {error}.") from error

    def error(self, what: str) -> ValueError:
        return ValueError(f"infer_schema(func): {what} Got func with signature {self.signature})")


def _type_text(annotation: Any) -> str | None:
    """Return the schema's word for a type, or None when it has none."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = {a for a in arguments if a is not type(None)}
        text = "Scalar" if rest == _NUMBER else _type_text(*rest) if len(rest) == 1 else None
        optional = len(rest) < len(arguments)
        return text + "?" if text is not None and optional else text
    if origin in _LISTS and len(arguments) == 1:
        element = _type_text(arguments[0])
        return element + "[]" if element in _LIST_ELEMENTS else None
    return None


def _default_text(value: Any) -> str | None:
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, _C.dtype):
        return str(value).rpartition(".")[2]
    return None


def _with_alias(text: str, number: int) -> str:
    """Mark a type: ``Tensor?`` becomes ``Tensor(a0!)?``."""
    return text.replace("Tensor", f"Tensor(a{number}!)", 1)


def _parameter_text(
    source: _Signature, parameter: inspect.Parameter, number: int, mutated: bool
) -> str:
    name = parameter.name
    if parameter.annotation is inspect.Parameter.empty:
        raise source.error(f"Parameter {name} must have a type annotation.")
    text = _type_text(source.hints[name])
    if text is None:
        raise source.error(
            f"Parameter {name} has unsupported type {parameter.annotation}. The valid types are: "
            "Tensor, int, float, bool, str, dtype, device, a number (int | float | bool), "
            "Optional of these, and list or Sequence of Tensor, int and float."
        )
    if mutated:
        if not text.startswith("Tensor"):
            raise source.error(
                f"Parameter {name} is in mutable_args but only Tensors or "
                "collections of Tensors can be mutated"
            )
        text = _with_alias(text, number)
    if parameter.default is inspect.Parameter.empty:
        return f"{text} {name}"
    default = _default_text(parameter.default)
    if default is None:
        raise source.error(
            f"Parameter {name} has an unsupported default value type {type(parameter.default)}. "
            "A default is None, a bool, an int, a float, a str or a dtype; "
            "for another, give a schema instead of having it inferred."
        )
    return f"{text} {name}={default}"


def _parameters_text(source: _Signature, mutates: set[str] | None) -> str:
    """The schema's arguments; *mutates* is None when every tensor may be."""
    texts = []
    keyword_only = False
    for number, parameter in enumerate(source.signature.parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise source.error("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            texts.append("*")
        is_tensor = (_type_text(source.hints.get(parameter.name)) or "").startswith("Tensor")
        mutated = is_tensor if mutates is None else parameter.name in mutates
        texts.append(_parameter_text(source, parameter, number, mutated))
    return ", ".join(texts)


def _return_text(source: _Signature) -> str:
    if source.signature.return_annotation is inspect.Signature.empty:
        raise source.error("No return type annotation was provided. Please add one.")
    annotation = source.hints["return"]
    if annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        each = [_type_text(a) for a in typing.get_args(annotation)]
        if each and all(each):
            return f"({', '.join(typing.cast(list[str], each))})" if len(each) > 1 else str(each[0])
    text = _type_text(annotation)
    if text is None or text.endswith("?"):
        raise source.error(
            f"Return has unsupported type {annotation}. The valid types are: None, Tensor, "
            "list[Tensor], int, float, bool, a number, and tuples of these."
        )
    return text


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """Return the schema that a function's annotations say.

    Args:
        prototype_function: All parameters and the result are annotated. Annotations may be
            strings.
        mutates_args: The names of the arguments that the function changes in place, or
            ``"unknown"``: any tensor may be.
        op_name: Put before the parentheses.

    Returns:
        Such as ``"(Tensor x, SymInt n=3) -> Tensor"``.

    Raises:
        ValueError: An annotation is missing or has no word in schemas; a default has none; or
            *mutates_args* names something that is not an argument.

    Source:
        torch.library.infer_schema.
    """
    source = _Signature(prototype_function)
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are "
            f"mutated or the string 'unknown'. Got {mutates_args!r}."
        )
    mutates = None if mutates_args == "unknown" else set(mutates_args)
    unknown = sorted((mutates or set()) - set(source.signature.parameters))
    if unknown:
        raise source.error(f"{unknown} in mutates_args were not found in the function's signature")
    text = f"({_parameters_text(source, mutates)}) -> {_return_text(source)}"
    return f"{op_name}{text}" if op_name is not None else text
