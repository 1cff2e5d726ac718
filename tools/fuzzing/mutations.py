"""Mutate the bytes of a file, or the values inside a model file or a checkpoint."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import numpy as np

from ranking.io.tensors import KEY

WORDS = (
    *(b"nan", b"inf", b"-inf", b"1e999", b"-1", b"0", b"99999999999999999999", b"1_0", b"0x10"),
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\r", b"\n\n", b"\t", b" ", b'"', b"'"),
    *(b"::", b":", b"#", b"{", b"}", b"[", b"]", b"\\", b"%", b"@data", b"qid:", b"\xef\xbb\xbf"),
)

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**64, 2**70, 1.5, 1e308, "", "x", "auto"),
    *([], {}, [1], ["x"], {"a": 1}, "structured:base=/etc/passwd", "l1", "linear", "inf", "\0"),
    *(1e155, 10**400, 10**5, "\ud800", "\x1b[2J", "a\u2028b", "../../etc/passwd", [[[]]], "u1"),
)


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Return the content with a few random changes; of a model, also of its description."""
    if content[:1] == b"{" and draw.random() < 0.6:
        with contextlib.suppress(ValueError):
            return mutate_json(content, draw)
    if content[8:9] == b"{" and draw.random() < 0.8:
        change = mutate_header if draw.random() < 0.6 else mutate_tensors
        with contextlib.suppress(ValueError, KeyError, IndexError):
            return change(content, draw)
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(len(data) + 1)
        span = draw.choice((1, 1, 2, 4, 8, 32))
        kind = draw.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at : at + span] = bytes(draw.randrange(256) for _ in range(span))
        elif kind == 2:
            del data[at : at + span]
        elif kind == 3:
            data[at:at] = draw.choice(WORDS)
        elif kind == 4:
            data[at : at + span] = draw.choice(WORDS)
        elif kind == 5:
            start = draw.randrange(len(data) + 1)
            data[at:at] = data[start : start + span * draw.choice((1, 1, 16))]
        else:
            del data[at:]
        data = data or bytearray(b"\n")
    return bytes(data)


def mutate_json(content: bytes, draw: random.Random) -> bytes:
    """Change a value of a JSON object; a line of JSON lines is not one."""
    table = json.loads(content)
    change_value(table, draw)
    return json.dumps(table).encode()


def mutate_header(content: bytes, draw: random.Random) -> bytes:
    """Change a value of the header or of the description, and write a header that fits it."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if draw.random() < 0.5:
        description = json.loads(header["__metadata__"][KEY])
        change_value(description, draw)
        header["__metadata__"][KEY] = json.dumps(description)
    else:
        change_value(header, draw)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def mutate_tensors(content: bytes, draw: random.Random) -> bytes:
    """Overwrite some words of 4 or 8 bytes behind the header, which stays as it is."""
    start = 8 + int.from_bytes(content[:8], "little")
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        size = draw.choice((4, 8))
        at = start + draw.randrange((len(data) - start) // size) * size
        if draw.random() < 0.5:
            word = draw.choice((0, 1, 2, 7, -1, -2, 1 << 31, 1 << 62, -(1 << 63), 1 << 20))
            data[at : at + size] = (word % (1 << 8 * size)).to_bytes(size, "little")
        else:
            value = draw.choice((np.nan, np.inf, -np.inf, 1e30, -1e-40, 0.5, 3.0, -0.0))
            data[at : at + size] = np.array(value, f"<f{size}").tobytes()
    return bytes(data)


def change_value(table: Any, draw: random.Random) -> None:
    """Replace, remove, rename or swap one value somewhere in nested tables."""
    while True:
        keys = list(table) if isinstance(table, dict) else list(range(len(table)))
        key = draw.choice(keys)
        deeper = isinstance(table[key], dict | list) and table[key]
        if not deeper or draw.random() < 0.2:
            break
        table = table[key]
    kind = draw.randrange(6)
    if kind == 0:
        del table[key]
    elif kind == 1 and isinstance(table, dict):
        table[draw.choice(keys) + draw.choice(("", "x"))] = table.pop(key)
    elif kind == 2:
        other = draw.choice(keys)
        table[key], table[other] = table[other], table[key]
    elif kind == 3 and isinstance(table[key], int):
        table[key] = table[key] + draw.choice((-1, 1, 8, -8, 2**32))
    else:
        table[key] = draw.choice(VALUES)
