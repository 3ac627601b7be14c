"""Gradients of each sample in one backward pass.

The module is run by `vmap`, so that the samples have weights of their own: views of the parameters,
whose gradients are those of the samples.

Source:
    torch.nn.utils._per_sample_grad.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.autograd import Function
from shmtensor.func import functional_call, vmap
from shmtensor.nn.modules.module import Module
from shmtensor.utils import _pytree as pytree

__all__: list[str] = []


class _OfEachSample(Function):
    """A parameter as a batch of equal ones, whose gradient becomes its ``grad_sample``."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, batch_size: int, scale: int) -> Tensor:
        ctx.parameter, ctx.scale = parameter, scale
        return parameter.detach().expand(batch_size, *parameter.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        before = getattr(ctx.parameter, "grad_sample", None)
        new = grads[0] * ctx.scale
        ctx.parameter.grad_sample = new if before is None else before + new
        return None, None, None


def call_for_per_sample_grads(
    module: Module,
    *,
    batch_size: int | None = None,
    loss_reduction: str = "sum",
    batch_first: bool = True,
) -> Callable[..., Any]:
    """Make a function that calls the module; its backward pass writes ``grad_sample``.

    The module is called with one sample at a time, as a batch of one, so no layer may mix samples
    (`BatchNorm1d` in training does). Dropout draws for each sample.

    Args:
        module: Each parameter that requires grad gets ``grad_sample``, ``(batch_size, *shape)``,
            and keeps its ``grad``.
        batch_size: None: the size of the batch dimension of all tensors among the arguments.
            Otherwise tensors of another size are the same for all samples.
        loss_reduction: ``"mean"`` when the loss is the mean over the batch: gradients are
            multiplied by its size.
        batch_first: Is dimension 0 of arguments and results the batch, or dimension 1?

    Returns:
        A function of the module's arguments.

    Raises:
        RuntimeError: An argument is wrong, sizes of batches differ, or a parameter still has
            ``grad_sample`` from before.

    Source:
        torch.nn.utils._per_sample_grad.call_for_per_sample_grads.
    """
    _check(module, batch_size, loss_reduction)
    dim = 0 if batch_first else 1

    def call(*args: Any, **kwargs: Any) -> Any:
        trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
        for name, parameter in trained.items():
            if getattr(parameter, "grad_sample", None) is not None:
                raise RuntimeError(
                    f"call_for_per_sample_grads(): {name} has grad_sample of an earlier call; "
                    "set it to None first"
                )
        n = _batch_size(args, kwargs, dim) if batch_size is None else batch_size
        scale = n if loss_reduction == "mean" else 1
        weights = {name: _OfEachSample.apply(p, n, scale) for name, p in trained.items()}
        leaves, spec = pytree.tree_flatten((args, kwargs))
        dims = [dim if _is_batch(leaf, dim, n) else None for leaf in leaves]

        def one(weights: dict[str, Tensor], leaves: list[Any]) -> Any:
            given = [
                leaf if d is None else leaf.unsqueeze(d)
                for leaf, d in zip(leaves, dims, strict=True)
            ]
            its_args, its_kwargs = pytree.tree_unflatten(given, spec)
            result = functional_call(module, weights, its_args, its_kwargs)
            return pytree.tree_map(lambda t: _only(t, dim), result)

        return vmap(one, in_dims=(0, dims), out_dims=dim, randomness="different")(weights, leaves)

    return call


def _check(module: Any, batch_size: Any, loss_reduction: Any) -> None:
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(
            f"Batch size passed must be None or an integer, got {type(batch_size).__name__}"
        )
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")


def _is_batch(value: Any, dim: int, size: int) -> bool:
    return isinstance(value, Tensor) and value.dim() > dim and value.size(dim) == size


def _batch_size(args: tuple[Any, ...], kwargs: dict[str, Any], dim: int) -> int:
    sizes = [
        leaf.size(dim)
        for leaf in pytree.tree_flatten((args, kwargs))[0]
        if isinstance(leaf, Tensor) and leaf.dim() > dim
    ]
    if not sizes:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs, whose size would be that of "
            "the batch. Please specify batch_size explicitly"
        )
    other = next((size for size in sizes if size != sizes[0]), None)
    if other is not None:
        raise RuntimeError(
            "When computing batch size, found at least one input with batch size "
            f"{sizes[0]} and one with batch size {other}. Please specify it explicitly using the "
            "batch size kwarg in call_for_per_sample_grads"
        )
    return int(sizes[0])


def _only(result: Any, dim: int) -> Any:
    if not isinstance(result, Tensor):
        raise RuntimeError(f"the module's results must be tensors, not {type(result).__name__}")
    if result.dim() <= dim or result.size(dim) != 1:
        raise RuntimeError(
            f"dimension {dim} of the module's results must be the batch; a result of one sample "
            f"has shape {tuple(result.shape)}"
        )
    return result.squeeze(dim)
