"""Answers in Markdown whose words can be counted on a screen."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count

#: A word that occurs once in an answer.
WORD = re.compile(r"\b[wtcl]\d{3}\b")


def an_answer(chance: random.Random, blocks: int) -> str:
    """Markdown with paragraphs, lists, quotes, tables and code. Each word with a number is in it once."""
    numbers = count()

    def words(letter: str, most: int) -> str:
        return " ".join(f"{letter}{next(numbers):03}" for _ in range(chance.randint(1, most)))

    def block() -> Iterator[str]:
        kind = chance.choice(("text", "text", "bold", "list", "nested", "quote", "table", "code"))
        if kind == "text":
            yield words("w", 60)
        elif kind == "bold":
            yield f"{words('w', 20)} **{words('w', 30)}** and `{words('w', 5)}` [{words('w', 3)}](http://x.org) {words('w', 9)}"
        elif kind == "list":
            yield from (f"- {words('l', 20)}" for _ in range(chance.randint(1, 4)))
        elif kind == "nested":
            yield f"1. {words('l', 9)}"
            yield from (f"   - {words('l', 20)}" for _ in range(chance.randint(2, 9)))
        elif kind == "quote":
            yield f"> {words('w', 50)}"
        elif kind == "table":
            columns = chance.randint(2, 4)
            yield "|" + " name |" * columns
            yield "|" + "---|" * columns
            yield from ("|" + "".join(f" {words('t', 6)} |" for _ in range(columns)) for _ in range(chance.randint(2, 9)))
        else:
            yield "```python"
            yield from (words("c", 3) for _ in range(chance.randint(2, 20)))
            yield "```"

    return "\n\n".join("\n".join(block()) for _ in range(blocks))


def a_size(chance: random.Random) -> tuple[int, int]:
    return chance.randint(20, 200), chance.randint(6, 50)


def copies(text: str) -> dict[str, int]:
    """The words that are there more than once."""
    return {word: times for word, times in Counter(WORD.findall(text)).items() if times > 1}
