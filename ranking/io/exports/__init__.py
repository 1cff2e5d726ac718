"""Exports of models to the formats of search engines, vector stores and runtimes."""
