"""Data, checked once at the door (see `ranking.data.kinds`), and the readers that make them."""
