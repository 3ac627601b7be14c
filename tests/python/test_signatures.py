"""``inspect.signature`` and doc strings of operators: the stubs' calls fit, examples hold."""

from __future__ import annotations

import ast
import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shmtensor
from shmtensor import _C

STUB = Path(_C.__file__).with_name("_C.pyi")
_NUMPY = {"axis", "keepdims"}
_CLASSES: dict[str, Any] = {"_TensorBase": _C._TensorBase, "_Nn": _C._nn}


def _stubs() -> Iterator[tuple[str, Any, ast.FunctionDef]]:
    """Each public function and method of the stub, once for each overload."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, getattr(_C, node.name), node
        elif isinstance(node, ast.ClassDef) and node.name in _CLASSES:
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                    owner = _CLASSES[node.name]
                    yield f"{node.name}.{item.name}", getattr(owner, item.name), item


def _call(stub: ast.FunctionDef, *, every: bool) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for a call: those that must be given, or *every* one."""
    arguments = stub.args
    plain = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
    n = len(plain) if every else len(plain) - len(arguments.defaults)
    args = [None] * n + ([None, None] if arguments.vararg else [])
    keywords = {
        a.arg: None
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if every or default is None
    }
    return args, keywords


@pytest.mark.check
def test_every_call_of_the_stubs_fits_the_signature() -> None:
    wrong, n = [], 0
    for name, function, stub in _stubs():
        if callable(function) and not isinstance(function, property):
            signature = inspect.signature(function)
            for every in (False, True):
                args, keywords = _call(stub, every=every)
                if _NUMPY & set(keywords):
                    continue
                n += 1
                try:
                    signature.bind(*args, **keywords)
                except TypeError as error:
                    wrong.append(f"{name}{signature}: {args} {keywords}: {error}")
    assert not wrong, "\n".join(wrong)
    assert n > 2000


def test_signature_has_the_names_and_defaults_of_the_schema() -> None:
    assert str(inspect.signature(shmtensor.add)) == "(input, other, alpha=1, *, out=None)"
    assert str(inspect.signature(shmtensor.Tensor.sum)) == (
        "(self, /, dim=None, keepdim=False, *, dtype=None)"
    )
    assert str(inspect.signature(shmtensor.Tensor.view)) == "(self, /, *args, **kwargs)"
    size = inspect.signature(shmtensor.zeros).parameters["size"]
    assert size.kind is inspect.Parameter.VAR_POSITIONAL


@pytest.mark.check
def test_help_says_calls_arguments_dtypes_derivatives_and_where_it_is() -> None:
    text = inspect.getdoc(shmtensor.add)
    assert text is not None
    for part in (
        "add(input: Tensor, other: Number, alpha: Number = 1) -> Tensor",
        "alpha: A number that *other* is multiplied by.",
        "Dtype of the result: the promoted dtype of the operands.",
        "Derivatives: for input and other, in forward mode too (AddBackward0).",
        "Sparse tensors: COO and CSR.",
        "Also: Tensor.add, Tensor.add_.",
        "csrc/spec/ops/pointwise/binary.yaml",
        "csrc/kernels/pointwise/binary.tmpl.h",
    ):
        assert part in " ".join(text.split()) or part in text, part
    assert "-> (values: Tensor, indices: Tensor)" in (inspect.getdoc(shmtensor.topk) or "")


def test_examples_in_doc_strings_hold() -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    names = {"shmtensor": shmtensor, "torch": shmtensor, "nn": shmtensor.nn}
    n = 0
    for owner in (_C, _C._nn, shmtensor.nn):
        for name, thing in vars(owner).items():
            if ">>>" not in (getattr(thing, "__doc__", None) or ""):
                continue
            for test in finder.find(thing, name, module=False, globs=dict(names)):
                n += bool(test.examples)
                runner.run(test, out=report.append)
    assert not report, "".join(report)
    assert n > 60
