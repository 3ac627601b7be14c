"""Declarations of the operators that a generated file names.

Generated files do not include ops.h: each would be compiled again after every new operator.
"""

from __future__ import annotations

import re

from codegen.emit.callers import below_head, caller_head
from codegen.spec.model import Model

_NAME = re.compile(r"\bshmt_(_?)op_(\w+)")
_BELOW = "_below"


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
