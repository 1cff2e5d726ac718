"""Data: judged lists, checked once at the door, and the readers that make them from files."""
