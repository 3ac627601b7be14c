"""The parts of utils.checkpoint: frames without reentrance, selective saving, what debug shows."""
