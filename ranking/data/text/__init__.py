"""Features of texts: tokens, vocabulary or hashing, and weights."""
