"""torchinfo, opt_einsum, torchsde and torch_optimizer."""

import opt_einsum
import torch
import torch_optimizer
import torchinfo
import torchsde

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
found = torchinfo.summary(model, (1, 1, 8, 8), verbose=0)
print(found.total_params, found.total_mult_adds)
print(f"{opt_einsum.contract('ij,jk,kl->il', *torch.randn(3, 5, 5)).sum().item():.5f}")


class Equation:
    noise_type, sde_type = "diagonal", "ito"

    def f(self, t, y):
        return -y

    def g(self, t, y):
        return 0.3 * y


path = torchsde.sdeint(
    Equation(),
    torch.ones(3, 2),
    torch.linspace(0, 1, 4),
    dt=0.1,
    bm=torchsde.BrownianInterval(0.0, 1.0, (3, 2), entropy=3, levy_area_approximation="space-time"),
)
print(f"{path.sum().item():.5f}")
for name in ("RAdam", "Lamb", "AdaBound", "Yogi", "DiffGrad", "Ranger"):
    torch.manual_seed(0)
    p = torch.nn.Parameter(torch.randn(4, 3))
    optimizer = getattr(torch_optimizer, name)([p], lr=0.05)
    for _ in range(5):
        optimizer.zero_grad()
        p.square().sum().backward()
        optimizer.step()
    print(name, f"{p.abs().sum().item():.5f}")
