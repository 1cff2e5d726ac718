"""How sure a mean over queries is, and whether two systems differ."""
