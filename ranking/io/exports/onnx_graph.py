"""Models as ONNX graphs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ranking.errors import CombinationError, DataError
from ranking.io.exports.content import Exportable, embeddings, linear_function
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear

OPSET = 17
IR_VERSION = 9

LARGEST_MATRIX = 16_000_000
"""Entries of W as a dense matrix: 64 MB."""


def onnx_bytes(source: Exportable, names: list[str] | None) -> bytes:
    """Return an ONNX graph that scores.

    Linear: `features` (rows, features) to `scores`. Embeddings: `query` (positions in the exported
    ids) and `k` to `scores` and `documents`, the positions of the k best. Bilinear: `queries` and
    `documents`, one row of feature values each, to `scores`.
    """
    try:
        onnx = import_module("onnx")
    except ImportError as error:
        raise DataError(
            "an ONNX graph needs the package onnx; install it with pip install 'ranking-kit[onnx]'."
        ) from error
    if isinstance(source.model, Linear):
        graph = _linear(onnx, source, names)
    elif isinstance(source.model, Bilinear):
        graph = _bilinear(onnx, source.model)
    else:
        graph = _embeddings(onnx, source)
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], producer_name="ranking"
    )
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def _linear(onnx: Any, source: Exportable, names: list[str] | None) -> Any:
    function = linear_function(source, names)
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes, current = [], "features"
    if function.logarithm:
        nodes += [
            node("Sign", ["features"], ["sign"]),
            node("Abs", ["features"], ["size"]),
            node("Add", ["size", "one"], ["above"]),
            node("Log", ["above"], ["logarithm"]),
            node("Mul", ["sign", "logarithm"], ["value"]),
        ]
        current = "value"
    nodes += [
        node("Sub", [current, "center"], ["moved"]),
        node("Div", ["moved", "width"], ["scaled"]),
        node("MatMul", ["scaled", "weights"], ["scores"]),
    ]
    constants = {
        "center": function.center,
        "width": function.width,
        "weights": function.weights,
        "one": np.ones(1),
    }
    kind = onnx.TensorProto.DOUBLE
    return onnx.helper.make_graph(
        nodes,
        "linear",
        [value("features", kind, ["rows", len(function.names)])],
        [value("scores", kind, ["rows"])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )


def _embeddings(onnx: Any, source: Exportable) -> Any:
    content = embeddings(source)
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Gather", ["query_embeddings", "query"], ["rows"], axis=0),
        node("MatMul", ["rows", "document_embeddings"], ["all_scores"]),
        node("TopK", ["all_scores", "k"], ["scores", "documents"], axis=1),
    ]
    constants = {
        "query_embeddings": content.queries,
        "document_embeddings": np.ascontiguousarray(content.documents.T),
    }
    kinds = onnx.TensorProto
    return onnx.helper.make_graph(
        nodes,
        "embeddings",
        [value("query", kinds.INT64, ["queries"]), value("k", kinds.INT64, [1])],
        [
            value("scores", kinds.FLOAT, ["queries", "best"]),
            value("documents", kinds.INT64, ["queries", "best"]),
        ],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )


def _bilinear(onnx: Any, model: Bilinear) -> Any:
    rows, columns = model.weights.shape
    if rows * columns > LARGEST_MATRIX:
        raise CombinationError(
            f"W has {rows} x {columns} entries, and ONNX, which holds it densely, is written for "
            f"up to {LARGEST_MATRIX}; export it to sparse-index or json, or train with fewer words."
        )
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("MatMul", ["queries", "W"], ["expanded"]),
        node("Mul", ["expanded", "documents"], ["products"]),
        node("ReduceSum", ["products", "axis"], ["scores"], keepdims=0),
    ]
    kind = onnx.TensorProto.FLOAT
    weights = model.weights.toarray().astype(np.float32)
    return onnx.helper.make_graph(
        nodes,
        "bilinear",
        [value("queries", kind, ["pairs", rows]), value("documents", kind, ["pairs", columns])],
        [value("scores", kind, ["pairs"])],
        [
            onnx.numpy_helper.from_array(weights, "W"),
            onnx.numpy_helper.from_array(np.array([1], np.int64), "axis"),
        ],
    )
