"""gradcheck, gradgradcheck and the functions of autograd.functional."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd import Function, functional, gradcheck, gradgradcheck
from shmtensor.autograd.gradcheck import GradcheckError


def doubles(*shape: int) -> st.Tensor:
    return (
        (st.arange(1.0, 1.0 + st.zeros(shape).numel(), dtype=st.float64) / 4)
        .view(shape)
        .requires_grad_()
    )


@pytest.mark.check
def test_gradcheck_accepts_right_derivatives() -> None:
    assert gradcheck(lambda a, b: (a * b).exp(), (doubles(3), doubles(2, 3)))
    assert gradcheck(lambda a: a @ a, doubles(2, 2))


def test_gradcheck_accepts_complex_functions() -> None:
    z = st.tensor([1 + 2j, 0.5 - 1j], dtype=st.complex128, requires_grad=True)
    assert gradcheck(lambda a: a * a, z)
    assert gradcheck(lambda a: (a * a.conj()).real, z)


class Wrong(Function):
    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        return a * 3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def test_gradcheck_finds_wrong_derivative() -> None:
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to in"):
        gradcheck(Wrong.apply, doubles(2))
    assert gradcheck(Wrong.apply, doubles(2), raise_exception=False) is False


def test_gradcheck_finds_a_missing_derivative() -> None:
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, doubles(2))
    assert not gradcheck(lambda x: x.detach() * 2, doubles(2), raise_exception=False)
    assert gradcheck(lambda x: st.ones(2, dtype=st.float64), doubles(2))
    assert gradcheck(lambda x: (x * 2, x.detach()), doubles(2))


def test_gradcheck_needs_an_input_that_requires_grad() -> None:
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda a: a, st.ones(2, dtype=st.float64))


def test_gradgradcheck_accepts_right_derivatives() -> None:
    assert gradgradcheck(lambda a, b: a * b * b, (doubles(2), doubles(2)))
    assert gradgradcheck(lambda a: a.tanh(), doubles(3))


def test_vjp_and_jvp_of_linear_map() -> None:
    m = st.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    x = st.tensor([1.0, 1.0])
    y, back = functional.vjp(lambda v: m @ v, x, st.tensor([1.0, 0.0, 1.0]))
    assert y.tolist() == [3, 7, 11]
    assert back.tolist() == [6, 8]
    y, ahead = functional.jvp(lambda v: m @ v, x, st.tensor([1.0, 2.0]))
    assert ahead.tolist() == [5, 11, 17]
    assert not ahead.requires_grad


def test_jacobian_of_several_inputs_and_outputs() -> None:
    a, b = st.tensor([1.0, 2.0]), st.tensor(3.0)
    (first, second), (third, fourth) = functional.jacobian(lambda a, b: (a * b, a.sum()), (a, b))
    assert first.tolist() == [[3, 0], [0, 3]]
    assert second.tolist() == [1, 2]
    assert third.tolist() == [1, 1]
    assert fourth.item() == 0


@pytest.mark.check
def test_jacobian_strict_raises_where_independent() -> None:
    with pytest.raises(RuntimeError, match=r"Output 0 .* does not require gradients"):
        functional.jacobian(lambda a: st.ones(2), st.ones(2), strict=True)


def test_hessian_and_products() -> None:
    x = st.tensor([1.0, 2.0])

    def f(v: st.Tensor) -> st.Tensor:
        return (v * v * v).sum() + v[0] * v[1]

    assert functional.hessian(f, x).tolist() == [[6, 1], [1, 12]]
    v = st.tensor([1.0, 1.0])
    for product in (functional.hvp, functional.vhp):
        value, result = product(f, x, v)
        assert value.item() == 11
        assert result.tolist() == [7, 13]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 70_000])
def test_gradients_written_into_temporaries_leave_others_alone(n: int, threads: int) -> None:
    before = st.get_num_threads()
    st.set_num_threads(threads)
    try:
        a, b = (st.rand(n, dtype=st.float64).requires_grad_() for _ in range(2))
        seen: list[st.Tensor] = []
        middle = a * 1
        middle.register_hook(seen.append)
        loss = st.nn.functional.mse_loss(middle, b, reduction="none")
        grad = st.rand(n, dtype=st.float64)
        kept = grad.clone()
        for _ in range(2):  # what is saved is used again
            first, second = st.autograd.grad(loss, [a, b], grad, retain_graph=True)
            assert first.tolist() == (2 * (a - b) * kept).tolist()
            assert second.tolist() == (2 * (b - a) * kept).tolist()
        assert grad.tolist() == kept.tolist()
        assert seen[0].tolist() == seen[1].tolist()
    finally:
        st.set_num_threads(before)


@pytest.mark.parametrize("layout", ["rows", "columns", "broadcast"])
def test_gradient_written_into_a_temporary_lies_as_otherwise(layout: str) -> None:
    a = st.rand(3, 4, dtype=st.float64).requires_grad_()
    b = {
        "rows": st.rand(3, 4, dtype=st.float64),
        "columns": st.rand(4, 3, dtype=st.float64).t(),
        "broadcast": st.rand(4, dtype=st.float64),
    }[layout]
    found = a * 1
    grad = st.autograd.grad((b / found).sum(), found, create_graph=False)[0]
    recorded = st.autograd.grad((b / found).sum(), found, create_graph=True)[0]
    assert grad.stride() == recorded.stride()
    assert (grad + b / (a * a)).abs().max() < 1e-9
    assert recorded.detach().tolist() == grad.tolist()


def test_gradcheck_takes_inputs_however_they_lie() -> None:
    across = doubles(2, 3).detach().t().requires_grad_()
    gaps = doubles(3, 4).detach()[:, ::2].requires_grad_()
    assert not across.is_contiguous()
    assert gradcheck(lambda a, b: a.sin() * b, (across, gaps))
    assert gradcheck(lambda a: a * a, doubles(1)[0].detach().requires_grad_())
    assert gradcheck(lambda a: a * 2, st.ones(0, 2, dtype=st.float64, requires_grad=True))
    assert across.tolist() == doubles(2, 3).t().tolist()


def test_gradcheck_refuses_elements_that_share_memory() -> None:
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(lambda a: a * 2, doubles(1).detach().expand(3).requires_grad_())


def test_gradcheck_calls_its_function_with_gradients_on() -> None:
    seen = set()

    def function(x: st.Tensor) -> st.Tensor:
        seen.add((st.is_grad_enabled(), x.requires_grad))
        return x * x

    with st.no_grad():
        assert gradcheck(function, doubles(2))
        assert gradgradcheck(function, doubles(2))
    assert seen == {(True, True)}


def test_gradcheck_says_which_element_is_wrong() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: st.Tensor, y: st.Tensor) -> st.Tensor:
            return x + 2 * y

        @staticmethod
        def backward(ctx: Any, grad: st.Tensor) -> tuple[st.Tensor, st.Tensor]:
            wrong = grad * 2
            wrong[1] = 5 * grad[1]
            return grad, wrong

    with pytest.raises(
        GradcheckError, match=r"output 0 with respect to input 1,\nelement 1 by element 1"
    ):
        gradcheck(Wrong.apply, (doubles(3), doubles(3)))


def test_gradgradcheck_hands_on_the_inputs_themselves() -> None:
    weight = st.nn.Parameter(st.ones(2, dtype=st.float64))
    seen = []

    def cube(x: st.Tensor) -> st.Tensor:
        seen.append(x is weight)
        return x * x * x

    assert st.autograd.gradgradcheck(cube, (weight,))
    assert all(seen)
    assert st.autograd.gradgradcheck(lambda a, b: a * b * b, (weight, weight))


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.n = 0

    def __call__(self, *args: Any) -> Any:
        self.n += 1
        return self.function(*args)


def test_fast_mode_takes_two_steps_for_an_input() -> None:
    x = doubles(50, 20)
    counted = Counted(lambda a: (a * a).sin())
    assert gradcheck(counted, x, fast_mode=True, check_forward_ad=True)
    assert counted.n < 12
    assert (x == doubles(50, 20)).all()
    z = st.tensor([1 + 2j, 0.5 - 1j], dtype=st.complex128, requires_grad=True)
    both = {"fast_mode": True, "check_forward_ad": True}
    assert gradcheck(lambda a: a * a, z, **both)
    assert gradcheck(lambda a: ((a * a.conj()).real, a.real), z, **both)
    assert gradcheck(lambda a, b: a @ b, (doubles(3, 2), doubles(2, 4)), **both)
    assert gradgradcheck(lambda a: a**3, doubles(3), fast_mode=True)
    assert gradgradcheck(
        lambda a: a**3, doubles(3), fast_mode=True, check_fwd_over_rev=True, check_batched_grad=True
    )
    state = st.get_rng_state()
    assert gradcheck(lambda a: a * 2, doubles(3), fast_mode=True)
    assert (st.get_rng_state() == state).all()


class WrongForward(Wrong):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return t * 2


def test_fast_mode_finds_wrong_derivatives() -> None:
    with pytest.raises(GradcheckError, match=r"(?s)Jacobian mismatch for output 0.*random vectors"):
        gradcheck(Wrong.apply, doubles(2), fast_mode=True)
    assert gradcheck(WrongForward.apply, doubles(2), fast_mode=True)
    with pytest.raises(GradcheckError, match="computed with forward mode mismatch for output 0"):
        gradcheck(WrongForward.apply, doubles(2), fast_mode=True, check_forward_ad=True)
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, doubles(2), fast_mode=True)
    assert gradcheck(lambda x: st.ones(2, dtype=st.float64), doubles(2), fast_mode=True)


class NotBatched(Wrong):
    """Right, but for what it does with a batch."""

    @classmethod
    def _times(cls, t: Any) -> Any:
        return t * (4 if st._C._functorch.is_batchedtensor(t) else 3)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return NotBatched._times(g)

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return NotBatched._times(t)


class Reads(Wrong):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (3 + 0 * g.sum().item())

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return t * (3 + 0 * t.sum().item())


def test_batched_checks_run_derivatives_under_vmap() -> None:
    forward = {"check_forward_ad": True, "check_batched_forward_grad": True}
    for fast in (False, True):
        assert gradcheck(
            lambda a: a.sin() * a, doubles(3), fast_mode=fast, check_batched_grad=True, **forward
        )
        for function, text in ((NotBatched, "expected .* got"), (Reads, r"calling \.item\(\)")):
            assert gradcheck(function.apply, doubles(3), fast_mode=fast, check_forward_ad=True)
            for options, name in (
                ({"check_batched_grad": True}, "check_batched_grad"),
                (forward, "check_batched_forward_grad"),
            ):
                with pytest.raises(GradcheckError, match=f"(?s){text}.*{name}=True"):
                    gradcheck(function.apply, doubles(3), fast_mode=fast, **options)


def _cube(x: st.Tensor) -> st.Tensor:
    return (x**3).sum()


def _first_cube(x: st.Tensor, _: st.Tensor) -> st.Tensor:
    return (x**3).sum()


_OUTPUT = "The output of the user-provided function is independent of input 1. This is not allowed"
_NOT_RECORDED = "Output 0 of the user-provided function does not require gradients. The outputs"
_LINEAR = "found that the jacobian of the user-provided function with respect to input 0 is indep"


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
def test_strict_products_refuse_what_does_not_depend(name: str) -> None:
    product = getattr(functional, name)
    x = st.tensor([1.0, 2.0, 3.0])
    of_output = name == "vjp"
    strict = {"strict": True}
    with pytest.raises(RuntimeError, match=_OUTPUT):
        product(_first_cube, (x, x), None if of_output else (x, x), **strict)
    with pytest.raises(RuntimeError, match=_NOT_RECORDED):
        product(lambda a: a.detach().sum(), x, None if of_output else x, **strict)
    assert product(_first_cube, (x, x), None if of_output else (x, x))[0].item() == 36
    if name in ("vhp", "hvp"):
        with pytest.raises(RuntimeError, match=_LINEAR):
            product(lambda a: a.sum(), x, x, **strict)
    else:
        text = "The jacobian of the user-provided function is independent of input 0. .* create_gr"
        assert product(lambda a: a * 2, x, x, **strict)[1].tolist() == [2, 4, 6]
        with pytest.raises(RuntimeError, match=text):
            product(lambda a: a * 2, x, x, create_graph=True, **strict)
    assert product(_cube, x, None if of_output else x, create_graph=True, **strict)[1].requires_grad


def test_strict_jacobians_refuse_what_does_not_depend() -> None:
    x = st.tensor([1.0, 2.0, 3.0])
    text = "Output 0 of the user-provided function is independent of input 1."
    with pytest.raises(RuntimeError, match=text):
        functional.jacobian(_first_cube, (x, x), strict=True)
    with pytest.raises(RuntimeError, match=_NOT_RECORDED):
        functional.jacobian(lambda a: a.detach(), x, strict=True)
    text = "The jacobian of the user-provided function is independent of input 0. .* create_graph"
    with pytest.raises(RuntimeError, match=text):
        functional.jacobian(lambda a: a * 2, x, strict=True, create_graph=True)
    with pytest.raises(RuntimeError, match=_LINEAR):
        functional.hessian(lambda a: a.sum(), x, strict=True)
    assert functional.hessian(_cube, x, strict=True).diagonal().tolist() == [6, 12, 18]


def test_vectors_of_another_form_are_refused() -> None:
    x, two = st.tensor([1.0, 2.0, 3.0]), st.ones(2)
    for name in ("vjp", "jvp", "vhp", "hvp"):
        product = getattr(functional, name)
        function = _cube if name in ("vhp", "hvp") else lambda a: a * a
        with pytest.raises(RuntimeError, match=r"^v has invalid size: should be .*Size\(\[3\]\)"):
            product(function, x, two)
        with pytest.raises(RuntimeError, match="The given v should contain a single Tensor"):
            product(function, x, (x, x))
        with pytest.raises(TypeError, match=f"The v given to {name} must be .* the given v has ty"):
            product(function, x, 3)
        with pytest.raises(TypeError, match=f"The inputs given to {name} .* value at index 1 has"):
            product(function, (x, 3.0), x)
        with pytest.raises(RuntimeError, match="The vector v can only be None if the"):
            product(lambda a: a * a, x, None)
    with pytest.raises(RuntimeError, match="Entry 1 in v has invalid size"):
        functional.jvp(_first_cube, (x, x), (x, two))
    for name in ("vhp", "hvp", "hessian"):
        with pytest.raises(RuntimeError, match=f"function given to {name} should return a single"):
            getattr(functional, name)(
                lambda a: (a.sum(), a), x, *([x] if name != "hessian" else [])
            )
