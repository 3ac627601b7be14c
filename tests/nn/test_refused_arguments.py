"""Arguments of layers and losses that torch refuses, and with which exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
import shmtensor.nn.functional as F

PAIR, ROWS, CLASSES = T.ones(2), T.ones(2, 3), T.tensor([0, 1])
IMAGE = T.ones(1, 1, 4, 4)

REFUSED: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "scores of integers": (
        NotImplementedError,
        lambda: F.binary_cross_entropy_with_logits(PAIR.long(), PAIR),
    ),
    "numbers of classes as probabilities": (
        RuntimeError,
        lambda: T.nn.BCEWithLogitsLoss()(PAIR, PAIR.long()),
    ),
    "truths as probabilities": (
        RuntimeError,
        lambda: F.binary_cross_entropy_with_logits(PAIR, PAIR.bool()),
    ),
    "one class too many for one sample": (ValueError, lambda: F.nll_loss(T.ones(3), CLASSES)),
    "no reduction": (ValueError, lambda: F.mse_loss(PAIR, PAIR, reduction=None)),
    "soft margins of more targets than scores": (
        RuntimeError,
        lambda: F.soft_margin_loss(T.ones(1), T.ones(5)),
    ),
    "soft margins of a column and a row": (
        RuntimeError,
        lambda: F.soft_margin_loss(T.ones(5, 1), T.ones(5)),
    ),
    "margins of fractions as classes": (
        RuntimeError,
        lambda: F.multi_margin_loss(ROWS, CLASSES.float()),
    ),
    "margins of narrow classes": (
        RuntimeError,
        lambda: F.multilabel_margin_loss(ROWS, ROWS.int()),
    ),
    "margins of nothing": (TypeError, lambda: F.multi_margin_loss(None, CLASSES)),
    "a mean without a variance": (
        ValueError,
        lambda: F.batch_norm(ROWS, T.zeros(3), None, training=True),
    ),
    "a variance without a mean": (
        ValueError,
        lambda: F.instance_norm(T.ones(2, 3, 4), None, T.ones(3)),
    ),
    "means of two dims": (
        RuntimeError,
        lambda: F.batch_norm(ROWS, T.zeros(3, 1), T.ones(3), training=True),
    ),
    "a bilinear form of two dtypes": (
        RuntimeError,
        lambda: F.bilinear(ROWS, ROWS.double(), T.ones(1, 3, 3)),
    ),
    "a bilinear form of nothing": (TypeError, lambda: F.bilinear(ROWS, None, T.ones(1, 3, 3))),
    "lengths of less than nothing": (
        RuntimeError,
        lambda: F.cosine_similarity(PAIR, PAIR, 0, -1.0),
    ),
    "one size for two dims": (RuntimeError, lambda: F.adaptive_avg_pool2d(IMAGE, [2])),
    "three sizes for two dims": (
        RuntimeError,
        lambda: T._C._nn.adaptive_max_pool2d(IMAGE, [2] * 3),
    ),
    "no padding": (RuntimeError, lambda: F.avg_pool2d(IMAGE, 2, padding=())),
    "one size of a filter": (RuntimeError, lambda: F.unfold(IMAGE, (2,))),
    "one size of an image": (RuntimeError, lambda: F.fold(T.ones(1, 4, 4), (3,), 2)),
    "one size of random windows": (
        RuntimeError,
        lambda: F.fractional_max_pool2d(IMAGE, (2,), output_size=2),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_is_refused(what: str) -> None:
    error, call = REFUSED[what]
    with pytest.raises(error) as caught:
        call()
    # NotImplementedError is a RuntimeError, but another one.
    assert isinstance(caught.value, NotImplementedError) == (error is NotImplementedError)


@pytest.mark.check
def test_binary_entropy_of_scores_has_the_dtype_of_the_targets() -> None:
    for scores, targets in ((T.float64, T.float32), (T.float32, T.float64), (T.half, T.float32)):
        x = T.tensor([0.5, -1.0], dtype=scores, requires_grad=True)
        y = T.tensor([1.0, 0.0], dtype=targets)
        loss = F.binary_cross_entropy_with_logits(x, y, weight=T.ones(2, dtype=T.float64))
        assert loss.dtype is targets
        assert loss.item() == pytest.approx(0.393669, rel=1e-3 if targets is T.half else 2e-6)
        loss.backward()
        assert x.grad.dtype is scores
        near = 2**-11 if scores is T.half else 2e-5
        assert x.grad.tolist() == pytest.approx([-0.188770, 0.134471], rel=near)


def test_one_number_is_for_both_dims() -> None:
    assert F.unfold(IMAGE, 2).shape == (1, 4, 9)
    assert F.adaptive_avg_pool2d(IMAGE, 2).shape == (1, 1, 2, 2)
    assert F.fractional_max_pool2d(IMAGE, 2, output_size=2).shape == (1, 1, 2, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda out: T.zeros(2, out=out),
        lambda out: T.arange(2, out=out),
        lambda out: T.linspace(0, 1, 2, out=out),
        lambda out: T.full((2,), 1.0, out=out),
        lambda out: T.rand(2, out=out),
    ],
)
def test_factories_do_not_write_where_gradients_are_required(make: Callable[[Any], Any]) -> None:
    out = T.full((2,), 7.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="support automatic differentiation"):
        make(out)
    assert out.tolist() == [7.0, 7.0]
    with T.no_grad():
        make(out)


def test_no_memory_is_an_error_of_both_names() -> None:
    for error in (MemoryError, RuntimeError, T.errors.OutOfMemoryError):
        with pytest.raises(error, match="can't allocate memory"):
            T.empty(1 << 58)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("make", [T.nn.Conv1d, T.nn.ConvTranspose1d])
def test_convolutions_of_another_dtype_name_both(make: Any, n: int) -> None:
    make = getattr(T.nn, make.__name__.replace("1", str(n)))
    image = T.ones(1, 2, *[4] * n)
    for given, name in [(image.double(), "double"), (image.long(), "long int")]:
        with pytest.raises(RuntimeError) as error:
            make(2, 3, 2)(given)
        assert str(error.value) == f"Input type ({name}) and bias type (float) should be the same"
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        make(2, 3, 2, bias=False)(image.double())


@pytest.mark.check
def test_layers_name_the_argument_that_is_no_tensor() -> None:
    with pytest.raises(TypeError, match=r"sigmoid\(\): argument 'input' \(position 1\) must be"):
        T.nn.Sigmoid()("x")
    with pytest.raises(TypeError, match=r"tanh\(\): argument 'input' \(position 1\) must be"):
        T.nn.Tanh()(None)


@pytest.mark.parametrize("name", ["cuda", "xpu"])
def test_absent_devices_explain_themselves(name: str) -> None:
    for thing in (T.ones(2), T.nn.Linear(2, 2)):
        with pytest.raises(AssertionError, match=f"not compiled with {name.upper()} enabled"):
            thing.to(name)
        with pytest.raises(AssertionError, match=f"not compiled with {name.upper()} enabled"):
            getattr(thing, name)()


def test_class_weights_have_the_dtype_of_the_scores() -> None:
    for loss in (F.nll_loss, F.cross_entropy, F.multi_margin_loss):
        with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
            loss(ROWS, CLASSES, weight=T.ones(3).double())


def test_adaptive_pools_want_a_size_for_each_dim() -> None:
    for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        with pytest.raises(RuntimeError, match="must be 2"):
            pool(IMAGE, (2, 2, 2))


def test_weight_norm_of_nothing_is_an_absent_attribute() -> None:
    with pytest.warns(FutureWarning), pytest.raises(AttributeError, match="attribute 'x'"):
        T.nn.utils.weight_norm(T.nn.Linear(2, 2), "x")


def test_old_names_of_types_elsewhere_are_refused() -> None:
    with pytest.raises(RuntimeError, match="no accelerator device"):
        PAIR.type("torch.cuda.FloatTensor")
    assert PAIR.type("torch.DoubleTensor").dtype is T.float64


TEXTS: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "Hardtanh": (
        AssertionError,
        "max_val (1) must be greater than min_val (1)",
        lambda: T.nn.Hardtanh(1, 1),
    ),
    "Bilinear": (
        ValueError,
        "in1_features must be > 0, but got (in1_features=0)",
        lambda: T.nn.Bilinear(0, 1, 2),
    ),
    "HuberLoss": (
        TypeError,
        "delta must be a float or int, got: <class 'str'>",
        lambda: T.nn.HuberLoss(delta="a"),  # type: ignore[arg-type]
    ),
    "MultiMarginLoss": (
        ValueError,
        "MultiMarginLoss: expected weight to be None or 1D tensor, got 2D instead",
        lambda: T.nn.MultiMarginLoss(weight=ROWS),
    ),
    "Unflatten to a number": (
        TypeError,
        "unflattened_size must be a tuple of ints, but found type int",
        lambda: T.nn.Unflatten(1, 2),  # type: ignore[arg-type]
    ),
    "Unflatten to a name": (
        TypeError,
        "unflattened_size must be tuple of ints, but found element of type str at pos 1",
        lambda: T.nn.Unflatten(1, (2, "a")),  # type: ignore[arg-type]
    ),
    "multi_head_attention_forward": (
        AssertionError,
        "Expected key_padded_mask.shape[0] to be 2, but got 5",
        lambda: T.nn.MultiheadAttention(4, 2)(
            *(T.ones(3, 2, 4),) * 3, key_padding_mask=T.zeros(5, 3, dtype=T.bool)
        ),
    ),
    "interpolate": (
        ValueError,
        "recompute_scale_factor is not meaningful with an explicit size.",
        lambda: F.interpolate(IMAGE, size=3, recompute_scale_factor=True),
    ),
    "FractionalMaxPool3d": (
        ValueError,
        "kernel_size must be greater than 0, but got (1, 0, 1)",
        lambda: T.nn.FractionalMaxPool3d((1, 0, 1), output_size=1),
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_layers_say_what_they_refuse(name: str) -> None:
    kind, text, call = TEXTS[name]
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == text


def test_unflatten_shows_the_sizes_as_they_were_given() -> None:
    assert repr(T.nn.Unflatten(1, [2, -1])) == "Unflatten(dim=1, unflattened_size=[2, -1])"
    assert T.nn.Unflatten(1, [2, -1])(T.ones(1, 4)).shape == (1, 2, 2)


@pytest.mark.parametrize("make", [T.nn.Conv2d, T.nn.ConvTranspose2d])
@pytest.mark.parametrize("option", ["kernel_size", "stride", "padding", "dilation"])
def test_sizes_of_convolutions_are_no_fractions(make: Any, option: str) -> None:
    sizes: dict[str, Any] = {"kernel_size": 3, option: 1.5}
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        make(1, 1, **sizes)


def test_losses_with_other_reductions_are_refused_when_they_are_called() -> None:
    class Own(T.nn.modules.loss._Loss):
        def forward(self, input: Any) -> Any:
            return input if self.reduction == "batch" else input.sum()

    assert Own(reduction="batch")(PAIR) is PAIR
    for kind in (T.nn.L1Loss, T.nn.KLDivLoss, T.nn.BCELoss, T.nn.PoissonNLLLoss):
        loss = kind(reduction="batch")
        with pytest.raises(ValueError, match="batch is not "):
            loss(PAIR, PAIR)


def test_offsets_of_bags_are_whole_numbers() -> None:
    with pytest.raises(RuntimeError, match=r"scalar types: Long, Int; but got .*FloatTensor"):
        T.nn.EmbeddingBag(3, 2)(CLASSES, T.tensor([0.0]))


def test_an_embedding_with_sparse_gradients_says_so() -> None:
    assert repr(T.nn.Embedding(3, 2, sparse=True)) == "Embedding(3, 2, sparse=True)"


def test_states_of_lstms_are_two() -> None:
    state, x = T.ones(1, 2, 4), T.ones(5, 2, 3)
    for states in ((state,), (state, state, state)):
        with pytest.raises(RuntimeError, match="lstm expects two hidden states"):
            T.nn.LSTM(3, 4)(x, states)
        with pytest.raises(RuntimeError, match="lstm_cell expects two hidden states"):
            T.nn.LSTMCell(3, 4)(x[0], tuple(s[0] for s in states))


def test_lazy_convolutions_show_the_shape() -> None:
    with pytest.raises(RuntimeError, match=r"input of size: \w+\.Size\(\[4\]\)$"):
        T.nn.LazyConv2d(3, 2)(T.ones(4))
