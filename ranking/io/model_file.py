"""A fitted ranker in one safetensors file; nothing in a file is ever run."""

from __future__ import annotations

import contextlib
import functools
import warnings
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ranking.contracts.model import Model
from ranking.data.inputs import Documents
from ranking.data.matching_data import MatchingData
from ranking.data.text.features import TextFeatures
from ranking.errors import ModelFileError, PartError, PluginWarning
from ranking.io.tensors import read_tensors, write_tensors
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel
from ranking.registry import get_registry
from ranking.registry.origin import origin
from ranking.registry.security import OURS, canonical
from ranking.training.trainer import Run, pack_history, section, under, unpack_history

if TYPE_CHECKING:
    from ranking.ranker import Ranker

    AnyRanker = TypeVar("AnyRanker", bound=Ranker)

FORMAT = 1
"""Version of the description in a model file."""

PARTS = ("model", "loss", "regularizer", "solver")


def write_ranker(ranker: Ranker, path: Path) -> None:
    """Write a fitted ranker, atomically."""
    tensors = under("model", ranker.model_.tensors())
    tensors |= under("history", pack_history(ranker.history_))
    description = dict(ranker.description_)
    if ranker.text_ is not None:
        tensors |= under("text", ranker.text_.tensors())
        description["text"] = ranker.text_.spec()
    if ranker.documents_ is not None:
        tensors |= under("documents", ranker.documents_.tensors())
    write_tensors(path, tensors, description)


def read_ranker(cls: type[AnyRanker], path: Path, kernel: str | Kernel, threads: int) -> AnyRanker:
    """Read a fitted ranker, or raise `ModelFileError`."""
    tensors, description = read_tensors(path)
    try:
        if description["format"] != FORMAT:
            raise ModelFileError(
                f"{path} has format {description['format']}, and this version of ranking "
                f"reads format {FORMAT}; update ranking."
            )
        parts = {kind: str(description["parts"][kind]["spec"]) for kind in PARTS}
        made = description["parts"]["model"]
        training = description["training"]
        stopped, n_features = str(training["stopped"]), int(training["features"])
        seed, text = int(training["seed"]), description.get("text")
        history = unpack_history(section(tensors, "history"))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} is damaged: its description lacks {error}.") from error
    ranker = cls(**parts, features=text, kernel=kernel, threads=threads, random_state=seed)
    registry = get_registry()
    try:
        model = registry.create("model", parts["model"])
    except PartError as error:
        raise ModelFileError(
            f"{path} needs model {parts['model']!r} of {made.get('distribution')} "
            f"{made.get('version')}, which is not there ({error}); install that package: "
            f"{_command(str(made.get('distribution')), str(made.get('version')))}."
        ) from error
    _tell_plugins(path, description.get("plugins"))
    model.restore(section(tensors, "model"))
    ranker.model_ = model
    for kind in PARTS[1:]:
        with contextlib.suppress(PartError):  # scoring does without them
            setattr(ranker, f"{kind}_", registry.create(kind, parts[kind]))
    ranker.text_ = ranker.documents_ = None
    if text is not None:
        ranker.text_ = _restored_text(path, str(text), section(tensors, "text"))
        sides = ("document",) if description.get("per query") else ("query", "document")
        _refuse_strangers(path, model, ranker.text_, sides)
    kept = section(tensors, "documents")
    if kept and ranker.text_ is not None:
        ranker.documents_ = Documents.restore(kept, ranker.text_.n_features)
    ranker.kernel_ = get_kernel(kernel)
    ranker.stopped_, ranker.n_features_in_ = stopped, n_features
    ranker.history_ = history
    ranker.objective_ = float(history[-1].get("objective", "nan")) if history else float("nan")
    ranker.n_iter_ = int(history[-1]["epoch"]) if history else 0
    ranker.description_ = description
    return ranker


def _tell_plugins(path: Path, plugins: Any) -> None:
    """Warn of plugins that made the model and are not here, or in another version."""
    for distribution, made in plugins.items() if isinstance(plugins, dict) else ():
        version, did = str(made.get("version")), ", ".join(made.get("parts", ()))
        try:
            here = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            warnings.warn(
                f"{path} was made with {distribution} {version} ({did}), which is not installed "
                f"here; the model scores without it, and to train with it again, "
                f"{_command(distribution, version)}.",
                PluginWarning,
                stacklevel=4,
            )
            continue
        if here != version:
            warnings.warn(
                f"{path} was made with {distribution} {version} ({did}), and here is {here}, "
                f"which may work otherwise; for the same, {_command(distribution, version)}.",
                PluginWarning,
                stacklevel=4,
            )


def _command(distribution: str, version: str) -> str:
    return f"pip install {distribution}=={version}" if version else f"add {distribution}"


def _restored_text(path: Path, spec: str, tensors: dict[str, Any]) -> TextFeatures:
    try:
        text = TextFeatures.from_spec(spec)
    except PartError as error:
        raise ModelFileError(f"{path} is damaged: {error}") from error
    text.restore(tensors)
    return text


def _refuse_strangers(path: Path, model: Model, text: TextFeatures, sides: tuple[str, ...]) -> None:
    """Refuse a model none of whose features is a term of the texts that it was trained on."""
    names = np.array(text.feature_names)
    for side in sides:
        known = getattr(model, f"{side}_feature_ids", None)
        if known is not None and not np.isin(names, known.astype(np.str_)).any():
            raise ModelFileError(
                f"{path} is damaged: no word of its vocabulary is a {side} feature of its model; "
                "train it again."
            )


def describe(run: Run) -> dict[str, Any]:
    """Return what a model file says about a run."""
    parts = {}
    for kind in PARTS:
        part = getattr(run, kind)
        distribution, version = origin(kind, part)
        parts[kind] = {"spec": part.spec(), "distribution": distribution, "version": version}
    return {
        "format": FORMAT,
        "ranking": _version(),
        "parts": parts,
        "plugins": _plugins(run),
        "kernel": {"name": run.kernel.name, "version": run.kernel.version},
        "training": {**sizes(run), "seed": run.seed, "stopped": run.stopped},
        **run.solver.notes(),
    }


def _plugins(run: Run) -> dict[str, dict[str, Any]]:
    """Return the distributions of others that took part: their version, and what they did."""
    used = [(kind, getattr(run, kind)) for kind in PARTS]
    used += [("callback", callback) for callback in run.callbacks]
    plugins: dict[str, dict[str, Any]] = {}
    for kind, part in used:
        distribution, version = origin(kind, part)
        if version and canonical(distribution) not in OURS:
            told = plugins.setdefault(distribution, {"version": version, "parts": []})
            told["parts"].append(f"{kind} {part.name}")
    return plugins


@functools.cache
def _version() -> str:
    """Return the version of this package; reading it anew for each of many fits takes long."""
    return metadata.version("ranking")


def sizes(run: Run) -> dict[str, int]:
    """Return how large the training data were."""
    data = run.data
    if isinstance(data, MatchingData):
        return {
            "queries": data.n_queries,
            "documents": data.n_documents,
            "query features": data.n_query_features,
            "features": data.n_document_features,
        }
    return {"rows": data.n_rows, "queries": data.n_queries, "features": data.n_features}
