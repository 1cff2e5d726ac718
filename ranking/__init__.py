"""Learning to rank and to recommend: a model x a loss x a regularizer x a solver, run by a kernel.

The names below are the public API, with the exceptions of `ranking.errors`, the output files of
`ranking.io` and the parts by name of `ranking.registry`. Authors of plugins also use
`ranking.contracts`, `ranking.testing` and `ranking.native`; concrete parts come from
`ranking_plugins.losses`, `.regularizers`, `.solvers` and `.callbacks`. Everything else is private.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranking.benchmarking import Benchmark
    from ranking.data.describe import describe_data
    from ranking.data.judged_lists import JudgedLists
    from ranking.data.matching_data import FeatureTable, MatchingData
    from ranking.data.position_bias import estimate_position_bias
    from ranking.data.readers.read import find_reader, read_data
    from ranking.data.split import split_data
    from ranking.data.synthetic import demo as make_demo
    from ranking.data.text.features import TextFeatures
    from ranking.data.text_collection import TextCollection
    from ranking.data.writers import write as write_data
    from ranking.errors import RankingError
    from ranking.inference.results import RankedResults
    from ranking.inference.score_features import scores_as_features
    from ranking.kernels.select import get_kernel
    from ranking.metrics.comparison import Comparison
    from ranking.metrics.parse import parse_metric, parse_metrics
    from ranking.metrics.result import Evaluation, compare, evaluate_run
    from ranking.metrics.scorers import make_ranking_scorer
    from ranking.ranker import Ranker
    from ranking.training.wrappers.path import RegularizationPath
    from ranking.training.wrappers.per_query import PerQuery
    from ranking.training.wrappers.search import ParameterSearch

__all__ = [
    "Benchmark",
    "Comparison",
    "Evaluation",
    "FeatureTable",
    "JudgedLists",
    "MatchingData",
    "ParameterSearch",
    "PerQuery",
    "RankedResults",
    "Ranker",
    "RankingError",
    "RegularizationPath",
    "TextCollection",
    "TextFeatures",
    "compare",
    "describe_data",
    "estimate_position_bias",
    "evaluate_run",
    "find_reader",
    "get_kernel",
    "make_demo",
    "make_ranking_scorer",
    "parse_metric",
    "parse_metrics",
    "read_data",
    "scores_as_features",
    "split_data",
    "write_data",
]

_MODULES = {
    "Benchmark": "ranking.benchmarking:Benchmark",
    "Comparison": "ranking.metrics.comparison:Comparison",
    "Evaluation": "ranking.metrics.result:Evaluation",
    "FeatureTable": "ranking.data.matching_data:FeatureTable",
    "JudgedLists": "ranking.data.judged_lists:JudgedLists",
    "MatchingData": "ranking.data.matching_data:MatchingData",
    "ParameterSearch": "ranking.training.wrappers.search:ParameterSearch",
    "PerQuery": "ranking.training.wrappers.per_query:PerQuery",
    "RankedResults": "ranking.inference.results:RankedResults",
    "Ranker": "ranking.ranker:Ranker",
    "RankingError": "ranking.errors:RankingError",
    "RegularizationPath": "ranking.training.wrappers.path:RegularizationPath",
    "TextCollection": "ranking.data.text_collection:TextCollection",
    "TextFeatures": "ranking.data.text.features:TextFeatures",
    "compare": "ranking.metrics.result:compare",
    "describe_data": "ranking.data.describe:describe_data",
    "estimate_position_bias": "ranking.data.position_bias:estimate_position_bias",
    "evaluate_run": "ranking.metrics.result:evaluate_run",
    "find_reader": "ranking.data.readers.read:find_reader",
    "get_kernel": "ranking.kernels.select:get_kernel",
    "make_demo": "ranking.data.synthetic:demo",
    "make_ranking_scorer": "ranking.metrics.scorers:make_ranking_scorer",
    "parse_metric": "ranking.metrics.parse:parse_metric",
    "parse_metrics": "ranking.metrics.parse:parse_metrics",
    "read_data": "ranking.data.readers.read:read_data",
    "scores_as_features": "ranking.inference.score_features:scores_as_features",
    "split_data": "ranking.data.split:split_data",
    "write_data": "ranking.data.writers:write",
}

_RENAMED = {
    "Judged": "JudgedLists",
    "Matching": "MatchingData",
    "leave_one_out": 'split_data(data, "leave-one-out")',
    "query_kfold": 'split_data(data, "by-query", folds=...)',
    "read_qrels": 'read_data(path, "qrels")',
    "read_run": 'read_data(path, "run")',
    "split_by_time": 'split_data(data, "by-time")',
    "split_metrics": "parse_metrics",
}


if not TYPE_CHECKING:  # type checkers know the names from the imports above

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used, so that ``import ranking`` is fast."""
        if name in _MODULES:
            from importlib import import_module

            module, _, attribute = _MODULES[name].partition(":")
            value = getattr(import_module(module), attribute)
            globals()[name] = value
            return value
        hint = f"; use {_RENAMED[name]}" if name in _RENAMED else ""
        raise AttributeError(f"module 'ranking' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
