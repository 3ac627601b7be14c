"""flex_attention and block masks: known values, a plain softmax as the definition, and torch."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import shmtensor as T
from shmtensor.nn.attention import flex_attention as flex
from shmtensor.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def near(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q - k).abs() < 20


def late(b: Any, h: Any, q: Any, k: Any) -> Any:
    """The first queries look nowhere."""
    return (q >= k) & (q > 5)


def second_head(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (h == 1) | (q >= k)


def distance(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + (h + 1) * (k - q)


def random(m: Any, *shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    made = T.randn(shape, generator=T.Generator().manual_seed(seed), dtype=T.float64)
    return m.tensor(made.tolist(), dtype=getattr(m, dtype))


def inputs(m: Any, dtype: str = "float64", kv_heads: int = 4) -> tuple[Any, Any, Any]:
    """Queries (2, 4, 10, 8), keys (2, kv_heads, 12, 8), values (2, kv_heads, 12, 6)."""
    return (
        random(m, 2, 4, 10, 8, dtype=dtype),
        random(m, 2, kv_heads, 12, 8, dtype=dtype, seed=1),
        random(m, 2, kv_heads, 12, 6, dtype=dtype, seed=2),
    )


# --- attention -----------------------------------------------------------------------------------


@pytest.mark.check
def test_without_options_it_is_plain_attention() -> None:
    query, key, value = inputs(T)
    weights = (query @ key.mT / math.sqrt(8)).softmax(-1)
    T.testing.assert_close(flex.flex_attention(query, key, value), weights @ value)


def test_scale_replaces_the_root_of_the_width() -> None:
    query, key, value = inputs(T)
    weights = (query @ key.mT * 0.5).softmax(-1)
    T.testing.assert_close(flex.flex_attention(query, key, value, scale=0.5), weights @ value)


def test_equal_scores_give_the_mean_of_the_keys_that_may_be_seen() -> None:
    query, key = T.zeros(1, 1, 4, 2), T.zeros(1, 1, 4, 2)
    value = T.tensor([1.0, 3.0, 5.0, 7.0]).reshape(1, 1, 4, 1)
    mask = create_block_mask(causal, None, None, 4, 4, BLOCK_SIZE=2)
    result, aux = flex.flex_attention(
        query, key, value, block_mask=mask, return_aux=AuxRequest(lse=True)
    )
    assert result.flatten().tolist() == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert aux.lse.flatten().tolist() == pytest.approx([math.log(n) for n in (1, 2, 3, 4)])
    assert aux.max_scores is None


def test_score_mod_sees_scaled_scores_and_positions() -> None:
    query, key, value = inputs(T)
    scores = query @ key.mT / math.sqrt(8)
    heads = T.arange(1, 5).reshape(1, 4, 1, 1)
    away = T.arange(12) - T.arange(10).reshape(10, 1)
    expected = (scores + heads * away).softmax(-1) @ value
    T.testing.assert_close(flex.flex_attention(query, key, value, distance), expected)


def test_score_mod_may_index_tensors_with_positions() -> None:
    query, key, value = inputs(T)
    bias = random(T, 2, 4, 10, 12, seed=3)
    scores = query @ key.mT / math.sqrt(8)
    result = flex.flex_attention(query, key, value, lambda s, b, h, q, k: s + bias[b, h, q, k])
    T.testing.assert_close(result, (scores + bias).softmax(-1) @ value)


def test_block_mask_and_score_of_minus_infinity_agree() -> None:
    query, key, value = inputs(T)
    mask = create_block_mask(causal, None, None, 10, 12, BLOCK_SIZE=4)
    by_score = flex.flex_attention(
        query, key, value, lambda s, b, h, q, k: T.where(q >= k, s, -math.inf)
    )
    T.testing.assert_close(flex.flex_attention(query, key, value, block_mask=mask), by_score)


def test_queries_that_look_nowhere_give_zeros_and_no_nan() -> None:
    query, key, value = (t.requires_grad_() for t in inputs(T))
    mask = create_block_mask(late, None, None, 10, 12, BLOCK_SIZE=4)
    result, aux = flex.flex_attention(
        query, key, value, block_mask=mask, return_aux=AuxRequest(lse=True)
    )
    assert (result[:, :, :6] == 0).all()
    assert (aux.lse[:, :, :6] == -math.inf).all()
    result.sum().backward()
    for leaf in (query, key, value):
        assert leaf.grad.isfinite().all()


def test_fewer_heads_of_keys_serve_groups_of_queries() -> None:
    query, key, value = inputs(T, kv_heads=2)
    expected = flex.flex_attention(
        query, key.repeat_interleave(2, dim=1), value.repeat_interleave(2, dim=1), distance
    )
    grouped = flex.flex_attention(query, key, value, distance, enable_gqa=True)
    T.testing.assert_close(grouped, expected)


def test_derivatives_are_right() -> None:
    query, key, value = random(T, 1, 2, 3, 4), random(T, 1, 2, 5, 4), random(T, 1, 2, 5, 2)
    mask = create_block_mask(second_head, 1, 2, 3, 5, BLOCK_SIZE=2)

    def call(*tensors: Any) -> Any:
        return flex.flex_attention(*tensors, distance, mask)

    leaves = [t.requires_grad_() for t in (query, key, value)]
    assert T.autograd.gradcheck(call, leaves)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_result_has_the_dtype_of_the_query(dtype: str) -> None:
    query, key, value = inputs(T, dtype)
    result, aux = flex.flex_attention(query, key, value, return_aux=AuxRequest(lse=True))
    assert result.dtype is query.dtype
    assert aux.lse.dtype is (T.float64 if dtype == "float64" else T.float32)


def test_no_queries_and_no_keys() -> None:
    query, key, value = T.ones(1, 2, 0, 4), T.ones(1, 2, 3, 4), T.ones(1, 2, 3, 5)
    assert flex.flex_attention(query, key, value).shape == (1, 2, 0, 5)
    result = flex.flex_attention(T.ones(1, 2, 3, 4), T.ones(1, 2, 0, 4), T.ones(1, 2, 0, 5))
    assert result.tolist() == T.zeros(1, 2, 3, 5).tolist()


@pytest.mark.check
def test_older_way_of_asking_for_lse_warns() -> None:
    query, key, value = inputs(T)
    with pytest.warns(FutureWarning, match="return_lse is deprecated"):
        result, lse = flex.flex_attention(query, key, value, return_lse=True)
    expected = (query @ key.mT / math.sqrt(8)).logsumexp(-1)
    T.testing.assert_close(lse, expected)
    T.testing.assert_close(result, flex.flex_attention(query, key, value))


# --- masks ---------------------------------------------------------------------------------------


def test_create_mask_asks_at_every_place() -> None:
    mask = flex.create_mask(second_head, 2, 2, 3, 4)
    assert mask.shape == (2, 2, 3, 4)
    assert mask[1, 0].tolist() == [[q >= k for k in range(4)] for q in range(3)]
    assert mask[:, 1].all()
    by_score = flex.create_mask(lambda s, b, h, q, k: T.where(q >= k, s, -math.inf), 2, 1, 3, 4)
    assert by_score[1, 0].tolist() == mask[1, 0].tolist()
    assert flex.create_mask(causal, 0, None, 3, 4).shape == (0, 1, 3, 4)


def test_and_or_of_masks() -> None:
    parts = [flex.create_mask(mod, 1, 1, 30, 30) for mod in (causal, near)]
    both = flex.create_mask(flex.and_masks(causal, near), 1, 1, 30, 30)
    either = flex.create_mask(flex.or_masks(causal, near), 1, 1, 30, 30)
    assert both.equal(parts[0] & parts[1])
    assert either.equal(parts[0] | parts[1])
    assert flex.create_mask(flex.and_masks(), 1, 1, 2, 2).all()
    assert not flex.create_mask(flex.or_masks(), 1, 1, 2, 2).any()


def test_blocks_are_empty_partial_or_full() -> None:
    mask = create_block_mask(causal, 1, 1, 6, 6, BLOCK_SIZE=2)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1]]]
    assert mask.kv_indices[0, 0, :, 0].tolist() == [0, 1, 2]
    assert mask.full_kv_num_blocks is not None
    assert mask.full_kv_indices is not None
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 2]]]
    assert mask.full_kv_indices[0, 0, 2, :2].tolist() == [0, 1]
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert mask.q_num_blocks is not None
    assert mask.full_q_num_blocks is not None
    assert mask.full_q_num_blocks.tolist() == [[[2, 1, 0]]]
    assert mask.shape == (1, 1, 6, 6)
    assert mask.numel() == 36
    assert mask.sparsity() == pytest.approx(100 / 3)


def test_without_full_blocks_all_are_partial() -> None:
    mask = create_block_mask(causal, 1, 1, 6, 6, BLOCK_SIZE=2, separate_full_blocks=False)
    assert mask.full_kv_num_blocks is None
    assert mask.kv_num_blocks.tolist() == [[[1, 2, 3]]]


def test_blocks_at_the_edge_are_never_full() -> None:
    mask = create_block_mask(flex.noop_mask, 1, 1, 3, 5, BLOCK_SIZE=(2, 4))
    assert mask.full_kv_num_blocks is not None
    assert mask.full_kv_num_blocks.tolist() == [[[1, 0]]]
    assert mask.kv_num_blocks.tolist() == [[[1, 2]]]


@pytest.mark.parametrize("mod", [causal, near, late, second_head])
@pytest.mark.parametrize("size", [4, (4, 8), 128])
def test_blocks_cover_what_the_function_allows(mod: Any, size: Any) -> None:
    mask = create_block_mask(mod, 1, 2, 30, 41, BLOCK_SIZE=size)
    rows, columns = mask.BLOCK_SIZE
    spread = mask.to_dense().repeat_interleave(rows, -2).repeat_interleave(columns, -1)
    allowed = flex.create_mask(mod, 1, 2, 30, 41)
    assert (spread[..., :30, :41].bool() | ~allowed).all()


def test_indexing_keeps_dimensions_and_cuts_rows_of_blocks() -> None:
    mask = create_block_mask(second_head, 2, 2, 6, 6, BLOCK_SIZE=2)
    assert mask[0].shape == (1, 2, 6, 6)
    assert mask[1, 1].to_dense().tolist() == [[[[1] * 3] * 3]]
    assert mask[:, :, -1].kv_indices.shape == (2, 2, 1, 3)


def test_adjusting_keeps_the_upper_left_corner() -> None:
    mask = create_block_mask(causal, 1, 1, 8, 8, BLOCK_SIZE=2)._adjust(4, 6)
    fresh = create_block_mask(causal, 1, 1, 4, 6, BLOCK_SIZE=2)
    assert mask.seq_lengths == (4, 6)
    assert mask.to_dense().equal(fresh.to_dense())
    tensors = T.zeros(1, 1, 4, 2), T.zeros(1, 1, 6, 2), random(T, 1, 1, 6, 3, dtype="float32")
    T.testing.assert_close(
        flex.flex_attention(*tensors, block_mask=mask),
        flex.flex_attention(*tensors, block_mask=fresh),
    )


def test_texts_draw_the_blocks() -> None:
    mask = create_block_mask(causal, 1, 1, 8, 8, BLOCK_SIZE=4)
    assert mask.to_string() == "(0, 0)\n██  \n████\n"
    assert "sparsity=25.00%" in str(mask)
    assert "mask_mod=causal" in repr(mask)
    assert "░░" in mask.to_string(grid_size=1)


# --- errors --------------------------------------------------------------------------------------

ERRORS: dict[str, Any] = {
    "three_dims": lambda m, f: f.flex_attention(*[m.ones(2, 3, 4)] * 3),
    "widths": lambda m, f: f.flex_attention(
        m.ones(1, 1, 2, 4), m.ones(1, 1, 2, 8), m.ones(1, 1, 2, 4)
    ),
    "heads": lambda m, f: f.flex_attention(
        m.ones(1, 4, 2, 4), m.ones(1, 2, 2, 4), m.ones(1, 2, 2, 4)
    ),
    "groups": lambda m, f: f.flex_attention(
        m.ones(1, 4, 2, 4), m.ones(1, 3, 2, 4), m.ones(1, 3, 2, 4), enable_gqa=True
    ),
    "batches": lambda m, f: f.flex_attention(
        m.ones(2, 1, 2, 4), m.ones(3, 1, 2, 4), m.ones(3, 1, 2, 4)
    ),
    "both": lambda m, f: f.flex_attention(
        *[m.ones(1, 1, 2, 4)] * 3, return_lse=True, return_aux=f.AuxRequest(lse=True)
    ),
    "max_scores": lambda m, f: f.flex_attention(
        *[m.ones(1, 1, 2, 4)] * 3, return_aux=f.AuxRequest(max_scores=True)
    ),
    "longer": lambda m, f: f.flex_attention(
        *[m.ones(1, 1, 20, 4)] * 3,
        block_mask=f.create_block_mask(causal, 1, 1, 10, 10, device="cpu"),
    ),
    "combined": lambda m, f: f.and_masks(3),
    "parameters": lambda m, f: f.create_mask(lambda a, b: a, 1, 1, 2, 2, device="cpu"),
    "scores": lambda m, f: f.create_block_mask(distance, 1, 1, 2, 2, device="cpu"),
    "no_function": lambda m, f: f.create_block_mask(3, 1, 1, 2, 2, device="cpu"),
    "one_dim": lambda m, f: f.BlockMask.from_kv_blocks(
        m.ones(1, dtype=m.int32), m.ones(1, dtype=m.int32)
    ),
    "half_given": lambda m, f: f.BlockMask.from_kv_blocks(
        m.ones(1, 1, dtype=m.int32), m.zeros(1, 1, 1, dtype=m.int32), m.ones(1, 1, dtype=m.int32)
    ),
}
TYPES = {
    "three_dims": NotImplementedError,
    "max_scores": NotImplementedError,
    "combined": RuntimeError,
    "one_dim": RuntimeError,
    "no_function": TypeError,
    "parameters": AssertionError,
    "scores": AssertionError,
    "half_given": AssertionError,
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    with pytest.raises(TYPES.get(name, ValueError)) as caught:
        ERRORS[name](T, flex)
    assert str(caught.value)


# --- beside torch --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs() -> Any:
    """torch's module, which computes here without its compiler."""
    pytest.importorskip("torch")
    module = pytest.importorskip("torch.nn.attention.flex_attention")
    name = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    if not hasattr(module, name):
        pytest.skip("this torch always compiles")
    before = getattr(module, name)
    setattr(module, name, True)
    yield module
    setattr(module, name, before)


def tables(mask: Any) -> list[Any]:
    """The tables of a mask, without what stands behind their counts."""
    found: list[Any] = [mask.seq_lengths, mask.BLOCK_SIZE]
    for kind in ("kv", "full_kv", "q", "full_q"):
        counts = getattr(mask, f"{kind}_num_blocks")
        if counts is None:
            found.append(None)
            continue
        rows = zip(
            counts.flatten().tolist(),
            getattr(mask, f"{kind}_indices").flatten(0, -2).tolist(),
            strict=True,
        )
        found.append([list(counts.shape), *(sorted(row[:count]) for count, row in rows)])
    return found


@pytest.mark.parametrize("mod", [causal, near, late, second_head])
@pytest.mark.parametrize("lengths", [(100, 100), (64, 130), (10, 10)])
@pytest.mark.parametrize("size", [32, (16, 64), 128])
def test_block_masks_are_torch_s(theirs: Any, mod: Any, lengths: Any, size: Any) -> None:
    for separate in (True, False):
        made = [
            f.create_block_mask(
                mod, 2, 3, *lengths, device="cpu", BLOCK_SIZE=size, separate_full_blocks=separate
            )
            for f in (flex, theirs)
        ]
        for change in (
            lambda m: m,
            lambda m: m[0],
            lambda m: m[0, 1:],
            lambda m: m[:, -1, :1],
            lambda m: m._adjust(9, 7),
        ):
            mine, its = map(change, made)
            assert tables(mine) == tables(its)
            assert mine.to_dense().tolist() == its.to_dense().tolist()
            assert mine.sparsity() == its.sparsity()
        assert str(made[0]) == str(made[1])
        assert made[0].to_string((3, 2), 1) == made[1].to_string((3, 2), 1)


@pytest.mark.parametrize(
    "dtype, tolerance",
    [("float64", 1e-13), ("float32", 1e-5), ("bfloat16", 3e-2), ("float16", 4e-3)],
)
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("mod", [None, causal, late])
@pytest.mark.parametrize("score_mod", [None, distance])
def test_results_are_torch_s(
    theirs: Any, dtype: str, tolerance: float, kv_heads: int, mod: Any, score_mod: Any
) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for m, f in ((T, flex), (torch, theirs)):
        mask = mod and f.create_block_mask(mod, None, None, 10, 12, device="cpu", BLOCK_SIZE=4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result, aux = f.flex_attention(
                *inputs(m, dtype, kv_heads),
                score_mod,
                mask,
                enable_gqa=kv_heads == 2,
                return_aux=f.AuxRequest(lse=True),
            )
        assert result.dtype is getattr(m, dtype)
        found.append([result.double().tolist(), aux.lse.double().tolist()])
    for mine, its in zip(*found, strict=True):
        T.testing.assert_close(T.tensor(mine), T.tensor(its), rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torch_s(theirs: Any, name: str) -> None:
    torch = pytest.importorskip("torch")
    texts = []
    for m, f in ((T, flex), (torch, theirs)):
        with pytest.raises(Exception) as caught:
            ERRORS[name](m, f)
        texts.append(f"{caught.type.__name__}: {caught.value}")
    if name == "longer":  # the pictures and the advice behind the first sentence differ
        texts = [text.partition(" As the")[0] for text in texts]
    assert texts[0] == texts[1]


def test_masks_keep_their_tables_on_a_device() -> None:
    mask = create_block_mask(causal, 1, 1, 6, 6, BLOCK_SIZE=2)
    assert isinstance(mask, BlockMask)
    moved = mask.to("cpu")
    assert tables(moved) == tables(mask)
    assert moved.mask_mod is causal


def test_masks_keep_the_orders_that_they_are_given() -> None:
    counts, indices = T.ones(1, 1, 2, dtype=T.int32), T.zeros(1, 1, 2, 1, dtype=T.int32)
    order = T.zeros(1, 1, 2, 1, dtype=T.int32)
    mask = BlockMask.from_kv_blocks(counts, indices, dq_write_order=order, dq_kv_order=True)
    for each in (mask, mask.to("cpu")):
        assert each.dq_write_order is order
        assert each.dq_kv_order is None
        assert each.dq_kv_order_spt is True
    assert mask.as_tuple()[-7:-3] == (order, None, None, True)
