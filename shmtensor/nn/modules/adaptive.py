"""Softmax over many classes, if only a few are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.modules.container import ModuleList, Sequential
from shmtensor.nn.modules.linear import Linear
from shmtensor.nn.modules.module import Module


class _Result(NamedTuple):
    """What ``AdaptiveLogSoftmaxWithLoss`` gives back."""

    output: Tensor
    loss: Tensor


def _check_cutoffs(cutoffs: list[Any], n_classes: int) -> None:
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    if (
        any(int(c) != c for c in cutoffs)
        or cutoffs != sorted(set(cutoffs))
        or cutoffs[0] <= 0
        or cutoffs[-1] > n_classes - 1
    ):
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
            f"order, where each value is between 1 and n_classes-1, got {cutoffs} for {n_classes} "
            "classes"
        )


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax over classes sorted by falling frequency, cheaper for rare ones.

    The head has a score for each frequent class and one for each cluster of others; a cluster
    has its own, smaller projection.

    Args:
        in_features: Size of the inputs.
        n_classes: Number of classes.
        cutoffs: Where clusters begin, ascending; the frequent classes are below the first.
        div_value: By what the size of projections falls from cluster to cluster.
        head_bias: Whether the head has a bias.
        device: Where the parameters are.
        dtype: Their type.

    Raises:
        ValueError: *cutoffs* is empty or not ascending inside [1, n_classes - 1].

    Source:
        Grave et al., "Efficient softmax approximation for GPUs", 2017.
    """

    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        given = list(cutoffs)
        _check_cutoffs(given, n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*given, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, False, device, dtype),
                    Linear(hidden, classes, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights again."""
        self.head.reset_parameters()
        for project in self.tail:
            for part in project.children():
                if isinstance(part, Linear):
                    part.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _Result:
        """``(N, in_features)`` and class numbers ``(N,)``, or both without N.

        Returns:
            ``output``, the log-probability of each target, ``(N,)``, and ``loss``, the mean of
            the negated ones.

        Raises:
            RuntimeError: Shapes that do not fit together, or a target outside [0, n_classes).
        """
        input, target = self._batched(input_, target_)
        output = input.new_zeros(target.size(0))
        at_head = shmtensor.empty_like(target)
        used = 0
        for i, (low, high) in enumerate(zip([0, *self.cutoffs], self.cutoffs, strict=False)):
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().squeeze(1)
            used += rows.numel()
            if rows.numel() == 0:
                continue
            if i == 0:
                at_head.index_copy_(0, rows, target[inside])
                continue
            at_head.index_fill_(0, rows, self.shortlist_size + i - 1)
            scores = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), 1)
            own = scores.gather(1, (target[inside] - low).unsqueeze(1)).squeeze(1)
            output.index_copy_(0, rows, own)
        if used != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), 1)
        output = output + head.gather(1, at_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _Result(output if target_.dim() == 1 else output.squeeze(0), loss)

    def _batched(self, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        if target.dim() not in (0, 1):
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.dim() != target.dim() + 1:
            raise RuntimeError(
                f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but "
                f"found inputs with size {input.size()}"
            )
        if target.dim() == 0:
            return input.unsqueeze(0), target.unsqueeze(0)
        if input.size(0) != target.size(0):
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension, but got "
                f"{input.size(0)} and {target.size(0)}."
            )
        return input, target

    def log_prob(self, input: Tensor) -> Tensor:
        """``(N, in_features)`` to the log-probabilities of all classes, ``(N, n_classes)``."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, project in enumerate(self.tail):
            cluster = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(F.log_softmax(project(input), 1) + cluster)
        return shmtensor.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """``(N, in_features)`` to the most probable class of each, ``(N,)``.

        Clusters are calculated only for the inputs whose head points at one.
        """
        best: Tensor = self.head(input).argmax(1)
        hidden = best >= self.shortlist_size
        if not bool(hidden.any()):
            return best
        best[hidden] = self.log_prob(input[hidden]).argmax(1)
        return best
