"""Everything concrete: losses, regularizers, solvers, recipes, observers."""
