"""Random numbers: torch's streams for a seed, states, locks, ranges, distributions, errors.

The fixed values are torch 2.13's for manual_seed(0) on the CPU.
"""

from __future__ import annotations

import os
import re
import threading
import warnings

import numpy as np
import pytest

import shmtensor as st

_SEED_0 = {
    "rand": [0.49625658988952637, 0.7682217955589294, 0.08847743272781372],
    "rand64": [0.9700530018065531, 0.707819864399788, 0.45938294312745087],
    "randint10": [4, 9, 3, 0, 3, 9],
    "randperm": [4, 1, 7, 5, 3, 9, 0, 8, 6, 2],
    "randn3": [1.5409960746765137, -0.293428897857666, -2.1787893772125244],
    "randn16": [-1.1258398294448853, -1.152360200881958, -0.2505785822868347],
}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    st.manual_seed(0)


@pytest.mark.check
def test_uniform_numbers_are_torchs() -> None:
    assert st.rand(3).tolist() == _SEED_0["rand"]
    st.manual_seed(0)
    assert st.rand(3, dtype=st.float64).tolist() == pytest.approx(_SEED_0["rand64"], abs=1e-15)


def test_integers_and_permutations_are_torchs() -> None:
    assert st.randint(0, 10, (6,)).tolist() == _SEED_0["randint10"]
    st.manual_seed(0)
    assert st.randperm(10).tolist() == _SEED_0["randperm"]


def test_normal_numbers_are_torchs_for_few_and_for_many() -> None:
    assert st.randn(3).tolist() == pytest.approx(_SEED_0["randn3"], rel=1e-6)
    st.manual_seed(0)
    assert st.randn(16)[:3].tolist() == pytest.approx(_SEED_0["randn16"], rel=1e-5)


def test_numbers_do_not_depend_on_how_they_are_asked_for() -> None:
    together = st.rand(2000)
    st.manual_seed(0)
    apart = st.cat([st.rand(1), st.rand(700), st.rand(1299)])
    assert st.equal(together, apart)


@pytest.mark.parametrize("n", [1, 2, 624, 625, 1300])
def test_permutations_are_swaps_drawn_one_by_one(n: int) -> None:
    order = st.randperm(n).numpy()
    st.manual_seed(0)
    expected = np.arange(n)
    for i in range(n - 1):  # remainders of the generator's words
        at = i + st.randint(0, n - i, ()).item()
        expected[[i, at]] = expected[[at, i]]
    assert np.array_equal(order, expected)
    st.manual_seed(0)
    assert np.array_equal(st.randperm(n, dtype=st.int32).numpy(), order)


@pytest.mark.parametrize("dtype", [st.float16, st.float32, st.float64])
def test_ones_come_where_uniform_numbers_are_below(dtype: st.dtype) -> None:
    p = st.rand(3, 500).t()
    st.manual_seed(1)
    drawn = st.bernoulli(p.to(dtype))
    st.manual_seed(1)
    uniform = st.rand(500, 3, dtype=st.float64 if dtype is st.float64 else st.float32)
    assert st.equal(drawn, (uniform < p.to(dtype)).to(dtype))
    st.manual_seed(1)
    assert st.equal(st.empty(500, 3, dtype=st.int64).bernoulli_(p.to(dtype)), drawn.long())
    with pytest.raises(RuntimeError, match="p_in >= 0 && p_in <= 1"):
        st.bernoulli(st.tensor([0.5, 1.5], dtype=dtype))


def test_strided_fills_follow_memory() -> None:
    turned = st.empty(3, 4).t().uniform_()
    st.manual_seed(0)
    assert st.equal(turned, st.rand(3, 4).t())


def test_state_is_saved_and_restored() -> None:
    st.randn(3)  # leaves the second half of a pair behind
    state = st.get_rng_state()
    assert state.shape == (5056,)
    first = st.randn(5)
    st.set_rng_state(state)
    assert st.equal(first, st.randn(5))


def test_damaged_state_is_refused() -> None:
    with pytest.raises(RuntimeError, match="RNG state size to be 3"):
        st.set_rng_state(st.zeros(3, dtype=st.uint8))
    state = st.get_rng_state()
    state[8:16] = 255
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        st.set_rng_state(state)


def test_own_generator_leaves_the_default_one_alone() -> None:
    generator = st.Generator()
    generator.manual_seed(0)
    assert st.rand(3, generator=generator).tolist() == _SEED_0["rand"]
    assert st.rand(3).tolist() == _SEED_0["rand"]
    assert generator.initial_seed() == 0


def test_fork_copies_the_stream() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, st.rand(4).numpy().tobytes())
        os._exit(0)
    os.waitpid(pid, 0)
    child = np.frombuffer(os.read(reader, 16), dtype=np.float32)
    os.close(reader)
    os.close(writer)
    assert np.array_equal(child, st.rand(4).numpy())


def test_threads_draw_every_number_once() -> None:
    results: list[st.Tensor] = []
    threads = [
        threading.Thread(target=lambda: results.append(st.rand(5000, dtype=st.float64)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    st.manual_seed(0)
    expected = st.rand(20000, dtype=st.float64).numpy()
    assert np.array_equal(np.sort(st.cat(results).numpy()), np.sort(expected))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float32"])
def test_random_stays_in_the_dtypes_range(dtype: str) -> None:
    t = st.empty(1000, dtype=getattr(st, dtype)).random_()
    assert (t >= 0).all().item()
    few = st.randint(0, 2, (1000,), dtype=getattr(st, dtype))
    assert set(few.tolist()) == {0, 1}


def test_distributions_have_their_moments() -> None:
    n = 40000
    assert st.rand(n).mean().item() == pytest.approx(0.5, abs=0.01)
    normal = st.empty(n).normal_(3, 2)
    assert normal.mean().item() == pytest.approx(3, abs=0.05)
    assert normal.std().item() == pytest.approx(2, abs=0.05)
    assert st.empty(n).exponential_(4).mean().item() == pytest.approx(0.25, abs=0.01)
    assert st.empty(n).bernoulli_(0.3).mean().item() == pytest.approx(0.3, abs=0.01)
    assert st.bernoulli(st.full((n,), 0.7)).mean().item() == pytest.approx(0.7, abs=0.01)
    assert st.empty(n).geometric_(0.25).mean().item() == pytest.approx(4, abs=0.1)
    assert st.empty(n).cauchy_(2, 1).median().item() == pytest.approx(2, abs=0.05)
    assert st.empty(n).log_normal_(0, 0.25).median().item() == pytest.approx(1, abs=0.02)
    z = st.randn(n, dtype=st.complex64)
    assert (z.abs() ** 2).mean().item() == pytest.approx(1, abs=0.03)


@pytest.mark.check
def test_dropout_keeps_the_mean() -> None:
    x = st.ones(40000, requires_grad=True)
    y = st.dropout(x, 0.25, True)
    assert y.mean().item() == pytest.approx(1, abs=0.02)
    assert sorted(set(y.tolist())) == pytest.approx([0.0, 4 / 3])
    y.sum().backward()
    assert st.equal(x.grad, y.detach())
    assert st.dropout(x, 0.25, False) is x
    assert st.dropout(st.ones(9), 1.0, True).tolist() == [0.0] * 9
    dropped = st.feature_dropout(st.ones(100, 30, 4), 0.5, True)
    assert (dropped.amax(2) == dropped.amin(2)).all().item()


def test_slopes_of_rrelu_are_torchs_for_what_is_not_positive() -> None:
    """One number is drawn for each of these, in row-major order, whatever the strides."""
    x = st.tensor([-1.0, 2.0, 0.0, -4.0, float("nan"), -0.5])
    want = st.tensor([-0.26705411, 2.0, 0.0, -2.54582977, float("nan"), -0.16873176])
    leaf = x.clone().requires_grad_()
    st.manual_seed(3)
    got = st.nn.functional.rrelu(leaf, 0.25, 0.75, training=True)
    assert st.allclose(got, want, rtol=1e-6, atol=0, equal_nan=True)
    assert st.rand(1).item() == pytest.approx(0.5944212079048157)
    slopes = st.autograd.grad(got.nansum(), leaf)[0]
    assert slopes.tolist()[1] == 1
    assert st.allclose((slopes * x)[:4], want[:4])
    for dtype in (st.float64, st.bfloat16):
        st.manual_seed(3)
        other = x.to(dtype).view(3, 2).T.contiguous().T
        st.nn.functional.rrelu_(other, 0.25, 0.75, training=True)
        assert st.allclose(other.flatten().float(), want, rtol=8e-3, equal_nan=True)
    many = -st.rand(3000, 7)
    st.manual_seed(4)
    got = st.nn.functional.rrelu(many, -1.0, 1.0, training=True)
    st.manual_seed(4)
    drawn = st.empty(3000, 7, dtype=st.float64).uniform_(-1, 1)
    assert st.equal(got, many * drawn.float())
    for bounds, name in (((1.0, float("inf")), "upper"), ((float("nan"), 1.0), "lower")):
        with pytest.raises(RuntimeError, match=f"{name} bound must be finite"):
            st.nn.functional.rrelu(x, *bounds)


def test_multinomial_follows_the_weights() -> None:
    weights = st.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 2.0]])
    drawn = st.multinomial(weights, 4000, replacement=True)
    counts = np.stack([np.bincount(row, minlength=3) for row in drawn.numpy()]) / 4000
    np.testing.assert_allclose(counts, [[0, 0.25, 0.75], [0.5, 0, 0.5]], atol=0.03)
    assert sorted(st.multinomial(st.ones(5), 5).tolist()) == [0, 1, 2, 3, 4]
    given = st.empty(4, 5, dtype=st.int64).t()
    assert st.multinomial(st.ones(5, 4), 4, out=given) is given
    assert given.sort().values.tolist() == [[0, 1, 2, 3]] * 5
    assert st.multinomial(st.ones(0, 3), 2, out=st.empty(0, dtype=st.int64)).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: st.randint(5, 5, (2,)),
            RuntimeError,
            "random_ expects 'from' to be less than 'to', but got from=5 >= to=5",
        ),
        (
            lambda: st.zeros(2, dtype=st.uint8).random_(0, 300),
            RuntimeError,
            "to - 1 is out of bounds for unsigned char",
        ),
        (
            lambda: st.zeros(2).uniform_(2, 1),
            RuntimeError,
            "uniform_ expects to return a [from, to) range, but found from=2 > to=1",
        ),
        (
            lambda: st.normal(0.0, -1.0, (2,)),
            RuntimeError,
            "normal expects std >= 0.0, but found std -1",
        ),
        (
            lambda: st.zeros(2, dtype=st.int64).exponential_(-1),
            RuntimeError,
            "exponential_ expects lambda > 0.0, but found lambda=-1",
        ),
        (
            lambda: st.zeros(2, dtype=st.int8).exponential_(),
            RuntimeError,
            "dtype must be a floating point but you specified Char",
        ),
        (
            lambda: st.zeros(2, dtype=st.complex64).exponential_(),
            RuntimeError,
            "dtype must be a floating point but you specified ComplexFloat",
        ),
        (
            lambda: st.randint(5, (2,), dtype=st.complex64),
            RuntimeError,
            "check_random_bounds handles only integral, floating-point and boolean types",
        ),
        (
            lambda: st.zeros(2, dtype=st.complex64).random_(1, None),
            RuntimeError,
            "random_from_to_impl handles only integral, floating-point and boolean types",
        ),
        (
            lambda: st.zeros(2, dtype=st.int8).random_(-(2**63), None),
            NotImplementedError,
            "\"random_full_64_bits_range_kernel_cpu\" not implemented for 'Char'",
        ),
        (
            lambda: st.multinomial(st.tensor([1.0, -1.0]), 3, True),
            RuntimeError,
            "invalid multinomial distribution (encountering probability entry < 0)",
        ),
        (
            lambda: st.multinomial(st.tensor([1.0, float("inf")]), 3, True),
            RuntimeError,
            "invalid multinomial distribution (encountering probability entry = infinity or NaN)",
        ),
        (
            lambda: st.multinomial(st.cat([st.ones(999), st.tensor([-1.0])]), 3, True),
            RuntimeError,
            "invalid multinomial distribution (encountering probability entry < 0)",
        ),
        (
            lambda: st.multinomial(st.ones(3), 0, out=st.empty(0)),
            RuntimeError,
            "multinomial expects Long tensor out, got: Float",
        ),
        (
            lambda: st.multinomial(st.tensor([1.0, float("inf")]), 1, True),
            RuntimeError,
            "probability tensor contains either `inf`, `nan` or element < 0",
        ),
        (
            lambda: st.zeros(2).bernoulli_(2.0),
            RuntimeError,
            "bernoulli_ expects p to be in [0, 1], but got p=2",
        ),
        (lambda: st.bernoulli(st.tensor([2.0])), RuntimeError, "Expected p_in >= 0 && p_in <= 1"),
        (
            lambda: st.multinomial(st.zeros(3), 2),
            RuntimeError,
            "invalid multinomial distribution (sum of probabilities <= 0)",
        ),
        (
            lambda: st.multinomial(st.ones(3), 5),
            RuntimeError,
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
        ),
        (
            lambda: st.rand(2, dtype=st.int64),
            NotImplementedError,
            "\"check_uniform_bounds\" not implemented for 'Long'",
        ),
        (lambda: st.randperm(-1), RuntimeError, "negative dimension -1"),
    ],
)
def test_impossible_parameters_are_named(call: object, error: type, message: str) -> None:
    with pytest.raises(error) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


def test_meta_draws_nothing() -> None:
    state = st.get_rng_state()
    assert st.rand(3, device="meta").shape == (3,)
    assert st.equal(state, st.get_rng_state())


def test_in_place_fill_forgets_the_gradient() -> None:
    x = st.ones(3, requires_grad=True)
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_native_dropout_gives_the_mask_that_its_derivative_uses() -> None:
    x = st.rand(20, 30, requires_grad=True)
    y, mask = st.native_dropout(x, 0.25, True)
    assert mask.dtype is st.bool
    assert not mask.requires_grad
    y.sum().backward()
    assert x.grad is not None
    assert st.equal(x.grad, mask / 0.75)
    assert st.equal(y, x * (mask / 0.75))
    y, mask = st.native_dropout(x, 0.25, False)
    assert st.equal(y, x)
    assert mask.all()


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16, st.float32, st.float64])
def test_uniform_numbers_never_reach_the_upper_end(dtype: st.dtype) -> None:
    for low, high in ((0.0, 1.0), (1.0, 2.0), (-3.0, -1.0)):
        drawn = st.empty(20000, dtype=dtype).uniform_(low, high)
        apart = st.empty(20000, 2, dtype=dtype)[:, 0].uniform_(low, high)
        for numbers in (drawn, apart):
            assert low <= numbers.min().item()
            assert numbers.max().item() < high
    assert st.empty(3, dtype=dtype).uniform_(2, 2).tolist() == [2.0] * 3


def test_normal_has_the_dtype_of_its_mean() -> None:
    half, single, double = (st.ones(2, dtype=d) for d in (st.float16, st.float32, st.float64))
    assert st.normal(half, single).dtype is st.float16
    assert st.normal(single, double).dtype is st.float32
    assert st.normal(double, half).dtype is st.float64
    with pytest.raises(RuntimeError, match="all elements of std >= 0"):
        st.normal(single, st.tensor([1.0, float("nan")]))


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16, st.int32, st.bool])
def test_ones_of_one_probability_are_torchs(dtype: st.dtype) -> None:
    want = [0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1]
    assert st.empty(12, dtype=dtype).bernoulli_(0.4).tolist() == want
    assert st.rand(1).item() == 0.41940832138061523  # so many words were taken
    st.manual_seed(0)
    assert st.empty(12, 2, dtype=dtype)[:, 1].bernoulli_(0.4).tolist() == want


@pytest.mark.parametrize("p", [0.0, 1e-12, 0.3, 1.0])
def test_ones_stand_where_doubles_are_below_the_probability(p: float) -> None:
    below = st.rand(5000, dtype=st.float64) < p
    st.manual_seed(0)
    assert st.equal(st.empty(5000).bernoulli_(p), below.float())


def test_dropout_is_torchs() -> None:
    dropped = st.nn.functional.dropout(st.ones(3, 2).t(), 0.3)
    kept = 1.4285714626312256
    assert dropped.tolist() == [[0.0, kept, kept], [0.0, 0.0, 0.0]]
    assert st.rand(1).item() == 0.022325754165649414
    st.manual_seed(0)
    assert st.nn.functional.dropout(st.ones(6), 1.0).tolist() == [0.0] * 6
    assert st.rand(1).item() == _SEED_0["rand"][0]  # nothing was drawn


def test_bounds_beyond_the_digits_of_a_dtype_are_warned_of() -> None:
    text = r"to - 1 is out of bounds \[-\(2\^11\), 2\^11\]"
    st.manual_seed(0)
    with pytest.warns(UserWarning, match=text):
        drawn = st.empty(4, dtype=st.float16).random_(0, 3000)
    assert drawn.tolist() == [516, 1869, 109, 768]  # torch's: the bound moves to 2998
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^24\), 2\^24\]"):
        assert st.empty(2).random_(0, 2**30).tolist() == [710291712, 375180448]
    with pytest.warns(UserWarning, match=r"from is out of bounds \[-\(2\^8\), 2\^8\]"):
        st.empty(2, dtype=st.bfloat16).random_(-1000, 5)
    with pytest.raises(RuntimeError, match="to - 1 is out of bounds for c10::Half"):
        st.empty(2, dtype=st.float16).random_(0, 2**16)
    st.empty(2).random_(-(2**24), 2**24)  # no warning


def test_numbers_up_to_the_largest_start_below_it() -> None:
    assert st.empty(50, dtype=st.int8).random_(126, None).min() >= 126
    assert st.empty(50).random_(2**24 - 1, None).min() >= 2**24 - 1
    with pytest.warns(UserWarning, match=r"from is out of bounds \[-\(2\^24\), 2\^24\]"):
        st.empty(2).random_(-(2**30), None)
    for dtype, digits in ((st.float32, 24), (st.float16, 11), (st.bfloat16, 8), (st.float64, 53)):
        last = 2**digits
        text = re.escape(
            "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to "
            f"dtype, but got from={last} > to_inc={last}"
        )
        with pytest.raises(RuntimeError, match=text):
            st.empty(2, dtype=dtype).random_(last, None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is warned of before
            with pytest.raises(RuntimeError, match="'from' casted to dtype"):
                st.empty(2).random_(2**40, None)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "message"),
    [
        (st.float32, float("nan"), 1.0, "from is out of bounds for float"),
        (st.float32, 0.0, float("inf"), "to is out of bounds for float"),
        (st.float32, 0.0, 1e39, "to is out of bounds for float"),
        (st.float16, 0.0, 65520.0, "to is out of bounds for c10::Half"),
        (st.bfloat16, 0.0, 3.4e38, "to is out of bounds for c10::BFloat16"),
        (st.complex64, -1e39, 0.0, "from is out of bounds for float"),
        (st.float64, float("-inf"), 0.0, "from is out of bounds for double"),
        (st.float32, -3e38, 3e38, "std::numeric_limits<Float>::max(), but found to=3e+38"),
        (st.float16, -40000.0, 40000.0, "std::numeric_limits<Half>::max(), but found to=40000"),
    ],
)
def test_bounds_of_uniform_numbers_are_those_of_the_dtype(
    dtype: st.dtype, low: float, high: float, message: str
) -> None:
    for n in (0, 3):
        if n == 0 and dtype is st.complex64:
            continue
        with pytest.raises(RuntimeError, match=re.escape(message)):
            st.empty(n, dtype=dtype).uniform_(low, high)
    st.empty(3, dtype=st.complex128).uniform_(0, 1e300)


def test_a_permutation_must_fit_its_dtype() -> None:
    assert sorted(st.randperm(256, dtype=st.uint8).tolist()) == list(range(256))
    assert st.randperm(2049, dtype=st.float16).shape == (2049,)
    for dtype, n, text in (
        (st.uint8, 257, "uint8_t without overflow"),
        (st.int8, 129, "int8_t without overflow"),
        (st.float16, 2050, "n cannot be greater than 2049 for Half type."),
        (st.float32, 2**24 + 2, r"n cannot be greater than 2\^24\+1 for Float type."),
    ):
        with pytest.raises(RuntimeError, match=text):
            st.randperm(n, out=st.empty(0, dtype=dtype))
        with pytest.raises(RuntimeError, match=text):
            st.randperm(n, dtype=dtype)
    for other in (st.bool, st.complex64):
        with pytest.raises(NotImplementedError, match='"randperm" not implemented for'):
            st.randperm(2, dtype=other)


@pytest.mark.parametrize("dtype", [st.int64, st.bool, st.complex64, st.float32])
def test_nothing_is_drawn_into_no_elements_whatever_the_dtype(dtype: st.dtype) -> None:
    state = st.get_rng_state()
    none = st.empty(0, dtype=dtype)
    for fill in ("normal_", "exponential_", "log_normal_", "bernoulli_", "random_"):
        assert getattr(none, fill)() is none
    assert none.geometric_(0.5) is none
    assert none.random_(-(2**63), None) is none
    assert st.randn(0, dtype=dtype).dtype is dtype
    assert st.normal(none.real, 1.0).shape == (0,)
    assert st.equal(state, st.get_rng_state())
    with pytest.raises(RuntimeError, match="lambda > 0"):
        none.exponential_(0)


@pytest.mark.parametrize(
    ("count", "p", "want", "after"),
    [
        (1.0, 0.3, [1, 0, 1, 1, 0], 0.6976675987243652),
        (10.0, 0.4, [6, 4, 5, 4, 5], 0.1534569263458252),
        (10.0, 0.9, [8, 7, 9, 10, 9], 0.41940832138061523),
        (100.0, 0.3, [29, 32, 25, 31, 29], 0.41940832138061523),
        (1000.0, 0.01, [11, 7, 11, 10, 9], 0.1852310299873352),
        (1000.0, 0.7, [702, 694, 715, 697, 702], 0.41940832138061523),
    ],
)
def test_numbers_of_successes_are_torchs(
    count: float, p: float, want: list[int], after: float
) -> None:
    assert st.binomial(st.full((5,), count), st.full((5,), p)).tolist() == want
    assert st.rand(1).item() == after  # so many words were taken


def test_the_dtype_chooses_how_successes_are_drawn() -> None:
    """1000 * 0.01f is 10 as a float, but less as a double."""
    p = st.full((5,), 0.01).double()
    drawn = st.binomial(st.full((5,), 1000.0, dtype=st.float64), p)
    assert drawn.tolist() == [12.0, 11.0, 14.0, 7.0, 10.0]
    assert st.rand(1).item() == 0.572950541973114


def test_seeds_are_integers() -> None:
    generator = st.Generator()
    for seed, name in ((True, "bool"), (st.tensor(3), "Tensor"), (1.5, "float"), ("a", "str")):
        with pytest.raises(RuntimeError, match=f"manual_seed expected a long, but got {name}"):
            generator.manual_seed(seed)  # type: ignore[arg-type]
    assert generator.manual_seed(np.int64(3)).initial_seed() == 3
    assert st.manual_seed(True).initial_seed() == 1


def test_a_generator_has_no_offset_and_no_state_of_graphs() -> None:
    generator = st.Generator()
    for call in (generator.get_offset, lambda: generator.set_offset(4)):
        with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
            call()  # type: ignore[operator]
    with pytest.raises(RuntimeError, match="manual_offset expected a long, but got str"):
        generator.set_offset("a")  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="graphsafe_get_state is not supported"):
        generator.graphsafe_get_state()
    with pytest.raises(NotImplementedError, match="graphsafe_set_state is not supported"):
        generator.graphsafe_set_state(st.Generator())
    with pytest.raises(TypeError, match="expected a Generator, but got int"):
        generator.graphsafe_set_state(1)  # type: ignore[arg-type]


def test_generators_are_pickled_as_torch_does_and_as_before() -> None:
    generator = st.Generator().manual_seed(5)
    st.rand(3, generator=generator)
    _, arguments, (seed, offset, state) = generator.__reduce__()
    assert (arguments, seed, offset) == ((st.device("cpu"),), 5, None)
    for pickled in ((seed, offset, state), state):
        copy = st.Generator()
        copy.__setstate__(pickled)
        assert copy.initial_seed() == 5
        assert st.equal(copy.get_state(), state)
    with pytest.raises(TypeError, match="ByteTensor"):
        copy.__setstate__((5, None, 1))
    with pytest.raises(RuntimeError, match=r"CPUGeneratorImplState of size 5056 but found .* be 3"):
        copy.set_state(st.zeros(3, dtype=st.uint8))


@pytest.mark.parametrize(
    ("make_one", "want"),
    [
        (lambda: st.empty(3, 2), [0, 0, 1, 1, 1, 0]),
        (lambda: st.empty(2, 3).t(), [0, 1, 0, 1, 1, 0]),
        (lambda: st.empty(3, 1, 2).transpose(0, 2), [0, 1, 1, 0, 1, 0]),
        (lambda: st.empty(2, 1, 3).transpose(0, 1), [0, 0, 1, 1, 1, 0]),
        (lambda: st.empty(2, 3, 2)[:, :, 0].t(), [0, 1, 0, 1, 1, 0]),
        (
            lambda: st.empty(2, 2, 2, 2).contiguous(memory_format=st.channels_last),
            [0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0],
        ),
    ],
)
def test_ones_of_probabilities_come_in_the_order_of_memory(make_one: object, want: object) -> None:
    drawn = make_one()  # type: ignore[operator]
    for p in (st.full(drawn.shape, 0.4), st.full(drawn.shape[-1:], 0.4)):
        st.manual_seed(0)
        assert drawn.bernoulli_(p).flatten().tolist() == want
    st.manual_seed(0)
    assert drawn.fill_(0.4).bernoulli_(drawn).flatten().tolist() == want
