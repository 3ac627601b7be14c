"""Types of what daily calls on tensors return."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import assert_type

import shmtensor as torch
from shmtensor import Tensor


def results(x: Tensor) -> None:
    assert_type(torch.zeros(3) + 1, Tensor)
    assert_type(1 - x, Tensor)
    assert_type(x == 1, Tensor)
    assert_type(x @ x.T, Tensor)
    assert_type(-x, Tensor)
    assert_type(x[0], Tensor)
    assert_type(x[..., None, 1:], Tensor)
    assert_type(x.max(), Tensor)
    assert_type(torch.max(x, 0).values, Tensor)
    values, places = torch.max(x, 0)
    assert_type(values, Tensor)
    assert_type(places, Tensor)
    largest: torch.return_types.topk = torch.topk(x, 2)
    assert_type(largest.indices, Tensor)
    assert_type(x.sort(descending=True).values, Tensor)
    assert_type(torch.linalg.svd(x).Vh, Tensor)
    assert_type(x.split(1), tuple[Tensor, ...])
    assert_type(torch.where(x > 0, x, 0.0), Tensor)
    assert_type(x.unique(), Tensor)
    assert_type(torch.stack([x, x]), Tensor)
    assert_type(torch.einsum("ij,kj->ik", x, x), Tensor)
    assert_type(x.sum(axis=0, keepdims=True), Tensor)
    assert_type(torch.add(x, x, alpha=2, out=None), Tensor)


def facts(x: Tensor) -> None:
    assert_type(x.shape, torch.Size)
    assert_type(x.size(0), int)
    assert_type(x.size(), torch.Size)
    assert_type(x.shape.numel(), int)
    assert_type(x.stride(), tuple[int, ...])
    assert_type(x.dtype, torch.dtype)
    assert_type(x.dtype.itemsize, int)
    assert_type(x.device, torch.device)
    assert_type(x.device.index, int | None)
    assert_type(x.numel(), int)
    assert_type(x.dim(), int)
    assert_type(x.requires_grad, bool)
    assert_type(x.grad, Tensor | None)
    assert_type(x.is_contiguous(), bool)
    assert_type(torch.equal(x, x), bool)
    assert_type(torch.finfo(torch.float32).eps, float)
    assert_type(torch.get_default_dtype(), torch.dtype)
    assert_type(len(x), int)
    assert_type(float(x.sum()), float)
    number: float = x.sum().item()
    assert number == number
    assert_type(x.numpy(), np.ndarray[Any, Any])
    assert_type(torch.from_numpy(np.ones(3)), Tensor)


def main() -> None:
    x = torch.arange(4.0).reshape(2, 2)
    results(x)
    facts(x)


if __name__ == "__main__":
    main()
