"""The published update rules, restated in NumPy: one function a step, on one array.

Each takes the parameter, the gradient, a dictionary that it remembers things in, the number of
the step from 1, and the options; it gives the new parameter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def _l2(p: Array, g: Array, o: dict[str, Any]) -> Array:
    g = -g if o.get("maximize") else g
    return g + o.get("weight_decay", 0) * p


def sgd(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    g = _l2(p, g, o)
    mu = o.get("momentum", 0)
    if not mu:
        return p - o["lr"] * g
    m["v"] = g if t == 1 else mu * m["v"] + (1 - o.get("dampening", 0)) * g
    return p - o["lr"] * (g + mu * m["v"] if o.get("nesterov") else m["v"])


def adam(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    b1, b2 = o.get("betas", (0.9, 0.999))
    decoupled = o.get("decoupled_weight_decay", False)
    decay = o.get("weight_decay", 0)
    g = _l2(p, g, {**o, "weight_decay": 0 if decoupled else decay})
    if decoupled:
        p = p - o["lr"] * decay * p
    m["m"] = b1 * m.get("m", 0) + (1 - b1) * g
    m["v"] = b2 * m.get("v", 0) + (1 - b2) * g**2
    m["most"] = np.maximum(m.get("most", 0), m["v"])
    v = m["most"] if o.get("amsgrad") else m["v"]
    return p - o["lr"] * (m["m"] / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + o.get("eps", 1e-8))


def adamw(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    return adam(p, g, m, t, **{"weight_decay": 0.01, **o}, decoupled_weight_decay=True)


def nadam(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    b1, b2 = o.get("betas", (0.9, 0.999))
    decay = o.get("weight_decay", 0)
    decoupled = o.get("decoupled_weight_decay", False)
    g = _l2(p, g, {**o, "weight_decay": 0 if decoupled else decay})
    if decoupled:
        p = p - o["lr"] * decay * p
    psi = o.get("momentum_decay", 4e-3)
    now, ahead = (b1 * (1 - 0.5 * 0.96 ** (k * psi)) for k in (t, t + 1))
    m["product"] = m.get("product", 1.0) * now
    m["m"] = b1 * m.get("m", 0) + (1 - b1) * g
    m["v"] = b2 * m.get("v", 0) + (1 - b2) * g**2
    moved = ahead * m["m"] / (1 - m["product"] * ahead) + (1 - now) * g / (1 - m["product"])
    return p - o["lr"] * moved / (np.sqrt(m["v"] / (1 - b2**t)) + o.get("eps", 1e-8))


def radam(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    b1, b2 = o.get("betas", (0.9, 0.999))
    decay = o.get("weight_decay", 0)
    decoupled = o.get("decoupled_weight_decay", False)
    g = _l2(p, g, {**o, "weight_decay": 0 if decoupled else decay})
    if decoupled:
        p = p - o["lr"] * decay * p
    m["m"] = b1 * m.get("m", 0) + (1 - b1) * g
    m["v"] = b2 * m.get("v", 0) + (1 - b2) * g**2
    moved = m["m"] / (1 - b1**t)
    most = 2 / (1 - b2) - 1
    length = most - 2 * t * b2**t / (1 - b2**t)
    if length > 5:
        factor = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
        root = np.sqrt(m["v"]) + o.get("eps", 1e-8)
        moved = moved * np.sqrt(factor) * np.sqrt(1 - b2**t) / root
    return p - o["lr"] * moved


def adamax(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    b1, b2 = o.get("betas", (0.9, 0.999))
    g = _l2(p, g, o)
    m["m"] = b1 * m.get("m", 0) + (1 - b1) * g
    m["u"] = np.maximum(b2 * m.get("u", 0), np.abs(g) + o.get("eps", 1e-8))
    return p - o["lr"] / (1 - b1**t) * m["m"] / m["u"]


def adagrad(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    g = _l2(p, g, o)
    m["sum"] = m.get("sum", o.get("initial_accumulator_value", 0)) + g**2
    size = o["lr"] / (1 + (t - 1) * o.get("lr_decay", 0))
    return p - size * g / (np.sqrt(m["sum"]) + o.get("eps", 1e-10))


def adadelta(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    rho, eps = o.get("rho", 0.9), o.get("eps", 1e-6)
    g = _l2(p, g, o)
    m["v"] = rho * m.get("v", 0) + (1 - rho) * g**2
    moved = np.sqrt(m.get("u", 0) + eps) / np.sqrt(m["v"] + eps) * g
    m["u"] = rho * m.get("u", 0) + (1 - rho) * moved**2
    return p - o["lr"] * moved


def rmsprop(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    alpha, mu = o.get("alpha", 0.99), o.get("momentum", 0)
    g = _l2(p, g, o)
    m["v"] = alpha * m.get("v", 0) + (1 - alpha) * g**2
    v = m["v"]
    if o.get("centered"):
        m["mean"] = alpha * m.get("mean", 0) + (1 - alpha) * g
        v = v - m["mean"] ** 2
    m["b"] = mu * m.get("b", 0) + g / (np.sqrt(v) + o.get("eps", 1e-8))
    return p - o["lr"] * m["b"]


def rprop(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    shrink, grow = o.get("etas", (0.5, 1.2))
    low, high = o.get("step_sizes", (1e-6, 50))
    g = -g if o.get("maximize") else np.array(g)
    same = g * m.get("last", np.zeros_like(g))
    size = m.get("size", np.full_like(g, o["lr"]))
    size = np.clip(size * np.where(same > 0, grow, np.where(same < 0, shrink, 1.0)), low, high)
    g = np.where(same < 0, 0.0, g)
    m["last"], m["size"] = g, size
    return p - size * np.sign(g)


def asgd(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    lambd = o.get("lambd", 1e-4)
    # Sizes and weights are kept as float32.
    size = np.float64(np.float32(m.get("size", o["lr"])))
    weight = np.float64(np.float32(m.get("weight", 1.0)))
    g = _l2(p, g, o)
    p = p * (1 - lambd * size) - size * g
    m["average"] = p if weight == 1 else m["average"] + weight * (p - m["average"])
    m["size"] = o["lr"] / (1 + lambd * o["lr"] * t) ** o.get("alpha", 0.75)
    m["weight"] = 1 / max(1, t - o.get("t0", 1e6))
    return p


def adafactor(p: Array, g: Array, m: dict[str, Any], t: int, **o: Any) -> Array:
    e1, e2 = o.get("eps", (None, 1e-3))
    e1 = np.finfo(p.dtype).eps if e1 is None else e1
    g = -g if o.get("maximize") else g
    k = t ** o.get("beta2_decay", -0.8)
    size = max(e2, np.sqrt(np.mean(p**2))) * min(o["lr"], 1 / np.sqrt(t))
    p = p * (1 - o["lr"] * o.get("weight_decay", 0))
    if g.ndim > 1:
        m["r"] = (1 - k) * m.get("r", 0) + k * np.mean(g**2, -1, keepdims=True)
        m["c"] = (1 - k) * m.get("c", 0) + k * np.mean(g**2, -2, keepdims=True)
        v = m["r"] @ m["c"] / np.maximum(np.mean(m["r"], -2, keepdims=True), e1)
    else:
        m["v"] = v = (1 - k) * m.get("v", 0) + k * g**2
    u = g / np.maximum(np.sqrt(v), e1)
    return p - size * u / max(1.0, np.sqrt(np.mean(u**2)) / o.get("d", 1.0))
