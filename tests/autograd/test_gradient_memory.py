"""Memory that gradients take beside their results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from peak import peak

import shmtensor
import shmtensor.nn.functional as F
from shmtensor import Tensor

N = 256
#: What a thread works in.
BESIDE = 1300 << 10
#: A call of a matrix, and how many matrices exist at once: results, the gradient, and work.
PEAKS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "reshaped": (lambda a: a.reshape(-1) * 2, 2),
    "linear": (lambda a: F.linear(shmtensor.ones(2, N), a), 1.1),
    "matmul": (lambda a: shmtensor.matmul(a.reshape(4, 64, N), shmtensor.ones(4, N, 2)), 1.1),
    "index": (lambda a: a[shmtensor.arange(4)], 1.1),
    "index_select": (lambda a: a.index_select(0, shmtensor.arange(4)), 1.1),
    "gather": (lambda a: a.gather(0, shmtensor.zeros(2, N, dtype=shmtensor.int64)), 1.1),
    "take": (lambda a: a.take(shmtensor.arange(8)), 1.1),
    "max": (lambda a: a.max(1)[0], 1.1),
    "median": (lambda a: a.median(1)[0], 1.1),
    "sort": (lambda a: a.sort(1)[0], 4),
    "cummax": (lambda a: a.cummax(1)[0], 4),
}


@pytest.mark.parametrize("name", PEAKS)
def test_memory_of_gradients(name: str) -> None:
    call, matrices = PEAKS[name]
    a = shmtensor.randn(N, N)
    grad = shmtensor.ones(*call(a).shape)

    def run() -> Tensor:
        leaf = a.detach().requires_grad_()
        call(leaf).backward(grad)
        assert leaf.grad is not None
        return leaf.grad

    # Blocks may be an eighth larger than asked for.
    assert peak(run) <= (matrices * 1.125 + 0.2) * a.numel() * a.element_size()


@pytest.mark.check
def test_gradient_of_a_view_is_the_leafs_own() -> None:
    leaf = shmtensor.randn(3, 4).requires_grad_()
    seen: list[Tensor] = []
    twice = leaf.t() * 2
    twice.register_hook(seen.append)
    grad = shmtensor.ones(4, 3)
    twice.backward(grad)
    again = leaf.t()
    again.backward(grad)
    assert leaf.grad is not None
    assert leaf.grad.stride() == leaf.stride()
    assert leaf.grad._base is None
    assert leaf.grad.tolist() == [[3.0] * 4] * 3
    leaf.grad.zero_()
    assert grad.tolist() == [[1.0] * 3] * 4
    assert seen[0].tolist() == [[1.0] * 3] * 4


#: The same, with the result and its gradient among the matrices.
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "glu": (lambda a: F.glu(a), 2),
    "glu of columns": (lambda a: F.glu(a, 0), 2),
    "prelu": (lambda a: F.prelu(a, SLOPES), 3),
    "gumbel_softmax": (lambda a: F.gumbel_softmax(a), 4),
    "scaled": (lambda a: (a / 2).exp(), 3),
    "embedding_bag": (lambda a: F.embedding_bag(PAIRS, a, mode="sum"), 2),
    "embedding_bag mean": (lambda a: F.embedding_bag(PAIRS, a, mode="mean"), 2),
}
SLOPES = shmtensor.rand(N, requires_grad=True)
PAIRS = shmtensor.arange(N).reshape(-1, 2)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_memory_of_training_steps(name: str) -> None:
    call, matrices = ACTIVATIONS[name]
    a = shmtensor.randn(N, N)

    def run() -> Tensor:
        leaf = a.detach().requires_grad_()
        result = call(leaf)
        return shmtensor.autograd.grad(result, [leaf], shmtensor.ones_like(result))[0]

    assert peak(run) <= (matrices * 1.125 + 0.2) * a.numel() * a.element_size()


#: How a factor lies that has to be copied to be multiplied.
COPIED: dict[str, Callable[[Tensor], Tensor]] = {
    "one row": lambda a: a[:1].expand(N, N),
    "spread": lambda a: shmtensor.stack([a, a], -1)[..., 0],
}


@pytest.mark.parametrize("dtype", [shmtensor.float32, shmtensor.float64])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("name", COPIED)
def test_factors_are_copied_in_parts(
    threads: int, name: str, left: bool, dtype: shmtensor.dtype
) -> None:
    odd, plain = (
        COPIED[name](shmtensor.randn(N, N, dtype=dtype)),
        shmtensor.randn(N, N, dtype=dtype),
    )

    def run() -> object:
        leaves = [x.detach().requires_grad_() for x in ((odd, plain) if left else (plain, odd))]
        result = shmtensor.mm(*leaves)
        return shmtensor.autograd.grad(result, leaves, shmtensor.ones_like(result))

    nbytes = plain.numel() * plain.element_size()
    assert peak(run) <= 4 * nbytes * 9 // 8 + max(nbytes // 2, threads * (130 << 10))


MATRIX = shmtensor.rand(N, N)
#: Losses of one matrix, and how many matrices exist at once beside results without reduction and
#: their gradient.
LOSSES: dict[str, tuple[Callable[..., Tensor], int]] = {
    "mse_loss": (lambda a, **k: F.mse_loss(a, MATRIX, **k), 1),
    "huber_loss": (lambda a, **k: F.huber_loss(a, MATRIX, **k), 1),
    "soft_margin": (lambda a, **k: F.soft_margin_loss(a, MATRIX, **k), 2),
    "bce": (lambda a, **k: F.binary_cross_entropy(a, MATRIX, MATRIX, **k), 1),
    "bce with logits": (
        lambda a, **k: F.binary_cross_entropy_with_logits(a, MATRIX, MATRIX, **k),
        1,
    ),
    "bce with pos_weight": (
        lambda a, **k: F.binary_cross_entropy_with_logits(
            a, MATRIX, MATRIX, pos_weight=MATRIX[0], **k
        ),
        3,
    ),
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_slopes_of_losses_are_weighted_in_place(name: str, reduction: str) -> None:
    loss, matrices = LOSSES[name]
    a = shmtensor.rand(N, N)

    def run() -> Tensor:
        leaf = a.detach().requires_grad_()
        result = loss(leaf, reduction=reduction)
        return shmtensor.autograd.grad(result, leaf, shmtensor.ones_like(result))[0]

    beside = 2 if reduction == "none" else 0
    assert peak(run) <= (matrices + beside + 0.2) * 1.125 * a.numel() * a.element_size()


@pytest.mark.check
@pytest.mark.parametrize("margin", ["one", "several"])
def test_margin_losses_take_no_pairs_of_classes(margin: str) -> None:
    scores = shmtensor.randn(60, 80)
    one = shmtensor.randint(0, 80, (60,))
    several = shmtensor.cat([one.unsqueeze(1), shmtensor.full((60, 79), -1)], 1)

    def run() -> None:
        leaf = scores.detach().requires_grad_()
        if margin == "one":
            F.multi_margin_loss(leaf, one).backward()
        else:
            F.multilabel_margin_loss(leaf, several).backward()

    assert peak(run) <= 3 * scores.numel() * scores.element_size()


@pytest.mark.parametrize("pairs", ["pdist", "cdist"])
def test_gradients_of_distances_take_no_differences(pairs: str) -> None:
    rows = shmtensor.randn(100, 60)
    found = F.pdist(rows) if pairs == "pdist" else shmtensor.cdist(rows, rows)
    grad = shmtensor.ones(*found.shape)

    def run() -> None:
        leaf = rows.detach().requires_grad_()
        (F.pdist(leaf) if pairs == "pdist" else shmtensor.cdist(leaf, leaf)).backward(grad)

    assert peak(run) <= (found.numel() + 4 * rows.numel()) * rows.element_size()


#: A call of images, whose gradient takes no image beside the result and itself.
RESIZED: dict[str, Callable[[Tensor], Tensor]] = {
    "nearest": lambda a: F.interpolate(a, scale_factor=2),
    "bilinear": lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"),
    "bicubic smaller": lambda a: F.interpolate(a, scale_factor=0.6, mode="bicubic"),
    "reflect": lambda a: F.pad(a, (2, 3, 1, 1), mode="reflect"),
    "replicate": lambda a: F.pad(a, (2, 3, 1, 1), mode="replicate"),
    "circular": lambda a: F.pad(a, (2, 3, 1, 1), mode="circular"),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [shmtensor.float32, shmtensor.float16])
@pytest.mark.parametrize("name", RESIZED)
def test_gradients_of_resized_images(
    threads: int, name: str, dtype: shmtensor.dtype, last: bool
) -> None:
    images = shmtensor.randn(8, 16, 64, 64).to(dtype)
    grad = shmtensor.randn(*RESIZED[name](images).shape).to(dtype)
    if last:
        grad = grad.contiguous(memory_format=shmtensor.channels_last)

    def run(x: Tensor, g: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_()
        return shmtensor.autograd.grad(RESIZED[name](leaf), leaf, g)[0]

    elements = images.numel() + grad.numel()
    taken = peak(lambda: run(images, grad))
    assert taken <= elements * images.element_size() * 9 // 8 + threads * (700 << 10)
    wide = run(images.double(), grad.double().contiguous())
    eps = shmtensor.finfo(dtype).eps
    assert bool(((run(images, grad) - wide).abs() <= 30 * eps * (1 + wide.abs())).all())


#: Options, and the weight's sizes; images are (2, 16, 128, 128).
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "3x3": ((16, 16, 3, 3), {"padding": 1}),
    "3x3 stride 2": ((16, 16, 3, 3), {"padding": 1, "stride": 2}),
    "1x1": ((16, 16, 1, 1), {}),
    "grouped": ((16, 4, 3, 3), {"padding": 1, "stride": 2, "groups": 4}),
    "depthwise": ((16, 1, 3, 3), {"padding": 1, "groups": 16}),
}


@pytest.mark.parametrize(
    ("dtype", "last"),
    [
        (shmtensor.float32, False),
        (shmtensor.float32, True),
        (shmtensor.bfloat16, False),
        (shmtensor.bfloat16, True),
        (shmtensor.float16, True),
    ],
)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_convolutions_are_made_a_box_at_a_time(
    name: str, dtype: shmtensor.dtype, last: bool
) -> None:
    sizes, options = CONVOLUTIONS[name]
    lie = shmtensor.channels_last if last else shmtensor.contiguous_format
    x = shmtensor.ones(2, 16, 128, 128, dtype=dtype).contiguous(memory_format=lie).requires_grad_()
    w = shmtensor.ones(*sizes, dtype=dtype).requires_grad_()
    y = F.conv2d(x, w, **options)
    grad = shmtensor.ones(*y.shape, dtype=dtype).contiguous(memory_format=lie)
    nbytes = x.numel() * x.element_size()

    def gradients() -> object:
        return shmtensor.autograd.grad(y, (x, w), grad, retain_graph=True)

    def transposed() -> object:
        with shmtensor.no_grad():
            return F.conv_transpose2d(grad, w, **options)

    assert peak(gradients) <= nbytes * 9 // 8 + BESIDE * shmtensor.get_num_threads()
    assert peak(transposed) <= nbytes * 9 // 8 + BESIDE * shmtensor.get_num_threads()
