"""Input and output: model files."""
