"""Top-k by embeddings: exclusions, candidates, ties, blocks, similar documents, fold-in."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ranking import MatchingData, Ranker
from ranking.contracts.model import Embedding
from ranking.data.exclusions import find_exclusions
from ranking.errors import CombinationError, DataError
from ranking.inference import retrieval
from ranking.inference.retrieval import similar, top_k, top_k_by_embeddings
from ranking.kernels.factored import FactoredKernel
from ranking.kernels.select import get_kernel
from ranking.models.factored import Factored
from ranking.models.stage_lists import best_lists
from ranking.models.structured import Structured
from ranking_plugins.losses import AUC, BPR, WARP, KosWARP


def initialized(data, seed=0, whole=False):
    """A model; with whole numbers there are many equal scores, and none is rounded."""
    model = Factored(5)
    model.initialize(data, seed, get_kernel())
    if whole:
        rng = np.random.default_rng(seed)
        for matrix in (model.U, model.V):
            matrix[:, :2] = rng.integers(-1, 2, (matrix.shape[0], 2))
            matrix[:, 2:] = 0.0
        model.document_biases[...] = rng.integers(0, 2, data.n_documents)
    return model


def by_sorting(scores, data, k, exclusions=None, candidates=None):
    for query in range(data.n_queries):
        out = set() if exclusions is None else set(exclusions[query])
        if data.own_document is not None:
            out.add(int(data.own_document[query]))
        pool = range(data.n_documents) if candidates is None else candidates
        left = [d for d in pool if d not in out]
        yield sorted(left, key=lambda d, q=query: (-scores[q, d], data.document_ids[d]))[:k]


def as_pairs(exclusions):
    pointers = np.concatenate(([0], np.cumsum([len(each) for each in exclusions])))
    return pointers, np.array([d for each in exclusions for d in sorted(each)], np.int64)


SHUFFLED = [f"{i:02d}" for i in np.random.default_rng(5).permutation(15)]


def named(data):
    """The same with ids that are not in order, so that ties show."""
    return MatchingData(data.queries, data.documents, data.relevance, document_ids=SHUFFLED)


@pytest.mark.parametrize("k", [1, 4, 15, 99, None])
@pytest.mark.parametrize("whole", [False, True], ids=["real", "ties"])
@pytest.mark.parametrize("limits", ["none", "exclusions", "candidates", "both"])
def test_top_k_equals_a_full_sort(factored_kernel, make_tastes, k, whole, limits):
    data = named(make_tastes(4))
    model = initialized(data, whole=whole)
    scores = model.scores(data, factored_kernel)
    rng = np.random.default_rng(0)
    exclusions = candidates = None
    if limits in ("exclusions", "both"):
        exclusions = [rng.choice(15, size, replace=False).tolist() for size in range(12)]
        exclusions[3] = list(range(15))  # who may have nothing gets nothing
    if limits in ("candidates", "both"):
        candidates = np.array([14, 3, 8, 9, 0])
    result = list(
        top_k(
            model,
            data,
            k,
            factored_kernel,
            exclusions=None if exclusions is None else as_pairs(exclusions),
            candidates=candidates,
        )
    )
    assert [one.query for one in result] == list(range(12))
    expected = by_sorting(scores, data, k, exclusions, candidates)
    for one, target in zip(result, expected, strict=True):
        assert one.documents.tolist() == target
        assert one.documents.dtype == np.int64
        assert one.scores.dtype == np.float64
        assert np.array_equal(one.scores, scores[one.query, target])


@pytest.mark.parametrize("k", [1, 3, 20])
def test_embeddings_and_scores_give_the_same_lists(factored_kernel, make_tastes, monkeypatch, k):
    data = named(make_tastes(4, features="both"))
    for whole in (False, True):
        model = initialized(data) if not whole else initialized(named(make_tastes(4)), whole=True)
        data = data if not whole else named(make_tastes(4))
        exclusions = as_pairs([[q, (q + 1) % 12] if q < 11 else [0] for q in range(12)])
        by_vector = list(top_k(model, data, k, factored_kernel, exclusions=exclusions))
        with monkeypatch.context() as patch:
            patch.setattr(Factored, "embedding", lambda *args: None)
            by_score = list(top_k(model, data, k, factored_kernel, exclusions=exclusions))
        for one, other in zip(by_vector, by_score, strict=True):
            assert one.documents.tolist() == other.documents.tolist()
            assert np.array_equal(one.scores, other.scores)


@pytest.mark.parametrize("block", [1, 5, 12])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_and_threads_change_nothing(
    factored_kernel, make_tastes, monkeypatch, block, threads
):
    data = make_tastes(4)
    model = initialized(data)
    exclusions = as_pairs([[q] for q in range(12)])
    whole = list(top_k(model, data, 4, factored_kernel, exclusions=exclusions))
    monkeypatch.setattr(retrieval, "BLOCK", block)
    sizes = []
    inner = FactoredKernel.top_k

    def watched(self, queries, *rest):
        sizes.append(queries.shape[0])
        return inner(self, queries, *rest)

    monkeypatch.setattr(FactoredKernel, "top_k", watched)
    ranking = top_k(model, data, 4, factored_kernel, threads, exclusions=exclusions)
    assert not sizes  # nothing is done before it is asked for
    cut = list(ranking)
    assert max(sizes) == block
    assert sum(sizes) == 12
    for one, other in zip(cut, whole, strict=True):
        assert one.query == other.query
        assert one.documents.tolist() == other.documents.tolist()
        assert np.array_equal(one.scores, other.scores)


def test_a_query_is_excluded_from_its_own_list(factored_kernel, make_matching):
    data = make_matching(3, queries_are_documents=True, kind="grades")
    model = initialized(data)
    scores = model.scores(data, factored_kernel)
    exclusions = [[(q + 1) % 14] for q in range(14)]
    for value in (None, exclusions):
        pairs = None if value is None else as_pairs(value)
        result = [
            one.documents.tolist()
            for one in top_k(model, data, 5, factored_kernel, exclusions=pairs)
        ]
        assert result == list(by_sorting(scores, data, 5, value))


def test_best_lists_are_padded(factored_kernel, make_matching, make_tastes):
    data = make_tastes(4)
    model = initialized(data)
    expected = list(by_sorting(model.scores(data, factored_kernel), data, 3))
    assert best_lists(model, data, 3, factored_kernel).tolist() == expected
    same = make_matching(3, 4, 4, queries_are_documents=True)
    lists = best_lists(initialized(same), same, 9, factored_kernel)
    assert lists.shape == (4, 4)
    assert (lists[:, 3] == -1).all()
    assert (lists[:, :3] >= 0).all()


# --- through the ranker -------------------------------------------------------------------------


def fitted(kernel, data, loss="warp", **options):
    options = {
        "max_steps": 400,
        "steps_per_epoch": 200,
        "learning_rate": 0.2,
        "batch_size": 16,
        **options,
    }
    solver = "sgd:" + ",".join(f"{key}={value}" for key, value in options.items())
    return Ranker("factored:dimensions=8", loss, solver=solver, kernel=kernel, random_state=1).fit(
        data
    )


def positions(data, results):
    """The documents of each list by position, in the order of the queries."""
    place = {name: at for at, name in enumerate(data.document_ids.tolist())}
    assert [query for query, _ in results] == data.query_ids.tolist()
    return [[place[name] for name, _ in ranked] for _, ranked in results]


def test_positives_of_exclude_are_left_out(factored_kernel, make_tastes):
    data = make_tastes(4)
    ranker = fitted(factored_kernel, data, max_steps=60)
    scores = ranker.predict(data)
    known = [data.relevant(query).tolist() for query in range(12)]
    for k in (3, None):
        results = positions(data, ranker.rank(data, k, exclude=data))
        assert results == list(by_sorting(scores, data, k, known))
        assert not any(set(a) & set(b) for a, b in zip(results, known, strict=True))
    # The same by the candidates' ids, in any order.
    names = [data.document_ids[i] for i in (9, 2, 4)]
    results = positions(data, ranker.rank(data, 3, candidates=names))
    assert results == list(by_sorting(scores, data, 3, None, [2, 4, 9]))
    both = positions(data, ranker.rank(data, 3, exclude=data, candidates=names))
    assert both == list(by_sorting(scores, data, 3, known, [2, 4, 9]))


def test_exclusions_are_found_by_id(factored_kernel, make_tastes):
    data = make_tastes(4)
    ranker = fitted(factored_kernel, data, max_steps=60)
    known = MatchingData(
        None,
        None,
        [[1, 1, 0], [0, 1, 1]],
        query_ids=["u7", "nobody"],
        document_ids=["i3", "gone", "i5"],
    )
    with pytest.raises(DataError, match="share no"):
        list(ranker.rank(data, exclude=MatchingData(None, None, np.eye(3))))
    scores = ranker.predict(data)
    exclusions = [[3] if query == 7 else [] for query in range(12)]
    results = positions(data, ranker.rank(data, 15, exclude=known))
    assert results == list(by_sorting(scores, data, 15, exclusions))


def test_no_candidate_is_refused(factored_kernel, make_tastes, judged):
    data = make_tastes(4)
    ranker = fitted(factored_kernel, data, max_steps=10)
    for nobody in ([], ["nobody"], [3]):
        with pytest.raises(DataError, match="no candidate among the documents"):
            list(ranker.rank(data, 3, candidates=nobody))
    with pytest.raises(DataError, match="scores queries and documents"):
        ranker.rank(data, 3, exclude=judged)
    for k in (0, -1, 2.5):
        with pytest.raises(DataError, match="k is"):
            ranker.rank(data, k)


# --- similar ------------------------------------------------------------------------------


def test_similar_is_the_cosine(factored_kernel, make_tastes):
    data = named(make_tastes(4))
    ranker = fitted(factored_kernel, data)
    for side, ids, matrix in (
        ("documents", data.document_ids, ranker.model_.V),
        ("queries", data.query_ids, ranker.model_.U),
    ):
        vectors = matrix[:, :8].astype(np.float64)
        units = vectors / np.linalg.norm(vectors, axis=1)[:, None]
        cosine = units @ units.T
        results = ranker.similar(data, 4, side=side)
        assert results.query_ids.tolist() == ids.tolist()
        for query, (name, one) in enumerate(results):
            assert name == ids[query]
            others = [i for i in range(len(vectors)) if i != query]
            others.sort(key=lambda i, row=cosine[query]: (-row[i], ids[i]))
            assert one.ids.tolist() == ids[others[:4]].tolist()
            np.testing.assert_allclose(one.scores, cosine[query, others[:4]], atol=1e-6)
    # Items of one taste are similar.
    place = {name: at for at, name in enumerate(data.document_ids.tolist())}
    for name, ranked in ranker.similar(data, 2):
        assert np.mean([place[one] % 3 == place[name] % 3 for one, _ in ranked]) >= 0.5


def test_similar_handles_zero_embeddings_and_bad_arguments(
    factored_kernel, make_tastes, make_matching
):
    vectors = np.zeros((3, 8), np.float32)
    vectors[:2, 0] = [2.0, -5.0]
    result = list(similar(vectors, np.array(["b", "c", "a"]), 9, factored_kernel))
    assert [one.documents.tolist() for one in result] == [[2, 1], [2, 0], [0, 1]]
    assert [one.scores.tolist() for one in result] == [[0.0, -1.0], [0.0, -1.0], [0.0, 0.0]]
    (alone,) = similar(vectors[:1], np.array([1]), 3, factored_kernel)
    assert alone.documents.size == 0
    ranker = fitted(factored_kernel, make_tastes(4), max_steps=10)
    with pytest.raises(DataError, match="documents or queries"):
        ranker.similar(make_tastes(4), side="items")
    with pytest.raises(DataError, match="k is 0"):
        ranker.similar(make_tastes(4), 0)
    with pytest.raises(DataError, match=r"k is None; it must be a whole number from 1\."):
        ranker.similar(make_tastes(4), None)
    matrix = Ranker(loss="hinge", solver="sgd:max_steps=0", kernel=factored_kernel)
    matrix.fit(make_matching(1))
    with pytest.raises(CombinationError, match=r"similar needs embeddings.*'bilinear' has none"):
        matrix.similar(make_matching(1))


# --- new queries --------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [WARP(), BPR(), AUC(), KosWARP(5, k=1, n=2)], ids=str)
def test_fold_in_of_a_copy_ranks_like_the_user(fast_kernel, make_tastes, loss):
    data = make_tastes(1, 30, 36, share=0.6)
    ranker = fitted(fast_kernel, data, loss, max_steps=4000, steps_per_epoch=1000)
    tensors = {name: tensor.copy() for name, tensor in ranker.model_.tensors().items()}
    known = [data.document_ids[data.relevant(query)].tolist() for query in range(30)]
    folded = ranker.fold_in(data, known, 6)
    trained = ranker.rank(data, 6, exclude=data)
    hits = [[], []]
    for query, ((_, new), (_, old)) in enumerate(zip(folded, trained, strict=True)):
        taste = {f"i{i}" for i in range(36) if i % 3 == query % 3} - set(known[query])
        for at, names in enumerate((new.ids.tolist(), old.ids.tolist())):
            assert not set(names) & set(known[query])
            best = min(6, len(taste))
            hits[at].append(len(taste & set(list(names)[:best])) / best)
        scores = [score for _, score in new]
        assert scores == sorted(scores, reverse=True)
    # A sixth would be by chance; those held back were drawn as negatives, so all is not found.
    assert np.mean(hits[0]) > 0.5
    assert np.mean(hits[0]) > np.mean(hits[1]) - 0.1
    # The model is as it was, and the same asked again is the same answer.
    for name, tensor in ranker.model_.tensors().items():
        assert tensor.tobytes() == tensors[name].tobytes()
    assert ranker.fold_in(data, known, 6) == folded


def test_fold_in_of_one_query_hardly_depends_on_others(fast_kernel, make_tastes):
    data = make_tastes(1, 30, 36)
    ranker = fitted(fast_kernel, data, max_steps=4000, steps_per_epoch=1000)
    alone = ranker.fold_in(data, {"new": ["i0", "i3"]}, 3)
    first = ranker.fold_in(data, [["i0", "i3", "i3"], ["i1"]], 3)
    for result in (alone["new"], first[0]):
        assert all(int(name[1:]) % 3 == 0 for name, _ in result)


def test_fold_in_refuses_bad_positives(factored_kernel, make_tastes, make_matching):
    data = make_tastes(4)
    ranker = fitted(factored_kernel, data, max_steps=10)
    with pytest.raises(
        DataError, match=r"new query 1 has the positive 'film', which is not a document"
    ):
        ranker.fold_in(data, [["i1"], ["i2", "film"]])
    everything = data.document_ids.tolist()
    for matches in ([], [["i1"], []], [everything]):
        with pytest.raises(DataError, match="must have at least one positive, and not all"):
            ranker.fold_in(data, matches)
    with pytest.raises(DataError, match="k is 0"):
        ranker.fold_in(data, [["i1"]], 0)
    matrix = Ranker(loss="hinge", solver="sgd:max_steps=0", kernel=factored_kernel)
    matrix.fit(make_matching(1))
    with pytest.raises(CombinationError, match=r"fold_in needs embeddings.*'bilinear' has none"):
        matrix.fold_in(make_matching(1), [[1]])


def test_fold_in_works_after_loading(factored_kernel, make_tastes, tmp_path):
    data = make_tastes(4)
    ranker = fitted(factored_kernel, data, max_steps=60)
    ranker.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model", kernel=factored_kernel)
    queries = [["i1", "i4"], ["i2"]]
    assert loaded.fold_in(data, queries, 4) == ranker.fold_in(data, queries, 4)


def test_a_structured_model_folds_in(fast_kernel, make_tastes):
    data = make_tastes(1, 30, 36)
    ranker = Ranker(
        Structured(8, stages=1, k=5),
        "warp",
        solver="sgd:max_steps=3000,steps_per_epoch=1000,learning_rate=0.2,batch_size=16",
        kernel=fast_kernel,
    ).fit(data)
    known = [[f"i{taste}", f"i{taste + 3}", f"i{taste + 6}"] for taste in range(3)]
    results = ranker.fold_in(data, known, 6)
    right = [int(name[1:]) % 3 == taste for taste in range(3) for name, _ in results[taste]]
    assert np.mean(right) > 0.5  # 9 of 33 by chance


# --- pairs that are known -----------------------------------------------------------------------


def sets(pairs):
    pointers, documents = pairs
    assert pointers.dtype == documents.dtype == np.int64
    rows = [documents[a:b].tolist() for a, b in itertools.pairwise(pointers)]
    assert all(row == sorted(set(row)) for row in rows)
    return rows


def test_exclusions_are_positions_in_the_data():
    data = MatchingData(
        None,
        None,
        [[0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]],
        query_ids=["a", "b", "c"],
        document_ids=["w", "x", "y", "z"],
    )
    known = MatchingData(
        None,
        None,
        [[5, 0, 1, 0], [1, 1, 1, -1], [0, 1, 0, 1]],
        query_ids=["c", "unknown", "a"],
        document_ids=["z", "x", "gone", "w"],
    )
    assert sets(find_exclusions(data, known)) == [[0, 1], [], [3]]
    assert sets(find_exclusions(data, known, but_relevant=True)) == [[0], [], []]
    assert sets(find_exclusions(data, data, but_relevant=True)) == [[], [], []]
    assert sets(find_exclusions(data, known, data)) == [[0, 1], [], [0, 3]]
    assert sets(find_exclusions(data)) == [[], [], []]


def test_exclusions_of_classes_and_numbers(make_matching):
    data = make_matching(1)
    expected = [data.relevant(query).tolist() for query in range(data.n_queries)]
    assert sets(find_exclusions(data, data)) == expected
    # Numbers in the one and texts in the other are the same if they are spelled the same.
    spelled = MatchingData(
        data.queries,
        data.documents,
        labels=data.labels,
        query_ids=data.query_ids.astype(np.str_),
        document_ids=data.document_ids.astype(np.str_),
    )
    assert sets(find_exclusions(spelled, data)) == expected
    assert sets(find_exclusions(data, spelled)) == expected
    same = make_matching(1, queries_are_documents=True)
    assert all(query not in row for query, row in enumerate(sets(find_exclusions(same, same))))


def test_exclusions_without_shared_ids_are_empty():
    data = MatchingData(None, None, np.eye(3))
    other = MatchingData(None, None, np.eye(3), query_ids=[7, 8, 9])
    assert sets(find_exclusions(data, other)) == [[], [], []]


def test_embeddings_without_a_model_are_ranked(factored_kernel):
    """Without a model: what somebody else has trained is ranked too."""
    rng = np.random.default_rng(0)
    queries, documents = (rng.normal(size=(n, 8)).astype(np.float32) for n in (5, 9))
    value = Embedding(queries, documents, np.zeros(0, np.float32))
    products = queries.astype(float) @ documents.T.astype(float)
    for one in top_k_by_embeddings(value, np.arange(9), 4, factored_kernel):
        assert one.documents.tolist() == np.argsort(-products[one.query])[:4].tolist()
