"""Learning to rank and to recommend: a model x a loss x a regularizer x a solver, run by a kernel.

The names below are the public API. Authors of plugins also use `ranking.contracts`,
`ranking.testing` and `ranking.native`; concrete parts come from `ranking_plugins.losses`,
`.regularizers`, `.solvers` and `.callbacks`. Everything else is private.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranking._utils.text import IdWriter, encode_id
    from ranking.data.describe import describe as describe_data
    from ranking.data.describe import find_problems as check_data
    from ranking.data.fingerprint import fingerprint
    from ranking.data.judged_lists import JudgedLists
    from ranking.data.matching_data import FeatureTable, MatchingData
    from ranking.data.readers.read import read_trainable as read_data
    from ranking.data.readers.read import recognise
    from ranking.data.readers.trec import read_qrels, read_run
    from ranking.data.split import leave_one_out, query_kfold, split_by_time
    from ranking.data.synthetic import demo as make_demo
    from ranking.data.text.features import TextFeatures
    from ranking.data.text_collection import TextCollection
    from ranking.data.writers import write as write_data
    from ranking.errors import (
        CombinationError,
        ConvergenceWarning,
        DataError,
        DataWarning,
        FileError,
        ModelFileError,
        PartError,
        PluginWarning,
        RankingError,
    )
    from ranking.inference.results import RankedResults
    from ranking.inference.score_features import scores_as_features
    from ranking.io.output import Output
    from ranking.kernels.select import get_kernel
    from ranking.metrics.comparison import Comparison
    from ranking.metrics.parse import parse_metric, split_metrics
    from ranking.metrics.result import Evaluation, compare, evaluate_run
    from ranking.ranker import Ranker
    from ranking.registry.listing import list_combinations, list_plugins
    from ranking.registry.manager import get_registry
    from ranking.registry.spec import parse_spec
    from ranking.training.wrappers.path import RegularizationPath, cross_validated_path
    from ranking.training.wrappers.per_query import PerQuery
    from ranking.training.wrappers.search import ParameterSearch

__all__ = [
    "CombinationError",
    "Comparison",
    "ConvergenceWarning",
    "DataError",
    "DataWarning",
    "Evaluation",
    "FeatureTable",
    "FileError",
    "IdWriter",
    "JudgedLists",
    "MatchingData",
    "ModelFileError",
    "Output",
    "ParameterSearch",
    "PartError",
    "PerQuery",
    "PluginWarning",
    "RankedResults",
    "Ranker",
    "RankingError",
    "RegularizationPath",
    "TextCollection",
    "TextFeatures",
    "check_data",
    "compare",
    "cross_validated_path",
    "describe_data",
    "encode_id",
    "evaluate_run",
    "fingerprint",
    "get_kernel",
    "get_registry",
    "leave_one_out",
    "list_combinations",
    "list_plugins",
    "make_demo",
    "parse_metric",
    "parse_spec",
    "query_kfold",
    "read_data",
    "read_qrels",
    "read_run",
    "recognise",
    "scores_as_features",
    "split_by_time",
    "split_metrics",
    "write_data",
]

_ERRORS = (
    "CombinationError",
    "ConvergenceWarning",
    "DataError",
    "DataWarning",
    "FileError",
    "ModelFileError",
    "PartError",
    "PluginWarning",
    "RankingError",
)

_MODULES = {
    **{name: f"ranking.errors:{name}" for name in _ERRORS},
    "Comparison": "ranking.metrics.comparison:Comparison",
    "Evaluation": "ranking.metrics.result:Evaluation",
    "FeatureTable": "ranking.data.matching_data:FeatureTable",
    "IdWriter": "ranking._utils.text:IdWriter",
    "JudgedLists": "ranking.data.judged_lists:JudgedLists",
    "MatchingData": "ranking.data.matching_data:MatchingData",
    "Output": "ranking.io.output:Output",
    "ParameterSearch": "ranking.training.wrappers.search:ParameterSearch",
    "PerQuery": "ranking.training.wrappers.per_query:PerQuery",
    "RankedResults": "ranking.inference.results:RankedResults",
    "Ranker": "ranking.ranker:Ranker",
    "RegularizationPath": "ranking.training.wrappers.path:RegularizationPath",
    "TextCollection": "ranking.data.text_collection:TextCollection",
    "TextFeatures": "ranking.data.text.features:TextFeatures",
    "check_data": "ranking.data.describe:find_problems",
    "compare": "ranking.metrics.result:compare",
    "cross_validated_path": "ranking.training.wrappers.path:cross_validated_path",
    "describe_data": "ranking.data.describe:describe",
    "encode_id": "ranking._utils.text:encode_id",
    "evaluate_run": "ranking.metrics.result:evaluate_run",
    "fingerprint": "ranking.data.fingerprint:fingerprint",
    "get_kernel": "ranking.kernels.select:get_kernel",
    "get_registry": "ranking.registry.manager:get_registry",
    "leave_one_out": "ranking.data.split:leave_one_out",
    "list_combinations": "ranking.registry.listing:list_combinations",
    "list_plugins": "ranking.registry.listing:list_plugins",
    "make_demo": "ranking.data.synthetic:demo",
    "parse_metric": "ranking.metrics.parse:parse_metric",
    "parse_spec": "ranking.registry.spec:parse_spec",
    "query_kfold": "ranking.data.split:query_kfold",
    "read_data": "ranking.data.readers.read:read_trainable",
    "read_qrels": "ranking.data.readers.trec:read_qrels",
    "read_run": "ranking.data.readers.trec:read_run",
    "recognise": "ranking.data.readers.read:recognise",
    "scores_as_features": "ranking.inference.score_features:scores_as_features",
    "split_by_time": "ranking.data.split:split_by_time",
    "split_metrics": "ranking.metrics.parse:split_metrics",
    "write_data": "ranking.data.writers:write",
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
        raise AttributeError(f"module 'ranking' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
