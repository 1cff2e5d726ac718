"""Reading LETOR files and measuring rankings; `metrics_report.py` prints the latter as ratios."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from ranking import JudgedLists, MatchingData, Ranker
from ranking.data.readers.letor import Letor
from ranking.data.readers.read import read_any
from ranking.metrics.evaluation import evaluate
from ranking.metrics.parse import parse_metric, parse_metrics

from .common import KERNELS, PROFILE, kernel_or_skip, make_judged
from .interactions import SHAPE, make_likes

ALL = (
    "ndcg,ndcg@10,map,p@10,recall@100,mrr,r-precision,mean-rank,auc,pair-error,domination-error,"
    "all-pairs-error"
)
QUERIES, DOCUMENTS = 2000, 1000


class Metrics:
    """All metrics at once, 2,000 queries of 1,000 documents."""

    params = (KERNELS, [1, 2])
    param_names = ("kernel", "threads")

    def setup(self, kernel: str, threads: int) -> None:
        rng = np.random.default_rng(0)
        rows = QUERIES * DOCUMENTS
        grades = rng.choice([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0], rows)
        qids = np.repeat(np.arange(QUERIES), DOCUMENTS)
        self.data = JudgedLists(np.ones((rows, 1), np.float32), grades, qids)
        self.scores = rng.normal(size=rows)
        self.metrics = list(parse_metrics(ALL).values())
        self.kernel = kernel_or_skip(kernel)

    def time_all(self, kernel: str, threads: int) -> None:
        evaluate(self.metrics, self.data, self.scores, self.kernel, threads)

    def peakmem_all(self, kernel: str, threads: int) -> None:
        evaluate(self.metrics, self.data, self.scores, self.kernel, threads)


class TopK:
    """recall@20 and ndcg@20 of 10,000 users and 20,000 items, by the kernel's lists of 20."""

    params = (KERNELS, [1, 2])
    param_names = ("kernel", "threads")

    def setup(self, kernel: str, threads: int) -> None:
        rng = np.random.default_rng(0)
        users, items, width = 10_000, 20_000, 64
        positives = rng.integers(0, items, (users, 8))
        rows = np.repeat(np.arange(users), 8)
        relevance = sparse.csr_array((np.ones(rows.size), (rows, positives.ravel())))
        relevance.resize((users, items))
        self.data = MatchingData(relevance=relevance)
        kernel_or_skip(kernel)
        # Untrained: the time does not depend on what the embeddings are.
        solver = "sgd:max_steps=0"
        self.ranker = Ranker(
            f"factored:dimensions={width}", "warp", solver=solver, kernel=kernel, threads=threads
        ).fit(self.data)
        self.metrics = ["recall@20", "ndcg@20"]

    def time_evaluate(self, kernel: str, threads: int) -> None:
        self.ranker.evaluate(self.data, metrics=self.metrics)

    def peakmem_evaluate(self, kernel: str, threads: int) -> None:
        self.ranker.evaluate(self.data, metrics=self.metrics)

    def track_recall(self, kernel: str, threads: int) -> float:
        return float(self.ranker.evaluate(self.data, metrics=self.metrics).means()["recall@20"])


class TrecEval:
    """NDCG alone by pytrec_eval, whose input is built before: the comparison."""

    def setup(self) -> None:
        try:
            import pytrec_eval
        except ImportError as error:
            raise NotImplementedError(f"pip install pytrec-eval-terrier: {error}") from error
        same = Metrics()
        same.setup("cython", 1)
        self.data, self.scores = same.data, same.scores
        names = [str(document) for document in range(DOCUMENTS)]
        grades = same.data.grades.astype(int).reshape(QUERIES, DOCUMENTS).tolist()
        scores = same.scores.reshape(QUERIES, DOCUMENTS).tolist()
        qrels = {str(q): dict(zip(names, row, strict=True)) for q, row in enumerate(grades)}
        self.run = {str(q): dict(zip(names, row, strict=True)) for q, row in enumerate(scores)}
        self.evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg"})

    def time_ndcg(self) -> None:
        self.evaluator.evaluate(self.run)

    def peakmem_ndcg(self) -> None:
        self.evaluator.evaluate(self.run)


class Agreement:
    """How far the NDCG of a query is from trec_eval's, at the most."""

    params = (KERNELS,)
    param_names = ("kernel",)

    def setup(self, kernel: str) -> None:
        self.kernel = kernel_or_skip(kernel)
        self.peer = TrecEval()
        self.peer.setup()

    def track_difference(self, kernel: str) -> float:
        peer = self.peer
        theirs = peer.evaluator.evaluate(peer.run)
        (ours,) = evaluate([parse_metric("ndcg")], peer.data, peer.scores, self.kernel).values()
        names = peer.data.query_ids.astype(str)
        return max(
            abs(value - theirs[q]["ndcg"]) for q, value in zip(names, ours.tolist(), strict=True)
        )


class Reading:
    """A LETOR file of 5,000 rows (100,000 in the full profile), and scikit-learn on the same."""

    params = ([*KERNELS, "scikit-learn"], [1, 2])
    param_names = ("reader", "threads")

    def setup_cache(self) -> str:
        data = make_judged(n_queries={"fast": 40, "full": 800}[PROFILE])
        numbers = np.arange(1, data.n_features + 1)
        path = Path("letor.txt").resolve()  # asv removes the folder it runs this in
        with path.open("w") as stream:
            for row in range(data.n_rows):
                pairs = " ".join(
                    f"{k}:{v:.6f}" for k, v in zip(numbers, data.features[row], strict=True)
                )
                stream.write(f"{data.grades[row]:g} qid:{data.row_groups[row]} {pairs}\n")
        return str(path)

    def setup(self, path: str, reader: str, threads: int) -> None:
        if reader == "scikit-learn":
            if threads > 1:
                raise NotImplementedError("scikit-learn reads with one thread")
            self.read = lambda: load_svmlight_file(path, query_id=True)
            return
        kernel = kernel_or_skip(reader)
        self.read = lambda: Letor(kernel=kernel, threads=threads).read(Path(path))

    def time_read(self, path: str, reader: str, threads: int) -> None:
        self.read()

    def peakmem_read(self, path: str, reader: str, threads: int) -> None:
        self.read()

    def track_difference(self, path: str, reader: str, threads: int) -> float:
        theirs, _, _ = load_svmlight_file(path, query_id=True)
        result = self.read()
        ours = result[0] if reader == "scikit-learn" else result.features
        dense = ours.toarray() if sparse.issparse(ours) else ours
        return float(np.abs(dense - theirs.toarray()).max())

    track_difference.unit = "largest difference from scikit-learn's"


class ReadingInteractions:
    """A CSV file of 20,000 interactions (a million in the full profile) with ids that are texts."""

    def setup_cache(self) -> tuple[str, int]:
        shape, n_likes = {"fast": ((600, 400), 20_000), "full": (SHAPE, 1_000_000)}[PROFILE]
        likes = make_likes(shape, n_likes).train
        path = Path("likes.csv").resolve()
        with path.open("w") as stream:
            stream.write("user,item\n")
            stream.writelines(f"u{u},i{i}\n" for u, i in zip(*likes.nonzero(), strict=True))
        return str(path), likes.nnz

    def setup(self, output: tuple[str, int]) -> None:
        path, self.n_entries = output
        self.read = lambda: read_any(path)

    def time_read(self, output: tuple[str, int]) -> None:
        self.read()

    def peakmem_read(self, output: tuple[str, int]) -> None:
        self.read()

    def track_lost(self, output: tuple[str, int]) -> int:
        return self.n_entries - self.read().relevance.nnz

    track_lost.unit = "interactions"
