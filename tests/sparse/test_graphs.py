"""Networks on graphs, as programs write them: a normalised adjacency matrix in products.

The calls are those of the well-known graph convolution and graph attention programs. Losses are
compared with torch's where it is there; without it, training must find the communities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st

_NODES, _FEATURES, _CLASSES = 60, 12, 3


def _graph() -> tuple[Any, Any, Any]:
    """Edges, features and classes of a random graph of communities."""
    rng = np.random.default_rng(5)
    labels = np.arange(_NODES) % _CLASSES
    edges = set()
    while len(edges) < 150:
        a, b = rng.integers(0, _NODES, 2)
        if a != b and (labels[a] == labels[b] or rng.random() < 0.1):
            edges.add((int(a), int(b)))
    features = rng.random((_NODES, _FEATURES)) < 0.2 + 0.5 * (
        labels[:, None] == np.arange(_FEATURES) % _CLASSES
    )
    return np.array(sorted(edges), dtype=np.int32), features.astype(np.float32), labels


def _inputs(m: Any) -> tuple[Any, Any, Any]:
    """Scaled features and the normalised adjacency matrix, both sparse."""
    edges, features, labels = _graph()
    x = m.FloatTensor(features)
    scale = 1 / m.sum(x, dim=1)
    scale[scale == float("inf")] = 0
    x = m.diag(scale).to_sparse() @ x
    ones = m.ones(len(edges))
    adjacency = m.sparse_coo_tensor(edges.T, ones, (_NODES, _NODES), dtype=m.int64)
    adjacency = m.eye(_NODES) + adjacency
    degree = m.diag(m.sqrt(1 / m.sum(adjacency, dim=1))).to_sparse()
    return x.to_sparse(), m.LongTensor(labels), (degree @ adjacency @ degree).to_sparse()


def _weights(m: Any, *shape: int) -> Any:
    values = np.cos(np.arange(np.prod(shape)) * 1.7).reshape(shape) / 2
    return m.nn.Parameter(m.tensor(values, dtype=m.float32))


def _convolution_losses(m: Any, layout: str) -> list[float]:
    x, labels, adjacency = _inputs(m)
    if layout != "coo":
        adjacency = adjacency.to_sparse_csr()
    first, second = _weights(m, _FEATURES, 16), _weights(m, 16, _CLASSES)
    bias = _weights(m, 16)
    optimizer = m.optim.Adam([first, second, bias], lr=0.02, weight_decay=5e-4)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        support = m.mm(x, first)
        hidden = m.relu((m.spmm if layout == "coo" else m.sparse.mm)(adjacency, support) + bias)
        out = m.nn.functional.log_softmax(m.mm(adjacency, m.mm(hidden, second)), dim=1)
        loss = m.nn.NLLLoss()(out, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _attention_losses(m: Any) -> list[float]:
    """Attention over edges only: scores are the values of a sparse matrix."""
    x, labels, adjacency = _inputs(m)
    adjacency = adjacency.coalesce()
    rows, columns = adjacency.indices()
    first, second = _weights(m, _FEATURES, 8), _weights(m, 8, _CLASSES)
    source, target = _weights(m, 8, 1), _weights(m, 8, 1)
    optimizer = m.optim.Adam([first, second, source, target], lr=0.02)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        hidden = m.mm(x, first)
        scores = (hidden @ source)[rows, 0] + (hidden @ target)[columns, 0]
        edges = m.sparse_coo_tensor(
            adjacency.indices(), m.nn.functional.leaky_relu(scores, 0.2), adjacency.shape
        )
        weights = m.sparse.softmax(edges.coalesce(), 1)
        hidden = m.nn.functional.elu(m.sparse.mm(weights, hidden))
        loss = m.nn.functional.cross_entropy(hidden @ second, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.check
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_graph_convolution_finds_the_communities(layout: str) -> None:
    losses = _convolution_losses(st, layout)
    assert losses[-1] < 0.5 * losses[0]


def test_graph_attention_finds_the_communities() -> None:
    losses = _attention_losses(st)
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.check
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_losses_of_graph_convolution_are_torchs(layout: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _convolution_losses(st, layout), _convolution_losses(torch, layout)
    assert ours == pytest.approx(theirs, rel=2e-5)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_losses_of_graph_attention_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    assert _attention_losses(st) == pytest.approx(_attention_losses(torch), rel=2e-5)
