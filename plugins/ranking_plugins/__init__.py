"""The losses, regularizers, solvers, recipes and observers that come with `ranking`."""
