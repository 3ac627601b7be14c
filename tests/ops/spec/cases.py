"""The cases of every entry: those of the tables, or what its schema alone asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ops.spec import cases_linear, cases_nn, cases_pointwise, cases_shape
from ops.spec.arguments import Case, T, arguments, t
from ops.spec.entries import REFUSALS, call, entries, outs_of

from codegen.spec.model import OperatorEntry
from codegen.spec.schema import Argument

TABLE: dict[str, list[Case]] = {
    **cases_pointwise.CASES,
    **cases_shape.CASES,
    **cases_linear.CASES,
    **cases_nn.CASES,
}

#: Families whose operators take elements of the same place.
POINTWISE = frozenset(("pointwise", "special"))

_PLAIN: dict[str, Any] = {"Scalar": 2, "float": 0.5, "int": 1, "bool": False}


#: Steps of derivatives: their arguments are intermediate values that only the derivative has. They
#: are tested by the gradients of the operators whose derivatives lead to them, as are all internal
#: operators whose arguments the schema alone does not give.
STEPS = frozenset(
    """
    _convolution_backward_grad_output _convolution_backward_input _convolution_backward_weight
    _fft_c2r_backward _fft_r2c_backward _scatter_counts _scatter_amax_amin_backward
    _scatter_prod_backward_self _scatter_prod_backward_src _scatter_prod_backward_src_by_zeros
    _scatter_reduce_backward_self _scatter_reduce_backward_src _pinv_general _pinv_hermitian
    _linalg_check _linalg_check_dtype _linalg_check_square _ctc_loss_backward _is_nearly_singular
    _min_max_backward _index_backward _norm_backward _scale_grad_by_count _std_backward
    _var_backward
    _vector_norm_backward _log_softmax_backward_data _softmax_backward_data _no_derivative
    _cholesky_backward _det_backward _eig_backward _eigh_backward _householder_backward
    _lstsq_backward _lu_backward _lu_solve_backward _matrix_exp_backward _ormqr_backward
    _pinv_backward _qr_backward _qr_wide_backward _slogdet_backward _svd_backward
    _svdvals_backward _aminmax_backward _correlation _correlation_complex _cov_plain _cov_products
    _cov_products_weighted _cov_weighted _evenly_distribute_backward _cdist_backward
    _pdist_backward _pdist_backward_all_pairs _difference_norm_backward
    _multi_margin_backward _multi_margin_backward_differentiable _multilabel_margin_backward
    """.split()
)


#: Operators of other sections whose results are sparse: tests/sparse/test_training.py.
SPARSE = frozenset(("_embedding_bag_sparse_backward", "_sparse_rows", "embedding_sparse_backward"))


class NoCase(Exception):
    """The schema alone does not say which arguments fit."""


def _functional(name: str) -> str:
    base, dot, overload = name.partition(".")
    if base.startswith("__i") and base.endswith("__"):
        base = "__" + base[3:]
    return (
        base.removesuffix("_") + dot + overload
        if not base.endswith("__")
        else base + dot + overload
    )


def _argument(entry: OperatorEntry, argument: Argument) -> Any:
    kind = argument.type
    if kind.is_tensor and not kind.optional:
        base = entry.schema.name
        return cases_pointwise.RANGES.get(base, t(3, 4))
    if kind.is_list or kind.base not in _PLAIN:
        raise NoCase(
            f"{entry.where}: '{argument}' of {entry.name} needs a case in tests/ops/spec/cases_*.py"
        )
    return _PLAIN[kind.base]


def _default(entry: OperatorEntry) -> Case:
    wanted = [a for a in entry.schema.arguments if a.default is None and not a.is_out]
    args = [_argument(entry, a) for a in wanted if not a.keyword_only]
    kwargs = {a.name: _argument(entry, a) for a in wanted if a.keyword_only}
    pointwise = (
        entry.section.split("/")[0] in POINTWISE
        and bool(entry.variants)
        and sum(isinstance(a, T) for a in args) > 1
    )
    return Case(tuple(args), kwargs, pointwise)


def cases(entry: OperatorEntry) -> list[Case]:
    """The cases of *entry*.

    Raises:
        NoCase: It needs a row in a table.
    """
    for name in (entry.name, _functional(entry.name)):
        if name in TABLE:
            return TABLE[name]
    if any(a.is_out for a in entry.schema.arguments):
        twin = entry.name.removesuffix("_out").removesuffix(".out")
        if twin in TABLE:
            return TABLE[twin]
    return [_default(entry)]


def is_pointwise(entry: OperatorEntry, one: Case) -> bool:
    """Do the tensors of the case broadcast?"""
    return one.pointwise


def resized(one: Case, shape: tuple[int, ...]) -> Case:
    """The case with every tensor of the largest shape given *shape* instead."""
    largest = max((a.shape for a in one.tensors), key=len, default=())

    def change(a: T, _: int) -> T:
        return replace(a, shape=shape) if a.shape == largest and a.given is None else a

    return one.reshaped(change)


def called() -> list[OperatorEntry]:
    """Every entry that is called by name."""
    return [entry for entry in entries() if not is_step(entry) and not is_elsewhere(entry)]


def is_elsewhere(entry: OperatorEntry) -> bool:
    """Is the entry a step of an optimizer, or of sparse tensors: tests/optim, tests/ops/sparse?"""
    return entry.section.startswith(("optim/", "sparse/")) or entry.name in SPARSE


def is_step(entry: OperatorEntry) -> bool:
    """Is the entry tested through the operators that use it only?"""
    if entry.name in STEPS:
        return True
    if entry.variants or is_elsewhere(entry):
        return False
    try:
        cases(entry)
    except NoCase:
        return True
    return False


def wide_dtype(entry: OperatorEntry, one: Case) -> str:
    """The dtype to test other things than dtypes with: float64 where the operator takes it."""
    for name in ("float64", "int64", "bool", "complex128"):
        args, kwargs = arguments(entry.name, one, name)
        try:
            call(entry, args, {**kwargs, **outs_of(entry)})
        except REFUSALS:
            continue
        return name
    raise AssertionError(f"{entry.name}: no dtype works")
