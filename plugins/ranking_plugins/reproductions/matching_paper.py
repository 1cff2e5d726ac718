"""The numbers of Wu, Lu and Li (2013): NDCG@1, @3 and @5, of logs that are not public."""

from __future__ import annotations

from typing import Final

Triple = tuple[float, float, float]

WEEK: Final[dict[str, Triple]] = {
    "rmls": (0.686, 0.732, 0.729),
    "pls": (0.676, 0.728, 0.736),
    "svdfeature": (0.663, 0.720, 0.727),
    "bltm": (0.657, 0.702, 0.701),
    "ssi": (0.538, 0.621, 0.629),
    "random-walk": (0.655, 0.704, 0.704),
    "random-walk+bm25": (0.671, 0.718, 0.716),
    "lsi-qd": (0.588, 0.665, 0.676),
    "lsi-qd+bm25": (0.649, 0.705, 0.706),
    "lsi-dt": (0.616, 0.675, 0.680),
    "bm25": (0.637, 0.690, 0.690),
    "mart-baseline": (0.661, 0.737, 0.779),
    "mart-pls": (0.683, 0.751, 0.792),
    "mart-rmls": (0.681, 0.750, 0.789),
    "mart-all": (0.689, 0.757, 0.797),
}
"""Tables 2 and 4."""

HALF_YEAR: Final[dict[str, Triple]] = {
    "rmls": (0.742, 0.767, 0.776),
    "pls (words)": (0.638, 0.666, 0.677),
    "svdfeature": (0.742, 0.746, 0.749),
    "bltm": (0.684, 0.708, 0.717),
    "bm25": (0.643, 0.663, 0.670),
    "mart-baseline": (0.708, 0.760, 0.791),
    "mart-pls (words)": (0.706, 0.760, 0.792),
    "mart-rmls": (0.757, 0.799, 0.827),
    "mart-all": (0.756, 0.798, 0.826),
}
"""Tables 3 and 5."""

_WEEK_BINS: Final = {
    "rmls": ".754 .795 .767 .749 .791 .766 .679 .744 .755 .557 .612 .655",
    "pls": ".704 .776 .764 .706 .769 .748 .650 .727 .754 .655 .661 .695",
    "svdfeature": ".648 .732 .707 .684 .742 .727 .647 .723 .750 .576 .632 .669",
    "bltm": ".758 .787 .755 .750 .795 .766 .636 .700 .726 .485 .557 .603",
    "ssi": ".633 .730 .700 .607 .696 .673 .523 .616 .657 .403 .491 .540",
    "random-walk": ".769 .793 .760 .773 .809 .780 .622 .709 .740 .458 .527 .582",
    "random-walk+bm25": ".773 .786 .758 .770 .815 .787 .654 .726 .750 .485 .554 .601",
    "lsi-qd": ".631 .717 .687 .634 .709 .696 .584 .676 .703 .496 .573 .621",
    "lsi-qd+bm25": ".696 .745 .719 .726 .777 .759 .646 .716 .736 .500 .576 .619",
    "lsi-dt": ".685 .745 .730 .688 .752 .727 .608 .676 .705 .473 .549 .596",
    "bm25": ".698 .746 .724 .719 .772 .748 .641 .701 .722 .463 .544 .592",
}
_HALF_YEAR_BINS: Final = {
    "rmls": ".804 .801 .792 .785 .794 .796 .780 .795 .797 .698 .742 .760",
    "pls (words)": ".723 .720 .708 .681 .697 .703 .668 .691 .697 .599 .642 .660",
    "svdfeature": ".728 .730 .721 .738 .734 .734 .766 .765 .761 .728 .740 .748",
    "bltm": ".783 .775 .763 .750 .757 .760 .725 .745 .749 .626 .669 .688",
    "bm25": ".747 .739 .717 .710 .713 .712 .690 .703 .704 .582 .622 .641",
}


def _bins(table: dict[str, str]) -> dict[str, list[Triple]]:
    bins: dict[str, list[Triple]] = {}
    for method, text in table.items():
        values = [float(one) for one in text.split()]
        bins[method] = [(values[at], values[at + 1], values[at + 2]) for at in range(0, 12, 3)]
    return bins


WEEK_BINS: Final = _bins(_WEEK_BINS)
"""Table 6: for each method, the four bins of total clicks."""

HALF_YEAR_BINS: Final = _bins(_HALF_YEAR_BINS)
"""Table 7."""

STATISTICS: Final = {
    "week": {
        "d_x": 2.1e5,
        "d_y": 2.0e5,
        "c_x": 4.0,
        "c_y": 5.9,
        "n_y": 1.74,
        "n_x": 1.46,
        "N_x": 1.7,
        "N_y": 3.4,
    },
    "half year": {
        "d_x": 4.9e6,
        "d_y": 6.6e6,
        "c_x": 5.5,
        "c_y": 8.6,
        "n_y": 2.92,
        "n_x": 4.04,
        "N_x": 7.2,
        "N_y": 5.9,
    },
}
"""Table 1."""
