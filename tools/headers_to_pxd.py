"""Translate the headers of the C library to a .pxd, so that Cython modules repeat none of them.

Usage: ``python tools/headers_to_pxd.py HEADER... OUTPUT``, run by meson; a header comes after those
that it needs. Structs, enums, types of functions, prototypes and inline functions are translated.
Macros and what is ``static`` without ``LANES_INLINE`` are private to C. To Cython a vector of
doubles is a double, so that arithmetic reads as arithmetic; mixing the two does not compile.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PREAMBLE = """\
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
"""

COMMENT = r"/\*.*?\*/"
PREPROCESSOR = r"^#(?:[^\n]*\\\n)*[^\n]*"
ATTRIBUTE = r"__attribute__\(\([^\n;]*\)\)"
BODY = r"^\{\n.*?^\}"
DECLARATION = re.compile(
    r"^enum \{(?P<enum>[^}]*)\};"
    r"|^typedef struct (?:\{(?P<fields>[^}]*)\}|\w+) (?P<struct>\w+);"
    r"|^(?P<typedef>typedef) (?P<type>[^;{}]+);"
    r"|^(?!static)(?:LANES_INLINE )?(?P<function>\w[\w *]*\([^;{}]*\))\s*;",
    re.MULTILINE,
)


def declarations(text: str) -> Iterator[str]:
    """Yield the lines that declare to Cython what a header declares."""
    flags = re.DOTALL | re.MULTILINE
    text = re.sub(f"{COMMENT}|{PREPROCESSOR}|{ATTRIBUTE}", "", text, flags=flags)
    text = re.sub(BODY, ";", text, flags=flags)
    for match in DECLARATION.finditer(text):
        if match["enum"]:
            yield "enum:"
            yield from (f"    {name}" for name in re.findall(r"(\w+)[^,]*(?:,|$)", match["enum"]))
        elif match["struct"]:
            yield f"ctypedef struct {match['struct']}:"
            fields = (match["fields"] or "pass").split(";")
            yield from (f"    {' '.join(one.split())}" for one in fields if one.strip())
        else:
            words = " ".join((match["type"] or match["function"]).split())
            words = re.sub(r"\w+", lambda word: word[0] + "_" * keyword.iskeyword(word[0]), words)
            suffix = " noexcept" if "(" in words else ""
            yield ("ctypedef " if match["typedef"] else "") + words.replace("(void)", "()") + suffix


def main(headers: list[str], output: str) -> None:
    """Write the .pxd."""
    text = PREAMBLE
    for header in headers:
        text += f'\ncdef extern from "{Path(header).name}" nogil:\n'
        lines = declarations(Path(header).read_text())
        text += "".join(f"    {line}\n" for line in lines)
    Path(output).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:-1], sys.argv[-1])
