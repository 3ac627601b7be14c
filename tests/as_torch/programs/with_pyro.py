"""pyro: variational inference and Hamiltonian Monte Carlo."""

import pyro
import pyro.distributions as dist
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal

pyro.set_rng_seed(0)
data = dist.Normal(2.0, 0.5).sample([20])


def model(data):
    loc = pyro.sample("loc", dist.Normal(0.0, 5.0))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", len(data)):
        pyro.sample("x", dist.Normal(loc, scale), obs=data)


guide = AutoNormal(model)
inference = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
for i in range(20):
    loss = inference.step(data)
    if i % 5 == 4:
        print(f"{loss:.5f}")
print({name: round(value.item(), 4) for name, value in sorted(guide.median().items())})
pyro.set_rng_seed(1)
chain = MCMC(NUTS(model), num_samples=5, warmup_steps=5, disable_progbar=True)
chain.run(data)
print(*[f"{value:.4f}" for value in chain.get_samples()["loc"].tolist()])
