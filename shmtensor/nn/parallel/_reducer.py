"""Gradients in buckets: what `DistributedDataParallel` reduces while backward goes on.

The parameters are taken in reverse order, which is about the order in which backward reaches them,
and put into flat buffers. When all gradients of a bucket are there, its all-reduce begins; buckets
begin in one order on all ranks. The gradient that completes the last bucket waits for all of them
and writes the results into the parameters' gradients.

Only a backward after `Reducer.expect` is reduced: one forward, one backward.

The hooks of the parameters hold the reducer weakly and end with it, so that a module trains on by
itself when what reduced its gradients is gone.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._core._groups import distributed
from shmtensor._core._tensor import Tensor
from shmtensor.nn.parameter import Parameter
from shmtensor.sparse._construct import sparse_coo_tensor

__all__ = ["GradBucket", "Reducer", "find_tensors", "used_parameters"]

_FIRST_BUCKET_BYTES = 1 << 20


def used_parameters(outputs: Any) -> set[int]:
    """Return the addresses (`id`) of the leaves that the tensors in *outputs* depend on."""
    pending = [t.grad_fn for t in find_tensors(outputs) if t.grad_fn is not None]
    found = {id(t) for t in find_tensors(outputs) if t.is_leaf and t.requires_grad}
    seen = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found.add(id(leaf))
        pending += [each for each, _ in node.next_functions if each is not None]
    return found


def find_tensors(value: Any) -> list[Tensor]:
    """Return the tensors in a structure of tuples, lists, dicts and dataclasses."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    elif hasattr(value, "__dataclass_fields__"):
        value = [getattr(value, name) for name in value.__dataclass_fields__]
    if isinstance(value, list | tuple):
        return [t for each in value for t in find_tensors(each)]
    return []


class GradBucket:
    """Gradients that are reduced together, as a communication hook sees them.

    Source:
        torch.distributed.GradBucket.
    """

    def __init__(self, index: int, parameters: list[Parameter]) -> None:
        self._index = index
        self._parameters = parameters
        self._is_last = False
        self._missing = 0
        self._work: Any = None
        self._set_by_hook: Tensor | None = None
        self._make_buffer()

    def _make_buffer(self) -> None:
        self._sizes = [p.numel() for p in self._parameters]
        self._flat: Tensor = _C.zeros([sum(self._sizes)], dtype=self._parameters[0].dtype)
        self._views: list[Tensor] = list(self._flat.split(self._sizes))

    def index(self) -> int:
        """Return the number of the bucket."""
        return self._index

    def buffer(self) -> Tensor:
        """Return the gradients, flat, one after the other."""
        return self._flat if self._set_by_hook is None else self._set_by_hook

    def set_buffer(self, buffer: Tensor) -> None:
        """Let `buffer` return another tensor, of any dtype, until the gradients are reduced."""
        self._set_by_hook = buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradients in the shapes of the parameters; they are views of `buffer`."""
        own = self._set_by_hook
        views = self._views if own is None else own.view(-1).split(self._sizes)
        return [v.view(p.shape) for v, p in zip(views, self._parameters, strict=True)]

    def parameters(self) -> list[Parameter]:
        """Return the parameters."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether no other bucket follows in this backward."""
        return self._is_last

    def _put(self, i: int, factor: float) -> None:
        """Take the gradient of the parameter *i*, times *factor*."""
        grad, view = self._parameters[i].grad, self._views[i]
        if grad is None:
            view.zero_()
        elif grad.layout != _C.strided:
            raise RuntimeError(
                "DistributedDataParallel: a parameter has a sparse gradient, and is not the weight "
                "of an Embedding or EmbeddingBag with sparse=True"
            )
        elif factor == 1:
            view.copy_(grad.detach().reshape(-1))
        else:
            _C.mul(grad.detach().reshape(-1), factor, out=view)

    def _take(self, reduced: Tensor) -> None:
        """Hold what a hook has made of the gradients."""
        self._set_by_hook = None
        if reduced.data_ptr() != self._flat.data_ptr():
            self._flat.copy_(reduced.view(-1))

    def _clear(self) -> None:
        """Hold gradients of 0."""
        self._flat.zero_()


class _SparseBucket(GradBucket):
    """The bucket of one parameter, whose gradients are sparse."""

    def _make_buffer(self) -> None:
        self._clear()

    def _clear(self) -> None:
        weight = self._parameters[0]
        n, *rest = weight.shape
        indices = _C.zeros([1, 0], dtype=_C.int64)
        values = _C.zeros([0, *rest], dtype=weight.dtype)
        self._flat = sparse_coo_tensor(indices, values, [n, *rest])

    def gradients(self) -> list[Tensor]:
        """Return the gradient."""
        return [self.buffer()]

    def _take(self, reduced: Tensor) -> None:
        self._set_by_hook = None
        self._flat = reduced

    def _put(self, i: int, factor: float) -> None:
        grad = self._parameters[i].grad
        if grad is None:
            self._clear()
        else:
            grad = grad.detach()
            self._flat = (grad if grad.is_sparse else grad.to_sparse(1)) * factor


class Reducer:
    """The buckets of a module's parameters.

    Args:
        parameters: Those that require gradients.
        group: The group whose ranks average their gradients.
        bucket_bytes: The size at which a bucket is full.
        finds_unused: Some parameters may have no gradient on some ranks.
        is_static: These are the same ones in every backward.
        sparse: Addresses (`id`) of the parameters whose gradients are sparse.

    Attributes:
        n_finished: How many backwards had their gradients reduced.
        static_used: With *is_static*, the parameters that the first forward has used; None before.
    """

    def __init__(
        self,
        parameters: list[Parameter],
        group: Any,
        bucket_bytes: int,
        finds_unused: bool,
        is_static: bool,
        sparse: set[int],
    ) -> None:
        self._group = group
        self._finds_unused = finds_unused
        self._is_static = is_static
        self.static_used: set[int] | None = None
        self._static_unused: set[int] | None = None
        self._expects = False
        self._finished_in = 0  # the number of the backward whose gradients were reduced last
        self.n_finished = 0  # backwards whose gradients were reduced
        self._hook: tuple[Callable[..., Any], Any] | None = None
        self.divisor: int = group.size()  # of the sums of gradients
        self.buckets = _in_buckets(parameters, bucket_bytes, sparse)
        self.buckets[-1]._is_last = True
        self._place: dict[int, tuple[int, int]] = {}
        self._handles: list[Any] = []
        on_gradient = _hook_of(weakref.ref(self))
        for b, bucket in enumerate(self.buckets):
            for i, parameter in enumerate(bucket._parameters):
                self._place[id(parameter)] = (b, i)
                hook = parameter.register_post_accumulate_grad_hook
                self._handles.append(hook(on_gradient))
        self._used: set[int] = set()
        self._ready: set[int] = set()
        self._next_bucket = 0
        self._was_begun = False
        self.reset()

    def __del__(self) -> None:
        for handle in self._handles:
            handle.remove()

    def reset(self) -> None:
        """Begin anew: no gradient is there, and none is expected."""
        self._expects = False
        self._used = set(self._place)
        self._ready = set()
        self._next_bucket = 0
        self._was_begun = False
        for bucket in self.buckets:
            bucket._missing = len(bucket._parameters)
            bucket._work = None

    def expect(self, used: set[int] | None) -> None:
        """Before a backward: expect the gradients of these parameters; None: of all.

        Raises:
            RuntimeError: The backward before did not reach some parameters.
        """
        if self._was_begun and self._ready:
            self._raise_unfinished()
        self.reset()
        self._expects = True
        if used is not None:
            self._used &= used

    def prepare_for_backward(self, outputs: list[Tensor]) -> None:
        """Before a backward from *outputs*: expect the gradients of what they depend on.

        Args:
            outputs: None of them: the gradients of all parameters are expected.

        Raises:
            RuntimeError: The backward before did not reach some parameters.
        """
        self.expect(used_parameters(outputs) if outputs else None)

    def _rebuild_buckets(self) -> bool:
        """Return whether the buckets are others from now on: they never are.

        Source:
            torch.distributed.Reducer._rebuild_buckets.
        """
        return False

    def _raise_unfinished(self) -> None:
        missing = [
            str(tuple(p.shape))
            for bucket in self.buckets
            for p in bucket._parameters
            if id(p) not in self._ready
        ]
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. "
            "This error indicates that your module has parameters that were not used in producing "
            "loss. You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`. "
            f"{len(missing)} parameters had no gradient, of the shapes {', '.join(missing[:8])}"
        )

    def set_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Let ``hook(state, bucket)`` reduce buckets; it returns a future of the buffer."""
        if self._hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self._hook = (hook, state)

    # --- in backward --------------------------------------------------------------------------

    def _on_gradient(self, parameter: Tensor) -> None:
        """A parameter has its gradient."""
        if not self._expects:
            if self._finished_in and self._finished_in == _C._backward_outermost_number():
                self._raise_ready_twice(parameter, known=True)
            return
        if not self._was_begun:
            self._was_begun = True
            for key in set(self._place) - self._used:
                self._mark_ready(key)
        key = id(parameter)
        if key in self._ready:
            self._raise_ready_twice(parameter, known=key in self._used)
        self._used.add(key)
        self._mark_ready(key)
        while self._next_bucket < len(self.buckets):
            bucket = self.buckets[self._next_bucket]
            if bucket._missing > 0:
                return
            self._begin(bucket)
            self._next_bucket += 1
        self._finish()

    def _raise_ready_twice(self, parameter: Tensor, *, known: bool) -> None:
        raise RuntimeError(
            "Expected to mark a variable ready only once, but a parameter of the shape "
            f"{tuple(parameter.shape)} has got "
            + ("another gradient. " if known else "a gradient, though the outputs did not use it. ")
            + "One backward may follow each forward, and a parameter may be in no more than one "
            "checkpoint with use_reentrant=True."
        )

    def _mark_ready(self, key: int) -> None:
        self._ready.add(key)
        b, i = self._place[key]
        bucket = self.buckets[b]
        bucket._put(i, 1.0 / self.divisor if self._hook is None else 1.0)
        bucket._missing -= 1

    def _begin(self, bucket: GradBucket) -> None:
        if self._hook is None:
            bucket._work = distributed().all_reduce(bucket._flat, group=self._group, async_op=True)
        else:
            hook, state = self._hook
            bucket._work = hook(state, bucket)

    def _finish(self) -> None:
        unused = self._unused_everywhere() if self._finds_unused or self._is_static else set()
        for bucket in self.buckets:
            if self._hook is None:
                bucket._work.wait()
            else:
                result = bucket._work.wait()
                bucket._take(result[0] if isinstance(result, list | tuple) else result)
            for parameter, reduced in zip(bucket._parameters, bucket.gradients(), strict=True):
                if id(parameter) in unused:
                    continue
                if parameter.grad is None or reduced.is_sparse:
                    parameter.grad = reduced.clone()
                else:
                    parameter.grad.detach().copy_(reduced)
        self.reset()
        self.n_finished += 1
        self._finished_in = _C._backward_outermost_number()

    def shadow(self) -> None:
        """Take part in the reductions of a backward on other ranks, with gradients of 0."""
        self.reset()
        self._used = set()
        for bucket in self.buckets:
            for parameter in bucket._parameters:
                parameter.grad = None
            bucket._clear()
            self._begin(bucket)
        self._finish()

    def _unused_everywhere(self) -> set[int]:
        """Return the parameters that no rank has used; their gradients stay as they are."""
        if self._static_unused is not None:
            return self._static_unused
        groups = distributed()
        keys = list(self._place)
        mask: Tensor = _C.tensor([int(key in self._used) for key in keys], dtype=_C.int32)
        groups.all_reduce(mask, groups.ReduceOp.MAX, group=self._group)
        unused = {key for key, used in zip(keys, mask.tolist(), strict=True) if not used}
        if self._is_static:
            self._static_unused = unused
        return unused


def _hook_of(reference: weakref.ref[Reducer]) -> Callable[[Tensor], None]:
    """The hook of the parameters, which keeps no reducer alive."""

    def hook(parameter: Tensor) -> None:
        reducer = reference()
        if reducer is not None:
            reducer._on_gradient(parameter)

    return hook


def _in_buckets(
    parameters: list[Parameter], bucket_bytes: int, sparse: set[int]
) -> list[GradBucket]:
    buckets: list[GradBucket] = []
    current: list[Parameter] = []
    nbytes = 0

    def close() -> None:
        nonlocal current, nbytes
        if current:
            buckets.append(GradBucket(len(buckets), current))
        current, nbytes = [], 0

    for parameter in reversed(parameters):
        if id(parameter) in sparse:
            close()
            buckets.append(_SparseBucket(len(buckets), [parameter]))
            continue
        size = parameter.numel() * parameter.element_size()
        limit = min(bucket_bytes, _FIRST_BUCKET_BYTES) if not buckets else bucket_bytes
        if current and (nbytes + size > limit or current[0].dtype != parameter.dtype):
            close()
        current.append(parameter)
        nbytes += size
    close()
    return buckets
