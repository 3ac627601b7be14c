"""Parts of the launcher that its workers call.

Source:
    torch.distributed.elastic.
"""
