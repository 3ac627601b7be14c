"""Operators and kernels from Python: define, impl, fallback, precedence, dropping, errors."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import shmtensor as st
from shmtensor import _C
from shmtensor.library import Library, define, fallthrough_kernel, impl


@pytest.fixture
def lib() -> Iterator[Library]:
    library = Library("tests", "DEF")
    yield library
    library._destroy()


@pytest.mark.check
def test_define_and_impl_make_a_callable_operator(lib: Library) -> None:
    assert lib.define("scale(Tensor self, float by=2.0, *, int[] dims=[1, 2]) -> Tensor") == "scale"
    lib.impl("scale", lambda x, by, *, dims: x * (by * len(dims)), "CPU")
    assert st.ops.tests.scale(st.ones(2)).tolist() == [4, 4]
    assert st.ops.tests.scale(st.ones(2), 3.0, dims=[5]).tolist() == [3, 3]
    assert st.ops.tests.scale.default(st.ones(1), by=1.0).tolist() == [2]


def test_wrong_call_says_the_signature(lib: Library) -> None:
    lib.define("one(Tensor self, int n) -> Tensor")
    lib.impl("one", lambda x, n: x, "CPU")
    with pytest.raises(TypeError, match="one"):
        st.ops.tests.one(st.ones(1), "x")


def test_decorators_register(lib: Library) -> None:
    @define(lib, "triple(Tensor self) -> Tensor")
    def triple(x: st.Tensor) -> st.Tensor:
        return x * 3

    assert st.ops.tests.triple(st.ones(1)).item() == 3

    @impl(lib, "triple", "Meta")
    def meta(x: st.Tensor) -> st.Tensor:
        return st.empty(7, device="meta")

    assert st.ops.tests.triple(st.empty(1, device="meta")).shape == (7,)


def test_operators_by_qualified_name(lib: Library) -> None:
    define("tests::half", "(Tensor x) -> Tensor", lib=lib)
    impl("tests::half", ("cpu", "Meta"), lambda x: x / 2, lib=lib)
    assert st.ops.tests.half(st.ones(1)).item() == 0.5
    assert st.ops.tests.half(st.ones(3, device="meta")).shape == (3,)

    @impl("tests::half", "default", lib=lib)
    def half(x: st.Tensor) -> st.Tensor:
        return x / 4

    assert half(st.ones(1)).item() == 0.25


def test_names_without_a_library_stay() -> None:
    define("lasting_tests::same", "(Tensor x) -> Tensor")
    impl("lasting_tests::same", "cpu", lambda x: x.clone())
    gc.collect()
    assert st.ops.lasting_tests.same(st.ones(1)).item() == 1
    with pytest.raises(RuntimeError, match="same"):
        define("lasting_tests::same", "(Tensor x) -> Tensor")


def test_qualified_names_and_schemas_are_checked(lib: Library) -> None:
    with pytest.raises(ValueError, match="namespace::name"):
        define("half", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match='got "x -> y"'):
        define("tests::half", "x -> y", lib=lib)
    with pytest.raises(ValueError, match="instance of str"):
        define(3, "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="library's namespace 'tests'"):
        define("others::half", "(Tensor x) -> Tensor", lib=lib)
    define("tests::half", "(Tensor x) -> Tensor", lib=lib)
    with pytest.raises(ValueError, match="abacus"):
        impl("tests::half", "abacus", lambda x: x, lib=lib)
    with pytest.raises(RuntimeError, match="nothing"):
        impl("tests::nothing", "cpu", lambda x: x, lib=lib)


def test_composite_implicit_kernel_is_recorded_inside(lib: Library) -> None:
    lib.define("square(Tensor self) -> Tensor")
    lib.impl("square", lambda x: x * x)
    x = st.ones(2, requires_grad=True)
    y = st.ops.tests.square(x)
    assert y.grad_fn.name() == "MulBackward0"


def test_kernels_precedence(lib: Library) -> None:
    lib.define("who(Tensor self) -> int")
    order = ["CatchAll", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CPU"]
    for number, key in enumerate(order):
        lib.impl("who", lambda x, number=number: number, key)
        assert st.ops.tests.who(st.ones(1)) == number
    lib.impl("who", lambda x: -1, "CatchAll")
    assert st.ops.tests.who(st.ones(1)) == 3
    assert st.ops.tests.who(st.empty(1, device="meta")) == 2


def test_newest_kernel_wins_and_dropping_brings_the_older_back(lib: Library) -> None:
    lib.define("which(Tensor self) -> int")
    lib.impl("which", lambda x: 1, "CPU")
    with Library("tests", "IMPL", "CPU") as other:
        other.impl("which", lambda x: 2)
        assert st.ops.tests.which(st.ones(1)) == 2
    assert st.ops.tests.which(st.ones(1)) == 1


def test_dropped_library_takes_its_operators_with_it() -> None:
    library = Library("gone", "DEF")
    library.define("f(Tensor self) -> Tensor")
    library.impl("f", lambda x: x, "CPU")
    op = st.ops.gone.f.default
    assert op(st.ones(1)).item() == 1
    del library
    with pytest.raises(RuntimeError, match="definition was taken back"):
        op(st.ones(1))
    with pytest.raises(AttributeError, match="no attribute 'f'"):
        _ = st.ops.gone.f
    again = Library("gone", "DEF")
    again.define("f(Tensor self) -> Tensor")
    again._destroy()


def test_built_in_operator_overridden_and_restored() -> None:
    with Library("aten", "IMPL", "CPU") as library:
        library.impl("add.Tensor", lambda a, b, *, alpha=1: "no tensor")
        with pytest.raises(RuntimeError, match="result 0 of a Python kernel must be a Tensor, got"):
            _ = st.ones(1) + st.ones(1)
    assert (st.ones(1) + st.ones(1)).item() == 2


def test_built_in_operator_python_kernel_sees_arguments() -> None:
    seen: list[Any] = []

    def kernel(a: st.Tensor, b: st.Tensor, *, alpha: Any) -> st.Tensor:
        seen.append((a.tolist(), b.tolist(), alpha))
        return a.clone()

    with Library("aten", "IMPL") as library:
        library.impl("add.Tensor", kernel, "CPU")
        x = st.ones(1, requires_grad=True)
        y = st.add(x, st.tensor([2.0]), alpha=3)
        y.sum().backward()
    assert seen == [([1], [2], 3)]
    assert x.grad.tolist() == [1]


def test_several_results_and_lists(lib: Library) -> None:
    lib.define("pair(Tensor[] xs, Tensor? y=None) -> (Tensor, int)")
    lib.impl("pair", lambda xs, y: (xs[0], len(xs) if y is None else -1), "CPU")
    first, n = st.ops.tests.pair([st.ones(1), st.ones(2)])
    assert first.tolist() == [1]
    assert n == 2
    lib.define("twice(Tensor self) -> Tensor[]")
    lib.impl("twice", lambda x: [x, x + 1], "CPU")
    assert [t.item() for t in st.ops.tests.twice(st.ones(1))] == [1, 2]


def test_with_keyset_passes_the_keys(lib: Library) -> None:
    lib.define("keys(Tensor self) -> int")
    lib.impl("keys", lambda keyset, x: keyset, "CPU", with_keyset=True)
    plain = st.ops.tests.keys(st.ones(1))
    recorded = st.ops.tests.keys(st.ones(1, requires_grad=True))
    assert plain & recorded == plain
    assert recorded > plain


@pytest.mark.check
def test_kernel_exception_comes_through(lib: Library) -> None:
    lib.define("fail(Tensor self) -> Tensor")

    def fail(x: st.Tensor) -> st.Tensor:
        raise KeyError("mine")

    lib.impl("fail", fail, "CPU")
    with pytest.raises(KeyError, match="mine"):
        st.ops.tests.fail(st.ones(1))


def test_duplicate_definition_names_both_places(lib: Library) -> None:
    lib.define("dup(Tensor self) -> Tensor")
    with pytest.raises(
        RuntimeError,
        match=r"'tests::dup' is already defined; first at .*test_library.py:\d+, again",
    ):
        lib.define("dup(Tensor self) -> Tensor")


def test_duplicate_definition_of_built_in_raises() -> None:
    library = Library("aten", "FRAGMENT")
    with pytest.raises(RuntimeError, match=r"'add.Tensor' is already defined; first at .*built-in"):
        library.define("add.Tensor(Tensor self, Tensor other) -> Tensor")


def test_impl_without_definition_names_its_place(lib: Library) -> None:
    with pytest.raises(
        RuntimeError, match=r"no operator 'tests::nothing' .*test_library.py:\d+ gi"
    ):
        lib.impl("nothing", lambda: 1, "CPU")
    lib.define("near.one(Tensor self) -> Tensor")
    with pytest.raises(
        RuntimeError, match=r"there is 'tests::near.one', defined at .*test_library"
    ):
        lib.impl("near.two", lambda: 1, "CPU")


def test_second_def_library_names_both_places(lib: Library) -> None:
    with pytest.raises(
        RuntimeError, match=r"namespace 'tests'; first at .*, again at .*test_libra"
    ):
        Library("tests", "DEF")


def test_bad_arguments_raise(lib: Library) -> None:
    with pytest.raises(ValueError, match="Unsupported kind: OTHER"):
        Library("tests", "OTHER")
    with pytest.raises(ValueError, match="reserved namespace"):
        Library("aten", "DEF")
    lib.define("f(Tensor self) -> Tensor")
    with pytest.raises(ValueError, match="could not parse dispatch key: 'GPU'"):
        lib.impl("f", lambda x: x, "GPU")
    with pytest.raises(TypeError, match="expected a callable"):
        lib.impl("f", 3, "CPU")
    with pytest.raises(RuntimeError, match="kind IMPL cannot define"):
        Library("tests", "IMPL").define("g(Tensor self) -> Tensor")


def test_missing_kernel_says_what_is_there(lib: Library) -> None:
    lib.define("only(Tensor self) -> Tensor")
    lib.impl("only", lambda x: x, "Meta")
    with pytest.raises(
        NotImplementedError, match=r"tests::only: no kernel for .*CPU.*registered: .*M"
    ):
        st.ops.tests.only(st.ones(1))


def test_fallback_serves_operators_without_a_kernel(lib: Library) -> None:
    lib.define("left(Tensor self) -> Tensor")
    lib.define("right(Tensor self) -> Tensor")
    lib.impl("right", lambda x: x + 1, "Meta")
    calls = []

    def fallback(op: Any, x: st.Tensor) -> st.Tensor:
        calls.append(str(op))
        return x

    with Library("tests", "IMPL") as other:
        other.fallback(fallback, "CPU")
        st.ops.tests.left(st.ones(1))
        st.ops.tests.right(st.ones(1))
    assert calls == ["tests.left.default", "tests.right.default"]
    with pytest.raises(NotImplementedError):
        st.ops.tests.left(st.ones(1))


def test_fallback_fallthrough_hides_an_older_one(lib: Library) -> None:
    lib.define("deep(Tensor self) -> int")
    lib.impl("deep", lambda x: 1, "CPU")
    x = st.ones(1, requires_grad=True)
    with Library("tests", "IMPL") as one, Library("tests", "IMPL") as two:
        one.fallback(lambda op, x: 2, "ADInplaceOrView")
        assert st.ops.tests.deep(x) == 2
        two.fallback(fallthrough_kernel, "ADInplaceOrView")
        assert st.ops.tests.deep(x) == 1


def test_fallback_with_alias_key_raises() -> None:
    with pytest.raises(ValueError, match="run-time dispatch key"):
        Library("tests", "IMPL").fallback(lambda op: None, "CompositeImplicitAutograd")


def test_python_autograd_kernel_can_go_on_below(lib: Library) -> None:
    lib.define("mine(Tensor self) -> Tensor")
    lib.impl("mine", lambda x: x * 2, "CPU")

    class Mine(st.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            was = _C._change_keys(False, "Autograd", True)
            try:
                return st.ops.tests.mine(x)
            finally:
                _C._change_keys(False, "Autograd", was)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    lib.impl("mine", Mine.apply, "Autograd")
    x = st.ones(2, requires_grad=True)
    y = st.ops.tests.mine(x)
    assert y.grad_fn.name() == "MineBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert st.ops.tests.mine(st.ones(1)).grad_fn is None


@pytest.mark.parametrize("n", [1, 20, 21, 63, 64])
def test_operators_may_have_so_many_arguments(n: int) -> None:
    with Library("many_arguments", "FRAGMENT") as library:
        library.define(f"total({', '.join(f'Tensor a{i}' for i in range(n))}) -> Tensor")
        library.impl("total", lambda *tensors: sum(tensors), "CPU")
        tensors = [st.tensor(float(i)) for i in range(n)]
        assert st.ops.many_arguments.total(*tensors).item() == sum(range(n))
        by_name = {f"a{i}": t for i, t in enumerate(tensors)}
        assert st.ops.many_arguments.total(**by_name).item() == sum(range(n))
        with pytest.warns(UserWarning, match="batching rule for many_arguments::total"):
            batched = st.func.vmap(st.ops.many_arguments.total)(*[t.expand(2) for t in tensors])
        assert batched.tolist() == [sum(range(n))] * 2


@pytest.mark.parametrize("n", [2, 8, 9, 15, 16])
def test_operators_may_have_so_many_results(n: int) -> None:
    with Library("many_results", "FRAGMENT") as library:
        library.define(f"steps(Tensor a) -> ({', '.join(['Tensor'] * n)})")
        library.impl("steps", lambda a: tuple(a + i for i in range(n)), "CPU")
        results = st.ops.many_results.steps(st.tensor(0.0))
        assert [t.item() for t in results] == list(range(n))


@pytest.mark.parametrize(
    ("arguments", "results", "text"),
    [(65, 1, "at most 64 arguments"), (1, 17, "at most 16 results")],
)
def test_operators_with_more_are_refused_when_they_are_defined(
    arguments: int, results: int, text: str
) -> None:
    takes = ", ".join(f"Tensor a{i}" for i in range(arguments))
    gives = ", ".join(["Tensor"] * results)
    with Library("too_many", "FRAGMENT") as library, pytest.raises(ValueError, match=text):
        library.define(f"refused({takes}) -> ({gives})")
