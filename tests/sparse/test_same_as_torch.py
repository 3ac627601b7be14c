"""Expressions with sparse tensors that are to have the same outcome here and in torch.

What is left out: texts that name another operator where both refuse, and names of graph nodes.
What differs on purpose is in docs/sparse.md.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from same_as_torch import library, outcome

#: Statements that make what the expressions use.
_SETUP = """
i = m.tensor([[0, 1, 1], [2, 0, 2]]); v = m.tensor([3.0, 4.0, 5.0])
s = m.sparse_coo_tensor(i, v, (2, 3))
u = m.sparse_coo_tensor(m.tensor([[0, 1, 0], [2, 0, 2]]), v, (2, 3))
w = m.sparse_coo_tensor([[1, 0, 1, 0], [1, 2, 1, 0]], [1.0, 2.0, -3.0, 4.0], (2, 3))
d = m.arange(6.0).reshape(2, 3)
h = m.sparse_coo_tensor([[0, 1]], m.arange(4.0).reshape(2, 2), (3, 2))
hu = m.sparse_coo_tensor([[2, 0, 2]], m.arange(6.0).reshape(3, 2), (3, 2))
n = m.sparse_coo_tensor((2, 3))
z = m.sparse_coo_tensor(m.zeros(0, 2, dtype=m.int64), m.ones(2), ())
b3 = m.sparse_coo_tensor([[0, 1, 1], [1, 0, 1], [2, 0, 2]], v, (2, 2, 3))
c = d.to_sparse_csr()
cc = d.to_sparse_csc()
"""

_EXPRESSIONS = {
    "printing": """
s
u.coalesce()
h
c
cc
n
z
s.double()
s.int()
u.bool()
(u * 1j).coalesce()
s.to(m.bfloat16)
s.requires_grad_()
m.sparse_coo_tensor([[0, 1]], m.ones(2, requires_grad=True))
c.to(m.float64)
m.sparse_coo_tensor((0, 4))
m.sparse_coo_tensor(m.arange(20).reshape(1, 20), m.rand(20) * 0 + 0.125, (30,))
m.sparse_coo_tensor(m.arange(2000).reshape(1, 2000), m.ones(2000), (3000,))
str(s.t())
""",
    "construction": """
m.sparse_coo_tensor([[5]], [1.0], (2,))
m.sparse_coo_tensor([[-1]], [1.0], (2,))
m.sparse_coo_tensor([[-1]], [1.0])
m.sparse_coo_tensor([[5]], [1.0], (2,), check_invariants=True)
m.sparse_coo_tensor([[-1]], [1.0], (2,), check_invariants=True)
m.sparse_coo_tensor([[0, 1]], [1.0], (2,))
m.sparse_coo_tensor([0, 1], [1.0, 2.0], (2,))
m.sparse_coo_tensor([0, 1], [1.0, 2.0])
m.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2, 2))
m.sparse_coo_tensor([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (2, 3))
m.sparse_coo_tensor(m.tensor([[0.7, 1]]), [1.0, 2.0], (2,))
m.sparse_coo_tensor(m.tensor([[0, 1]], dtype=m.int32), [1.0, 2.0], (2,))
m.sparse_coo_tensor([[0, 1]], [1, 2])
m.sparse_coo_tensor([[0, 1]], [1, 2], dtype=m.float64)
m.sparse_coo_tensor([[], []], [])
z.coalesce()
z.to_dense()
m.sparse_coo_tensor([[0, 0]], [1, 2], (2,), is_coalesced=True)
m.sparse_coo_tensor([[0, 0]], [1, 2], (2,), is_coalesced=True, check_invariants=True)
m.sparse_coo_tensor([[0, 1]], [1.0, 2.0], requires_grad=True)
m.sparse_coo_tensor([[0, 1]], 5.0)
m.sparse_coo_tensor(5)
m.sparse_coo_tensor((2, 3), dtype=m.int32)
m.sparse_coo_tensor(m.zeros((2, 0), dtype=m.long), m.zeros(0), (2**40, 2**40))
m.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0])
m.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2))
m.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2), check_invariants=True)
m.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2), check_invariants=True)
m.sparse_csr_tensor([0, 2, 2], [1, 1], [1.0, 2.0], (2, 2), check_invariants=True)
m.sparse_csr_tensor([0, 3, 2], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True)
m.sparse_csr_tensor([1, 1, 2], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True)
m.sparse_csr_tensor([0, 1, 1], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True)
m.sparse_csr_tensor([0, 1, 2], [0, -1], [1.0, 2.0], (2, 2), check_invariants=True)
m.sparse_csr_tensor([0, 1], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True)
m.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0], (2, 2), check_invariants=True)
m.sparse_csc_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2))
m.sparse_compressed_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2), layout=m.sparse_csr)
m.sparse_csr_tensor(m.tensor([0, 1]).int(), m.tensor([0]).int(), [1.0]).crow_indices()
m.sparse.spdiags(m.arange(9).reshape(3, 3), m.tensor([0, -1, 2]), (3, 3))
m.zeros(2, 3, layout=m.sparse_coo)
m.empty(2, 3, layout=m.sparse_coo)
m.zeros(2, 3, layout=m.sparse_csr)
m.zeros_like(d, layout=m.sparse_coo)
m.zeros_like(s)
m.zeros_like(c)
m.zeros_like(u, layout=m.strided)
m.empty_like(u, dtype=m.int8)
s.new_zeros(2)
m.tensor(s)
m.as_tensor(s).layout
""",
    "parts": """
s.is_sparse, s.layout, s.sparse_dim(), s.dense_dim(), h.sparse_dim(), h.dense_dim()
d.sparse_dim(), d.dense_dim(), d.is_sparse, d.layout, s._dimI(), h._dimV()
c.is_sparse, c.is_sparse_csr, c.layout, cc.is_sparse_csr, cc.layout, c._nnz()
s.indices()
s.values()
u._indices(), u._values(), u._nnz()
u.coalesce().indices(), u.coalesce().values(), u.coalesce().is_coalesced(), u.is_coalesced()
d.indices()
d.values()
d.coalesce()
d.is_coalesced()
c.coalesce()
c.indices()
c.is_coalesced()
c.values(), c.crow_indices(), c.col_indices()
cc.values(), cc.ccol_indices(), cc.row_indices()
s.coalesce().coalesce().is_coalesced()
s.numel(), s.nelement(), s.dim(), s.ndim, s.size(), s.size(0), len(s), s.shape
s.stride(), s.storage_offset(), s.is_contiguous(), s.element_size()
s.contiguous()
s.nbytes
s.data_ptr()
s.untyped_storage()
s.storage()
c.untyped_storage()
s.tolist()
s.numpy()
s.item()
m.sparse_coo_tensor([[0]], [5.0], (1,)).item()
m.sparse_coo_tensor([[0, 0]], [5.0, 2.0], (1,)).item()
bool(m.sparse_coo_tensor([[0, 0]], [5.0, 2.0], (1,)))
float(m.sparse_coo_tensor((1,)))
s.detach(), s.data, s.clone(), s.cpu().layout
s.type(), s.double().type()
hash(s) == id(s)
s.is_same_size(s)
m.is_floating_point(u), u.is_complex()
m.is_nonzero(s)
""",
    "layouts": """
d.to_sparse()
d.to_sparse(1)
d.to_sparse(3)
d.to_sparse(0)
d.to_sparse(layout=m.sparse_csr)
d.to_sparse(layout=m.sparse_csc)
d.to_sparse(layout=m.strided)
s.to_sparse()
c.to_sparse()
cc.to_sparse().to_dense()
c.to_dense(), cc.to_dense(), u.to_dense(), h.to_dense(), hu.to_dense(), n.to_dense()
u.to_sparse_csr()
u.to_sparse_csc()
c.to_sparse_csc()
cc.to_sparse_csr()
s.to_sparse_coo().layout
h.to_sparse(2)
s.to_dense(m.float64)
m.tensor([[0.0, -0.0], [float('nan'), 1]]).to_sparse()
m.zeros(3, 0).to_sparse()
m.tensor(3.0).to_sparse()
m.zeros(2, 2).to_sparse()
m.ones(2, 2, dtype=m.bool).to_sparse()
u.half().to_dense(), u.bool().to_dense(), u.to(m.bfloat16).coalesce(), u.to(m.complex64).to_dense()
d.sparse_mask(u)
d.sparse_mask(u.coalesce())
s.sparse_mask(s)
s.sparse_mask(u.coalesce())
d.sparse_mask(c)
s.clone().sparse_resize_((4, 4), 2, 0)
h.new().resize_as_(h)
s.new().resize_as_(s)
s.clone().sparse_resize_((4, 4), 1, 0)
h.clone().sparse_resize_((4, 2), 1, 1)
s.clone().sparse_resize_and_clear_((4, 4, 2), 2, 1)
n.clone().sparse_resize_((4, 4, 2), 1, 2)
s.clone().copy_(u)._nnz()
s.clone().zero_()
c.clone().zero_()
s.half().dtype, s.bool()
""",
    "arithmetic": """
s + d
d + s
s + s
u + u
s + u
u + s
w + u
u + w
w + w
s.coalesce() + w.coalesce()
(s.coalesce() + s.coalesce()).is_coalesced(), (u + s).is_coalesced()
h + hu
hu + h
h + s
s + n
n + n
d + h.t()
m.ones(3, 2) + hu
d - s
s - u
u - u
s - 1
s + 1
d * s
s * d
s * s
s * w.coalesce()
s * 2
2 * s
s * m.tensor(2.0)
s * m.tensor([2.0])
s * m.ones(3)
s * m.ones(1, 3)
s * m.ones(4)
h * m.ones(3, 2)
s / 2
s / d
s // 2
s**2
s.pow(0)
-u
u.neg()
u.abs()
u.int() / 2
u.int() * 2.5
u.int() * 2
u.add(u, alpha=0.5)
u.int().add(u, alpha=2)
u.int().add(u.int(), alpha=2)
u.int().add(u.int(), alpha=0.5)
u.bool() + u.bool()
d.int() + u
d.int().add_(u)
d + u.double()
m.add(d, u, out=m.empty(0))
d.add(u, alpha=2)
d[0] + u
d.clone().add_(s)
d.clone().t().contiguous().t().add_(s, alpha=3)
d.clone().sub_(s)
s.clone().add_(d)
s.clone().mul_(2), s.clone().div_(2), s.clone().add_(s, alpha=2), s.clone().neg_()
s.clone().fill_(1)
s == s
m.equal(s, s)
c + c
c * 2
c * d
-c
m.ones(2, 3) + c
c + m.ones(2, 3)
(u * 1j).conj()
m.relu(u), m.sin(u), m.sqrt(u), m.isnan(u), m.sgn(u), u.trunc(), u.log1p(), u.tanh()
m.cos(u)
m.exp(u)
c.sin(), c.abs(), c.relu()
s.clone().sin_()
m.nan_to_num(u), u.deg2rad(), u.erf(), u.round(), u.ceil(), u.signbit()
""",
    "sums": """
u.sum()
u.sum(0)
u.sum(1)
u.sum(-1)
u.sum(dim=0, keepdim=True)
u.sum((0, 1))
u.sum(dtype=m.float64)
u.int().sum()
m.sparse.sum(u)
m.sparse.sum(u, dim=0)
m.sparse.sum(u, dim=[0, 1])
m.sparse.sum(h, dim=0)
m.sparse.sum(h, dim=1)
m.sparse.sum(h, dim=[0, 1])
m.sparse.sum(hu, dim=0)
m.sparse.sum(b3, dim=1)
m.sparse.sum(b3, dim=(0, 2))
m.sparse.sum(u, dim=0, dtype=m.float64)
h.sum()
c.sum()
c.sum(0)
c.sum(0, keepdim=True)
c.sum(1, keepdim=True)
s.norm(), s.norm(1), m.norm(s), h.norm()
s.norm(dim=0)
s.any(), n.any(), u.bool().any()
m.sparse.softmax(s, 1)
m.sparse.softmax(s, 0)
m.sparse.log_softmax(s, 0)
m.sparse.softmax(w, 1)
m.sparse.softmax(h, 1)
m.sparse.softmax(hu, 0)
m.sparse.softmax(b3, 1)
m.sparse.softmax(s.half(), 1, dtype=m.float32)
m.sparse.softmax(n, 0)
u.mean()
s.max()
""",
    "shapes": """
u.t()
u.T
u.mT
u.transpose(0, 1)
u.transpose(0, 1).is_coalesced()
u.permute(1, 0)
b3.permute(2, 0, 1)
b3.transpose(-1, 0)
h.t()
h.transpose(0, 1)
c.t()
cc.t()
c.transpose(0, 1).layout
s[0]
s[1]
s[-1]
s[0, 2]
s[1, 1]
s[:, 1]
s[5]
h[0]
h[1]
b3[1]
b3[1, 0]
c[0]
c[0, 1]
s[m.tensor([0, 1])]
s.index_select(1, m.tensor([2, 2]))
s.index_select(0, m.tensor([1, 0, 1]))
s.index_select(0, m.tensor([5]))
h.index_select(1, m.tensor([1]))
h.index_select(0, m.tensor([1, 1]))
u.index_select(1, m.tensor([2]))
s.select(0, 1)
h.select(1, 0)
s.unsqueeze(0)
s.unsqueeze(1)
s.unsqueeze(-1)
h.unsqueeze(1)
list(s)
m.cat([s, u])
m.cat([s, u], 1)
m.cat([h, h], 1)
m.cat([h, hu])
m.cat([h, u])
m.cat([u, d])
m.cat([u, u.double()]).dtype
m.stack([s, s])
m.stack([s, s], 2)
s.view(3, 2)
s.reshape(6)
s.expand(2, 3)
""",
    "products": """
c @ d.t()
cc @ d.t()
c @ m.ones(3)
s @ m.ones(3)
s @ d.t()
u @ d.t()
w @ d.t()
n @ d.t()
d.t() @ s
d.t() @ c
s @ s.t()
u @ u.t()
m.mm(s, d)
m.mm(s, d.t()[:, :1])
m.mm(s, m.ones(3, 0))
m.addmm(m.ones(2, 2), s, d.t(), beta=2, alpha=3)
m.addmm(m.ones(2), s, d.t())
m.addmm(m.full((2, 2), float('nan')), s, d.t(), beta=0)
m.sparse.addmm(m.ones(2, 2), s, d.t(), beta=2, alpha=3)
m.sparse.mm(d, d.t())
m.sparse.mm(d.t(), s)
m.sparse.mm(c, d.t(), reduce='sum')
m.spmm(s, d.t())
m.smm(s, d.t())
m.sparse.sampled_addmm(c, m.ones(2, 2), m.ones(2, 3))
s.matmul(d.t()), m.matmul(s, m.ones(3))
m.mv(u, d[0])
m.bmm(m.stack([s, s]), m.ones(2, 3, 2))
m.bmm(b3, m.arange(12.0).reshape(2, 3, 2))
m.bmm(u, u)
u.mm(d.t().double())
h @ d.t()
u.int() @ m.ones(3, 2, dtype=m.int32)
(u * 1j) @ d.t().to(m.complex64)
u.dot(u)
""",
}


def _outcomes(expressions: list[str]) -> list[list[str]]:
    results = []
    for name in ("shmtensor", "torch"):
        m = library(name)
        found = []
        for expression in expressions:
            names: dict[str, Any] = {"m": m}
            m.manual_seed(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(_SETUP, names)
            found.append(outcome(expression, names))
        results.append(found)
    return results


def _plain(text: str) -> str:
    """Without what only says which operator of several refused, or was recorded."""
    head, refused, _ = text.partition("Could not run 'aten::")
    if refused:
        return head + refused
    before, node, _ = text.partition("grad_fn=<")
    return before + node if node and "nnz" not in text else text


@pytest.mark.check
@pytest.mark.parametrize("group", list(_EXPRESSIONS))
def test_outcomes_are_torchs(group: str) -> None:
    pytest.importorskip("torch")
    expressions = _EXPRESSIONS[group].strip().splitlines()
    ours, theirs = _outcomes(expressions)
    wrong = [
        f"{e}\n  ours   {a}\n  torch  {b}"
        for e, a, b in zip(expressions, ours, theirs, strict=True)
        if _plain(a) != _plain(b)
    ]
    assert not wrong, "\n".join(wrong)
