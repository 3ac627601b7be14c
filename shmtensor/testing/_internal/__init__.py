"""Helpers of tests that were written for torch's own tools.

Source:
    torch.testing._internal.
"""
