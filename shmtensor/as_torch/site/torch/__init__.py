"""Stands for torch: the import below puts `shmtensor` in the place of this module."""

import shmtensor.as_torch as as_torch

as_torch.install()
