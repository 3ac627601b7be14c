"""Checks of what torch's error inputs raise."""

from __future__ import annotations

import re
from typing import Any

from parity_calls import call_ours, reference
from parity_values import Outcome, find


def error(op: Any, sample: Any, messages: bool = False) -> Outcome:
    """Torch's error inputs raise its exception type, with *messages* its text too."""
    inputs = sample.sample_input
    expected = sample.error_type
    try:
        reference(op, inputs)
    except Exception:  # the input is bad for torch as well
        pass
    else:
        return "-"
    try:
        call_ours(find(op), inputs)
    except expected as raised:
        if messages and not re.search(sample.error_regex, str(raised)):
            return f"says {str(raised)[:90]!r}, torch {sample.error_regex[:90]!r}"
        return None
    except Exception as raised:
        return f"raised {type(raised).__name__} ({str(raised)[:80]}), torch {expected.__name__}"
    return f"raised nothing, torch {expected.__name__}: {str(sample.error_regex)[:80]}"


def message(op: Any, sample: Any) -> Outcome:
    """The text of the exceptions too."""
    return error(op, sample, messages=True)
