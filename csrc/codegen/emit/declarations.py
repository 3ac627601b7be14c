"""Declarations of the operators and signatures that a generated file names.

Generated files include neither ops.h nor signatures.h: each would be compiled again after every new
operator, and reading all that is in these headers takes longer than compiling what is used.
"""

from __future__ import annotations

import re

from codegen.emit.adapters import signature_text
from codegen.emit.callers import below_head, caller_head
from codegen.spec.model import Model
from codegen.spec.schema import Schema

_NAME = re.compile(r"\bshmt_(_?)op_(\w+)")
_BELOW = "_below"
_SIGNATURE = re.compile(r"\bshmt__(?:fn|box|unbox|traced|invoke)_(\w+)")


def declared(text: str, model: Model) -> str:
    """What *text* needs of ``generated/ops.h``: its includes, and the callers and records."""
    found = set(_NAME.findall(text))
    lines = ""
    for is_record, name in sorted(found):
        if is_record:
            lines += f"extern shmt_operator {model.by_ident[name].record};\n"
        elif name in model.by_ident:
            lines += f"{caller_head(model.by_ident[name])};\n"
        else:
            lines += f"{below_head(model.by_ident[name.removesuffix(_BELOW)])};\n"
    head = '#include "dispatch/operator.h"\n#include "tensor/tensor.h"\n\n'
    return f"{head}/* Of generated/ops.h, what this file names. */\n{lines}\n"


def called(text: str, known: dict[str, Schema]) -> str:
    """What *text* needs of ``generated/signatures.h``."""
    used = sorted(set(_SIGNATURE.findall(text)) & known.keys())
    parts = "\n".join(signature_text(name, known[name]) for name in used)
    return f"/* Of generated/signatures.h, what this file names. */\n{parts}\n"
