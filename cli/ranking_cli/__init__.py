"""The `ranking` command."""
