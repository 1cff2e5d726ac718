"""Everything concrete that comes with `ranking`: losses, regularizers, solvers, recipes, observers."""
