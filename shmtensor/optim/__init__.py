"""Optimizers, schedules of learning rates, and averages of models."""

from __future__ import annotations

from shmtensor.optim import lr_scheduler as lr_scheduler
from shmtensor.optim import swa_utils as swa_utils
from shmtensor.optim._adafactor import Adafactor
from shmtensor.optim._muon import Muon
from shmtensor.optim._stateless import swap_in_optimizer_params_and_state
from shmtensor.optim.adadelta import Adadelta
from shmtensor.optim.adagrad import Adagrad
from shmtensor.optim.adam import Adam
from shmtensor.optim.adamax import Adamax
from shmtensor.optim.adamw import AdamW
from shmtensor.optim.asgd import ASGD
from shmtensor.optim.lbfgs import LBFGS
from shmtensor.optim.nadam import NAdam
from shmtensor.optim.optimizer import Optimizer
from shmtensor.optim.radam import RAdam
from shmtensor.optim.rmsprop import RMSprop
from shmtensor.optim.rprop import Rprop
from shmtensor.optim.sgd import SGD
from shmtensor.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "lr_scheduler",
    "swap_in_optimizer_params_and_state",
    "swa_utils",
]
