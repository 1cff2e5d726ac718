"""Model files: a trained model in one safetensors file, from which no code is run."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ranking._utils.tensors import History, Tensors, pack_history, section, under, unpack_history
from ranking.contracts.model import Model
from ranking.data.inputs import Documents
from ranking.data.seen import SeenItems
from ranking.data.text.features import TextFeatures
from ranking.errors import ModelFileError, PartError, PluginWarning
from ranking.io.result import TrainingResult
from ranking.io.tensors import read_tensors, write_tensors
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel
from ranking.registry.manager import get_registry

SCHEMA_VERSION = 2
"""Version of the description in a model file."""

PARTS = ("model", "loss", "regularizer", "solver")


class ModelFile(NamedTuple):
    """The content of a model file.

    Attributes
    ----------
    result : TrainingResult
    specs : dict
        The specs of model, loss, regularizer and solver.
    seed : int
    text : TextFeatures or None
        Fitted, for a model of texts.
    documents : Documents or None
        The documents of a collection of texts.
    seen : SeenItems or None
        Users, items and positives of interactions.
    """

    result: TrainingResult
    specs: dict[str, str]
    seed: int
    text: TextFeatures | None
    documents: Documents | None
    seen: SeenItems | None


def write_model(
    path: Path,
    result: TrainingResult,
    text: TextFeatures | None = None,
    documents: Documents | None = None,
    seen: SeenItems | None = None,
) -> None:
    """Write a trained model, atomically."""
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
    write_tensors(path, tensors, description)


def read_model(path: Path, kernel: str | Kernel = "auto") -> ModelFile:
    """Read a trained model, or raise `ModelFileError`.

    The model is created by the installed plugin of its name; loss, regularizer and solver are None
    in the result if their plugins are not installed, because scoring does not need them.
    """
    tensors, description = read_tensors(path)
    specs, seed, stopped, history = _read_description(path, tensors, description)
    registry = get_registry()
    model = _create_model(path, specs["model"], description["parts"]["model"])
    _warn_of_plugins(path, description.get("plugins"))
    model.restore(section(tensors, "model"))
    parts: dict[str, Any] = dict.fromkeys(PARTS[1:])
    for kind in parts:
        with contextlib.suppress(PartError):
            parts[kind] = registry.create(kind, specs[kind])
    text = documents = None
    if description.get("text") is not None:
        text = _restore_text(path, str(description["text"]), section(tensors, "text"))
        sides = ("document",) if description.get("per query") else ("query", "document")
        _refuse_other_vocabulary(path, model, text, sides)
        stored = section(tensors, "documents")
        documents = Documents.restore(stored, text.n_features) if stored else None
    result = TrainingResult(
        model=model,
        **parts,
        kernel=get_kernel(kernel),
        history=history,
        stopped=stopped,
        description=description,
    )
    stored = section(tensors, "seen")
    seen = SeenItems.restore(stored) if stored else None
    return ModelFile(result, specs, seed, text, documents, seen)


def _read_description(
    path: Path, tensors: Tensors, description: dict[str, Any]
) -> tuple[dict[str, str], int, str, History]:
    """Return specs, seed, why training stopped and the history."""
    version = description.get("schema_version")
    if version != SCHEMA_VERSION:
        remedy = (
            "update ranking"
            if isinstance(version, int) and version > SCHEMA_VERSION
            else ("train the model again")
        )
        raise ModelFileError(
            f"{path} has schema_version {version}, and this version of ranking reads "
            f"{SCHEMA_VERSION}; {remedy}."
        )
    try:
        specs = {kind: str(description["parts"][kind]["spec"]) for kind in PARTS}
        training = description["training"]
        int(training["features"])
        history = unpack_history(section(tensors, "history"))
        return specs, int(training["seed"]), str(training["stopped"]), history
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} is damaged: its description lacks {error}.") from error


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


def _warn_of_plugins(path: Path, plugins: Any) -> None:
    """Warn of plugins that trained the model and are missing here, or have another version."""
    for distribution, plugin in plugins.items() if isinstance(plugins, dict) else ():
        version, parts = str(plugin.get("version")), ", ".join(plugin.get("parts", ()))
        command = _install_command(distribution, version)
        try:
            installed = metadata.version(distribution)
        except metadata.PackageNotFoundError:
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


def _refuse_other_vocabulary(
    path: Path, model: Model, text: TextFeatures, sides: tuple[str, ...]
) -> None:
    """Refuse a model none of whose features is a term of the vocabulary in the same file."""
    names = np.array(text.feature_names)
    for side in sides:
        known = getattr(model, f"{side}_feature_ids", None)
        if known is not None and not np.isin(names, known.astype(np.str_)).any():
            raise ModelFileError(
                f"{path} is damaged: no word of its vocabulary is a {side} feature of its model; "
                "train it again."
            )
