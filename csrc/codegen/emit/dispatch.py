"""Callers, and the kernels of the CPU, Meta and BackendSelect rows."""

from __future__ import annotations

from codegen.emit.composites import lower_composite
from codegen.emit.emitter import Emitter
from codegen.emit.operator_records import emit_operator_list, operator_record, schema_record
from codegen.spec.autograd_kinds import autograd_kind, has_view_kernel
from codegen.spec.c_types import (
    c_name,
    c_string,
    call_arguments,
    default_expression,
    parameters,
    result_names,
    signature,
)
from codegen.spec.errors import SpecError
from codegen.spec.model import Model, Operator, OperatorEntry, file_stem, spec_file
from codegen.spec.schema import Schema
from codegen.spec.tables import Tables

_WITH_KEYS = (
    "Autograd",
    "ADInplaceOrView",
    "AutogradSparse",
    "BackendSelect",
    "Python",
    "Conjugate",
    "Negative",
)
_SPARSE = ("SparseCPU", "SparseCsrCPU")


def caller_head(op: Operator) -> str:
    """``shmt_status shmt_op_add_Tensor(shmt_tensor* self, ...)``."""
    return f"shmt_status {op.caller}({', '.join(parameters(op.schema)) or 'void'})"


def below_head(op: Operator) -> str:
    """The redispatching twin, which takes the key set as given."""
    return f"shmt_status {op.caller}_below({', '.join(['shmt_keyset ks', *parameters(op.schema)])})"


def kernel_head(name: str, op: Operator) -> str:
    """A kernel in the unboxed convention."""
    return f"shmt_status {name}({', '.join(['shmt_keyset ks', *parameters(op.schema)])})"


def key_terms(schema: Schema) -> list[str]:
    """C expressions whose union is the key set of the tensor arguments."""
    terms = []
    for argument in schema.arguments:
        if argument.type.base != "Tensor":
            continue
        if argument.type.is_list:
            terms.append(f"shmt__keys_of_list({c_name(argument)})")
        elif argument.type.optional:
            terms.append(f"shmt__keys_of_optional({c_name(argument)})")
        else:
            terms.append(f"shmt__tensor_keys({c_name(argument)})")
    return terms


# --- callers ------------------------------------------------------------------------------------


def _start_keys(op: Operator) -> str:
    if op.is_factory:
        return "  shmt_keyset ks = shmt__call_keys(SHMT_KEYBIT_BackendSelect);\n"
    terms = key_terms(op.schema)
    if not terms:
        return "  shmt_keyset ks = shmt__call_keys(SHMT_KEYBIT_CPU);\n"
    union = " | ".join(terms)
    required = any(
        a.type.is_tensor and not a.type.optional and not a.is_out for a in op.schema.arguments
    )
    if required:
        return f"  shmt_keyset ks = shmt__call_keys({union});\n"
    return f"  shmt_keyset ks = {union};\n  ks = shmt__call_keys(ks ? ks : SHMT_KEYBIT_CPU);\n"


def _caller(op: Operator) -> str:
    name = signature(op.schema)
    names = call_arguments(op.schema)
    invoke = ", ".join([f"&{op.record}", "ks", *names])
    body = (
        f"  if (SHMT_LIKELY(!shmt__trace_on)) return shmt__invoke_{name}({invoke});\n"
        f"  return shmt__traced_{name}("
    )
    call = ", ".join([f"&{op.record}", "false", "ks", *names])
    again = ", ".join([f"&{op.record}", "true", "ks", *names])
    return (
        f"{caller_head(op)} {{\n{_start_keys(op)}{body}{call});\n}}\n\n"
        f"{below_head(op)} {{\n{body}{again});\n}}\n"
    )


# --- CPU and Meta kernels -----------------------------------------------------------------------


def _check_writable(op: Operator) -> str:
    """Refuse to write to read-only memory, which would be a fault; views change geometry only."""
    if op.entry.section == "shape/views" and "inplace_only" in op.entry.tags:
        return ""
    name = c_string(op.schema.name)
    text = ""
    for argument in op.schema.written:
        check = "shmt__check_all_writable" if argument.type.is_list else "shmt__check_writable"
        text += f"  SHMT_TRY({check}({name}, {c_name(argument)}));\n"
    return text


def _check_factory_out(op: Operator) -> str:
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


def _ignore(names: list[str]) -> str:
    return "".join(f"  (void){name};\n" for name in names)


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


def _kernel_body(op: Operator, model: Model, function: str, *, is_loop: bool = False) -> str:
    """The body of a kernel by a C function of the implementer's; *is_loop*: that of ``kernel``."""
    entry = op.entry
    if op.form == "functional" or not op.derived or entry.is_structured:
        first = [f"&pointwise_{entry.schema.ident}"] if is_loop else []
        kept = "" if is_loop or not op.derived else _keep_inputs(op)
        call = f"{function}({_inner_arguments(entry)})"
        return kept + _unless_same_dtype(call, op) + _preset_call(function, entry, op, first)
    call = f"{function}({_inner_arguments(entry)})"
    if op.is_composite and op.form == "inplace":
        return _copy_into_self(call, op, model)
    return _compute_then_write(call, op)


def _record_nothing(op: Operator) -> str:
    """What an implementation calls is not recorded when no Autograd kernel stands above it."""
    entry = op.entry
    if "nondifferentiable" not in entry.tags or not (entry.impl and op.has_tensors):
        return ""
    keys = "SHMT_KEYBIT_Autograd | SHMT_KEYBIT_ForwardAD"
    return f"  SHMT_KEYS_GUARD(keys);\n  shmt__tls_keys.excluded |= {keys};\n"


def _expression_body(op: Operator, model: Model) -> str:
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


def _pointwise(entry: OperatorEntry) -> str:
    result = f"SHMT_{entry.result.upper()}" if entry.result else "SHMT_DTYPE_NONE"
    exact = "  .exact_out = true,\n" if "exact_out" in entry.tags else ""
    return (
        f"static const shmt__pointwise pointwise_{entry.schema.ident} = {{\n"
        f"  .name = {c_string(entry.schema.name)},\n"
        f"  .row = SHMT_LOOP_{entry.loop},\n"
        f"  .promote = SHMT_PROMOTE_{entry.promote.upper()},\n"
        f"  .result = {result},\n{exact}}};\n\n"
    )


def _backend_select(op: Operator) -> str:
    device = next((a for a in op.schema.arguments if a.type.base == "Device"), None)
    head = f"static {kernel_head(f'select_{op.ident}', op)}"
    names = ", ".join(["", *call_arguments(op.schema)])
    bit = "SHMT_KEYBIT_CPU"
    if device is not None:
        bit = f"({c_name(device)} == SHMT_META ? SHMT_KEYBIT_Meta : SHMT_KEYBIT_CPU)"
    return (
        f"{head} {{\n"
        "  ks = shmt__keys_below(ks, SHMT_KEY_BackendSelect);\n"
        f"  return {op.caller}_below(ks | {bit}{names});\n}}\n\n"
    )


class Rows:
    """The rows of one operator: key -> kernel, and the C in front of them."""

    def __init__(self) -> None:
        self.code = ""
        self.kernels: dict[str, str] = {}
        self.externs: list[str] = []

    def add(self, keys: tuple[str, ...], function: str) -> None:
        for key in keys:
            self.kernels[key] = function


def build_rows(op: Operator, model: Model) -> Rows:
    """Everything that fills an operator's table."""
    rows = Rows()
    entry = op.entry
    function = f"shmt__pointwise_{entry.kernel}" if entry.kernel else (entry.function or "")
    body = ""
    if entry.composite_expression is not None:
        if not op.derived:
            head = ", ".join(parameters(op.schema))
            plain = f"composite_{op.ident}"
            rows.code += (
                f"static shmt_status {plain}({head}) {{\n{_expression_body(op, model)}}}\n\n"
            )
            body = f"  return {plain}({', '.join(call_arguments(op.schema))});\n"
        else:
            body = _expression_body(op, model)
    elif function:
        body = _record_nothing(op) + _kernel_body(
            op, model, function, is_loop=entry.kernel is not None
        )
    if body:
        name = f"kernel_{op.ident}"
        body = _check_writable(op) + _check_factory_out(op) + body
        rows.code += f"static {kernel_head(name, op)} {{\n  (void)ks;\n{body}}}\n\n"
        rows.add(("CPU", "Meta"), name)
        if entry.composite_expression is not None or "any_layout" in entry.tags:
            rows.add(_SPARSE, name)
    _add_dispatch(rows, op, model)
    if op.is_factory and "BackendSelect" not in rows.kernels:
        rows.code += _backend_select(op)
        rows.add(("BackendSelect",), f"select_{op.ident}")
    if has_view_kernel(op) and "ADInplaceOrView" not in rows.kernels:
        name = f"shmt__view_kernel_{op.ident}"
        rows.externs.append(kernel_head(name, op))
        rows.add(("ADInplaceOrView",), name)
    if autograd_kind(op) and "Autograd" not in rows.kernels:
        name = f"shmt__autograd_kernel_{op.ident}"
        rows.externs.append(kernel_head(name, op))
        rows.add(("Autograd",), name)
    return rows


def _unfinished(op: Operator) -> Rows:
    """A kernel that says what is wrong with its entry, so that the rest can still be built."""
    rows = Rows()
    name = f"kernel_{op.ident}"
    message = c_string(f"{op.schema.full_name} is incomplete")
    ignored = _ignore(["ks", *call_arguments(op.schema)])
    rows.code = (
        f"static {kernel_head(name, op)} {{\n{ignored}"
        f"  SHMT_FAIL(SHMT_E_NOT_IMPLEMENTED, {message});\n"
        "}\n\n"
    )
    rows.add(("CPU", "Meta"), name)
    return rows


def _add_dispatch(rows: Rows, op: Operator, model: Model) -> None:
    for key, function in op.entry.dispatch.items():
        if key in _WITH_KEYS:
            if not op.derived:
                rows.externs.append(kernel_head(function, op))
                rows.add((key,), str(function))
            continue
        name = f"kernel_{key}_{op.ident}"
        body = _check_writable(op) + _kernel_body(op, model, function)
        rows.code += f"static {kernel_head(name, op)} {{\n  (void)ks;\n{body}}}\n\n"
        keys = ("CPU", "Meta") if key.startswith(("Composite", "CatchAll")) else (key,)
        rows.add(keys, name)


# --- vmap ---------------------------------------------------------------------------------------


def _decomposition(op: Operator, model: Model) -> str:
    """The kernel that says how an operator is made of others under vmap."""
    expression = op.entry.batch_expression
    if expression is None:
        return ""
    head = f"static {kernel_head(f'decomposed_{op.ident}', op)}"
    if op.form == "functional" or not op.derived:
        return f"{head} {{\n  (void)ks;\n{lower_composite(model, op, expression)}}}\n\n"
    inner = op.entry.operators[0].caller
    call = f"{inner}({_inner_arguments(op.entry)})"
    if op.form == "out":
        return f"{head} {{\n  (void)ks;\n{_compute_then_write(call, op)}}}\n\n"
    return (
        f"{head} {{\n  (void)ks;\n  SHMT_AUTO(shmt_tensor) result0 = 0;\n"
        f"  SHMT_TRY({call.replace('@OUTS@', '&result0')});\n"
        f"  return shmt_op_copy_({c_name(op.schema.arguments[0])}, result0, false);\n}}\n\n"
    )


# --- files --------------------------------------------------------------------------------------


def emit_dispatch(emitter: Emitter, model: Model, tables: Tables) -> None:
    """Write ops.h, impls.h, ops_<section>.c and operators.c."""
    _emit_ops_header(emitter, model)
    _emit_impls(emitter, model)
    order = [k.name for k in tables.keys]
    for section in model.sections:
        _emit_section(emitter, model, section, order)
    emit_operator_list(emitter, model)


def _emit_ops_header(emitter: Emitter, model: Model) -> None:
    text = '#include "dispatch/operator.h"\n#include "tensor/tensor.h"\n\n'
    text += (
        "/* shmt_op_X calls X from outside: results are new references, arguments are borrowed.\n"
    )
    text += " * shmt_op_X_below goes on with the keys in ks, as kernels do. */\n"
    for section in model.sections:
        text += f"\n/* {spec_file(section)} */\n"
        for op in model.of_section(section):
            text += f"\n/* {op.schema} */\n{caller_head(op)};\n{below_head(op)};\n"
            text += f"extern shmt_operator {op.record};\n"
    emitter.c_file("ops.h", "the callers of all operators.", "csrc/spec/ops", text)


def _emit_impls(emitter: Emitter, model: Model) -> None:
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
            if key not in _WITH_KEYS:
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


def _emit_section(emitter: Emitter, model: Model, section: str, order: list[str]) -> None:
    text = (
        '#include "autograd/forward/follow.h"\n'
        '#include "autograd/vmap/loop.h"\n'
        '#include "autograd/vmap/random.h"\n'
        '#include "autograd/vmap/rules.h"\n'
        '#include "base/dtype.h"\n'
        '#include "dispatch/operator.h"\n'
        '#include "dispatch/registry.h"\n'
        '#include "dispatch/trace.h"\n'
        '#include "generated/impls.h"\n'
        '#include "generated/loops.h"\n'
        '#include "generated/ops.h"\n'
        '#include "generated/signatures.h"\n'
        '#include "ops/outputs.h"\n'
        '#include "ops/pointwise/conj_neg_views.h"\n'
        '#include "ops/pointwise/pointwise.h"\n'
        '#include "ops/scalar_expression.h"\n'
        '#include "ops/sparse/sparse.h"\n'
    )
    for op in model.of_section(section):
        try:
            rows = build_rows(op, model)
        except SpecError as error:
            model.problems.append(error)
            rows = _unfinished(op)
        if not rows.kernels:
            raise SpecError(op.entry.where, f"{op.schema.full_name} has no kernel")
        text += f"\n/* --- {op.schema.full_name} --- */\n\n"
        text += "".join(f"{extern};\n" for extern in rows.externs)
        if op.entry.kernel and not op.derived:
            text += _pointwise(op.entry)
        text += rows.code + _decomposition(op, model)
        text += f"{schema_record(op)}\n{operator_record(op, rows.kernels, order)}\n{_caller(op)}"
    emitter.c_file(
        f"ops_{file_stem(section)}.c", f"the operators of {section}.yaml.", spec_file(section), text
    )
