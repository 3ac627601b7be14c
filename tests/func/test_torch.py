"""torch.func, where torch is installed: the same programs give the same results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st

torch = pytest.importorskip("torch")


def _filled(lib: Any, module: Any) -> Any:
    """The module with the same parameters in both libraries."""
    with lib.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(((lib.arange(p.numel()) * (i + 3) * 0.37).sin() * 0.3).reshape(p.shape))
    return module


def _x(lib: Any) -> Any:
    return lib.arange(12, dtype=lib.float64).reshape(3, 4) / 7


def _w(lib: Any) -> Any:
    return (lib.arange(8, dtype=lib.float64).reshape(4, 2) / 5).sin()


def _for_each_sample(lib: Any, make: Callable[[Any], Any], x: Any) -> Any:
    net = _filled(lib, make(lib.nn).double())
    params = {name: p.detach() for name, p in net.named_parameters()}

    def loss(p: Any, a: Any) -> Any:
        out = lib.func.functional_call(net, p, (a.unsqueeze(0),))
        out = out[0] if isinstance(out, tuple) else out
        return (out.sin() * out).sum()

    return lib.vmap(lib.func.grad(loss), in_dims=(None, 0))(params, x)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "jacrev": lambda t: t.func.jacrev(lambda a: (a.sin() @ _w(t)).cos())(_x(t)[0]),
    "jacfwd": lambda t: t.func.jacfwd(lambda a: (a.sin() @ _w(t)).cos())(_x(t)[0]),
    "vmap of jacrev": lambda t: t.vmap(t.func.jacrev(lambda a: (a @ _w(t)).tanh()))(_x(t)),
    "vmap of hessian": lambda t: t.vmap(t.func.hessian(lambda a: (a @ _w(t)).tanh().prod()))(_x(t)),
    "jacrev of trees": lambda t: t.func.jacrev(lambda d: {"p": d["a"] * d["b"], "s": d["a"].sum()})(
        {"a": _x(t)[0], "b": _x(t)[1]}
    ),
    "jvp": lambda t: t.func.jvp(lambda a: a.softmax(-1), (_x(t),), (_x(t).cos(),)),
    "vjp": lambda t: t.func.vjp(lambda a: a.softmax(-1), _x(t))[1](_x(t).cos()),
    "linearize": lambda t: t.func.linearize(lambda a: a.logsumexp(-1), _x(t))[1](_x(t).cos()),
    "jvp of grad": lambda t: t.func.jvp(
        t.func.grad(lambda a: (a @ _w(t)).sin().sum()), (_x(t),), (_x(t).cos(),)
    ),
    "grad and value": lambda t: t.func.grad_and_value(
        lambda a, b: ((a * b).sum(), a + b), argnums=(0, 1), has_aux=True
    )(_x(t), _x(t).cos()),
    "out_dims": lambda t: t.vmap(lambda a: (a.cumsum(0), a.sum()), out_dims=(1, 0))(_x(t)),
    "topk": lambda t: t.vmap(lambda a: tuple(a.topk(2)))(_x(t)),
    "einsum": lambda t: t.vmap(lambda a: t.einsum("i,ij->j", a, _w(t)))(_x(t)),
    "linalg": lambda t: t.vmap(
        lambda a: t.linalg.solve(a.outer(a) + 2 * t.eye(4, dtype=t.float64), a)
    )(_x(t)),
    "det": lambda t: t.vmap(
        t.func.grad(lambda a: t.linalg.slogdet(a.outer(a) + 2 * t.eye(4, dtype=t.float64))[1])
    )(_x(t)),
    "indexing": lambda t: t.vmap(lambda a, i: a[i] * a[..., 1:3][i % 2])(
        _x(t), t.tensor([[0, 1], [2, 3], [3, 3]])
    ),
    "grad of indexing": lambda t: t.vmap(t.func.grad(lambda a, i: (a[i] ** 2).sum()))(
        _x(t), t.tensor([[0, 1], [2, 3], [3, 3]])
    ),
    "closure": lambda t: t.func.grad(
        lambda y: t.vmap(t.func.grad(lambda a: (a * y).sin().sum()))(_x(t)).sum()
    )(t.tensor(2.0, dtype=t.float64)),
    "cross_entropy": lambda t: t.vmap(
        t.func.grad(lambda a, i: t.nn.functional.cross_entropy(a[None], i[None]))
    )(_x(t), t.tensor([0, 3, 1])),
    "conv": lambda t: _for_each_sample(
        t,
        lambda nn: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, groups=1),
            nn.GroupNorm(2, 4),
            nn.GELU(),
            nn.AvgPool2d(2),
            nn.ConvTranspose2d(4, 2, 2, stride=2),
            nn.Flatten(),
            nn.Linear(32, 3),
        ),
        (t.arange(5 * 16, dtype=t.float64).reshape(5, 1, 4, 4) * 0.3).sin(),
    ),
    "transformer": lambda t: _for_each_sample(
        t,
        lambda nn: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        _x(t).reshape(3, 1, 4).repeat(1, 2, 1),
    ),
}


def _same(got: Any, want: Any) -> None:
    if isinstance(want, torch.Tensor):
        assert tuple(got.shape) == tuple(want.shape)
        assert got.requires_grad == want.requires_grad
        assert str(got.dtype) == str(want.dtype)
        torch.testing.assert_close(torch.tensor(got.detach().tolist(), dtype=want.dtype), want)
    elif isinstance(want, dict):
        assert got.keys() == want.keys()
        for key in want:
            _same(got[key], want[key])
    else:
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            _same(a, b)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_torchs_results(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of missing rules and of its compiler
        want = PROGRAMS[name](torch)
    _same(PROGRAMS[name](st), want)


@pytest.mark.check
def test_all_names_are_there() -> None:
    missing = set(torch.func.__all__) - set(st.func.__all__)
    assert missing <= {"rearrange"}
