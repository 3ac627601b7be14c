"""Flash attention against the plain formula. Multi-head attention is in test_layers."""

from __future__ import annotations

import pytest
from roundings import assert_summed

import shmtensor as st
from shmtensor.autograd import gradcheck, gradgradcheck

F = st.nn.functional


def _random(*shape, dtype=st.float64):
    return st.randn(*shape, dtype=dtype)


@pytest.fixture(autouse=True)
def _seed():
    st.manual_seed(5)


def _plain(q, k, v, mask=None, scale=None):
    scores = q @ k.transpose(-2, -1) * (q.size(-1) ** -0.5 if scale is None else scale)
    if mask is not None:
        hidden = mask if mask.dtype is not st.bool else st.zeros_like(mask, dtype=q.dtype)
        scores = scores + hidden
        if mask.dtype is st.bool:
            scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1).nan_to_num(0.0) @ v


@pytest.mark.check
@pytest.mark.parametrize("lengths", [(3, 5), (64, 256), (70, 300), (1, 1)])
def test_blocks_give_the_plain_formula(lengths):
    q, k, v = (
        _random(2, 2, lengths[0], 4),
        _random(2, 2, lengths[1], 4),
        _random(2, 2, lengths[1], 3),
    )
    assert st.allclose(F.scaled_dot_product_attention(q, k, v), _plain(q, k, v))


@pytest.mark.parametrize("kind", ["bool", "float", "causal"])
def test_masks(kind):
    q, k, v = _random(2, 3, 70, 4), _random(2, 3, 270, 4), _random(2, 3, 270, 4)
    seen = st.ones(70, 270, dtype=st.bool).tril()
    if kind == "causal":
        result = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        mask = seen if kind == "bool" else st.zeros(70, 270, dtype=st.float64)
        mask = mask if kind == "bool" else mask.masked_fill(~seen, float("-inf"))
        result = F.scaled_dot_product_attention(q, k, v, mask)
    assert st.allclose(result, _plain(q, k, v, seen))


def test_query_that_sees_nothing_gives_zeros():
    q = _random(1, 1, 2, 4).requires_grad_()
    mask = st.tensor([[False, False], [True, False]])
    result = F.scaled_dot_product_attention(q, q, q, mask)
    assert result[0, 0, 0].tolist() == [0.0] * 4
    assert bool(st.autograd.grad(result.sum(), q)[0].isfinite().all())


@pytest.mark.parametrize("causal", [False, True])
def test_gradients(causal):
    inputs = [_random(1, 2, n, 3).requires_grad_() for n in (3, 4, 4)]
    assert gradcheck(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), inputs
    )
    assert gradgradcheck(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), inputs
    )


def test_gradients_of_blocks_give_those_of_the_plain_formula():
    mask = _random(1, 70, 300)
    found = []
    for attend in (F.scaled_dot_product_attention, _plain):
        st.manual_seed(1)
        inputs = [_random(2, n, 4).requires_grad_() for n in (70, 300, 300)]
        found.append(st.autograd.grad(attend(*inputs, mask).square().sum(), inputs))
    for mine, wanted in zip(*found, strict=True):
        assert st.allclose(mine, wanted)


def test_mask_that_wants_a_gradient():
    q, mask = _random(1, 2, 3), _random(2, 2).requires_grad_()
    assert gradcheck(lambda m: F.scaled_dot_product_attention(q, q, q, m), [mask])


def test_narrow_floats_are_calculated_in_float32():
    q, k, v = (_random(1, 2, n, 8, dtype=st.float32).bfloat16() for n in (70, 300, 300))
    result = F.scaled_dot_product_attention(q, k, v)
    assert result.dtype is st.bfloat16
    q, k, v = q.double(), k.double(), v.double()
    assert_summed(result, _plain(q, k, v), _plain(q, k, v.abs()))


@pytest.mark.check
def test_fewer_heads_of_keys():
    q, k = _random(1, 4, 3, 2), _random(1, 2, 5, 2)
    wide = k.repeat_interleave(2, -3)
    result = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    assert st.allclose(result, _plain(q, wide, wide))


def test_keys_with_strides_as_after_splitting_heads():
    q = _random(2, 5, 3, 4).transpose(1, 2)
    assert st.allclose(F.scaled_dot_product_attention(q, q, q), _plain(q, q, q))


def _seen_before(queries, keys):
    return st.ones(queries, keys, dtype=st.bool).tril()


@pytest.mark.parametrize("kind", ["bool", "float", "of every head"])
def test_mask_and_is_causal_both_hold(kind):
    q, k, v = _random(2, 3, 4, 5), _random(2, 3, 6, 5), _random(2, 3, 6, 5)
    mask = st.rand(4, 6) > 0.3
    mask[:, 0] = True
    if kind == "bool":
        both = mask & _seen_before(4, 6)
    else:
        mask = _random(*((2, 3) if kind == "of every head" else ()), 4, 6)
        both = mask.masked_fill(~_seen_before(4, 6), -st.inf)
    for t in (q, k, v):
        t.requires_grad_()
    found = F.scaled_dot_product_attention(q, k, v, mask, is_causal=True)
    wanted = F.scaled_dot_product_attention(q, k, v, both)
    st.testing.assert_close(found, wanted)
    for ours, theirs in zip(
        st.autograd.grad(found.sum(), (q, k, v)),
        st.autograd.grad(wanted.sum(), (q, k, v)),
        strict=True,
    ):
        st.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("why", ["three dims", "dropout", "the mask needs a gradient", "meta"])
def test_mask_and_is_causal_are_refused_together_elsewhere(why):
    q = st.ones(3, 4, 5) if why == "three dims" else st.ones(2, 3, 4, 5)
    q = q.to("meta") if why == "meta" else q
    mask = st.zeros(4, 4, requires_grad=why == "the mask needs a gradient", device=q.device)
    with pytest.raises(RuntimeError, match="is_causal=True"):
        F.scaled_dot_product_attention(
            q, q, q, mask, dropout_p=0.5 if why == "dropout" else 0.0, is_causal=True
        )


@pytest.mark.parametrize("dtype", [st.float64, st.float32, st.bfloat16])
@pytest.mark.parametrize("lengths", [(3, 5), (70, 300), (1, 4), (4, 1)])
def test_results_lie_as_queries_and_gradients_with_heads_inside(lengths, dtype):
    """As torch's: so splitting heads and joining them again copies nothing."""

    def heads(length):
        return _random(2, length, 3, 8).to(dtype).transpose(1, 2)

    queries, keys = lengths
    split = [heads(n).requires_grad_() for n in (queries, keys, keys)]
    plain = [t.detach().contiguous().requires_grad_() for t in split]
    got, want = (F.scaled_dot_product_attention(*three) for three in (split, plain))
    assert st.equal(got, want)
    assert want.is_contiguous()
    assert got.transpose(1, 2).is_contiguous()
    grad = _random(*got.shape).to(dtype)
    for y, x, given in ((got, split, grad), (want, plain, grad.mT.contiguous().mT)):
        found = st.autograd.grad(y, x, given, retain_graph=True)
        for one, other in zip(
            found, st.autograd.grad(want, plain, grad, retain_graph=True), strict=True
        ):
            assert one.transpose(1, 2).is_contiguous()
            assert st.allclose(one, other, atol=1e-2 if dtype is st.bfloat16 else 1e-5)


def test_queries_without_heads_give_contiguous_results():
    for shape in ((4, 3, 6), (3, 6), (2, 2, 3, 4, 6)):
        x = _random(*shape)
        if len(shape) > 2:
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        leaf = x.detach().requires_grad_()
        got = F.scaled_dot_product_attention(leaf, leaf.detach(), leaf.detach())
        assert got.is_contiguous()
        assert st.allclose(got, _plain(x, x, x))
        assert st.autograd.grad(got.sum(), leaf)[0].is_contiguous()


def test_queries_whose_rows_overlap():
    q = _random(40).as_strided((2, 2, 5, 6), (1, 3, 2, 1))
    k = _random(2, 2, 7, 6)
    assert st.allclose(F.scaled_dot_product_attention(q, k, k), _plain(q * 1, k, k))


def test_repr_names_the_last_map_as_torch_does() -> None:
    assert repr(st.nn.MultiheadAttention(4, 2)) == (
        "MultiheadAttention(\n"
        "  (out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, bias=True)\n"
        ")"
    )
