"""Makes hostile inputs from good ones, and runs a check on many of them.

An input is made from a seed and a number, so that a failure names both and can be repeated. Bytes are mutated as bytes, and JSON
also as values: a field is missing, has the value of another, or one that does not fit.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

from tests.endurance.entries import Figures, Options
from tests.support.json_values import is_object

T = TypeVar("T")

#: Bytes that parsers are known to stumble over.
TOKENS: tuple[bytes, ...] = (
    *(b"\0", b"\r", b"\n", b"\r\n", b"\n\n", b"\t", b" ", b"\x0b", b"\x1b", b"\x7f", b"\\", b"/", b'"', b"'"),
    *(b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"false", b"0", b"-1", b"-0", b"1e400", b"1e-400", b"NaN"),
    *(b"Infinity", b"-Infinity", b"0x10", b"9007199254740993", b"18446744073709551616", b"1" * 400, b"1.5", b'""', b"{}"),
    *(b"[]", b"[[[[", b"]]]]", b'{"a":', b'{"a":{"a":', b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\udc00\\ud800"),
    *(b"\\u0000", b"\\u2028", b"\\n", b"\\", b"\\u12", b"\\x41"),
    *("\u2028 \u2029 \u0085 \ufeff \ufffd é あ 😀 \u202e".encode().split(b" ")),
    *(b"\xff", b"\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80", b"\xf0\x9f", b"\x80"),
    *(b"\xef\xbb\xbf", b"__proto__", b"constructor", b"../", b"$ref", b"type", b"id", b"%s", b"{0}", b"$(x)", b"`x`"),
    *(b"-- ", b"--", b"#", b"~"),
)

#: Values that rarely fit.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**64, -(2**63) - 1, 10**40, 1.5, -0.0, 1e308, 5e-324),
    *("", " ", "a", "0", "-1", "null", "{}", "[]", "\0", "\n", "\r", "\u2028", "\ufeff", "é", "😀", "a" * 5_000, "../../x"),
    *("~", "\ud800", "\udc00x", "x\ud83d", [], {}, [None], [[]], {"": ""}, {"a": {"b": []}}, {"type": "text"}),
    [{"type": "text", "text": 1}],
)


class Mutator:
    """Makes inputs of one kind from `seeds`."""

    def __init__(self, source: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> None:
        self.random = source
        self._seeds = seeds
        self._tokens = (*TOKENS, *tokens, *tokens)

    def data(self) -> bytes:
        """Return a seed with a few changes, rarely none, and rarely bytes without a seed."""
        choice = self.random
        if choice.random() < 0.02:
            return b"".join(choice.choice(self._tokens) for _ in range(choice.randrange(12)))
        data = choice.choice(self._seeds)
        for _ in range(min(int(choice.expovariate(0.6)), 12)):
            data = self._changed(data)
        return data

    def _changed(self, data: bytes) -> bytes:
        choice = self.random
        at, end = sorted((choice.randrange(len(data) + 1), choice.randrange(len(data) + 1)))
        near = min(end, at + choice.choice((1, 1, 2, 4, 16, 64)))
        match choice.randrange(10):
            case 0 if data:
                return data[:at] + bytes((choice.randrange(256),)) + data[at + 1 :]
            case 1 if data:
                return data[:at] + bytes((data[min(at, len(data) - 1)] ^ (1 << choice.randrange(8)),)) + data[at + 1 :]
            case 2:
                return data[:at] + data[near:]
            case 3:
                return data[:at]
            case 4:
                return data[:near] + data[at:near] * choice.choice((1, 2, 8)) + data[near:]
            case 5:
                other = choice.choice(self._seeds)
                start = choice.randrange(len(other) + 1)
                return data[:at] + other[start:]
            case 6:
                other = choice.choice(self._seeds)
                start = choice.randrange(len(other) + 1)
                return data[:at] + other[start : start + choice.choice((1, 4, 16, 64, 256))] + data[near:]
            case 7 if b"\n" in data:
                return self._lines_changed(data)
            case 8:
                token = choice.choice(self._tokens)
                return data[:at] + token * choice.choice((1, 1, 1, 2, 40, 1_500)) + data[at:]
            case _:
                return data[:at] + choice.choice(self._tokens) + data[near:]

    def _lines_changed(self, data: bytes) -> bytes:
        choice = self.random
        lines = data.split(b"\n")
        at, other = choice.randrange(len(lines)), choice.randrange(len(lines))
        match choice.randrange(4):
            case 0:
                lines[at], lines[other] = lines[other], lines[at]
            case 1:
                del lines[at]
            case 2:
                lines.insert(other, lines[at])
            case _:
                choice.shuffle(lines)
        return b"\n".join(lines)

    def json(self, value: Any) -> Any:
        """Return a copy of a JSON value with a few changes."""
        for _ in range(1 + min(int(self.random.expovariate(0.8)), 8)):
            value = self._value_changed(value, 0)
        return value

    def _value_changed(self, value: Any, depth: int) -> Any:
        choice = self.random
        inner = choice.random() > 0.25 if depth < 12 else False
        if isinstance(value, dict) and value and inner:
            fields = dict(cast("dict[str, Any]", value))
            key = choice.choice(list(fields))
            match choice.randrange(8):
                case 0:
                    del fields[key]
                case 1:
                    fields[choice.choice(("", "x", "type", "id", "\ud800", key.upper(), f"{key}_"))] = fields.pop(key)
                case 2:
                    fields[key] = choice.choice(list(fields.values()))
                case _:
                    fields[key] = self._value_changed(fields[key], depth + 1)
            return fields
        if isinstance(value, list) and value and inner:
            items = list(cast("list[Any]", value))
            at = choice.randrange(len(items))
            match choice.randrange(6):
                case 0:
                    del items[at]
                case 1:
                    items.insert(at, items[choice.randrange(len(items))])
                case 2:
                    choice.shuffle(items)
                case _:
                    items[at] = self._value_changed(items[at], depth + 1)
            return items
        if isinstance(value, str) and value and choice.random() < 0.5:
            at = choice.randrange(len(value) + 1)
            return value[:at] + choice.choice([each for each in ODD if isinstance(each, str)]) + value[at:]
        if choice.random() < 0.1:
            inner_value = cast("Any", value)
            return {"a": inner_value} if choice.random() < 0.5 else [inner_value] * choice.choice((1, 2, 30))
        if choice.random() < 0.02:
            return self._deep(value)
        return choice.choice(ODD)

    def _deep(self, value: Any) -> Any:
        for _ in range(self.random.choice((20, 400))):
            value = [value] if self.random.random() < 0.5 else {"a": value}
        return value

    def chunks(self, data: bytes) -> Iterator[bytes]:
        """Cut data anywhere, also between the bytes of one character: in a few places, or rarely into pieces of a few bytes."""
        choice = self.random
        if len(data) > 400 and choice.random() < 0.85:
            places = sorted(choice.randrange(len(data)) for _ in range(choice.randrange(1, 24)))
            yield from (data[at:end] for at, end in pairwise((0, *places, len(data))) if at < end)
            return
        size = choice.choice((1, 2, 3, 7, 64, 1_000))
        at = 0
        while at < len(data):
            end = at + (size if choice.random() < 0.5 else choice.randrange(1, 2 * size + 1))
            yield data[at:end]
            at = end


@contextmanager
def scratch(name: str) -> Generator[Path]:
    """Give a directory for files that checks write: in memory where the system has a place for it, since a disk is slow."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(prefix=f"fairlead-{name}-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def encoded(value: Any, source: random.Random) -> bytes:
    """Return JSON as one of the programs of this world writes it: with escapes or without, with lone surrogates, with NaN."""
    text = json.dumps(value, ensure_ascii=source.random() < 0.5, separators=source.choice(((",", ":"), (", ", ": "))))
    return text.encode("utf-8", "surrogatepass")


def json_object(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line, read by Python's own parser; None if there is none, or it names a key twice."""
    try:
        value: Any = json.loads(line.decode("utf-8", "replace"), object_pairs_hook=_unique, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def same_json(one: Any, other: Any) -> bool:
    """Compare JSON values, where NaN is NaN and 1 is not True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refused(name: str) -> Any:
    raise ValueError(name)


def run_cases(
    options: Options, kinds: dict[str, Callable[[random.Random], object]], *, short: int, long: int, most: int = 5
) -> Figures:
    """Run checks on random inputs, as many as the options say.

    Args:
        options: the seed, and how long.
        kinds: the checks by name. Each makes one input from a source of random numbers and raises if a promise does not hold.
        short: how many inputs in the short form.
        long: how many inputs in the long form, unless the options say how long it takes.
        most: the number of problems after which a check is not run again.
    """
    is_enough = options.enough(short, long)
    done = dict.fromkeys(kinds, 0)
    problems: dict[str, list[str]] = {name: [] for name in kinds}
    number = 0
    while not is_enough(number * len(kinds)):
        for name, check in kinds.items():
            if len(problems[name]) >= most:
                continue
            done[name] += 1
            try:
                check(random.Random(f"{options.seed}-{name}-{number}"))
            except Exception:
                text = traceback.format_exc(limit=-6)
                problems[name].append(f"{name}, input {number} of seed {options.seed}:\n{text[-3_000:]}")
        number += 1
    return Figures({"inputs": sum(done.values()), "kinds": len(kinds)}, [each for found in problems.values() for each in found])


def assert_linear(work: Callable[[int], Callable[[], object]], *, size: int, times: int = 8, most: float = 3.0) -> None:
    """Check that work on an input `times` as large takes no more than `times * most` the CPU time.

    Args:
        work: makes an input of a size, and returns the work on it. Only the work is measured.
        size: the smaller size. Large enough that the work takes milliseconds.
        times: how much larger the other input is. Work that is not linear takes about `times` as long as it should.
        most: how much more than proportional is still linear, since caches and the allocator have their say.
    """

    def cost(of: int) -> float:
        found: list[float] = []
        for _ in range(3):
            call = work(of)
            began = time.thread_time()
            call()
            found.append(time.thread_time() - began)
        return max(min(found), 0.001)

    small, large = cost(size), cost(size * times)
    assert large <= small * times * most, f"{times} times the input takes {large / small:.1f} times the CPU ({small:.4f} s)"
