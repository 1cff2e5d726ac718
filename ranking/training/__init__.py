"""Training: the trainer, its signals and checkpoints, parameter search, paths, wrappers."""
