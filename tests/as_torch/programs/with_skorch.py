"""skorch: a network as an estimator of scikit-learn."""

import numpy as np
import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score
from skorch import NeuralNetClassifier
from skorch.callbacks import LRScheduler
from torch import nn


class Net(nn.Module):
    def __init__(self, n=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, n), nn.ReLU(), nn.Linear(n, 2), nn.Softmax(-1))

    def forward(self, X):
        return self.net(X)


torch.manual_seed(0)
X, y = make_classification(400, 20, n_informative=10, random_state=0)
X, y = X.astype(np.float32), y.astype(np.int64)
schedule = ("schedule", LRScheduler("StepLR", step_size=2))
net = NeuralNetClassifier(Net, max_epochs=4, lr=0.1, verbose=0, callbacks=[schedule])
net.fit(X, y)
print(*(f"{loss:.5f}" for loss in net.history[:, "train_loss"]))
print(*(f"{p:.5f}" for p in net.predict_proba(X)[:4, 0]))
print(*(f"{score:.4f}" for score in cross_val_score(net, X, y, cv=2)))
