"""The Rust kernel of `ranking`."""
