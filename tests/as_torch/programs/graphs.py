"""Networks of graphs: convolution by sparse matrices, and attention over the edges."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
N, IN, CLASSES = 60, 12, 4
labels = torch.arange(N) % CLASSES
features = (torch.rand(N, IN) < 0.1 + 0.5 * (torch.arange(IN) % CLASSES == labels[:, None])).float()
scale = 1 / torch.sum(features, dim=1)
scale[scale == float("inf")] = 0
features = torch.diag(scale).to_sparse() @ features
edges = torch.cat([torch.randint(N, (150, 2)), torch.arange(N).view(-1, 2)])
adjacency = torch.sparse_coo_tensor(edges.T, torch.ones(len(edges)), (N, N), dtype=torch.int64)
adjacency = torch.eye(N) + adjacency
degree = torch.sqrt(1 / torch.sum(adjacency, dim=1))
degree[degree == float("inf")] = 0
degree = torch.diag(degree).to_sparse()
normal = (degree @ adjacency @ degree).to_sparse()
print(f"{normal.coalesce().values().sum().item():.5f}", f"{features.sum().item():.4f}")


class Convolution(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.kernel = nn.Parameter(torch.Tensor(i, o))
        nn.init.xavier_normal_(self.kernel)

    def forward(self, x, graph):
        return torch.spmm(graph, torch.mm(x, self.kernel))


class Attention(nn.Module):
    def __init__(self, i, o, heads):
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(torch.empty(size=(i, o * heads)))
        self.score = nn.Parameter(torch.empty(size=(heads, 2 * o, 1)))
        nn.init.xavier_normal_(self.weight)
        nn.init.xavier_normal_(self.score)

    def forward(self, x, graph):
        h = torch.mm(x, self.weight).view(len(x), self.heads, -1).permute(1, 0, 2)
        n = h.shape[2]
        e = torch.matmul(h, self.score[:, :n]) + torch.matmul(h, self.score[:, n:]).mT
        e = F.leaky_relu(e, 0.2)
        e = torch.where(graph > 0, e, -9e16 * torch.ones_like(e))
        e = F.dropout(F.softmax(e, dim=-1), 0.3, training=self.training)
        return torch.matmul(e, h).mean(dim=0)


for name, first, second, x, graph in (
    ("convolution", Convolution(IN, 8), Convolution(8, CLASSES), features.to_sparse(), normal),
    ("attention", Attention(IN, 8, 2), Attention(8, CLASSES, 1), features, normal.to_dense()),
):
    torch.manual_seed(1)
    order = torch.randperm(N)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)
    for _ in range(5):
        hidden = F.dropout(F.relu(first(x, graph)), 0.5)
        out = F.log_softmax(second(hidden, graph), dim=1)
        loss = F.nll_loss(out[order[:40]], labels[order[:40]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(name, f"{loss.item():.6f}")
    print((out[order[40:]].argmax(dim=1) == labels[order[40:]]).float().sum().item())
