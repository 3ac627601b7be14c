"""zuko, nflows, geoopt and pytorch-metric-learning: flows, manifolds, losses of distances."""

import geoopt
import torch
import zuko
from nflows import transforms
from nflows.distributions import StandardNormal
from nflows.flows import Flow
from pytorch_metric_learning import distances, losses, miners
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN

for name in ("NSF", "MAF", "NICE", "SOSPF", "NAF", "UNAF", "CNF", "GF", "BPF", "GMM"):
    torch.manual_seed(0)
    flow = getattr(zuko.flows, name)(3, context=2)
    optimizer = torch.optim.Adam(flow.parameters(), 1e-3)
    x, context = torch.randn(64, 3), torch.randn(64, 2)
    for _ in range(3):
        loss = -flow(context).log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(name, f"{loss.item():.4f}", flow(context[0]).sample((5,)).shape)

spline = transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
    4, 8, tails="linear", tail_bound=3.0
)
steps = [
    transforms.ReversePermutation(4),
    transforms.MaskedAffineAutoregressiveTransform(4, 8),
    spline,
]
flow = Flow(transforms.CompositeTransform(steps), StandardNormal([4]))
optimizer = torch.optim.Adam(flow.parameters())
for _ in range(5):
    loss = -flow.log_prob(torch.randn(32, 4)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}", flow.sample(3).shape)

ball = geoopt.PoincareBall()
point = geoopt.ManifoldParameter(torch.randn(5, 3) * 0.1, manifold=ball)
target = ball.expmap0(torch.ones(3) * 0.3)
optimizer = geoopt.optim.RiemannianAdam([point], lr=0.05)
for _ in range(20):
    loss = ball.dist(point, target).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}")
for manifold in (geoopt.Sphere(), geoopt.Stiefel(), geoopt.SymmetricPositiveDefinite()):
    print(manifold.check_point_on_manifold(manifold.random(4, 4)))

embeddings = torch.randn(32, 16, requires_grad=True)
labels = torch.arange(32) % 4
for name in ("TripletMarginLoss", "MultiSimilarityLoss", "NTXentLoss", "CircleLoss", "SupConLoss"):
    loss = getattr(losses, name)()(embeddings, labels)
    loss.backward()
    print(name, f"{loss.item():.4f}", f"{embeddings.grad.abs().sum().item():.4f}")
for name in ("ArcFaceLoss", "ProxyAnchorLoss", "SoftTripleLoss"):
    loss = getattr(losses, name)(num_classes=4, embedding_size=16)(embeddings, labels)
    print(name, f"{loss.item():.4f}")
print([len(part) for part in miners.MultiSimilarityMiner()(embeddings, labels)])
knn = CustomKNN(distances.CosineSimilarity())
accuracy = AccuracyCalculator(("precision_at_1", "mean_average_precision"), knn_func=knn)
print(*accuracy.get_accuracy(embeddings.detach(), labels).values())
