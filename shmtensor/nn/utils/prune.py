"""Pruning: parameters of modules with some elements or slices kept at zero.

A pruned parameter ``weight`` is kept as ``weight_orig``, with a buffer ``weight_mask``; a hook
makes ``weight`` of both before each call of the module.

Source:
    torch.nn.utils.prune.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from shmtensor import _C
from shmtensor._core._products import norm
from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter

# --- amounts -------------------------------------------------------------------------------------


def _validate_pruning_amount_init(amount: Any) -> None:
    """Raise unless it is an amount: a share from 0 to 1, or a number of elements.

    Raises:
        TypeError: It is not a number.
        ValueError: It is out of range.
    """
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    value: Any = amount
    is_count = isinstance(amount, numbers.Integral)
    if value < 0 or (not is_count and value > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """Refuse a number of elements that is larger than there are."""
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def _validate_structured_pruning(t: Tensor) -> None:
    """Refuse a tensor that has no slices."""
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.dim()} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """Refuse a dim that the tensor does not have."""
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """Return the number of elements that an amount means."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """Return the norm of each slice along a dim: 1-d."""
    others = [d for d in range(t.dim()) if d != dim % t.dim()]
    norms: Tensor = norm(t, p=n, dim=others)
    return norms


# --- methods -------------------------------------------------------------------------------------


class BasePruningMethod(ABC):
    """What a method of pruning has; a subclass gives ``PRUNING_TYPE`` and `compute_mask`."""

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Make the pruned parameter again, as the hook of the module."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of what stays.

        Args:
            t: How important each element is.
            default_mask: What stays of earlier pruning, 1 or 0 in the shape of *t*.

        Returns:
            The same, with more zeros.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """Return the parameter with zeros where the mask has them."""
        if getattr(self, "_tensor_name", None) is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask: Tensor = getattr(module, self._tensor_name + "_mask")
        original: Tensor = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Prune a parameter of a module by this method, on top of earlier pruning.

        Args:
            module: It.
            name: The parameter.
            *args: For the method.
            importance_scores: How important each element is; the parameter itself when left out.
            **kwargs: For the method.

        Returns:
            The hook that the module calls.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        for key, hook in list(module._forward_pre_hooks.items()):
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
                del module._forward_pre_hooks[key]
                container = hook
                if not isinstance(hook, PruningContainer):
                    container = PruningContainer(hook)
                container.add_pruning_method(method)  # type: ignore[attr-defined]
                method = container
                break
        parameter = getattr(module, name)
        scores = parameter if importance_scores is None else importance_scores
        if scores.shape != parameter.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {scores.shape} vs {parameter.shape}"
            )
        if not isinstance(method, PruningContainer):
            module.register_parameter(name + "_orig", parameter)
            del module._parameters[name]
            default_mask = _C.ones_like(parameter)
        else:
            default_mask = getattr(module, name + "_mask").detach().clone()
        try:
            mask = method.compute_mask(scores, default_mask)
        except Exception:
            if not isinstance(method, PruningContainer):
                module.register_parameter(name, module._parameters.pop(name + "_orig"))
            raise
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """Return *t* with zeros, without any module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{scores.shape} vs {t.shape}"
            )
        mask = _C.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the pruning permanent: the module has a plain parameter with zeros again."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before it can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        assert isinstance(original, Parameter)
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Methods that were applied to a parameter one after another.

    Args:
        *args: Them; more are added by `add_pruning_method`.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter.

        Raises:
            TypeError: It is none.
            ValueError: It is for another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if getattr(self, "_tensor_name", None) != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{getattr(self, '_tensor_name', None)}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after the last method, which sees only what is left of *t*."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        where: Any
        if method.PRUNING_TYPE == "unstructured":
            where = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = getattr(method, "dim", 0) % t.dim()
            others = [d for d in range(t.dim()) if d != dim]
            where = (slice(None),) * dim + (mask.sum(dim=others) != 0,)
        elif method.PRUNING_TYPE == "global":
            where = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        combined: Tensor = mask.clone()
        combined[where] = method.compute_mask(t[where], default_mask=mask[where]).to(mask.dtype)
        return combined


class Identity(BasePruningMethod):
    """Prunes nothing, and makes the mask."""

    PRUNING_TYPE = "unstructured"

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str
    ) -> Any:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """See `BasePruningMethod.compute_mask`."""
        return default_mask


class _Amount(BasePruningMethod):
    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size: int) -> int:
        _validate_pruning_amount(self.amount, size)
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


class RandomUnstructured(_Amount):
    """Prunes elements by chance.

    Args:
        amount: How many, or which share of all.
    """

    PRUNING_TYPE = "unstructured"

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any
    ) -> Any:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """See `BasePruningMethod.compute_mask`."""
        count = self._count(t.numel())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if count:
            index = _C.topk(_C.rand_like(t).view(-1), k=count).indices
            mask.view(-1)[index] = 0
        return mask


class L1Unstructured(_Amount):
    """Prunes the elements of the smallest magnitude.

    Args:
        amount: How many, or which share of all.
    """

    PRUNING_TYPE = "unstructured"

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, importance_scores: Tensor | None = None
    ) -> Any:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount, importance_scores=importance_scores)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """See `BasePruningMethod.compute_mask`."""
        count = self._count(t.numel())
        mask = default_mask.clone(memory_format=_C.contiguous_format)
        if count:
            index = _C.topk(_C.abs(t).view(-1), k=count, largest=False).indices
            mask.view(-1)[index] = 0
        return mask


class _Slices(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _mask(self, t: Tensor, default_mask: Tensor, kept: Tensor) -> Tensor:
        """The default mask with zeros in all slices but those in *kept*."""
        mask = _C.zeros_like(t)
        mask[(slice(None),) * (self.dim % t.dim()) + (kept,)] = 1
        return mask * default_mask.to(dtype=mask.dtype)

    def _check(self, t: Tensor) -> int:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        return self._count(t.shape[self.dim])


class RandomStructured(_Slices):
    """Prunes slices along a dim by chance.

    Args:
        amount: How many slices, or which share of all.
        dim: The dim.
    """

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, dim: int = -1
    ) -> Any:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount, dim)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """See `BasePruningMethod.compute_mask`."""
        count = self._check(t)
        draws = _C.rand(t.shape[self.dim])
        limit = _C.kthvalue(draws, k=count).values if count else draws.new_tensor(-1.0)
        return self._mask(t, default_mask, draws > limit)


class LnStructured(_Slices):
    """Prunes the slices along a dim that have the smallest norm.

    Args:
        amount: How many slices, or which share of all.
        n: Which norm; as ``p`` of `norm`.
        dim: The dim.
    """

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: Any,
        n: Any,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> Any:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount, n, dim, importance_scores=importance_scores)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """See `BasePruningMethod.compute_mask`."""
        left = t.shape[self.dim] if t.dim() > 1 and self.dim < t.dim() else 0
        left -= self._check(t)
        if left == t.shape[self.dim]:
            return default_mask
        kept = _C.topk(_compute_norm(t, self.n, self.dim), k=left, largest=True).indices
        return self._mask(t, default_mask, kept)


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask.

    Args:
        mask: 1 where an element stays, 0 where it does not.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, mask: Tensor
    ) -> Any:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, mask)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """See `BasePruningMethod.compute_mask`."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# --- functions ------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask that prunes nothing; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune elements of a parameter by chance; returns the module.

    Args:
        module: It.
        name: The parameter.
        amount: How many, or which share of all.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: Any, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements of a parameter of the smallest magnitude; returns the module.

    Args:
        module: It.
        name: The parameter.
        amount: How many, or which share of all.
        importance_scores: Count in place of the elements.
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune slices of a parameter along a dim by chance; returns the module.

    Args:
        module: It.
        name: The parameter.
        amount: How many slices, or which share of all.
        dim: The dim.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: Any,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the slices of a parameter with the smallest norm along a dim; returns the module.

    Args:
        module: It.
        name: The parameter.
        amount: How many slices, or which share of all.
        n: Which norm; as ``p`` of `norm`.
        dim: The dim.
        importance_scores: Count in place of the elements.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter by a mask; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Any,
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters together, as if they were one.

    Args:
        parameters: Pairs of a module and a name.
        pruning_method: A method of single elements, such as `L1Unstructured`.
        importance_scores: Count in place of the elements, by such pairs.
        **kwargs: For the method.

    Raises:
        TypeError: The method is of slices, or an argument has another type.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    parameters = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    relevant = [scores.get(pair, getattr(*pair)).detach() for pair in parameters]
    flat = _C.cat([each.reshape(-1) for each in relevant])
    masks = [
        getattr(module, name + "_mask", _C.ones_like(getattr(module, name)))
        for module, name in parameters
    ]
    default_mask = _C.cat([each.reshape(-1) for each in masks])
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    final = container.compute_mask(flat, default_mask)
    start = 0
    for module, name in parameters:
        parameter = getattr(module, name)
        mask = final[start : start + parameter.numel()].view_as(parameter)
        custom_from_mask(module, name, mask=mask)
        start += parameter.numel()


def remove(module: Module, name: str) -> Module:
    """Make the pruning of a parameter permanent; returns the module.

    Raises:
        ValueError: The parameter is not pruned.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Return whether a module, or one inside it, has a pruned parameter."""
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in each._forward_pre_hooks.values()
    )
