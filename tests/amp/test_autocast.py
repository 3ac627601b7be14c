"""Blocks of autocast: nesting, state, the cache of weights, decorators, custom functions."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T
from shmtensor import nn
from shmtensor.amp import custom_bwd, custom_fwd

EXPRESSIONS = """
m.autocast('cpu').fast_dtype
m.autocast('cpu', dtype=m.float32)._enabled
m.autocast('cpu', dtype=m.float16)._enabled
m.autocast('foo')
m.autocast(3)
m.autocast()
m.autocast('cuda')._enabled
m.autocast('xpu')._enabled
m.autocast('mps', dtype=m.float32)._enabled
m.autocast('meta')
m.autocast('cpu').device
{d: str(m.get_autocast_dtype(d)) for d in 'cpu cuda xpu mps mtia hpu xla ipu maia'.split()}
m.get_autocast_dtype('meta')
m.is_autocast_enabled()
m.is_autocast_enabled('cpu')
m.is_autocast_enabled('meta')
m.is_autocast_cpu_enabled()
m.is_autocast_enabled(3)
m.is_autocast_cache_enabled()
m.get_autocast_cpu_dtype()
m.get_autocast_gpu_dtype()
m.set_autocast_cpu_dtype(m.float16)
m.get_autocast_dtype('cpu')
m.set_autocast_dtype('cpu', m.bfloat16)
m.set_autocast_enabled(True)
m.is_autocast_enabled()
m.set_autocast_enabled('cuda', False)
m.is_autocast_enabled('cuda')
m.set_autocast_enabled('cpu', 3)
m.autocast_increment_nesting()
m.autocast_decrement_nesting()
m.clear_autocast_cache()
[m.amp.is_autocast_available(d) for d in ('cpu', 'cuda', 'mps', 'meta')]
m.amp.is_autocast_available('foo')
m.cpu.amp.autocast().fast_dtype
m.cuda.amp.autocast()._enabled
m.amp.custom_fwd(device_type=3)
m.amp.custom_bwd(device_type=3)
"""


@pytest.mark.check
def test_outcomes_are_torch_s() -> None:
    assert differences(EXPRESSIONS) == []


def test_blocks_nest_and_end_as_they_began() -> None:
    assert not T.is_autocast_enabled("cpu")
    with T.autocast("cpu", dtype=T.float16, cache_enabled=False):
        assert T.get_autocast_dtype("cpu") is T.float16
        assert T.is_autocast_enabled("cpu")
        assert not T.is_autocast_cache_enabled()
        with T.autocast("cpu", enabled=False):
            assert (T.ones(2, 2) @ T.ones(2, 2)).dtype is T.float32
            with T.autocast("cpu", dtype=T.bfloat16):
                assert (T.ones(2, 2) @ T.ones(2, 2)).dtype is T.bfloat16
        assert (T.ones(2, 2) @ T.ones(2, 2)).dtype is T.float16
    assert T.get_autocast_dtype("cpu") is T.bfloat16
    assert T.is_autocast_cache_enabled()
    assert (T.ones(2, 2) @ T.ones(2, 2)).dtype is T.float32


def test_an_error_ends_a_block() -> None:
    with pytest.raises(ZeroDivisionError), T.autocast("cpu"):
        raise ZeroDivisionError
    assert not T.is_autocast_enabled("cpu")


def test_it_belongs_to_the_thread() -> None:
    found = []
    with T.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append((T.ones(2, 2) @ T.ones(2, 2)).dtype))
        thread.start()
        thread.join()
    assert found == [T.float32]


def test_decorated_functions_run_inside_a_block() -> None:
    @T.autocast("cpu", dtype=T.bfloat16)
    def product(a: Any) -> Any:
        """Multiply."""
        return a @ a

    assert product(T.ones(2, 2)).dtype is T.bfloat16
    assert (product.__name__, product.__doc__) == ("product", "Multiply.")


def test_unsupported_dtypes_switch_it_off_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling autocast"):
        block = T.autocast("cpu", dtype=T.float32)
    with block:
        assert not T.is_autocast_enabled("cpu")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        T.autocast("cuda")


def cast_of(leaf: Any, node: Any) -> Any:
    """The node below *node* where the cast of a leaf is recorded."""
    for following, _ in node.next_functions:
        if following is None:
            continue
        if getattr(following, "variable", None) is leaf:
            return node
        if (found := cast_of(leaf, following)) is not None:
            return found
    return None


def casts(layer: nn.Linear, **options: Any) -> tuple[Any, Any]:
    """Where the casts of a weight are recorded, in two calls."""
    with T.autocast("cpu", **options):
        first, second = layer(T.ones(1, 4)).grad_fn, layer(T.ones(1, 4)).grad_fn
    return cast_of(layer.weight, first), cast_of(layer.weight, second)


def test_a_weight_is_cast_once_in_a_block() -> None:
    layer = nn.Linear(4, 3)
    first, second = casts(layer)
    assert first is second
    third, _ = casts(layer)
    assert third is not first


@pytest.mark.check
def test_the_cache_can_be_off() -> None:
    first, second = casts(nn.Linear(4, 3), cache_enabled=False)
    assert first is not second


def test_a_cast_made_without_recording_is_not_used_for_recording() -> None:
    layer = nn.Linear(4, 3)
    with T.autocast("cpu"):
        with T.no_grad():
            layer(T.ones(1, 4))
        layer(T.ones(1, 4)).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype is T.float32


def test_weights_that_change_are_cast_anew_in_the_next_block() -> None:
    layer = nn.Linear(4, 3, bias=False)
    for value in (1.0, 2.0):
        with T.no_grad():
            layer.weight.fill_(value)
        with T.autocast("cpu"):
            assert layer(T.ones(1, 4)).tolist() == [[4 * value] * 3]


def test_many_weights_are_kept() -> None:
    layers = [nn.Linear(2, 2, bias=False) for _ in range(200)]
    x = T.ones(1, 2)
    with T.autocast("cpu"):
        for _ in range(2):
            for layer in layers:
                expected = x.bfloat16() @ layer.weight.detach().bfloat16().t()
                assert T.equal(layer(x), expected)


def test_gradients_are_in_float32() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    with T.autocast("cpu"):
        loss = nn.functional.cross_entropy(model(T.randn(2, 1, 4, 4)), T.tensor([0, 2]))
    loss.backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert parameter.grad.dtype is T.float32


def test_functions_with_derivatives_of_their_own() -> None:
    seen: list[Any] = []

    class Product(T.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu")
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            seen.append(("forward", T.is_autocast_enabled("cpu")))
            return a @ a

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(("backward", T.is_autocast_enabled("cpu")))
            return grad

    a = T.ones(2, 2, requires_grad=True)
    with T.autocast("cpu"):
        out = Product.apply(a)
    assert out.dtype is T.bfloat16
    out.sum().backward()
    assert seen == [("forward", True), ("backward", True)]


def test_functions_that_want_float32() -> None:
    seen: list[Any] = []

    class Scaled(T.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=T.float32)
        def forward(ctx: Any, a: Any, rest: Any) -> Any:
            seen.append(
                (a.dtype, T.is_autocast_enabled("cpu"), rest["d"].dtype, rest["i"][0].dtype)
            )
            return a * 2

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(T.is_autocast_enabled("cpu"))
            return grad * 2, None

    a = T.ones(2, requires_grad=True)
    rest = {"d": T.ones(1).double(), "i": [T.ones(1, dtype=T.int64)]}
    with T.autocast("cpu"):
        Scaled.apply(a.bfloat16(), rest).sum().backward()
    assert seen[0] == (T.float32, False, T.float64, T.int64)
    assert seen[1] is False


def test_modes_see_the_calls_before_they_are_cast() -> None:
    from shmtensor.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append((func.__name__, str(args[0].dtype)))
            return func(*args, **(kwargs or {}))

    a = T.ones(2, 2)
    with T.autocast("cpu"), Names():
        result = T.mm(a, a)
    assert seen == [("mm.default", "torch.float32")]
    assert result.dtype is T.bfloat16
