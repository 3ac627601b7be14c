"""Publish a model's weights for other programs: run this, and attach.py in another terminal.

    python publish.py

Each call of `publish` makes a new version. Nobody waits: a reader keeps its version for as long as
it wants. Ctrl-C ends the program, and the name disappears with it.
"""

import time

import shmtensor
from shmtensor import nn, optim, service

if __name__ == "__main__":
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    try:
        while True:
            x = shmtensor.randn(64, 3)
            loss = ((model(x) - x @ shmtensor.tensor([[2.0], [-3.0], [0.5]])) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            version = service.publish("weights", model.state_dict())
            print(f"published version {version}, loss {loss.item():.2e}", flush=True)
            time.sleep(0.2)
    except KeyboardInterrupt:
        service.unpublish("weights")
