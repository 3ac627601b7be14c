"""Which dtype each operator computes in under autocast, and that the values are those of the dtype.

Torch's answers are compared with expression by expression. Without torch, the three lists of
csrc/autograd/autocast.c are tried by a few of each.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from same_as_torch import library, outcome

import shmtensor as T
from shmtensor.nn import functional as F

EXPRESSIONS = """
g(3,4)@g(4,5)
m.mv(g(3,4),g(4))
m.dot(g(4),g(4))
m.matmul(g(2,3,4),g(4))
m.bmm(g(2,3,4),g(2,4,5))
m.baddbmm(g(2,3,5),g(2,3,4),g(2,4,5))
m.addmm(g(3,5),g(3,4),g(4,5))
m.addbmm(g(3,5),g(2,3,4),g(2,4,5))
m.addmv(g(3),g(3,4),g(4))
m.addr(g(3,4),g(3),g(4))
m.nn.functional.linear(g(2,4),g(3,4),g(3))
m.nn.functional.bilinear(g(2,3),g(2,4),g(5,3,4))
m.einsum('ij,jk->ik',g(3,4),g(4,5))
m.einsum('i,i->i',g(3),g(3))
m.tensordot(g(3,4),g(4,5),1)
m.linalg.multi_dot([g(3,4),g(4,5),g(5,2)])
m.linalg.vecdot(g(3,4),g(3,4))
m.inner(g(3,4),g(2,4))
m.outer(g(3),g(4))
m.kron(g(2,2),g(2,2))
m.ger(g(3),g(4))
m.matrix_power(spd(3),3)
m.cov(g(3,5))
m.corrcoef(g(3,5))
m.nn.functional.conv1d(g(1,2,8),g(3,2,3))
m.nn.functional.conv1d(g(1,2,8),g(3,2,3),padding='same')
m.nn.functional.conv2d(g(1,2,8,8),g(3,2,3,3))
m.nn.functional.conv3d(g(1,2,4,4,4),g(3,2,3,3,3))
m.nn.functional.conv_transpose1d(g(1,2,8),g(2,3,3))
m.nn.functional.conv_transpose2d(g(1,2,8,8),g(2,3,3,3))
m.nn.functional.conv_transpose3d(g(1,2,4,4,4),g(2,3,3,3,3))
m.conv_tbc(g(5,2,3),g(3,3,4),g(4))
m.convolution(g(1,2,8),g(3,2,3),None,[1],[0],[1],False,[0],1)
m.nn.functional.prelu(g(2,3),g(3))
m.nn.functional.scaled_dot_product_attention(g(1,2,4,8),g(1,2,4,8),g(1,2,4,8))
m.nn.functional.relu(g(3))
m.nn.functional.gelu(g(3))
m.nn.functional.softmax(g(3,4),1)
m.nn.functional.log_softmax(g(3,4),1)
m.nn.functional.softmax(g(3,4).bfloat16(),1)
m.nn.functional.layer_norm(g(3,4),(4,))
m.nn.functional.layer_norm(g(3,4).bfloat16(),(4,))
m.nn.functional.layer_norm(g(3,4).bfloat16(),(4,),g(4),g(4))
m.nn.functional.batch_norm(g(3,4),g(4),pos(4))
m.nn.functional.batch_norm(g(3,4).bfloat16(),g(4),pos(4),g(4),g(4))
m.nn.functional.group_norm(g(2,4,3).bfloat16(),2,g(4),g(4))
g(3)+g(3)
g(3)+g(3).bfloat16()
g(3).bfloat16().sum()
g(3).bfloat16().prod()
g(3,3).bfloat16().prod(1)
g(3,3).bfloat16().cumprod(1)
g(3).bfloat16().exp()
g(3).bfloat16()**2
g(3).bfloat16().norm()
g(3).bfloat16().var()
m.nn.functional.mse_loss(g(3).bfloat16(),g(3).bfloat16())
m.nn.functional.l1_loss(g(3).bfloat16(),g(3).bfloat16())
m.nn.functional.smooth_l1_loss(g(3).bfloat16(),g(3).bfloat16())
m.nn.functional.huber_loss(g(3).bfloat16(),g(3).bfloat16())
m.nn.functional.binary_cross_entropy(m.sigmoid(g(3)).bfloat16(),m.sigmoid(g(3)).bfloat16())
m.nn.functional.binary_cross_entropy_with_logits(g(3).bfloat16(),m.sigmoid(g(3)).bfloat16())
m.nn.functional.cross_entropy(g(3,4).bfloat16(),m.tensor([0,1,2]))
m.nn.functional.cross_entropy(g(3,4).bfloat16(),m.nn.functional.softmax(g(3,4),1).bfloat16())
m.nn.functional.nll_loss(g(3,4).bfloat16(),m.tensor([0,1,2]))
m.nn.functional.nll_loss(g(1,4,2,2).bfloat16(),m.zeros(1,2,2,dtype=m.int64))
m.nn.functional.kl_div(g(3,4).bfloat16(),pos(3,4).bfloat16(),reduction='sum')
m.nn.functional.hinge_embedding_loss(g(3).bfloat16(),m.tensor([1,-1,1]))
m.nn.functional.cosine_embedding_loss(g(3,4).bfloat16(),pos(3,4).bfloat16(),m.tensor([1,-1,1]))
m.nn.functional.margin_ranking_loss(g(3).bfloat16(),pos(3).bfloat16(),m.tensor([1,-1,1]))
m.nn.functional.multi_margin_loss(g(3,4).bfloat16(),m.tensor([0,1,2]))
m.nn.functional.multilabel_margin_loss(g(3,4).bfloat16(),m.tensor([[0,-1,0,0]]*3))
m.nn.functional.multilabel_soft_margin_loss(g(3,4).bfloat16(),m.sigmoid(g(3,4)).bfloat16())
m.nn.functional.poisson_nll_loss(g(3).bfloat16(),pos(3).bfloat16())
m.nn.functional.gaussian_nll_loss(g(3).bfloat16(),pos(3).bfloat16(),pos(3).bfloat16())
m.nn.functional.soft_margin_loss(g(3).bfloat16(),m.sign(pos(3)).bfloat16())
m.nn.functional.triplet_margin_loss(g(3,4).bfloat16(),pos(3,4).bfloat16(),g(3,4).bfloat16()+1)
m.nn.functional.ctc_loss(m.nn.functional.log_softmax(g(6,1,4),2).bfloat16(),m.tensor([[1,2]]),m.tensor([6]),m.tensor([2]))
m.nn.functional.avg_pool3d(g(1,2,4,4,4).bfloat16(),2)
m.nn.functional.avg_pool2d(g(1,2,4,4).bfloat16(),2)
m.nn.functional.adaptive_avg_pool3d(g(1,2,4,4,4).bfloat16(),2)
m.nn.functional.adaptive_max_pool3d(g(1,2,4,4,4).bfloat16(),2)
m.nn.functional.max_pool3d(g(1,2,4,4,4).bfloat16(),2)
m.nn.functional.max_pool2d(g(1,2,4,4).bfloat16(),2)
m.nn.functional.max_unpool2d(*m.nn.functional.max_pool2d(g(1,2,4,4).bfloat16(),2,return_indices=True),2)
m.nn.functional.grid_sample(g(1,2,4,4).bfloat16(),g(1,3,3,2).bfloat16())
m.nn.functional.pad(g(1,2,4,4).bfloat16(),(1,1,1,1),mode='reflect')
m.nn.functional.pad(g(1,2,4,4).bfloat16(),(1,1,1,1),mode='replicate')
m.nn.functional.pad(g(1,2,4,4).bfloat16(),(1,1))
m.nn.functional.interpolate(g(1,2,4,4).bfloat16(),scale_factor=2,mode='bilinear')
m.cat([g(3).bfloat16(),g(3)])
m.stack([g(3).bfloat16(),g(3)])
m.index_copy(g(3).bfloat16(),0,m.tensor([0]),g(1))
m.cat([m.arange(3),m.arange(3)])
m.cdist(g(3,4).bfloat16(),pos(2,4).bfloat16())
m.trace(g(3,3).bfloat16())
m.quantile(g(5),0.5)
m.polar(pos(3),g(3))
m.view_as_complex(g(3,2))
m.linalg.cholesky(spd(3).bfloat16())
m.linalg.inv(spd(3).bfloat16())
m.inverse(spd(3).bfloat16())
m.linalg.det(spd(3))
m.linalg.qr(g(3,3).bfloat16())[1]
m.linalg.svdvals(g(3,3).bfloat16())
m.linalg.eigvalsh(spd(3).bfloat16())
m.linalg.solve(spd(3).bfloat16(),g(3,1).bfloat16())
m.linalg.lstsq(spd(3),g(3,1)).solution
m.linalg.pinv(spd(3))
m.linalg.matrix_rank(spd(3))
m.linalg.lu(spd(3))[2]
m.linalg.lu_factor(spd(3))[0]
m.triangular_solve(g(3,1).bfloat16(),spd(3).bfloat16())[0]
m.linalg.slogdet(spd(3))[1]
m.matrix_exp(spd(3)*0.1)
m.linalg.matrix_norm(spd(3))
m.linalg.cond(spd(3))
m.fft.fft(g(4).bfloat16())
m.fft.rfft(g(4))
m.fft.irfft(g(4))
m.stft(g(64),16,return_complex=True,window=m.ones(16))
m.fft.fftn(g(4,4).bfloat16())
m.nn.functional.embedding(m.tensor([0,1]),g(3,4))
m.nn.functional.cosine_similarity(g(3,4).bfloat16(),pos(3,4).bfloat16())
m.nn.functional.pdist(g(3,4))
m.nn.functional.pairwise_distance(g(3,4).bfloat16(),pos(3,4))
m.nn.functional.normalize(g(3,4).bfloat16())
g(3).half()@g(3,3).half()
g(3,4).double()@g(4,5).double()
m.nn.functional.linear(g(2,4).double(),g(3,4).double())
g(3,4).bfloat16()@g(4,5)
g(3,4).half()@g(4,5).half()
m.ones(2,2,dtype=m.int64)@m.ones(2,2,dtype=m.int64)
m.mm(g(3,4)+0j,g(4,5)+0j)
m.nn.functional.rms_norm(g(3,4),(4,),g(4))
m.nn.functional.rms_norm(g(3,4).bfloat16(),(4,),g(4))
m.nn.functional.glu(g(3,4).bfloat16())
m.nn.GRU(4,5)(g(3,2,4))[0]
m.nn.RNN(4,5)(g(3,2,4))[0]
m.nn.MultiheadAttention(8,2)(g(3,2,8),g(3,2,8),g(3,2,8))[0]
m.nn.TransformerEncoderLayer(8,2,16)(g(3,2,8))
m.mm(g(3,4).to('meta'),g(4,5).to('meta'))
g(3)==g(3).bfloat16()
m.where(g(3)>0,g(3),g(3).bfloat16())
m.lerp(g(3),g(3),0.5)
m.clamp(g(3).bfloat16(),0,1)
m.addcmul(g(3).bfloat16(),g(3).bfloat16(),g(3).bfloat16())
m.baddbmm(g(1,3,5),g(2,3,4),g(2,4,5),beta=0)
""".strip().splitlines()


def names(m: Any) -> dict[str, Any]:
    """The names that expressions see, of a library."""

    def g(*sizes: int) -> Any:
        return (m.arange(math.prod(sizes)) % 7 * 0.3 - 0.7).reshape(sizes).float()

    def pos(*sizes: int) -> Any:
        return g(*sizes).abs() + 0.1

    def spd(n: int) -> Any:
        with m.autocast("cpu", enabled=False):
            return g(n, n) @ g(n, n).t() * 0.1 + m.eye(n) * 2

    return {"m": m, "g": g, "pos": pos, "spd": spd}


def result(m: Any, expression: str, dtype: str) -> Any:
    with m.autocast("cpu", dtype=getattr(m, dtype)):
        m.manual_seed(1)
        return eval(expression, names(m))


@pytest.mark.check
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_dtypes_and_values_are_torch_s(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    library("shmtensor")
    apart = []
    for expression in EXPRESSIONS:
        try:
            theirs = result(torch, expression, dtype)
        except RuntimeError as error:
            if "prioritize" not in str(error):
                raise
            continue  # dtypes that torch does not join; ours are tested below
        try:
            ours = result(T, expression, dtype)
        except Exception as error:
            apart.append((expression, str(theirs.dtype), repr(error)))
            continue
        if str(ours.dtype) != str(theirs.dtype) or tuple(ours.shape) != tuple(theirs.shape):
            apart.append((expression, str(theirs.dtype), str(ours.dtype)))
        elif theirs.device.type != "meta":
            theirs = theirs.detach()
            theirs = torch.view_as_real(theirs) if theirs.is_complex() else theirs
            ours = T.view_as_real(ours) if ours.is_complex() else ours
            expected = T.tensor(theirs.double().tolist(), dtype=T.float64).reshape(ours.shape)
            span = float(expected.abs().nan_to_num(0, 0, 0).amax()) if expected.numel() else 0.0
            near = T.isclose(ours.double(), expected, rtol=2e-2, atol=2e-2 * span, equal_nan=True)
            if not bool(near.all()):
                apart.append((expression, "values", float((ours.double() - expected).abs().amax())))
    assert apart == []


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_products_are_computed_in_the_16_bit_dtype(name: str) -> None:
    dtype = getattr(T, name)
    a, b = T.randn(3, 4), T.randn(4, 5)
    with T.autocast("cpu", dtype=dtype):
        results = [a @ b, T.mm(a, b), T.addmm(T.ones(5), a, b), F.linear(a, b.t()), T.matmul(a, b)]
        assert T.nn.Conv1d(3, 2, 1)(a).dtype is dtype
        assert (a + a).dtype is T.float32
    assert all(each.dtype is dtype for each in results)
    assert T.equal(results[0], a.to(dtype) @ b.to(dtype))


def test_losses_and_factors_are_computed_in_float32() -> None:
    a = T.rand(3, 3).bfloat16()
    with T.autocast("cpu"):
        assert F.mse_loss(a, a).dtype is T.float32
        assert F.cross_entropy(a, T.tensor([0, 1, 2])).dtype is T.float32
        assert F.hinge_embedding_loss(a, T.ones(3, 3)).dtype is T.float32
        assert T.linalg.inv(a + 3 * T.eye(3)).dtype is T.float32
        assert T.fft.rfft(a).dtype is T.complex64
        assert a.prod().dtype is T.float32
        assert a.sum().dtype is T.bfloat16


@pytest.mark.check
def test_joins_have_the_wider_dtype() -> None:
    half, full = T.ones(2).bfloat16(), T.ones(2)
    with T.autocast("cpu"):
        assert T.cat([half, full]).dtype is T.float32
        assert T.cat([half, half]).dtype is T.bfloat16
        assert T.stack([half, full]).dtype is T.float32
        assert T.cat([half, full.double()]).dtype is T.float64
        with pytest.raises(RuntimeError, match="prioritize"):
            T.cat([half, T.ones(2).half()])


def test_double_precision_integers_and_meta_tensors_stay() -> None:
    with T.autocast("cpu"):
        assert (T.ones(2, 2).double() @ T.ones(2, 2).double()).dtype is T.float64
        assert (T.ones(2, 2, dtype=T.int64) @ T.ones(2, 2, dtype=T.int64)).dtype is T.int64
        assert T.mm(T.ones(2, 2, device="meta"), T.ones(2, 2, device="meta")).dtype is T.float32
        assert T.mm(T.ones(2, 2) + 0j, T.ones(2, 2) + 0j).dtype is T.complex64


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_recurrent_layers(dtype: str) -> None:
    x = T.randn(3, 2, 4)
    with T.autocast("cpu", dtype=getattr(T, dtype)):
        out, (h, c) = T.nn.LSTM(4, 5)(x)
        assert {out.dtype, h.dtype, c.dtype} == {getattr(T, dtype)}
        out, last = T.nn.GRU(4, 5)(x)
        assert {out.dtype, last.dtype} == {T.float32}
        assert T.nn.GRU(4, 5)(x.to(getattr(T, dtype)))[0].dtype is getattr(T, dtype)


def test_outcome_of_an_error_is_its_text() -> None:
    assert outcome("m.nope", {"m": T}).startswith("AttributeError")
