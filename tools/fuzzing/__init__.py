"""What `tools/fuzz.py` runs: targets with small seeds, and mutations of them."""
