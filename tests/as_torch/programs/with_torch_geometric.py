"""torch_geometric: graph convolutions on a random graph, batches of graphs, pooling."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool
from torch_geometric.utils import add_self_loops, degree, to_dense_adj, to_undirected

torch.manual_seed(0)
x, labels = torch.randn(30, 8), torch.randint(3, (30,))
edges = to_undirected(torch.randint(30, (2, 60)))
print(edges.shape[1], degree(edges[0], 30).sum().item(), add_self_loops(edges)[0].shape[1])
for make in (
    lambda i, o: GCNConv(i, o),
    lambda i, o: GATConv(i, o, heads=2, concat=False),
    lambda i, o: SAGEConv(i, o),
    lambda i, o: GINConv(torch.nn.Sequential(torch.nn.Linear(i, o), torch.nn.ReLU())),
):
    torch.manual_seed(1)
    first, second = make(8, 16), make(16, 3)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)
    for _ in range(3):
        out = second(F.dropout(first(x, edges).relu(), 0.5), edges)
        loss = F.cross_entropy(out, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(type(first).__name__, f"{loss.item():.6f}")
graphs = [
    Data(x=torch.randn(n, 8), edge_index=torch.randint(n, (2, 3 * n)), y=torch.tensor([n % 2]))
    for n in range(3, 11)
]
conv, head = GCNConv(8, 16), torch.nn.Linear(16, 2)
for batch in DataLoader(graphs, batch_size=4, shuffle=True):
    pooled = global_mean_pool(conv(batch.x, batch.edge_index).relu(), batch.batch)
    print(batch.num_graphs, f"{F.cross_entropy(head(pooled), batch.y).item():.6f}")
print(to_dense_adj(Batch.from_data_list(graphs[:2]).edge_index).sum().item())
