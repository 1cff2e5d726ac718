"""Features of text: words, their vocabulary or hash, and their weights."""
