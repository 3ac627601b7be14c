"""Derivatives against known ones, and a model that is trained to a known end."""

from __future__ import annotations

import math
import threading

import shmtensor as T
from shmtensor.testing._selftest.section import Trial, close, same

__all__ = ["CHECKS"]


def _backward() -> str:
    x = T.linspace(-1, 1, 101, dtype=T.float64, requires_grad=True)
    points = x.tolist()
    (first,) = T.autograd.grad(T.sin(x).sum(), x, create_graph=True)
    close("derivative of sin", first.detach(), [math.cos(p) for p in points], 1e-14)
    (second,) = T.autograd.grad(first.sum(), x)
    close("second derivative", second, [-math.sin(p) for p in points], 1e-14)
    w = T.ones(2, 2, requires_grad=True)
    (T.tensor([[1.0, 2.0]]) @ w).sum().backward()
    assert w.grad is not None
    same("derivative of a product", w.grad.tolist(), [[1.0, 1.0], [2.0, 2.0]])
    return "first and second order"


def _differences() -> str:
    T.manual_seed(1)
    layers = T.nn.Sequential(T.nn.Linear(3, 4), T.nn.Tanh(), T.nn.Linear(4, 2)).double()
    x = T.randn(2, 3, dtype=T.float64, requires_grad=True)
    same("gradcheck", T.autograd.gradcheck(layers, (x,)), True)
    image = T.randn(1, 2, 4, 4, dtype=T.float64, requires_grad=True)
    kernel = T.randn(2, 2, 3, 3, dtype=T.float64, requires_grad=True)
    same("convolution", T.autograd.gradcheck(T.nn.functional.conv2d, (image, kernel)), True)
    return "equal finite differences"


def _forward() -> str:
    x = T.tensor([0.5], dtype=T.float64)
    value, tangent = T.func.jvp(T.exp, (x,), (T.ones_like(x),))
    close("jvp of exp", tangent, value.item(), 1e-14)
    hessian = T.func.hessian(lambda v: (v**3).sum())(T.tensor([1.0, 2.0]))
    same("hessian", hessian.tolist(), [[6.0, 0.0], [0.0, 12.0]])
    rows = T.func.vmap(T.dot)(T.ones(3, 4), T.ones(3, 4))
    same("vmap", rows.tolist(), [4.0, 4.0, 4.0])
    return "jvp, hessian, vmap"


def _threads() -> str:
    shared = T.ones(1000, dtype=T.float64, requires_grad=True)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                (shared * shared).sum().backward()
        except BaseException as error:  # handed to the thread that checks
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    assert shared.grad is not None
    close("sum of all gradients", shared.grad, 2.0 * 20 * 4, 0.0)
    return "4 threads add up one gradient"


def _training() -> str:
    T.manual_seed(0)
    x = T.randn(256, 2)
    y = x @ T.tensor([[2.0], [-3.0]]) + 0.5
    model = T.nn.Linear(2, 1)
    for optimizer, steps in (
        (T.optim.Adam(model.parameters(), lr=0.05), 60),
        (T.optim.SGD(model.parameters(), lr=0.3), 60),
    ):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = T.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    close("weights", model.weight.detach(), [2.0, -3.0], 1e-3)
    assert model.bias is not None
    close("bias", model.bias.detach(), 0.5, 1e-3)
    return f"a linear model, loss {T.nn.functional.mse_loss(model(x), y).item():.1e}"


CHECKS = [
    Trial("backward", _backward),
    Trial("finite differences", _differences),
    Trial("function transforms", _forward),
    Trial("threads", _threads),
    Trial("training", _training),
]
