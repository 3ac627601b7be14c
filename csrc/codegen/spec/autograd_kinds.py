"""Which operators get kernels at the Autograd, ForwardAD and ADInplaceOrView keys."""

from __future__ import annotations

from codegen.spec.model import Operator


def autograd_kind(op: Operator) -> str:
    """The Autograd kernel an operator needs.

    Returns:
        ``record``: it has derivatives. ``out``: it refuses to be recorded. ``missing``: its
        results get a node that raises "derivative ... is not implemented". ``zeros``: in place
        and not differentiable, so self's gradient is zero. ``check``: it writes to arguments that
        it does not return. Empty: none.
    """
    entry = op.entry
    constant = "nondifferentiable" in entry.tags
    implicit = op.is_composite or any(key.startswith("CompositeImplicit") for key in entry.dispatch)
    if op.form == "out":
        if "factory" in entry.tags and all(
            a.is_out for a in op.schema.arguments if a.type.is_tensor
        ):
            return "out"
        if not op.has_tensors or constant:
            return ""
        return "out" if entry.derivatives or implicit else "missing"
    if entry.derivatives:
        return "record"
    if implicit or not op.has_tensors:
        return ""
    if op.schema.written and not op.schema.returns:
        return "check"
    if constant:
        return "zeros" if op.form == "inplace" else ""
    if not any(r.type.base == "Tensor" for r in op.schema.returns):
        return ""
    return "missing"


def has_view_kernel(op: Operator) -> bool:
    """It writes to an argument, or a result is a view of one, and it does so itself."""
    if op.is_composite:
        return op.form == "out"
    return bool(op.schema.written) or op.schema.is_view


def follows_tangents(op: Operator) -> bool:
    """It has the kernel of ForwardAD: whatever Autograd records or refuses."""
    return bool(autograd_kind(op)) or "Autograd" in op.entry.dispatch


_JVP_KINDS = {
    "linear": "LINEAR",
    "each": "EACH",
    "elementwise": "EXPRESSION",
    "zero": "ZERO",
    "vjps": "TWO_VJPS",
    "missing": "MISSING",
}


def jvp_kind(op: Operator) -> str:
    """The enumerator SHMT_JVP_<kind> of an operator that is no out= form; empty when refused."""
    entry = op.entry
    if entry.jvp:
        return "EXPRESSION"
    if entry.jvp_kind not in ("", "vjps"):
        return _JVP_KINDS[entry.jvp_kind]
    if entry.derivatives:
        # Two products need the second derivative. Where it is missing, so is the tangent.
        return "TWO_VJPS" if entry.double_backward in ("", "zero") else "MISSING"
    is_overwritten = autograd_kind(op) == "zeros" and "geometry" not in entry.tags
    return "ZERO" if is_overwritten else ""
