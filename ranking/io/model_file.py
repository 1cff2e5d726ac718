"""Model files: a trained model in one safetensors file, from which no code is run."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ranking._utils.tensors import Tensors, pack_history, section, under, unpack_history
from ranking.contracts.model import Model
from ranking.data.ids import pack_ids, unpack_ids
from ranking.data.inputs import DOCUMENT, Documents
from ranking.data.scaling import Scaling
from ranking.data.seen import SeenItems
from ranking.data.text.features import TextFeatures
from ranking.data.validation import Ids, as_ids
from ranking.errors import ModelFileError, PartError, PluginWarning, RankingError
from ranking.io.result import TrainingResult
from ranking.io.schema import PARTS, SCHEMA_VERSION, check_description, check_positions
from ranking.io.tensors import read_tensors, write_tensors
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel
from ranking.registry.manager import get_registry

__all__ = [
    "PARTS",
    "SCHEMA_VERSION",
    "Extras",
    "FileSpec",
    "ModelFile",
    "read_model",
    "write_model",
]


class FileSpec(str):
    """The spec of a part as a model file has it; files that it names are not opened."""

    __slots__ = ()


class Extras(NamedTuple):
    """What a model file holds beside the model.

    Attributes
    ----------
    text : TextFeatures or None
        Fitted, for a model of texts.
    documents : Documents or None
        The documents of a collection of texts.
    seen : SeenItems or None
        Users, items and positives of interactions.
    columns : array of str or None
        The columns of the data frame that it was trained on.
    scaling : Scaling or None
        Of the features of judged rows.
    """

    text: TextFeatures | None = None
    documents: Documents | None = None
    seen: SeenItems | None = None
    columns: Any = None
    scaling: Scaling | None = None


NO_EXTRAS = Extras()


class ModelFile(NamedTuple):
    """The content of a model file.

    Attributes
    ----------
    result : TrainingResult
    specs : dict
        The specs of model, loss, regularizer and solver.
    seed : int
    extras : Extras
    """

    result: TrainingResult
    specs: dict[str, str]
    seed: int
    extras: Extras


def write_model(path: Path, result: TrainingResult, extras: Extras = NO_EXTRAS) -> None:
    """Write a trained model, atomically."""
    text, documents, seen, columns, scaling = extras
    tensors = under("model", result.model.tensors())
    tensors |= under("history", pack_history(result.history))
    description = dict(result.description)
    if text is not None:
        tensors |= under("text", text.tensors())
        description["text"] = dataclasses.replace(text, **text.auto_values()).spec()
    if documents is not None:
        tensors |= under("documents", documents.tensors())
    if seen is not None:
        tensors |= under("seen", seen.tensors())
    if columns is not None:
        names = as_ids("columns", list(columns), len(columns))
        tensors |= under("columns", pack_ids("names", names))
    if scaling is not None:
        tensors |= under("scaling", scaling.tensors())
        description["scale"] = scaling.method
    write_tensors(path, tensors, description)


def read_model(path: Path, kernel: str | Kernel = "auto") -> ModelFile:
    """Read a trained model, or raise `ModelFileError`.

    The model is created by the installed plugin of its name; loss, regularizer and solver are None
    in the result if their plugins are not installed, because scoring does not need them.
    """
    tensors, description = read_tensors(path)
    check_description(path, description)
    check_positions(path, tensors, description["training"])
    specs = {kind: description["parts"][kind]["spec"] for kind in PARTS}
    training = description["training"]
    registry = get_registry()
    model = _create_model(path, specs["model"], description["parts"]["model"])
    _warn_of_plugins(path, description.get("plugins", {}))
    parts: dict[str, Any] = dict.fromkeys(PARTS[1:])
    for kind in parts:
        with contextlib.suppress(RankingError):
            parts[kind] = registry.create(kind, specs[kind])
    with _located(path):
        history = unpack_history(section(tensors, "history"))
        model.restore(section(tensors, "model"))
        extras = _restore_extras(path, tensors, description, model)
    result = TrainingResult(
        model=model,
        **parts,
        kernel=get_kernel(kernel),
        history=history,
        stopped=training["stopped"],
        description=description,
    )
    from_file: dict[str, str] = {kind: FileSpec(spec) for kind, spec in specs.items()}
    return ModelFile(result, from_file, training["seed"], extras)


def _restore_extras(
    path: Path, tensors: Tensors, description: dict[str, Any], model: Model
) -> Extras:
    """Return what the file holds beside the model."""
    text = documents = scaling = None
    if description.get("text") is not None:
        text = _restore_text(path, description["text"], section(tensors, "text"))
        sides = ("document",) if description.get("per query") else ("query", "document")
        _refuse_other_vocabulary(path, model, text, sides)
        stored = section(tensors, "documents")
        documents = Documents.restore(stored, text.n_features) if stored else None
    stored = section(tensors, "seen")
    seen = SeenItems.restore(stored) if stored else None
    columns = _restore_columns(section(tensors, "columns"), description["training"]["features"])
    if description.get("scale") is not None:
        scaling = Scaling.restore(description["scale"], section(tensors, "scaling"))
    return Extras(text, documents, seen, columns, scaling)


@contextlib.contextmanager
def _located(path: Path) -> Iterator[None]:
    """Name the file in the error for a part of it, whatever a third-party model raises."""
    try:
        yield
    except ModelFileError as error:
        message = str(error)
        raise ModelFileError(
            message if str(path) in message else f"{path} is damaged: {message}"
        ) from error
    except Exception as error:
        raise ModelFileError(
            f"{path} is damaged: its tensors do not fit its model ({type(error).__name__}: "
            f"{error})."
        ) from error


def _create_model(path: Path, spec: str, origin: dict[str, Any]) -> Model:
    try:
        model: Model = get_registry().create("model", spec)
    except PartError as error:
        distribution, version = str(origin.get("distribution")), str(origin.get("version"))
        raise ModelFileError(
            f"{path} needs model {spec!r} of {distribution} {version}, which is not there "
            f"({error}); install that package: {_install_command(distribution, version)}."
        ) from error
    return model


def _warn_of_plugins(path: Path, plugins: dict[str, Any]) -> None:
    """Warn of plugins that trained the model and are missing here, or have another version."""
    for distribution, plugin in plugins.items():
        version, parts = plugin["version"], ", ".join(plugin["parts"])
        command = _install_command(distribution, version)
        try:
            installed = metadata.version(distribution)
        except (metadata.PackageNotFoundError, ValueError):
            message = (
                f"{path} was made with {distribution} {version} ({parts}), which is not installed "
                f"here; the model scores without it, and to train with it again, {command}."
            )
        else:
            if installed == version:
                continue
            message = (
                f"{path} was made with {distribution} {version} ({parts}), and here is "
                f"{installed}, which may work otherwise; for the same, {command}."
            )
        warnings.warn(message, PluginWarning, stacklevel=4)


def _install_command(distribution: str, version: str) -> str:
    return f"pip install {distribution}=={version}" if version else f"add {distribution}"


def _restore_text(path: Path, spec: str, tensors: Tensors) -> TextFeatures:
    try:
        text = TextFeatures.from_spec(spec)
    except PartError as error:
        raise ModelFileError(f"{path} is damaged: {error}") from error
    text.restore(tensors)
    return text


def _restore_columns(tensors: Tensors, n_features: int) -> Ids | None:
    if not tensors:
        return None
    columns = unpack_ids("names", tensors)
    if columns.dtype.kind != "U" or columns.size != n_features:
        raise ModelFileError(f"`columns` must be {n_features} texts, one per feature.")
    return columns


def _refuse_other_vocabulary(
    path: Path, model: Model, text: TextFeatures, sides: tuple[str, ...]
) -> None:
    """Refuse a model whose features are not the terms of the vocabulary in the same file."""
    terms = {"query": text.query_feature_names, "document": text.feature_names}
    for side in sides:
        known, names = getattr(model, f"{side}_feature_ids", None), terms[side]
        if known is None:
            continue
        words, others = known.astype(np.str_)[: len(names)], known.astype(np.str_)[len(names) :]
        own = side == "document" and text.document_ids  # one feature per document follows
        right = not others.size or (own and np.char.startswith(others, DOCUMENT).all())
        if not (right and np.array_equal(words, np.array(names, np.str_))):
            raise ModelFileError(
                f"{path} is damaged: the {side} features of its model are not the words of its "
                "vocabulary; train it again."
            )
