"""The names of the export formats, without what writes them."""

EXPORT_FORMATS: dict[str, str] = {
    "json": "All parameters, readable.",
    "elasticsearch-ltr": "A linear model for Elasticsearch LTR.",
    "opensearch-ltr": "A linear model for OpenSearch LTR.",
    "solr-ltr": "A linear model for Solr LTR.",
    "vespa": "A rank profile, and feeds of embeddings.",
    "onnx": "An ONNX graph.",
    "sparse-index": "Documents and expanded query terms for an inverted index.",
    "anserini": "The same with integer weights, as a JsonVectorCollection.",
    "npy": "Embeddings and their ids.",
    "parquet": "Embeddings with their ids.",
    "faiss": "An exact index of the embeddings of documents.",
    "usearch": "An HNSW index of the embeddings of documents.",
}
"""What each format holds."""
