"""Selective checkpoints: what is kept is not computed again, and gradients are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor._boundary.autograd import live_nodes
from shmtensor.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

aten = st.ops.aten
SAVE, AGAIN = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE


def source() -> st.Tensor:
    return st.arange(4.0).reshape(2, 2).requires_grad_()


def block(x: st.Tensor) -> st.Tensor:
    return st.mm(x, x).sin().exp()


class Counts:
    """A mode below autograd that counts operators."""

    def __init__(self) -> None:
        self.n: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        self.n[name] = self.n.get(name, 0) + 1
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Counts:
        st._C._push_dispatch_mode_below_autograd(self)
        return self

    def __exit__(self, *exc: object) -> None:
        st._C._pop_dispatch_mode_below_autograd()


def run(
    policy: Any, function: Callable[..., Any] = block, **options: Any
) -> tuple[Any, dict[str, int]]:
    """The gradient, and what the repeated run computed."""
    x = source()

    def contexts() -> Any:
        return create_selective_checkpoint_contexts(policy, **options)

    y = checkpoint(function, x, use_reentrant=False, context_fn=contexts)
    with Counts() as counts:
        y.sum().backward()
    return x.grad, counts.n


def plain(function: Callable[..., Any] = block) -> Any:
    x = source()
    function(x).sum().backward()
    return x.grad


def forward_calls(counts: dict[str, int], name: str) -> int:
    return counts.get(f"aten.{name}.default", 0)


@pytest.mark.check
def test_kept_results_are_not_computed_again() -> None:
    gradient, counts = run([aten.mm.default])
    assert gradient.equal(plain())
    # The two products of backward, and none of the repeated run.
    assert forward_calls(counts, "mm") == 2
    assert forward_calls(counts, "sin") == 1

    gradient, counts = run([aten.sin.default, aten.exp.default])
    assert gradient.equal(plain())
    assert forward_calls(counts, "mm") == 3
    assert forward_calls(counts, "sin") == 0


def test_policy_is_asked_about_each_operator() -> None:
    seen: list[Any] = []

    def policy(context: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((str(op), context.is_recompute, tuple(context.op_output.shape), len(args)))
        return SAVE if op is aten.mm.default else AGAIN

    gradient, _ = run(policy)
    assert gradient.equal(plain())
    assert seen == [
        ("aten.mm.default", False, (2, 2), 2),
        ("aten.sin.default", False, (2, 2), 1),
        ("aten.exp.default", False, (2, 2), 1),
    ]


@pytest.mark.parametrize("answer", [True, False, *CheckpointPolicy])
def test_every_answer_gives_the_same_gradient(answer: Any) -> None:
    gradient, _ = run(lambda context, op, *args, **kwargs: answer)
    assert gradient.equal(plain())


def test_composites_are_taken_apart() -> None:
    gradient, counts = run([aten.mm.default], lambda x: (x @ x).relu())
    assert gradient.equal(plain(lambda x: (x @ x).relu()))
    assert forward_calls(counts, "mm") == 2


def test_random_numbers_that_are_kept() -> None:
    drawn: list[Any] = []

    def noisy(x: st.Tensor) -> st.Tensor:
        noise = st.rand_like(x)
        drawn.append(noise.clone())
        return (x * noise).sin()

    gradient, _ = run(lambda context, op, *args, **kwargs: SAVE, noisy)
    first, again = drawn
    assert first.equal(again)
    assert gradient.allclose((source() * first).cos() * first)


def test_kept_results_must_not_change() -> None:
    def changes(x: st.Tensor) -> st.Tensor:
        y = x.sin()
        z = y.exp()
        y.add_(1)
        return z

    with pytest.raises(RuntimeError, match="activation checkpoint has been mutated"):
        run(lambda *a, **k: SAVE, changes)
    gradient, _ = run(lambda *a, **k: SAVE, changes, allow_cache_entry_mutation=True)
    assert gradient.isfinite().all()


@pytest.mark.check
def test_what_writes_is_done_again() -> None:
    def changes(x: st.Tensor) -> st.Tensor:
        y = x.sin()
        y.mul_(3)
        return y.exp()

    gradient, _ = run([aten.mul_.Tensor, aten.mul_.Scalar, aten.exp.default], changes)
    assert gradient.allclose(plain(changes))


def test_graph_that_is_never_run_keeps_nothing() -> None:
    x = source()

    def contexts() -> Any:
        return create_selective_checkpoint_contexts(lambda *a, **k: SAVE)

    before = live_nodes()
    y = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
    assert live_nodes() > before
    del y
    assert live_nodes() == before


def test_kept_results_are_there_once() -> None:
    x = source()

    def contexts() -> Any:
        return create_selective_checkpoint_contexts([aten.mm.default])

    y = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="You are only allowed to backward once"):
        y.sum().backward()


def test_another_function_the_second_time() -> None:
    calls = [0]

    def changes(x: st.Tensor) -> st.Tensor:
        calls[0] += 1
        return (x if calls[0] == 1 else -x).sin().exp()

    with pytest.raises(RuntimeError, match=r"aten.neg.default was called 1 times"):
        run([aten.mm.default], changes)


def test_refused_policies() -> None:
    with pytest.raises(TypeError, match="must be either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="to be an OpOverload but got: 3"):
        create_selective_checkpoint_contexts([3])
    with pytest.raises(ValueError, match=r"change it to `torch.ops.aten.mm.default`"):
        create_selective_checkpoint_contexts([aten.mm])


def test_modes_below_autograd_see_what_is_recorded() -> None:
    x = source()
    with Counts() as counts:
        y = st.nn.functional.linear(x, x).relu()
        assert y.grad_fn is not None
    assert "aten.linear.default" not in counts.n
    assert counts.n["aten.relu.default"] == 1
    y.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("saved", ["mm", "sin", "exp"])
def test_gradients_are_torchs(saved: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils import checkpoint as theirs

    x = torch.arange(4.0).reshape(2, 2).requires_grad_()

    def contexts() -> Any:
        operator = getattr(torch.ops.aten, saved).default
        return theirs.create_selective_checkpoint_contexts([operator])

    y = theirs.checkpoint(
        lambda x: torch.mm(x, x).sin().exp(), x, use_reentrant=False, context_fn=contexts
    )
    y.sum().backward()
    gradient, _ = run([getattr(aten, saved).default])
    assert st.tensor(x.grad.tolist()).allclose(gradient)
