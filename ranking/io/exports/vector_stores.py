"""Embeddings for vector stores: NumPy, Parquet, faiss and usearch."""

from __future__ import annotations

import io
import json
from importlib import import_module
from typing import Any

import numpy as np

from ranking.errors import DataError
from ranking.io.exports.content import Embeddings

Files = dict[str, bytes]


def numpy_files(content: Embeddings) -> Files:
    """Return the embeddings as .npy arrays, and their ids as JSON lists in the same order."""
    files = {}
    for side in ("queries", "documents"):
        buffer = io.BytesIO()
        np.save(buffer, getattr(content, side), allow_pickle=False)
        files[f"{side}.npy"] = buffer.getvalue()
    return {**files, **_ids(content)}


def parquet_files(content: Embeddings) -> Files:
    """Return one table per side: the ids, and embeddings as fixed-size lists of float32."""
    pyarrow, parquet = _need("pyarrow", "frames"), _need("pyarrow.parquet", "frames")
    files = {}
    for side, ids in (("queries", content.query_ids), ("documents", content.document_ids)):
        rows = getattr(content, side)
        lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.ravel()), rows.shape[1])
        table = pyarrow.table({"id": pyarrow.array(ids.tolist()), "embedding": lists})
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(table, sink)
        files[f"{side}.parquet"] = sink.getvalue().to_pybytes()
    return files


def faiss_files(content: Embeddings) -> Files:
    """Return an exact inner-product index of the documents; positions refer to the list of ids."""
    faiss = _need("faiss", "faiss")
    index = faiss.IndexFlatIP(content.documents.shape[1])
    index.add(content.documents)
    return {"documents.faiss": faiss.serialize_index(index).tobytes(), **_ids(content)}


def usearch_files(content: Embeddings) -> Files:
    """Return an inner-product HNSW index; built by one thread, so that it is the same each time."""
    index_of = _need("usearch.index", "usearch").Index
    index = index_of(ndim=content.documents.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(content.document_ids.size), content.documents, threads=1)
    return {"documents.usearch": bytes(index.save()), **_ids(content)}


def _ids(content: Embeddings) -> Files:
    sides = {"query_ids.json": content.query_ids, "document_ids.json": content.document_ids}
    return {
        name: json.dumps(ids.tolist(), ensure_ascii=False).encode() for name, ids in sides.items()
    }


def _need(module: str, extra: str) -> Any:
    """Import a package, or raise `DataError` that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise DataError(
            f"this export needs the package {module.split('.')[0]}; install it with "
            f"pip install 'ranking-kit[{extra}]'."
        ) from error
