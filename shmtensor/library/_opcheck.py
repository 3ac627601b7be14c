"""Does an operator keep what its registrations promise?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shmtensor import _C
from shmtensor._core._ops import OpOverload, OpOverloadPacket
from shmtensor.autograd.function import _flatten, _unflatten
from shmtensor.autograd.gradcheck import gradcheck
from shmtensor.errors import ShmTensorError
from shmtensor.library._custom_ops import CustomOpDef

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(ShmTensorError):
    """An operator does not do what its registrations say."""


def _copied(values: Any) -> tuple[Any, list[Any]]:
    """The same structure over fresh copies of its tensors, and the copies."""
    tensors: list[Any] = []
    structure = _flatten(values, tensors)
    copies = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
    return _unflatten(structure, copies), copies


def _tensors(value: Any) -> list[Any]:
    found: list[Any] = []
    _flatten(value, found)
    return found


def _test_schema(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Only arguments marked as written change, and no result lies in an unmarked argument."""
    rows = _C._operator_arguments(op._handle)
    (given_args, given_kwargs), _ = _copied((args, kwargs))
    named = dict(zip((row[0] for row in rows), given_args, strict=False)) | given_kwargs
    before = {name: [t.detach().clone() for t in _tensors(v)] for name, v in named.items()}
    with _no_grad():
        result = op(*given_args, **given_kwargs)
    for name, _, written, _ in rows:
        for was, now in zip(before.get(name, ()), _tensors(named.get(name)), strict=True):
            same = was.shape == now.shape and bool(
                was.isclose(now, equal_nan=True, rtol=0, atol=0).all()
            )
            if not same and not written:
                raise OpCheckError(
                    f"{op}: argument {name} is not marked as mutated in the schema "
                    f"({op._schema}), but was changed"
                )
    unmarked = {t._storage_cdata for n, _, w, _ in rows if not w for t in _tensors(named.get(n))}
    if any(t.numel() and t._storage_cdata in unmarked for t in _tensors(result)):
        raise OpCheckError(f"{op}: a result shares memory with an argument not marked as aliased")


class _no_grad:
    def __enter__(self) -> None:
        self._before = _C._set_grad_enabled(False)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_enabled(self._before)


def _test_faketensor(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The Meta kernel gives the shapes, dtypes and strides that computing gives."""
    (given_args, given_kwargs), _ = _copied((args, kwargs))
    tensors: list[Any] = []
    structure = _flatten((args, kwargs), tensors)
    metas = [t.detach().to(device="meta") for t in tensors]
    meta_args, meta_kwargs = _unflatten(structure, metas)
    with _no_grad():
        computed = _tensors(op(*given_args, **given_kwargs))
        predicted = _tensors(op(*meta_args, **meta_kwargs))
    if len(computed) != len(predicted):
        raise OpCheckError(f"{op}: {len(predicted)} results predicted, {len(computed)} computed")
    for i, (a, b) in enumerate(zip(predicted, computed, strict=True)):
        for what in ("shape", "dtype"):
            if getattr(a, what) != getattr(b, what):
                raise OpCheckError(
                    f"{op}: result {i}: the fake kernel says {what} {getattr(a, what)}, computing "
                    f"gives {getattr(b, what)}"
                )
        if a.stride() != b.stride():
            raise OpCheckError(
                f"{op}: result {i}: the fake kernel says strides {a.stride()}, computing gives "
                f"{b.stride()}"
            )


def _test_autograd_registration(
    op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """A derivative is given at Autograd, or comes of the operators that this one is made of."""
    if not any(t.requires_grad for t in _tensors((args, kwargs))):
        return
    keys = ("Autograd", "CompositeImplicitAutograd")
    if not any(op.has_kernel_for_dispatch_key(key) for key in keys):
        raise OpCheckError(
            f"{op}: has no kernel at Autograd; give it one by register_autograd rather than by an "
            "autograd.Function inside a kernel"
        )


def _test_gradcheck(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The derivative fits finite differences; looked at when float64 tensors require grad."""
    (given_args, given_kwargs), copies = _copied((args, kwargs))
    inputs = [t for t in copies if t.requires_grad and t.dtype is _C.float64]
    if not inputs:
        return
    structure = _flatten((given_args, given_kwargs), [])

    def call(*changed: Any) -> Any:
        place = {id(t): c for t, c in zip(inputs, changed, strict=True)}
        row = [place.get(id(t), t) for t in copies]
        new_args, new_kwargs = _unflatten(structure, row)
        return op(*new_args, **new_kwargs)

    gradcheck(call, tuple(inputs))


_TESTS: dict[str, Callable[..., None]] = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_gradcheck": _test_gradcheck,
}


def opcheck(
    op: OpOverload | OpOverloadPacket | CustomOpDef,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = tuple(_TESTS),
    raise_exception: bool = True,
) -> dict[str, str | Exception]:
    """Check an operator's registrations on one call.

    Args:
        op: The operator.
        args: Its positional arguments; copies of the tensors are used.
        kwargs: Its keyword arguments.
        test_utils: Which checks: ``"test_schema"`` (mutation and aliasing as the schema says),
            ``"test_autograd_registration"``, ``"test_faketensor"`` (Meta results as computed),
            ``"test_gradcheck"``.
        raise_exception: Raise the first failure rather than return it.

    Returns:
        For each check ``"SUCCESS"`` or the exception.

    Raises:
        OpCheckError: A check failed and *raise_exception* is true.
        ValueError: There is no such check, or *op* has several overloads.

    Source:
        torch.library.opcheck.
    """
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    elif isinstance(op, OpOverloadPacket):
        if len(op.overloads()) != 1:
            raise ValueError(f"{op} has several overloads: {', '.join(op.overloads())}; name one")
        op = op._overloads[0]
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    results: dict[str, str | Exception] = {}
    for name in names:
        if name not in _TESTS:
            raise ValueError(f"there is no check {name!r} (known: {', '.join(_TESTS)})")
        try:
            _TESTS[name](op, args, kwargs or {})
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise
            results[name] = error
    return results
