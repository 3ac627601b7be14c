"""Blocks of composites: conditions, locals, requirements and lists, and the C they become."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest

from codegen import generate
from codegen.spec.errors import SpecError

OPERATORS = """
- op: add.Tensor
  schema: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  variants: []
  impl: shmt__add
  doc: A sum.
- op: copy_
  schema: copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)
  variants: []
  impl: shmt__copy_
  doc: A copy.
- op: f
  schema: f(Tensor self, Tensor? weight, float? eps, int n, int[] dims, Tensor[] more,
    str mode) -> Tensor
  variants: []
  composite: |
BLOCK
  doc: The composite under test.
- op: neg
  schema: neg(Tensor self) -> Tensor
  variants: []
  impl: shmt__neg
  doc: Negative.
- op: part
  schema: part(Tensor self) -> Tensor
  variants: []
  composite: neg(neg(self))
  doc: An internal composite.
- op: part_check
  schema: part_check(Tensor self) -> ()
  variants: []
  composite: shmt__part_check
  tags: [any_layout]
  doc: An internal C function for every layout.
- op: part_dense
  schema: part_dense(Tensor self) -> Tensor
  variants: []
  composite: shmt__part_dense
  doc: An internal C function for tensors with strides.
- op: part_named
  schema: part_named(Tensor self) -> Tensor
  variants: [function]
  composite: neg(neg(self))
  doc: A composite with a name in Python.
- op: reshape
  schema: reshape(Tensor self, int[] size) -> Tensor
  variants: []
  impl: shmt__reshape
  doc: Sizes.
- op: stack
  schema: stack(Tensor[] tensors) -> Tensor
  variants: []
  impl: shmt__stack
  doc: Tensors as one.
- op: two
  schema: two(Tensor self) -> (Tensor a, Tensor b)
  variants: []
  impl: shmt__two
  doc: Two results.
"""


@pytest.fixture
def lowered(project: Callable[[str], Path], tmp_path: Path) -> Callable[[str], str]:
    """The C of the composite f with the block given."""

    def run(block: str) -> str:
        spec = project(OPERATORS.replace("BLOCK", indent(block, "    ")).lstrip("\n"))
        generate(spec, tmp_path / "out", tmp_path)
        text = (tmp_path / "out" / "ops_three.c").read_text()
        body = re.search(r"composite_f\([^;{]*(\{.*?\n)\}\n", text, re.DOTALL)
        assert body is not None
        return " ".join(body[1].split())

    return run


@pytest.mark.check
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        # conditions
        (
            "if n > 0:\n  return neg(self)\nself",
            "if (n > 0) { return shmt_op_neg(self, out); } *out = self ?",
        ),
        (
            "neg(self) if n > 0 else reshape(self, dims)",
            "if (n > 0) { return shmt_op_neg(self, out); } "
            "return shmt_op_reshape(self, dims, out);",
        ),
        (
            "if n > 0:\n  copy_(self, neg(self))\nelse:\n  copy_(self, self)\nself",
            "SHMT_TRY(shmt_op_copy_(self, t1)); } else { SHMT_TRY(shmt_op_copy_(self, self)); }",
        ),
        (
            "reshape(self, [n]) if n > 0 and dims[0] > 1 else self",
            "bool n2 = (n > 0); if (n2) { int64_t n1 = 0; SHMT_TRY(shmt__ints_at(dims, 0, &n1)); "
            "n2 = (n1 > 1); } if (n2) {",
        ),
        (
            "if mode in ('a', 'b'):\n  return neg(self)\nself",
            'if (shmt__text_is(mode, "a") || shmt__text_is(mode, "b")) {',
        ),
        # x is None tells the other branch what x is
        (
            "e = eps if eps is not None else 1.0\nrequire(e > 0, f'{e}')\nself",
            "const double e = (eps.has ? eps.value : 1.0);",
        ),
        (
            "if eps is None:\n  return self\nrequire(eps > 0, f'{eps}')\nneg(self)",
            'SHMT_REQUIRE(eps.value > 0, SHMT_E_RUNTIME, "%g", eps.value);',
        ),
        # locals
        ("k = n // 2\nreshape(self, [k, k])", "const int64_t k = shmt__floor_div_i64(n, 2);"),
        ("last = dims[-1]\nreshape(self, [last])", "SHMT_TRY(shmt__ints_at(dims, (-1), &last));"),
        ("out = neg(self)\nreshape(out, dims)", "SHMT_TRY(shmt_op_neg(self, &out_2));"),
        ("a, b = two(self)\nadd(b, a)", "SHMT_TRY(shmt_op_two(self, &a, &b));"),
        (
            "a, b = (self, neg(self)) if n > 0 else (neg(self), self)\nadd(a, b)",
            "a = self ? shmt__tensor_ref(self) : 0; b = SHMT_TAKE(t1); } else { "
            "SHMT_TRY(shmt_op_neg(self, &a)); b = self ? shmt__tensor_ref(self) : 0; }",
        ),
        (
            "w = None if n > 0 else weight\nself if w is None else w",
            "if (n > 0) { w = 0; } else { w = weight ? shmt__tensor_ref(weight) : 0; }",
        ),
        # two names of one local, and names like those of other locals
        ("a = neg(self)\nb = a\nadd(a, b)", "return shmt_op_add_Tensor(a, a, "),
        (
            "a = neg(self)\nif n > 0:\n  b = a\n  return b\nadd(a, self)",
            "if (n > 0) { *out = SHMT_TAKE(a); return SHMT_OK; } return shmt_op_add_Tensor(a,",
        ),
        (
            "pair = two(self)\nif n > 0:\n  a = pair[0]\n  return add(a, pair[1])\nneg(pair[1])",
            "if (n > 0) { return shmt_op_add_Tensor(t1, t2, ",
        ),
        (
            "pair = two(self)\na = pair[0]\nadd(a, pair[0])",
            "SHMT_TRY(shmt_op_two(self, &a, &t2)); ",
        ),
        (
            "t1 = neg(self)\nt2 = neg(neg(t1))\nadd(t1, t2)",
            "SHMT_TRY(shmt_op_neg(self, &t1_)); ",
        ),
        # the last call writes the results, and what is not returned is released
        ("a = neg(self)\nneg(a)", "return shmt_op_neg(a, out);"),
        ("two(self)[1]", "return shmt_op_two(self, &t1, out);"),
        (
            "if n > 0:\n  copy_(self, neg(self))\n  return self\nneg(self)",
            "if (n > 0) { SHMT_AUTO(shmt_tensor) t1 = 0; SHMT_TRY(shmt_op_neg(self, &t1)); "
            "SHMT_TRY(shmt_op_copy_(self, t1)); "
            "*out = self ? shmt__tensor_ref(self) : 0; return SHMT_OK; } "
            "return shmt_op_neg(self, out);",
        ),
        # parts are called without dispatch where that makes no difference
        ("part(self)", "return composite_part(self, out);"),
        ("part_check(self)\nself", "SHMT_TRY(shmt__part_check(self));"),
        ("part_dense(self)", "return shmt_op_part_dense(self, out);"),
        ("part_named(self)", "return shmt_op_part_named(self, out);"),
        # requirements
        (
            "require(n > 0, ValueError, f'{n} of {self}: 5 %')\nself",
            'SHMT_REQUIRE(n > 0, SHMT_E_VALUE, "%" PRId64 " of %s: 5 %%", (int64_t)n, '
            "SHMT_SHAPE_TEXT(self));",
        ),
        (
            "require(n > 0, f'got {dims[0]}')\nself",
            "if (!(n > 0)) { int64_t n1 = 0; SHMT_TRY(shmt__ints_at(dims, 0, &n1)); "
            'SHMT_FAIL(SHMT_E_RUNTIME, "got %" PRId64, (int64_t)n1); }',
        ),
        (
            "require(dtype(self) != float32, f'{dtype(self)}, {dims}')\nself",
            '"%s, %s", shmt__dtype_title((shmt_dtype)self->dtype), shmt__ints_text(dims,',
        ),
        (
            "refuse_dtype(dtype(self) in (bool, int64), self, 'f_cpu')\nself",
            "SHMT_REFUSE_DTYPE(((shmt_dtype)self->dtype == SHMT_BOOL) || "
            '((shmt_dtype)self->dtype == SHMT_INT64), self->dtype, "f_cpu");',
        ),
        # numbers that may not fit in 64 bits are checked, counts and differences of sizes are not
        ("reshape(self, [n + 1])", "SHMT_TRY(shmt__int_add(n, 1, &n1));"),
        ("reshape(self, [n - 1])", "SHMT_TRY(shmt__int_sub(n, 1, &n1));"),
        ("reshape(self, [n * 2])", "SHMT_TRY(shmt__int_mul(n, 2, &n1));"),
        ("reshape(self, [-n])", "SHMT_TRY(shmt__int_sub(0, n, &n1));"),
        ("reshape(self, [dim(self) + 1])", "SHMT_INTS(((int64_t)self->n_dims + 1))"),
        ("reshape(self, [numel(self) - len(dims)])", "SHMT_INTS((self->numel - dims.len))"),
        ("reshape(self, [numel(self) + 1])", "SHMT_TRY(shmt__int_add(self->numel, 1, &n1));"),
        ("reshape(self, [n % 2])", "SHMT_INTS(shmt__floor_mod_i64(n, 2))"),
        # lists
        ("more[-1]", "SHMT_TRY(shmt__tensors_at(more, (-1), &element1));"),
        (
            "reshape(self, [*sizes(self)[:-1], n, 2])",
            "shmt__ints_part(shmt__tensor_sizes(self), 0, (-1)), SHMT_INTS(n, 2)}, 2));",
        ),
        ("reshape(self, [1] * n)", "SHMT_TRY(shmt__shape_repeat(&shape1, 1, n));"),
        ("reshape(self, range(1, n))", "SHMT_TRY(shmt__shape_range(&shape1, 1, n));"),
        ("reshape(self, [prod(dims)])", "SHMT_TRY(shmt__ints_product(dims, &n1));"),
        (
            "reshape(self, [d + 1 for d in range(n) if d != 2])",
            "for (int64_t i1 = 0; i1 < n; i1++) { if (i1 != 2) { "
            "SHMT_TRY(shmt__shape_append(&shape2, (i1 + 1))); } }",
        ),
        (
            "reshape(self, [d + i for i, d in enumerate(dims)])",
            "SHMT_TRY(shmt__int_add(dims.data[i1], i1, &n2));",
        ),
        (
            "stack([neg(t) for t in more])",
            "SHMT_TRY(shmt__tensor_vec_alloc(more.len, &list3)); "
            "for (int64_t i1 = 0; i1 < more.len; i1++) { "
            "SHMT_TRY(shmt_op_neg(more.data[i1], &list3.data[i1])); }",
        ),
        (
            "if sizes(self) == dims:\n  return self\nneg(self)",
            "if (shmt__same_ints(shmt__tensor_sizes(self), dims)) {",
        ),
    ],
)
def test_block_is_lowered(lowered: Callable[[str], str], block: str, expected: str) -> None:
    assert expected in lowered(block)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("a = self", "does not end in an expression"),
        ("while n > 0:\n  n\nself", "no statement of this language"),
        ("a = neg(self)\nif n > 0:\n  a = self\na", "'a' is bound outside; write a = a if"),
        ("if n > 0:\n  self = neg(self)\nself", "'self' is bound outside"),
        ("if n > 0:\n  a = neg(self)\nadd(a, a)", "unknown name 'a'"),
        ("if n > 0:\n  a = self\nelse:\n  a = neg(self)\na", "unknown name 'a'"),
        ("return self\nneg(self)", "'return self': what follows it never runs"),
        ("if n > 0:\n  return self\n  copy_(self, self)\nself", "what follows it never runs"),
        ("refuse_dtype(n > 0, self)\nself", "refuse_dtype takes a condition"),
        ("refuse_dtype(n > 0, n, 'f')\nself", "a int cannot be a ScalarType"),
        ("[eps]", r"a float\? cannot be a float"),
        ("require(eps > 0, 'text')\nself", r"float\? and int do not compare"),
        ("add(self, self, alpha=float(eps))", "cannot be a float"),
        ("weight", "'weight' may be None, and f gives a Tensor"),
        ("weight if n > 0 else self", "may be None"),
        ("None", "may be None"),
        ("reshape(None, dims)", "fits none of"),
        ("require(n > 0, KeyError, 'text')\nself", "require takes a condition, RuntimeError or"),
        ("require(n > 0, n)\nself", "'n' is no text"),
        ("require(n > 0, f'{n:3}')\nself", "braces hold a value and nothing else"),
        ("require(n > 0, f'{more}')\nself", "cannot be printed"),
        ("reshape(self, more[1:])", "only lists of ints have slices"),
        ("reshape(self, dims[::2])", "which have no step"),
        ("stack([neg(t) for t in more if n > 0])", "a list of tensors takes all of them"),
        ("self if mode in more else self", "'in' takes"),
        ("a, b = two(self)\n(a, b)", "gives 2 values, not 1"),
    ],
)
def test_wrong_block_is_refused(lowered: Callable[[str], str], block: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        lowered(block)
