"""A TREC collection: rank texts by BM25 and a trained model, and evaluate the runs."""

from pathlib import Path

from ranking import Ranker, TextCollection, compare, evaluate_run, read_data

TOPICS = {"1": "ice hockey goal", "2": "moon rocket orbit", "3": "bread oven flour"}
TEXTS = {
    **{"a": "the goalie stopped the puck on the ice", "b": "a rocket leaves the orbit of the moon"},
    **{"c": "flour and water make bread", "d": "hockey team scores a late goal"},
    **{"e": "the oven is hot, the bread is done", "f": "astronauts walk on the moon"},
}
QRELS = "1 0 a 1\n1 0 d 2\n2 0 b 2\n2 0 f 1\n3 0 c 2\n3 0 e 2\n1 0 b 0\n"


def main() -> None:
    """Write two runs and measure them as trec_eval does."""
    Path("judged.qrels").write_text(QRELS)
    judgements = read_data("judged.qrels", "qrels")
    judged = {tuple(line.split()[::2]): line.split()[3] for line in QRELS.splitlines()}
    grades = [[float(judged.get((q, d), 0)) for d in TEXTS] for q in TOPICS]
    collection = TextCollection(
        list(TOPICS), list(TOPICS.values()), list(TEXTS), list(TEXTS.values()), grades
    )
    evaluations = {}
    for recipe in ("bm25", "pamir"):
        Ranker.from_recipe(recipe).fit(collection).rank(collection, 5).to_trec(f"{recipe}.run")
        run = read_data(f"{recipe}.run", "run")
        evaluations[recipe] = evaluate_run(run, judgements, "ndcg@10,map,bpref,err")
        print(recipe, evaluations[recipe].means())  # noqa: T201
    for one in compare(evaluations):
        print(one.metric.partition("(")[0], f"{one.difference:+.4f}")  # noqa: T201


if __name__ == "__main__":
    main()
