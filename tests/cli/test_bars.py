"""Charts of reproduced tables, as files."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ranking_cli.bars import Bar, svg, write_bars
from ranking_plugins.reproductions import Row

SPACE = "{http://www.w3.org/2000/svg}"
ROWS = [
    Row("Set A", "new <one>", {"map": 0.5, "map ±": 0.1}, {"map": 0.4}),
    Row("Set A", "new <one>, fold 1", {"map": 0.9}, {}),
    Row("Set A", "published", {}, {"map": 0.25}),
    Row("Set B", "alone", {"map": 0.5}, {}),
]


def test_there_is_a_chart_for_each_measure_of_several_methods(tmp_path: Path):
    paths = write_bars(tmp_path / "plots", ROWS, quick=True)
    assert {path.name for path in paths if path.suffix == ".svg"} == {"set-a-map-quick.svg"}
    root = ET.fromstring(paths[0].read_text(encoding="utf-8"))
    texts = [element.text for element in root.iter(f"{SPACE}text")]
    assert "Set A: map (--quick)" in texts
    assert "new <one>" in texts
    assert not any("fold" in (text or "") for text in texts)


def test_lengths_are_proportional():
    bars = [Bar("a", 0.5, 0.1, math.nan), Bar("b", 0.25, math.nan, 0.5), Bar("c", 0, 0, 0.2)]
    root = ET.fromstring(svg("title", bars))
    widths = [float(one.get("width", "0")) for one in list(root.iter(f"{SPACE}rect"))[1:]]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)
    line = next(root.iter(f"{SPACE}line"))
    left = 240.0
    middle = (float(line.get("x1", "0")) + float(line.get("x2", "0"))) / 2
    assert middle - left == pytest.approx(widths[0], abs=0.2)
    assert float(line.get("x2", "0")) - middle == pytest.approx(widths[0] / 5, abs=0.2)
    diamonds = [float(one.get("d", "")[1:].split()[0]) for one in root.iter(f"{SPACE}path")]
    assert diamonds[0] - left == pytest.approx(widths[0], abs=0.2)


def test_there_are_png_files_with_matplotlib(tmp_path: Path):
    pytest.importorskip("matplotlib")
    paths = write_bars(tmp_path, ROWS, quick=False)
    png = next(path for path in paths if path.suffix == ".png")
    assert png.read_bytes().startswith(b"\x89PNG")
