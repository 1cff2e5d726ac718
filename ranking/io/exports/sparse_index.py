"""Bilinear models as an inverted index: documents as they are, and queries expanded by W."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from scipy import sparse

from ranking.errors import CombinationError
from ranking.io.exports.content import TermWeights

Files = dict[str, bytes]

QUANTUM = 100
"""Weights of a quantised index are multiples of 1 / QUANTUM."""


def sparse_files(content: TermWeights, quantised: bool) -> Files:
    """Return documents and expansions of query terms as JSON lines.

    The score q' W d is the dot product of the document d with W' q. So a query is expanded once, by
    the sum of the expansions of its terms, each times its number of occurrences. Documents go to
    the field of a sparse vector (Elasticsearch ``sparse_vector``, OpenSearch ``rank_features``);
    quantised, they are an Anserini ``JsonVectorCollection``.
    """
    scaled = sparse.diags_array(content.query_weights) @ content.weights
    expansions = sparse.csr_array(scaled)
    expansions.eliminate_zeros()
    for what, matrix in (("W", expansions), ("the documents", content.documents)):
        negative = int((matrix.data < 0.0).sum())
        if negative:
            raise CombinationError(
                f"{negative} of {matrix.nnz} weights of {what} are negative, and no inverted index "
                "takes them; export to json or onnx, or train without negative weights."
            )
    documents = _rows(content.documents, content.document_ids, content.document_terms, quantised)
    queries = _rows(expansions, content.query_terms, content.document_terms, quantised)
    contents = {"contents": ""} if quantised else {}
    return {
        "documents.jsonl": _lines(
            {"id": one, **contents, "vector": vector} for one, vector in documents
        ),
        "expansions.jsonl": _lines({"term": term, "vector": vector} for term, vector in queries),
    }


def _rows(matrix: Any, names: list[str], terms: list[str], quantised: bool) -> Any:
    rows = sparse.csr_array(matrix)
    for at, name in enumerate(names):
        part = slice(rows.indptr[at], rows.indptr[at + 1])
        values = rows.data[part].astype(np.float64)
        weights = np.rint(values * QUANTUM).astype(np.int64) if quantised else values
        columns = rows.indices[part].tolist()
        pairs = zip(columns, weights.tolist(), strict=True)
        yield name, {terms[column]: weight for column, weight in pairs if weight}


def _lines(rows: Any) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
