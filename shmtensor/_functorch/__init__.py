"""Function transforms: what `shmtensor.func` is made of.

Source:
    torch._functorch.
"""
