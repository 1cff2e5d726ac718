"""Inference: top-k retrieval, fold-in, similar items, explanations, scores as features."""
