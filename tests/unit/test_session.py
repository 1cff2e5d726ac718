"""The test session itself: signals, tiers, and the tool that counts the code."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
COUNT = ROOT / "tools" / "count_code.py"

PYTHON = '''def short(a, *, b=1):
    """Docstring."""
    return a


class A:
    def method(self, a, b, c, d, e, f, g, *rest, **named):
        return a
'''
CYTHON = '''cdef double total(const double* values, size_t n) noexcept nogil:
    """A docstring
    of two lines."""
    cdef size_t i
    return 0.0

def wide(a, b, c,
         d, e, f, g, h, (int, int) pair):
    pass
'''
C = """#define TWICE(x) (2 * (x))
/* int comment(int a) { */
static inline double add(double a, double b, double (*f)(int, int))
{
    return a + b;
}
int declared(int a);
"""
RUST = """pub fn apply<F: Fn(u8) -> u8>(f: F, (a, b): (u8, u8)) -> u8 {
    let quote = '{'; // }
    f(a) + b
}
impl A {
    fn of(&mut self, a: &'static str) {}
}
"""


def test_interrupts_are_not_ignored_in_tests_and_their_children():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    script = "import signal; print(signal.getsignal(signal.SIGINT) == signal.default_int_handler)"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert child.stdout.strip() == "True"


def test_background_session_restores_the_interrupt_handler(tmp_path):
    """A session that starts with SIGINT ignored, as under nohup, can still interrupt itself."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(
        "import signal, pytest\n"
        "def test_it():\n"
        "    with pytest.raises(KeyboardInterrupt):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
    )
    ignore = "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    options = f"['-q', '-p', 'no:cacheprovider', '--rootdir', {str(tmp_path)!r}]"
    script = f"{ignore}sys.exit(pytest.main([{str(tmp_path)!r}] + {options}))"
    child = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert child.returncode == 0, child.stdout + child.stderr


@pytest.fixture
def tree(tmp_path):
    """A small repository of one file per language."""
    (tmp_path / "ranking" / "kernels").mkdir(parents=True)
    (tmp_path / "rust").mkdir()
    for name, text in {
        "ranking/__init__.py": '__all__ = ["a", "b"]\n',
        "ranking/module.py": PYTHON,
        "ranking/kernels/loops.pyx": CYTHON,
        "ranking/kernels/loops.h": C,
        "rust/lib.rs": RUST,
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def count(*options):
    command = [sys.executable, str(COUNT), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True)


def test_functions_of_all_languages_are_counted(tree):
    report = count("--root", tree, "--longest", 20).stdout
    for row in (
        "| `short` (ranking/module.py:1) | 2 | 2 |",
        "| `method` (ranking/module.py:7) | 2 | 9 |",
        "| `total` (ranking/kernels/loops.pyx:1) | 3 | 2 |",
        "| `wide` (ranking/kernels/loops.pyx:7) | 3 | 9 |",
        "| `add` (ranking/kernels/loops.h:3) | 4 | 3 |",
        "| `apply` (rust/lib.rs:1) | 4 | 2 |",
        "| `of` (rust/lib.rs:6) | 1 | 1 |",
        "| names in `ranking.__all__` | 2 |",
        "| functions with over 8 parameters | 2 |",
    ):
        assert row in report
    assert "declared" not in report


def test_check_fails_for_large_functions_only(tree):
    failed = count("--root", tree, "--check")
    assert failed.returncode == 1
    assert "ranking/module.py:7: method has 9 parameters, over 8" in failed.stdout
    (tree / "ranking" / "module.py").write_text("def f(a):\n" + "    a += 1\n" * 60)
    assert "f has 61 lines, over 60" in count("--root", tree, "--check").stdout
    (tree / "ranking" / "module.py").write_text("def f(a):\n" + "    a += 1\n" * 59)
    (tree / "ranking" / "kernels" / "loops.pyx").unlink()
    assert count("--root", tree, "--check").returncode == 0


def test_files_of_a_tier_are_marked(request):
    """`make test-fast` deselects by marker."""
    items = {item.path.name: item for item in request.session.items}
    for name, tier in (("test_ray.py", "ray"), ("test_native_examples.py", "native_build")):
        if name in items:
            assert items[name].get_closest_marker(tier)
    own = items[Path(__file__).name]
    assert not any(own.iter_markers())
