"""What a kernel does: it calls the C function, or the operators, that its entry names."""

from __future__ import annotations

from codegen.emit.composites import lower_composite
from codegen.emit.emitter import Emitter
from codegen.spec.c_types import (
    c_name,
    c_string,
    default_expression,
    parameters,
    result_names,
    signature,
)
from codegen.spec.errors import SpecError
from codegen.spec.loader import Text
from codegen.spec.model import Model, Operator, OperatorEntry

#: Keys whose functions take the key set: they are kernels themselves.
WITH_KEYS = (
    "Autograd",
    "ADInplaceOrView",
    "AutogradSparse",
    "BackendSelect",
    "Python",
    "Conjugate",
    "Negative",
)


def check_writable(op: Operator) -> str:
    """Refuse to write to read-only memory, which would be a fault; views change geometry only."""
    if op.entry.section == "shape/views" and "inplace_only" in op.entry.tags:
        return ""
    name = c_string(op.schema.name)
    text = ""
    for argument in op.schema.written:
        check = "shmt__check_all_writable" if argument.type.is_list else "shmt__check_writable"
        text += f"  SHMT_TRY({check}({name}, {c_name(argument)}));\n"
    return text


def check_factory_out(op: Operator) -> str:
    """A factory's dtype= and device= must be those of its out=."""
    if op.form != "out" or "factory" not in op.entry.tags:
        return ""
    named = {a.type.base: c_name(a) for a in op.schema.arguments}
    if "ScalarType" not in named or "Device" not in named:
        return ""
    out = next(c_name(a) for a in op.schema.arguments if a.is_out)
    return (
        f"  SHMT_TRY(shmt__check_factory_out({out}, {named['ScalarType']}, {named['Device']}));\n"
    )


def _preset_call(function: str, entry: OperatorEntry, op: Operator, first: list[str]) -> str:
    """Call a C function that honours preset outputs, from any form."""
    schema = entry.schema
    arguments = first + [c_name(a) for a in schema.arguments]
    if op.form == "functional" or not op.derived:
        return f"  return {function}({', '.join(arguments + result_names(op.schema))});\n"
    if op.form == "inplace":
        targets = [c_name(op.schema.arguments[0])]
    else:
        targets = [c_name(a) for a in op.schema.arguments if a.is_out]
    text = ""
    for i, target in enumerate(targets):
        text += f"  shmt_tensor* preset{i} = {target};\n"
        arguments.append(f"&preset{i}")
    return f"{text}  return {function}({', '.join(arguments)});\n"


def _compute_then_write(call: str, op: Operator) -> str:
    """Compute into temporaries, then copy into self or out. *call* takes ``@OUTS@``."""
    n = len(op.entry.schema.returns)
    text = "".join(f"  SHMT_AUTO(shmt_tensor) result{i} = 0;\n" for i in range(n))
    outs = ", ".join(f"&result{i}" for i in range(n))
    text += f"  SHMT_TRY({call.replace('@OUTS@', outs)});\n"
    name = c_string(op.schema.name)
    if op.form == "inplace":
        return (
            text
            + f"  return shmt__write_inplace({name}, result0, {c_name(op.schema.arguments[0])});\n"
        )
    kinds = [tag for tag in ("real_out", "dense_out", "exact_out") if tag in op.entry.tags]
    write = f"shmt__write_{(kinds or ['out'])[0]}"
    for i, argument in enumerate(a for a in op.schema.arguments if a.is_out):
        target = c_name(argument)
        if kinds == ["dense_out", "exact_out"]:
            text += f"  SHMT_TRY(shmt__check_out_dtype({target}, result{i}->dtype));\n"
        text += f"  SHMT_TRY({write}({name}, result{i}, {target}));\n"
    return text + "  return SHMT_OK;\n"


def _copy_into_self(call: str, op: Operator, model: Model) -> str:
    """The in-place form of a composite: compute, then ``copy_``, which records.

    What *call* records must not keep self, which the copy changes: it works on a tensor of its own.
    """
    copy = model.by_name.get("copy_")
    if copy is None:
        raise SpecError(op.entry.where, f"{op.schema.full_name} needs the operator copy_")
    self_name = c_name(op.schema.arguments[0])
    values = [self_name, "result0"]
    values += [default_expression(a) or "0" for a in copy.schema.arguments[2:]]
    call = call.replace(f"({self_name}, ", "(before, ", 1)
    return (
        "  SHMT_AUTO(shmt_tensor) before = 0;\n"
        "  SHMT_AUTO(shmt_tensor) result0 = 0;\n"
        f"  SHMT_TRY(shmt__before_inplace(ks, {self_name}, &before));\n"
        f"  SHMT_TRY({call.replace('@OUTS@', '&result0')});\n"
        f"  SHMT_REQUIRE(shmt__can_cast(result0->dtype, {self_name}->dtype), SHMT_E_RUNTIME,\n"
        '               "result type %s can\'t be cast to the desired output type %s",\n'
        "               shmt__dtype_title(result0->dtype), "
        f"shmt__dtype_title({self_name}->dtype));\n"
        f"  return {copy.caller}({', '.join(values)});\n"
    )


def _inner_arguments(entry: OperatorEntry) -> str:
    return ", ".join([*(c_name(a) for a in entry.schema.arguments), "@OUTS@"])


def _keep_inputs(op: Operator) -> str:
    """For out= that is an input itself: it is resized first, so the input is read as an alias.

    Operators on the iterator need none: there the output has the input's shape, or is refused.
    """
    if op.form != "out":
        return ""
    text = ""
    for argument in op.schema.arguments:
        if argument.is_out or not argument.type.is_tensor:
            continue
        name = c_name(argument)
        text += f"  SHMT_AUTO(shmt_tensor) kept_{name} = 0;\n"
        for out in (a for a in op.schema.arguments if a.is_out):
            text += f"  SHMT_TRY(shmt__keep_input({c_name(out)}, &{name}, &kept_{name}));\n"
    return text


def _unless_same_dtype(call: str, op: Operator) -> str:
    """For ``exact_out``: into an out= that has not the first tensor's dtype, which may be wrong,
    through a temporary that says what is right.
    """
    own = next((a for a in op.schema.arguments if a.type.base == "Tensor" and not a.is_out), None)
    exact = "exact_out" in op.entry.tags and op.form == "out" and not op.entry.kernel
    if not exact or own is None or own.type.is_list:
        return ""
    out = next(a for a in op.schema.arguments if a.is_out)
    inner = "".join(f"  {line}\n" for line in _compute_then_write(call, op).splitlines())
    return f"  if ({c_name(out)}->dtype != {c_name(own)}->dtype) {{\n{inner}  }}\n"


def pointwise_record(entry: OperatorEntry) -> str:
    """The C record of an entry that is a single loop, in pointwise.c."""
    return f"shmt__pointwise_of_{entry.schema.ident}"


def kernel_body(op: Operator, model: Model, function: str, *, is_loop: bool = False) -> str:
    """The body of a kernel by a C function of the implementer's; *is_loop*: that of ``kernel``."""
    entry = op.entry
    if op.form == "functional" or not op.derived or entry.is_structured:
        first = [f"&{pointwise_record(entry)}"] if is_loop else []
        kept = "" if is_loop or not op.derived else _keep_inputs(op)
        call = f"{function}({_inner_arguments(entry)})"
        return kept + _unless_same_dtype(call, op) + _preset_call(function, entry, op, first)
    call = f"{function}({_inner_arguments(entry)})"
    if op.is_composite and op.form == "inplace":
        return _copy_into_self(call, op, model)
    return _compute_then_write(call, op)


def record_nothing(op: Operator) -> str:
    """What an implementation calls is not recorded when no Autograd kernel stands above it."""
    entry = op.entry
    if "nondifferentiable" not in entry.tags or not (entry.impl and op.has_tensors):
        return ""
    keys = "SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD"
    return f"  SHMT_KEYS_GUARD(keys);\n  shmt__tls_keys.excluded |= {keys};\n"


def expression_body(op: Operator, model: Model) -> str:
    """The body of the kernel when the entry's composite is an expression."""
    entry = op.entry
    expression = entry.composite_expression
    assert expression is not None
    if op.form == "functional" or not op.derived:
        return lower_composite(model, op, expression)
    direct = lower_composite(model, op, expression, form=op.form)
    if direct:
        return direct
    call = f"composite_{entry.schema.ident}({_inner_arguments(entry)})"
    if op.is_composite and op.form == "inplace":
        return _copy_into_self(call, op, model)
    return _compute_then_write(call, op)


def decomposition_body(op: Operator, model: Model, expression: Text) -> str:
    """The body of the kernel that makes an operator of others under vmap."""
    if op.form == "functional" or not op.derived:
        return lower_composite(model, op, expression)
    inner = op.entry.operators[0].caller
    call = f"{inner}({_inner_arguments(op.entry)})"
    if op.form == "out":
        return _compute_then_write(call, op)
    return (
        "  SHMT_AUTO(shmt_tensor) result0 = 0;\n"
        f"  SHMT_TRY({call.replace('@OUTS@', '&result0')});\n"
        f"  return shmt_op_copy_({c_name(op.schema.arguments[0])}, result0, false);\n"
    )


def emit_impls(emitter: Emitter, model: Model) -> None:
    """Write impls.h."""
    text = '#include "ops/pointwise/pointwise.h"\n\n'
    text += "/* The functions that entries name; a file that defines one includes this header. */\n"
    seen: dict[str, tuple[str, OperatorEntry]] = {}
    for entry in model.entries:
        op = entry.operators[0]
        declared = []
        if entry.kernel:
            head = ", ".join(["const shmt__pointwise* p", *parameters(entry.schema)])
            declared.append((f"shmt__pointwise_{entry.kernel}", head))
        if entry.function:
            declared.append((str(entry.function), ", ".join(parameters(entry.schema)) or "void"))
        for key, function in entry.dispatch.items():
            if key not in WITH_KEYS:
                declared.append((str(function), ", ".join(parameters(op.schema)) or "void"))
        for name, head in declared:
            shape = signature(entry.schema)
            first = seen.get(name)
            if first is None:
                seen[name] = (shape, entry)
                text += f"\n/* {entry.schema} */\nshmt_status {name}({head});\n"
            elif first[0] != shape:
                raise SpecError(
                    entry.where,
                    f"{name} has other argument types here than at {first[1].where}",
                )
    emitter.c_file("impls.h", "C functions that operator entries name.", "csrc/spec/ops", text)
