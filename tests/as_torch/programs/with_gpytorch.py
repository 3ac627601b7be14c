"""gpytorch: a Gaussian process learns its length scale, and predicts."""

import gpytorch
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 40, dtype=torch.float64)
y = torch.sin(x * 6.28) + 0.1 * torch.randn(40, dtype=torch.float64)


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
model = Model(x, y, likelihood).double()
model.train()
likelihood.train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for i in range(20):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
    if i % 5 == 4:
        print(f"{loss.item():.6f}", f"{model.kernel.base_kernel.lengthscale.item():.6f}")
model.eval()
likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    found = likelihood(model(torch.linspace(0, 1, 11, dtype=torch.float64)))
    print(*[f"{v:.5f}" for v in found.mean.tolist()])
    print(*[f"{v:.5f}" for v in found.variance.tolist()])
