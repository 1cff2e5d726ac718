"""`TextFeatures` against scikit-learn where the two agree, and against literal sums elsewhere."""

from __future__ import annotations

import gzip
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer

from ranking.data.text.features import TextFeatures
from ranking.data.text.hashing import columns_of, hash_terms, signs_of
from ranking.errors import DataError, DataWarning, ModelFileError, PartError
from ranking.io.tensors import read_tensors, write_tensors

TOY = [
    "The cat sat on the mat.",
    "The dog sat; the DOG barked!",
    "A cat and a dog: enemies?",
    "mat mat mat cat",
]
OTHER = ["a cat on a zebra", "dog dog dog zebra zebra", "barked"]
CONFIGURATIONS = [
    {},
    {"sublinear": True, "stop_words": "english"},
    {"ngrams": "1-2", "words": 7},
    {"weighting": "singhal", "words": None, "min_count": 2},
    {"weighting": "counts", "min_documents": 2},
    {"weighting": "counts", "unit_length": True},
    {"hashing": 5},
    {"hashing": 16, "ngrams": "1-2", "sublinear": True},
    {"hashing": 16, "weighting": "singhal"},
    {"hashing": 16, "weighting": "counts"},
    {"weighting": "bm25", "k1": 0.9},
    {"hashing": 16, "weighting": "bm25"},
    {"weighting": "lm-dirichlet", "mu": 10.0},
]
WORD_LISTS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12)
TEXTS = st.lists(WORD_LISTS.map(" ".join), min_size=2, max_size=8)


few = settings(deadline=None, max_examples=30)


def same(one, other):
    """Equal to the last bit, in values and in structure."""
    return (
        one.shape == other.shape
        and one.data.tobytes() == other.data.tobytes()
        and np.array_equal(one.indices, other.indices)
        and np.array_equal(one.indptr, other.indptr)
    )


@pytest.mark.parametrize("sublinear", [False, True])
@pytest.mark.parametrize("stop_words", [None, "english"])
@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("unit_length", [False, True])
def test_tf_idf_matches_scikit_learn(sublinear, stop_words, ngrams, unit_length):
    # The two coincide for the same rule of what a word is, a vocabulary without a cut (scikit-learn
    # leaves ties at a cut to its sort), smooth idf, and text in composed form.
    theirs = TfidfVectorizer(
        token_pattern=r"[^\W_]+",
        ngram_range=ngrams,
        stop_words=stop_words,
        sublinear_tf=sublinear,
        norm="l2" if unit_length else None,
    )
    ours = TextFeatures(
        words=None,
        ngrams=f"{ngrams[0]}-{ngrams[1]}",
        stop_words=stop_words,
        sublinear=sublinear,
        unit_length=unit_length,
    )
    expected = theirs.fit_transform(TOY)
    features = ours.fit_transform(TOY)
    assert ours.feature_names == theirs.get_feature_names_out().tolist()
    np.testing.assert_allclose(features.toarray(), expected.toarray(), rtol=1e-6)


def test_values_by_hand():
    features = TextFeatures(words=2, weighting="counts").fit(["b a b", "b c", "c"])
    assert features.feature_names == ["b", "c"]  # b three times, c twice, a once
    matrix = features.transform(["c b a c", "b"])
    assert matrix.toarray().tolist() == [[1, 2], [1, 0]]
    assert features.unknown_words_ == 1
    idf = TextFeatures(words=2).fit(["b a b", "b c", "c"]).idf_
    assert idf.tolist() == pytest.approx([1 + math.log(4 / 3)] * 2)


def test_singhal_by_hand():
    # 3 texts. a is in 2 of them, b in 1, c in 3; 2 distinct words a text on average.
    features = TextFeatures(weighting="singhal").fit(["a a b c", "a c", "c"])
    assert features.pivot_ == 2.0
    row = features.transform(["a a b c"]).toarray()[0]
    below = (1 + math.log(4 / 3)) * (0.7 + 0.3 * 3 / 2)
    assert row == pytest.approx(
        [math.log(3 / 2) * (1 + math.log(2)) / below, math.log(3) / below, 0.0], rel=1e-6
    )


def singhal(texts, others):
    """Section 8.4.2 of Stevens (2010), word by word; the vocabulary is what occurs twice."""
    occurrences = Counter(word for text in texts for word in text.split())
    dictionary = sorted(word for word, n in occurrences.items() if n >= 2)
    known = [[word for word in text.split() if word in dictionary] for text in texts]
    mu = sum(len(set(text)) for text in known) / len(texts)
    result = np.zeros((len(others), len(dictionary)))
    for i, text in enumerate(others):
        counts = Counter(word for word in text.split() if word in dictionary)
        for j, word in enumerate(dictionary):
            if word not in counts:
                continue
            idf = math.log(len(texts) / sum(word in text for text in known))
            average = sum(counts.values()) / len(counts)
            tf = (1 + math.log(counts[word])) / (1 + math.log(average))
            result[i, j] = idf * tf / (1 - 0.3 + 0.3 * len(counts) / mu)
    return result


@pytest.mark.filterwarnings("ignore::ranking.errors.DataWarning")
@few
@given(TEXTS, TEXTS)
def test_singhal_matches_a_double_loop(texts, others):
    texts = [*texts, "a a b b c c"]
    features = TextFeatures(words=None, min_count=2, weighting="singhal")
    np.testing.assert_allclose(
        features.fit_transform(texts).toarray(), singhal(texts, texts), rtol=1e-6
    )
    np.testing.assert_allclose(
        features.transform(others).toarray(), singhal(texts, others), rtol=1e-6
    )


@few
@given(TEXTS, st.integers(1, 6), st.booleans())
def test_hashed_tf_idf_matches_a_double_loop(texts, n_columns, sublinear):
    hashes = {word: hash_terms([word]) for word in "abcdefgh"}
    columns = {word: int(columns_of(h, n_columns)[0]) for word, h in hashes.items()}
    signs = {word: float(signs_of(h)[0]) for word, h in hashes.items()}
    expected = np.zeros((len(texts), n_columns))
    for column in range(n_columns):
        used = sum(any(columns[word] == column for word in text.split()) for text in texts)
        idf = math.log((1 + len(texts)) / (1 + used)) + 1
        for row, text in enumerate(texts):
            for word, c in Counter(text.split()).items():
                if columns[word] == column:
                    tf = 1 + math.log(c) if sublinear else c
                    expected[row, column] += signs[word] * tf * idf
    features = TextFeatures(hashing=n_columns, sublinear=sublinear, unit_length=False)
    result = features.fit_transform(texts)
    np.testing.assert_allclose(result.toarray(), expected, rtol=1e-6, atol=1e-12)
    assert features.unknown_words_ == 0


@pytest.mark.filterwarnings("ignore::ranking.errors.DataWarning")
@pytest.mark.parametrize("params", CONFIGURATIONS)
@few
@given(data=st.data(), texts=TEXTS)
def test_permuted_texts_give_permuted_rows(params, data, texts):
    texts = [*texts, "a b c a", "a b c b"]
    order = data.draw(st.permutations(range(len(texts))))
    one, other = TextFeatures(**params), TextFeatures(**params)
    expected = one.fit_transform(texts)
    result = other.fit_transform([texts[i] for i in order])
    assert other.feature_names == one.feature_names
    assert same(result, expected[order])
    # Each row alone gives the same bits too.
    alone = [one.transform([text]) for text in texts]
    assert np.concatenate([row.data for row in alone]).tobytes() == expected.data.tobytes()


@pytest.mark.filterwarnings("ignore::ranking.errors.DataWarning")
@few
@given(TEXTS, TEXTS, st.sampled_from([{}, {"sublinear": True}, {"hashing": 3}, {"ngrams": "1-3"}]))
def test_rows_have_unit_length_or_are_zero(texts, others, params):
    features = TextFeatures(**params).fit(texts)
    rows = features.transform([*others, ""])
    norms = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1))
    assert all(norm == 0.0 or norm == pytest.approx(1.0, abs=1e-6) for norm in norms)
    assert norms[-1] == 0.0


@pytest.mark.filterwarnings("ignore::ranking.errors.DataWarning")
@pytest.mark.parametrize("params", CONFIGURATIONS)
def test_fit_transform_equals_fit_then_transform(params):
    both = TextFeatures(**params)
    matrix = both.fit_transform(iter(TOY))
    unknown = both.unknown_words_
    other = TextFeatures(**params).fit(TOY)
    assert same(matrix, other.transform(TOY))
    assert other.unknown_words_ == unknown
    assert matrix.dtype == np.float32
    assert matrix.has_canonical_format
    assert (matrix.data != 0.0).all()
    assert matrix.shape == (len(TOY), both.n_features)
    assert len(both.feature_names) == both.n_features


@pytest.mark.filterwarnings("ignore::ranking.errors.DataWarning")
@pytest.mark.parametrize("params", CONFIGURATIONS)
def test_tensors_round_trip(params, tmp_path):
    features = TextFeatures(**params).fit([*TOY, "naïve 東京 naïve 東京"])
    write_tensors(tmp_path / "text", features.tensors(), {"features": features.spec()})
    tensors, description = read_tensors(tmp_path / "text")
    loaded = TextFeatures.from_spec(description["features"])
    loaded.restore(tensors)
    assert loaded == features
    assert loaded.feature_names == features.feature_names
    assert same(loaded.transform(OTHER), features.transform(OTHER))


def test_two_features_in_one_file(tmp_path):
    queries = TextFeatures(words=3).fit(OTHER)
    documents = TextFeatures(weighting="singhal").fit(TOY)
    tensors = {f"queries.{name}": value for name, value in queries.tensors().items()}
    tensors |= {f"documents.{name}": value for name, value in documents.tensors().items()}
    write_tensors(tmp_path / "text", tensors, {})
    read, _ = read_tensors(tmp_path / "text")
    loaded = TextFeatures(weighting="singhal")
    loaded.restore(
        {n.removeprefix("documents."): t for n, t in read.items() if n.startswith("documents.")}
    )
    assert same(loaded.transform(TOY), documents.transform(TOY))


GOOD = TextFeatures(weighting="singhal").fit(TOY).tensors()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"words": None}, "`words`, and it is missing"),
        ({"word_offsets": None}, "`word_offsets`, and it is missing"),
        ({"idf": None}, "`idf`, and it is missing"),
        ({"pivot": None}, "`pivot`, and it is missing"),
        ({"words": GOOD["words"][:-1]}, "word_offsets must go from 0"),
        ({"words": np.full_like(GOOD["words"], 255)}, "must be UTF-8"),
        ({"idf": GOOD["idf"][:-1]}, "`idf` must be 10 float64"),
        ({"idf": GOOD["idf"].astype(np.float32)}, "not .* of float32"),
        ({"idf": GOOD["idf"] * np.nan}, "finite"),
        ({"idf": GOOD["idf"] - 5}, "not negative"),
        ({"pivot": np.array([np.inf])}, "finite"),
        ({"idf": GOOD["idf"] * 1e300}, "no larger"),
        ({"pivot": np.array([0.0])}, "must be positive"),
        ({"pivot": np.array([5e-324])}, "must be positive"),
        ({"pivot": np.array(3.0)}, "`pivot` must be 1 float64"),
    ],
)
def test_damaged_tensors_raise_and_leave_the_state(changed, message):
    tensors = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    features = TextFeatures(weighting="singhal")
    with pytest.raises(ModelFileError, match=message):
        features.restore(tensors)
    with pytest.raises(NotFittedError):
        features.transform(TOY)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"words": 0}, "words=0; it must be a whole number from 1 to 2147483647, or none"),
        ({"words": 1.5}, "words=1.5"),
        ({"words": True}, "words=True"),
        ({"min_count": 0}, "min_count=0"),
        ({"min_documents": "x"}, "min_documents='x'"),
        ({"hashing": -1}, "hashing=-1"),
        ({"hashing": 2**31}, "hashing=2147483648"),
        ({"weighting": "bm"}, "tf-idf, singhal, counts, bm25, lm-dirichlet"),
        ({"sublinear": 1}, "sublinear=1"),
        ({"unit_length": None}, "true, false or auto"),
        ({"stop_words": "german"}, "english or none"),
        ({"ngrams": "2-1"}, "1-2 for both"),
        ({"weighting": "singhal", "sublinear": True}, "sublinear by itself"),
        ({"weighting": "singhal", "unit_length": True}, "would undo"),
        ({"hashing": 8, "min_count": 2}, "no vocabulary"),
        ({"hashing": 8, "min_documents": 2}, "no vocabulary"),
    ],
)
def test_invalid_parameters_raise(params, message):
    with pytest.raises(PartError, match=message):
        TextFeatures(**params)


@pytest.mark.parametrize("params", CONFIGURATIONS)
def test_spec_round_trips(params):
    features = TextFeatures(**params)
    assert TextFeatures.from_spec(features.spec()) == features
    assert clone(features) == features


@pytest.mark.parametrize("spec", ["words:words=3", "text:wrods=3", "text:words=0", "text:"])
def test_wrong_spec_raises(spec):
    with pytest.raises(PartError):
        TextFeatures.from_spec(spec)


@pytest.mark.parametrize(
    ("params", "texts", "message"),
    [
        ({}, [], "no text to fit on"),
        ({"hashing": 4}, [], "no text to fit on"),
        ({}, ["", "?!"], "vocabulary is empty: 2 texts .* not empty"),
        ({"hashing": 4}, ["", "?!"], "no text has a term"),
        ({"min_documents": 2}, ["a", "b"], "lower min_count or min_documents"),
        ({"min_count": 2}, ["a", "b"], "lower min_count or min_documents"),
        ({"stop_words": "english"}, ["the of"], "keep the stop words"),
        ({"hashing": 4, "stop_words": "english"}, ["the of"], "keep the stop words"),
        ({"ngrams": 2}, ["a", "b"], "let ngrams begin at 1"),
        ({}, "a b", "put a single text into a list"),
        ({}, ["a", 3], r"text 1 \(from 0\) is of type int"),
    ],
)
def test_texts_without_terms_raise(params, texts, message):
    with pytest.raises(DataError, match=message):
        TextFeatures(**params).fit(texts)


def test_texts_without_known_words_are_zero_rows_with_one_warning():
    features = TextFeatures().fit(TOY)
    with pytest.warns(DataWarning, match=r"2 of 3 texts .* first is text 1 \(from 0\)") as message:
        matrix = features.transform(["cat", "", "zebra \0 \ud800"])
    assert len(message) == 1
    assert message[0].filename == __file__
    assert np.diff(matrix.indptr).tolist() == [1, 0, 0]
    assert features.unknown_words_ == 1
    assert features.transform([]).shape == (0, features.n_features)


def test_unfitted_features_raise_not_fitted_error():
    features = TextFeatures()
    for ask in (lambda: features.transform(TOY), features.tensors, lambda: features.feature_names):
        with pytest.raises(NotFittedError, match="call fit or restore"):
            ask()
    features.fit(TOY)
    features.set_params(words=3)  # what was learned under other parameters is forgotten
    with pytest.raises(NotFittedError):
        features.transform(TOY)


def test_unused_hashed_column_has_finite_weight():
    for weighting in ("tf-idf", "singhal"):
        features = TextFeatures(hashing=1000, weighting=weighting).fit(["a", "b"])
        assert np.isfinite(features.idf_).all()
        assert features.transform(["zebra"]).nnz == 1
        assert features.feature_names[-1] == "#999"


@pytest.fixture
def newsgroups(real_data):
    """The training texts of 20 Newsgroups by date: three header lines, then class TAB text."""
    path = real_data / "text" / "20newsgroups" / "20newsgroups-train.tab.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        lines = [line for line in stream.read().split("\n")[3:] if line]
    return [line.split("\t")[1] for line in lines]


def test_20_newsgroups(newsgroups):
    assert len(newsgroups) == 11_293
    counts = Counter(word for text in newsgroups for word in text.split())
    expected = sorted(counts, key=lambda word: (-counts[word], word))[:10_000]
    features = TextFeatures(weighting="counts")
    matrix = features.fit_transform(newsgroups)
    assert features.feature_names == sorted(expected)
    assert matrix.sum(dtype=np.float64) == sum(counts[word] for word in expected)
    assert features.unknown_words_ == counts.total() - matrix.sum(dtype=np.float64)
    column = features.feature_names.index("atheist")
    assert matrix[:, [column]].nnz == sum("atheist" in text.split() for text in newsgroups)
