"""Wrappers around a `TrainingPlan`: search, path, one model per query, one-vs-rest, cascade.

Each has ``fit(data, valid) -> TrainingResult`` as the plan has; `TrainingResult.report` holds what
the wrapper found out besides.
"""
