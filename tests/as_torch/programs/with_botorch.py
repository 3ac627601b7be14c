"""botorch: a step of Bayesian optimisation."""

import torch
from botorch.acquisition import LogExpectedImprovement, qExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
x = torch.rand(8, 2, dtype=torch.float64)
y = -(x - 0.4).square().sum(1, keepdim=True)
model = SingleTaskGP(x, y)
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
best, bounds = y.max(), torch.tensor([[0.0, 0], [1, 1]], dtype=torch.float64)
print(f"{model.posterior(x[:1]).mean.item():.4f}", f"{y[0].item():.4f}")
candidate, value = optimize_acqf(
    LogExpectedImprovement(model, best), bounds, q=1, num_restarts=3, raw_samples=16
)
print(*[f"{v:.3f}" for v in candidate.flatten().tolist()])
sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
print(f"{qExpectedImprovement(model, best, sampler)(torch.rand(2, 2).double()).item():.4f}")
