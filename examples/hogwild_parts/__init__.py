"""The parts of the Hogwild example: data, models, workers, progress, report."""
