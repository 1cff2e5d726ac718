"""`ranking serve`: models behind HTTP."""
