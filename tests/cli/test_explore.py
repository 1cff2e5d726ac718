"""`ranking explore`: one file that requests nothing, and works in a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_helpers import call
from conftest import make_judged, write_letor

from ranking import Ranker, read_data

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

LOG = "user,item\n" + "".join(f"u{u},i{i}\n" for u in range(9) for i in range(u % 4, 9, 2))
LATER = "user,item\nu0,i1\nu1,i0\nu2,i1\nnewcomer,i2\n"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models of judged lists, and data with an id that could end a script."""
    folder = tmp_path_factory.mktemp("explore")
    data = write_letor(folder / "test.txt", make_judged(2, n_queries=10))
    text = data.read_text().replace("qid:101 ", "qid:</script><b> ")
    data.write_text(text)
    for recipe in ("listnet", "rankboost"):
        Ranker.from_recipe(recipe).fit(read_data(data)).save(folder / f"{recipe}.safetensors")
    models = [folder / f"{recipe}.safetensors" for recipe in ("listnet", "rankboost")]
    call("explore", *models, data, "-o", folder / "page.html", "-k", 5)
    return folder


def content(page: Path) -> dict:
    """Return what the script of the page holds."""
    line = re.search(r"^const D = (.*);$", page.read_text(), flags=re.MULTILINE)
    assert line is not None
    return json.loads(line[1])


def test_the_page_has_both_lists_and_their_reasons(judged: Path):
    shown = content(judged / "page.html")
    assert shown["models"] == ["listnet", "rankboost"]
    data, ranker = read_data(judged / "test.txt"), Ranker.load(judged / "listnet.safetensors")
    assert shown["means"][0] == round(ranker.score(data), 4)
    results = ranker.rank(data, 5)
    assert len(shown["queries"]) == data.n_queries
    for query in shown["queries"]:
        wanted = {str(q): best for q, best in results}[query["id"]]
        assert [one["d"] for one in query["lists"][0]] == [str(name) for name, _ in wanted]
        for one in query["lists"][0]:
            entries = ranker.explain(query["id"], one["d"], data)
            assert [name for name, _ in one["why"]] == [
                str(entry.document_feature) for entry in entries[:4]
            ]
    assert {row["name"] for row in shown["slices"]} == {"all", "rare", "long"}


def test_the_page_requests_nothing(judged: Path):
    text = (judged / "page.html").read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|src=|@import|fetch\(", text)
    assert text.count("</script>") == 1


def test_users_see_no_items_again_and_new_ones_are_marked(tmp_path: Path):
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "later.csv").write_text(LATER)
    model, page = tmp_path / "m.safetensors", tmp_path / "page.html"
    Ranker.from_recipe("ials").fit(read_data(tmp_path / "log.csv")).save(model)
    call("explore", model, tmp_path / "later.csv", "-o", page, "--metric", "hit@3")
    shown = {query["id"]: query for query in content(page)["queries"]}
    assert shown["newcomer"]["slices"] == ["new"]
    assert {one["d"] for one in shown["u0"]["lists"][0]} == {"i1", "i3", "i5", "i7"}
    assert content(page)["map"]


def test_misuse(judged: Path):
    model, data = judged / "listnet.safetensors", judged / "test.txt"
    assert "one or two models" in call("explore", model, code=2).output
    assert "same file" in call("explore", model, model, data, code=2).output


STEPS = """<script>
const press = key => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
const first = current.id; press("n"); const second = current.id; press("p");
const back = current.id; press("j"); press("2"); press("l"); press("0"); press("d"); press("t");
const cards = document.querySelectorAll(".card").length;
document.title = JSON.stringify({ first, second, back, cards, qrels: window.qrels,
  theme: document.documentElement.dataset.theme,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth });
</script></body>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [400, 1280])
def test_keys_judge_and_move_in_a_browser(judged: Path, width: int):
    page = judged / f"{width}.html"
    page.write_text((judged / "page.html").read_text().replace("</body>", STEPS))
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--window-size={width},900", "--no-first-run", "--virtual-time-budget=3000"]
    command += [f"--user-data-dir={judged / str(width)}"]  # two browsers must not share one
    for _ in range(2):  # a browser that starts for the first time may print and not end
        try:
            done = subprocess.run(
                [*command, page.as_uri()], capture_output=True, text=True, timeout=30, check=True
            )
            printed = done.stdout
        except subprocess.TimeoutExpired as error:
            printed = (error.stdout or b"").decode()
        if "</html>" in printed:
            break
    title = re.search(r"<title>(.*?)</title>", printed)
    assert title is not None
    state = json.loads(html.unescape(title[1]))
    assert state["first"] == state["back"] != state["second"]
    assert state["cards"] > 4
    assert state["theme"] == "dark"
    assert state["wide"] <= 0
    lines = state["qrels"].splitlines()
    assert [line.split()[3] for line in lines] == ["2", "0"]
