"""The derivative language: what expressions become in C."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codegen import generate
from codegen.spec.errors import SpecError

OPERATORS = """
- op: add.Scalar
  schema: add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
  variants: []
  composite: shmt__add_scalar
  doc: A sum.
- op: add.Tensor
  schema: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  variants: [inplace, out]
  impl: shmt__add
  doc: A sum.
- op: cut
  schema: cut(Tensor self, int parts) -> Tensor[]
  variants: []
  impl: shmt__part_chunks
  doc: Parts.
- op: f
  schema: f(Tensor self, Tensor? weight, Scalar s, int n, int[] dims, Tensor[] more,
    float? p=None, str mode='a') -> Tensor
  variants: []
  impl: shmt__f
  vjp:
    self: EXPRESSION
  doc: The operator under test.
- op: join
  schema: join(Tensor[] tensors, int dim=0) -> Tensor
  variants: []
  impl: shmt__join
  vjp:
    tensors: cut(grad, len(tensors))
  doc: Parts together.
- op: mul.Tensor
  schema: mul.Tensor(Tensor self, Tensor other) -> Tensor
  variants: []
  impl: shmt__mul
  doc: A product.
- op: mul_.Tensor
  schema: mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
  variants: []
  impl: shmt__mul_
  doc: A product in place.
- op: neg
  schema: neg(Tensor self) -> Tensor
  variants: []
  impl: shmt__neg
  doc: Negative.
- op: plus
  schema: plus(Tensor self, Tensor other) -> Tensor
  variants: [inplace, out]
  composite: add(self, other, alpha=1)
  doc: A composite with all forms.
- op: reshape
  schema: reshape(Tensor self, int[] size) -> Tensor
  variants: []
  impl: shmt__reshape
  doc: Sizes.
- op: two
  schema: two(Tensor self, Tensor other) -> (Tensor a, Tensor b)
  variants: []
  impl: shmt__two
  vjp:
    'self, other': two(grad0, grad1)
  doc: Two results.
"""


@pytest.fixture
def lowered(project: Callable[[str], Path], tmp_path: Path) -> Callable[[str], str]:
    """The generated derivative code for f with the expression given."""

    def run(expression: str) -> str:
        spec = project(OPERATORS.replace("EXPRESSION", expression).lstrip("\n"))
        result = generate(spec, tmp_path / "out", tmp_path)
        assert result.problems == []
        text = (tmp_path / "out" / "autograd" / "three.c").read_text()
        return " ".join(text.split())

    return run


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("grad", "grad_self = grads[0] ? shmt__tensor_ref(grads[0]) : 0"),
        ("-grad", "SHMT_TRY(shmt_op_neg(grads[0], &grad_self));"),
        ("grad * self", "shmt_op_mul_Tensor(grads[0], self_1, &grad_self)"),
        ("grad + 2", "add_Scalar(grads[0], shmt__scalar_int(2), shmt__scalar_int(1), &grad_self)"),
        ("2 + grad", "add_Scalar(grads[0], shmt__scalar_int(2), shmt__scalar_int(1), &grad_self)"),
        ("2 - grad", "shmt_op_neg(grads[0], &t1)"),
        ("grad * s", "shmt__wrapped_scalar_tensor(node->s, &t1)"),
        (
            "grad + (s - 1)",
            "shmt__scalar_calculate(SHMT_SCALAR_OP_SUB, node->s, shmt__scalar_int(1))",
        ),
        (
            "grad + (n * 2 + 1)",
            "SHMT_TRY(shmt__int_mul(node->n, 2, &n1)); int64_t n2 = 0; "
            "SHMT_TRY(shmt__int_add(n1, 1, &n2));",
        ),
        ("grad + n / 2", "shmt__scalar_float(((double)node->n / 2))"),
        ("grad + n // 2", "shmt__floor_div_i64(node->n, 2)"),
        ("reshape(grad, sizes(self))", "shmt__saved_shape_sizes(&node->self_shape)"),
        ("reshape(grad, dims)", "node->dims.value"),
        ("reshape(grad, [n, -1])", "SHMT_INTS(node->n, (-1))"),
        ("grad + dims[0]", "shmt__ints_at(node->dims.value, 0, &n1)"),
        ("grad + size(self, -1)", "shmt__ints_at(shmt__saved_shape_sizes(&node->self_shape), (-1)"),
        ("grad if n == 1 else -grad", "if (node->n == 1) {"),
        ("grad if mode == 'a' else -grad", 'shmt__text_is(node->mode, "a")'),
        ("grad if weight is None else grad * weight", "if (!weight_1) {"),
        ("grad if p is None else -grad", "if (!node->p.has) {"),
        ("grad + (1 if s > 0 else n)", "shmt__scalar_compare(node->s, shmt__scalar_int(0)) == 1"),
        ("join([grad, self])", "(shmt_tensor* const[]){grads[0], self_1}, 2"),
        ("join(more, dim=n)", "shmt__saved_list_unpack(&node->more, base, &more_1)"),
        (
            "more[0] + grad",
            "shmt__tensors_at(((shmt_tensors){more_1.data, more_1.len}), 0, &element",
        ),
        ("two(grad, grad)[1]", "shmt_op_two(grads[0], grads[0], &t1, &grad_self)"),
        ("result * grad", "shmt__saved_unpack(&node->result_, base"),
        ("a = grad * s; b = -a; a + b", "add_Tensor(t2, t3, shmt__scalar_int(1), &grad_self)"),
        ("a, b = two(grad, grad); a", "grad_self = t1 ? shmt__tensor_ref(t1) : 0"),
        (
            "require(n > 0, f'{n} of {grad}'); grad",
            'SHMT_REQUIRE(node->n > 0, SHMT_E_RUNTIME, "%" PRId64 " of %s"',
        ),
        ("grad if needs(self) else None", "if (shmt__node_needs(base, 0))"),
        ("grad if n > 0 and not n == 3 else None", "((node->n > 0) && (!(node->n == 3)))"),
    ],
)
def test_expression_is_lowered(
    lowered: Callable[[str], str], expression: str, expected: str
) -> None:
    assert expected in lowered(expression)


@pytest.mark.check
@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("zero", "SHMT_TRY(shmt__double_backward_zero(base, &double_backward_f, &grad_self));"),
        ("zero", '.name = "FBackwardBackward0"'),
        ("zero if n != 1", "if ((node->n != 1)) { SHMT_TRY(shmt__double_backward_zero("),
        ("missing aten::g", 'shmt__double_backward_missing(base, "aten::g", &grad_self)'),
    ],
)
def test_double_backward_without_expression(
    lowered: Callable[[str], str], second: str, expected: str
) -> None:
    assert expected in lowered(f"-grad\n  double_backward: {second}")


def test_bound_name_is_not_kept(lowered: Callable[[str], str]) -> None:
    text = lowered("weight = grad * 2; reshape(weight, sizes(weight))")
    node = text[text.index("typedef struct node_f {") : text.index("} node_f;")]
    assert "weight" not in node


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("a = grad", "does not end in an expression"),
        ("del grad; grad", "no statement of this language"),
        ("a, b = grad; a", "1 values"),
        ("require(n); grad", "require takes a condition, RuntimeError or"),
        ("require(n > 0, 'no place', n); grad", "require takes a condition, RuntimeError or"),
    ],
)
def test_wrong_statement_is_refused(
    lowered: Callable[[str], str], expression: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        lowered(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            "-grad + self",
            "shmt__can_reuse(t1, self_2) ? shmt_op_add__Tensor(t1, self_2, shmt__scalar_int(1)) : "
            "shmt_op_add_Tensor(t1, self_2, shmt__scalar_int(1), &t3)); "
            "shmt__finish_reuse(&t1, &t3);",
        ),
        ("self * -grad", "shmt__can_reuse_second(t2, self_1) ? shmt_op_mul__Tensor(t2, self_1)"),
        ("grad + self", "TRY(shmt_op_add_Tensor(grads[0], self_1"),
        ("a = -grad; a + self", "TRY(shmt_op_add_Tensor(t1, self_2"),
        ("a = two(-grad, self); a[0] + a[1]", "TRY(shmt_op_add_Tensor(t3, t4"),
    ],
)
def test_only_a_temporary_without_a_name_is_overwritten(
    lowered: Callable[[str], str], expression: str, expected: str
) -> None:
    assert expected in lowered(expression)


@pytest.mark.check
@pytest.mark.parametrize(("by", "name"), [("", "f"), (" by g", "g")])
def test_argument_that_must_not_require_grad(
    lowered: Callable[[str], str], by: str, name: str
) -> None:
    text = lowered(f"grad\n    weight: 'refused{by}: a constant'")
    assert (
        "if (SHMT_UNLIKELY(shmt__grad_enabled() && shmt__wants_grad(weight))) "
        f'return shmt__fail_constant("{name}", "weight");'
    ) in text


def test_shape_only_use_does_not_keep_the_tensor(lowered: Callable[[str], str]) -> None:
    text = lowered("reshape(grad, sizes(self))")
    node = text[text.index("typedef struct node_f {") : text.index("} node_f;")]
    assert "shmt__saved self;" not in node


def test_expression_for_several_arguments_gives_each_its_gradient(
    lowered: Callable[[str], str],
) -> None:
    text = lowered("grad")
    assert "shmt__materialize_grad(base, 0, grads[0], &grad_1)" in text
    assert "if (shmt__node_needs(base, 0) || shmt__node_needs(base, 1))" in text
    assert "shmt_op_two(grad_1, grad_2, &grad_self, &grad_other)" in text


def test_list_argument_has_an_edge_per_element(lowered: Callable[[str], str]) -> None:
    text = lowered("grad")
    assert "shmt__node_create(&class_join, (uint32_t)tensors.len, 1)" in text
    assert 'shmt__return_list("JoinBackward0"' in text


def test_composite_expression_uses_the_forms_of_its_outer_call(
    lowered: Callable[[str], str], tmp_path: Path
) -> None:
    lowered("grad")
    text = (tmp_path / "out" / "ops_three.c").read_text()
    assert "return shmt_op_add__Tensor(self, other, shmt__scalar_int(1));" in text
    assert "return shmt_op_add_out(self, other, shmt__scalar_int(1), out);" in text
