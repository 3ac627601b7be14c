"""Which parts of a module are by themselves, and how a class is put around them.

Policies choose the parts. Nothing is sharded here, but any other class can be put around them.

Source:
    torch.distributed.fsdp.wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable
from contextlib import contextmanager
from typing import Any

from shmtensor.nn import Module, ModuleDict, ModuleList, MultiheadAttention, Parameter

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True: every module would be by itself."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Return whether to look below *module*: True, or else whether it would be by itself.

    Args:
        module: A module.
        recurse: Whether the question is to look below it.
        nonwrapped_numel: How many elements of it are in no other part; not looked at.
        lambda_fn: Says of a module whether it would be by itself.

    Source:
        torch.distributed.fsdp.wrap.lambda_auto_wrap_policy.
    """
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: Iterable[type[Module]],
) -> bool:
    """Do `lambda_auto_wrap_policy` with the modules of some classes.

    Source:
        torch.distributed.fsdp.wrap.transformer_auto_wrap_policy.
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Return whether to look below a large module, or else whether it would be by itself.

    Args:
        module: A module.
        recurse: Whether the question is to look below it.
        nonwrapped_numel: How many elements of it are in no other part.
        min_num_params: From how many on it is large.
        force_leaf_modules: Classes not to look below; None: `MultiheadAttention`.
        exclude_wrap_modules: Classes never by themselves; None: `ModuleList` and `ModuleDict`.

    Source:
        torch.distributed.fsdp.wrap.size_based_auto_wrap_policy.
    """
    policy: Any = size_based_auto_wrap_policy
    if recurse:
        without = force_leaf_modules
        if without is None:
            without = policy.FORCE_LEAF_MODULES
    else:
        without = exclude_wrap_modules
        if without is None:
            without = policy.EXCLUDE_WRAP_MODULES
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(without))


vars(size_based_auto_wrap_policy).update(
    FORCE_LEAF_MODULES={MultiheadAttention}, EXCLUDE_WRAP_MODULES={ModuleList, ModuleDict}
)


class ModuleWrapPolicy:
    """The modules of some classes would be by themselves.

    Args:
        module_classes: They.

    Source:
        torch.distributed.fsdp.wrap.ModuleWrapPolicy.
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Return whether to look below *module*: True, or else whether it would be by itself."""
        return transformer_auto_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes})"


class CustomPolicy:
    """The modules that a function names would be by themselves.

    Args:
        lambda_fn: Returns False, True, or the settings of a module.

    Source:
        torch.distributed.fsdp.wrap.CustomPolicy.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn


#: Within `enable_wrap`: the class and its settings.
_around: tuple[Callable[..., Module], dict[str, Any]] | None = None


@contextmanager
def enable_wrap(*, wrapper_cls: Callable[..., Module], **wrapper_kwargs: Any) -> Generator[None]:
    """Let `wrap` put a class around its modules inside this context.

    Args:
        wrapper_cls: The class, or a function that returns a module.
        wrapper_kwargs: Its settings.

    Raises:
        NotImplementedError: Inside another one.

    Source:
        torch.distributed.fsdp.wrap.enable_wrap.
    """
    global _around
    if _around is not None:
        raise NotImplementedError(
            "You are already within an autowrap context and we currently do not supported nested "
            "autowrap."
        )
    _around = (wrapper_cls, wrapper_kwargs)
    try:
        yield
    finally:
        _around = None


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Put the class of `enable_wrap` around a module; outside of it, return the module.

    Args:
        module: The module.
        wrap_overrides: Settings that replace those of `enable_wrap`.

    Source:
        torch.distributed.fsdp.wrap.wrap.
    """
    if _around is None:
        return module
    wrapper_cls, settings = _around
    return _wrap(module, wrapper_cls, **{**settings, **wrap_overrides})


def _wrap(module: Module, wrapper_cls: Callable[..., Module], **kwargs: Any) -> Module:
    """Put a class around a module, whose ``_wrap_overrides`` replace settings if it has them."""
    assert wrapper_cls is not None, "Expected wrapper_cls to be set"
    return wrapper_cls(module, **{**kwargs, **getattr(module, "_wrap_overrides", {})})


def _recursive_wrap(
    module: Module,
    auto_wrap_policy: Callable[..., bool],
    wrapper_cls: Callable[..., Module],
    ignored_modules: Container[Module],
    ignored_params: Container[Parameter],
    only_wrap_children: bool = False,
    **kwargs: Any,
) -> tuple[Module, int]:
    """Put a class around the parts of a module that a policy chooses, from the leaves up.

    Args:
        module: The module; its parts are replaced.
        auto_wrap_policy: Called with ``module``, ``recurse`` and ``nonwrapped_numel``: says whether
            to look below a module, then whether the class is put around it.
        wrapper_cls: The class, or a function that returns a module.
        ignored_modules: Parts that stay as they are.
        ignored_params: Parameters that do not count.
        only_wrap_children: Leave the outermost module as it is.
        kwargs: Settings of the class.

    Returns:
        The module, or what is around it, and how many elements of parameters are in such parts.

    Raises:
        AssertionError: The class is around a part already.

    Source:
        torch.distributed.fsdp.wrap._recursive_wrap.
    """
    assert auto_wrap_policy is not None, "Must specify auto_wrap_policy."
    assert wrapper_cls is not None, "Must specify wrapper_cls"
    if isinstance(wrapper_cls, type):
        for child in module.modules():
            assert child in ignored_modules or not isinstance(child, wrapper_cls), (
                f"Child module {child} is already wrapped by {wrapper_cls}"
            )
    n_all = sum(each.numel() for each in module.parameters() if each not in ignored_params)
    if not auto_wrap_policy(module=module, recurse=True, nonwrapped_numel=n_all):
        return module, 0
    n_below = 0
    for name, child in module.named_children():
        if child not in ignored_modules:
            inner, n_inner = _recursive_wrap(
                child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs
            )
            setattr(module, name, inner)
            n_below += n_inner
    left = n_all - n_below
    if only_wrap_children or not auto_wrap_policy(
        module=module, recurse=False, nonwrapped_numel=left
    ):
        return module, n_below
    return _wrap(module, wrapper_cls, **kwargs), n_all


def _wrap_by_policy(
    module: Module, policy: CustomPolicy, wrapper_cls: Callable[..., Module]
) -> None:
    """Put a class around the parts that a policy names, from the leaves up, in place.

    Raises:
        ValueError: The policy says neither yes nor no, nor gives settings.
    """
    chosen: dict[Module, dict[str, Any]] = {}
    for each in module.modules():
        answer = policy._lambda_fn(each)
        if not isinstance(answer, (dict, bool)):
            raise ValueError(
                f"The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, "
                f"but it returned {answer}"
            )
        if answer and each is not module:
            chosen[each] = {} if answer is True else dict(answer)

    def visit(parent: Module) -> None:
        for name, child in list(parent.named_children()):
            visit(child)
            if child in chosen:
                setattr(parent, name, wrapper_cls(child, **chosen.pop(child)))

    visit(module)
