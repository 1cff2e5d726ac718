"""Rank search results: judged rows, a tuned model, and what a change is worth."""

from pathlib import Path

from ranking import Ranker, compare, make_demo


def main() -> None:
    """Train two models on synthetic search results, and say which is better, and why."""
    data = make_demo()
    train, valid, test = data["train"], data["valid"], data["test"]
    linear = Ranker.from_recipe("listnet").fit(train, valid=valid)
    tuned = Ranker.tune(train, recipes=["listnet", "lambdarank"], budget="12trials", valid=valid)
    results = {
        "listnet": linear.evaluate(test, metrics="ndcg@10,map"),
        "tuned": tuned.evaluate(test, metrics="ndcg@10,map"),
    }
    for name, evaluation in results.items():
        print(name, evaluation.means())  # noqa: T201
    for one in compare(results):
        print(f"{one.metric.partition('(')[0]}: {one.difference:+.4f}, p = {one.p_t:.2f}")  # noqa: T201

    query = test.query_ids[0]
    best, _ = linear.rank(test)[query][0]
    for reason in linear.explain(query, best, test)[:3]:
        print(f"{best}: feature {reason.document_feature} adds {reason.contribution:+.3f}")  # noqa: T201
    tuned.save(Path("search.safetensors"))


if __name__ == "__main__":
    main()
