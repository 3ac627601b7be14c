"""Tools around tensors: checkpoints, hooks."""
