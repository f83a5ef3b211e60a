"""Text -> the numbers that BERT knows words by: its WordPiece tokenizer, for a vocabulary file.

Cleans up, splits at spaces, punctuation and Chinese characters, and takes from each word the longest
piece that is in the vocabulary, again and again. The same numbers as BERT's own program gives.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator
from pathlib import Path

LONGEST_WORD = 100
CHINESE = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2FA1F), (0xF900, 0xFAFF))


class WordPiece:
    def __init__(self, vocabulary: Path, *, lower: bool) -> None:
        lines = vocabulary.read_text(encoding="utf-8").splitlines()
        self.numbers = {word: number for number, word in enumerate(lines)}
        self.lower = lower
        self.unknown, self.start, self.separator = (
            self.numbers[word] for word in ("[UNK]", "[CLS]", "[SEP]")
        )
        self._of_word = functools.lru_cache(None)(self._pieces)

    def encode(self, text: str) -> list[int]:
        return [number for word in _words(text, self.lower) for number in self._of_word(word)]

    def encode_pair(self, first: str, second: str, length: int) -> tuple[list[int], list[int]]:
        """[CLS] first [SEP] second [SEP], cut from the longer one and padded: tokens, and whose they are."""
        one, two = self.encode(first), self.encode(second)
        while len(one) + len(two) > length - 3:
            (one if len(one) > len(two) else two).pop()
        tokens = [self.start, *one, self.separator, *two, self.separator]
        sentences = [0] * (len(one) + 2) + [1] * (len(two) + 1)
        padding = [0] * (length - len(tokens))
        return tokens + padding, sentences + padding

    def _pieces(self, word: str) -> tuple[int, ...]:
        found: list[int] = []
        begin = 0
        while begin < len(word) <= LONGEST_WORD:
            mark = "##" if begin else ""
            for end in range(len(word), begin, -1):
                number = self.numbers.get(mark + word[begin:end])
                if number is not None:
                    break
            else:
                return (self.unknown,)
            found.append(number)
            begin = end
        return tuple(found) if found else (self.unknown,)


def _words(text: str, lower: bool) -> Iterator[str]:
    if lower:
        text = "".join(
            c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn"
        )
    word = ""
    for character in text:
        kind = _kind(character)
        if kind == "letter":
            word += character
        elif kind != "nothing":
            if word:
                yield word
            word = ""
            if kind == "alone":
                yield character
    if word:
        yield word


@functools.lru_cache(None)
def _kind(character: str) -> str:
    """A space, a letter of a word, a word of its own, or nothing at all."""
    category, code = unicodedata.category(character), ord(character)
    if character in "\t\n\r" or category == "Zs":
        return "space"
    if category in ("Cc", "Cf") or code in (0, 0xFFFD):
        return "nothing"
    ascii_sign = 33 <= code <= 126 and not character.isalnum()
    if ascii_sign or category.startswith("P") or any(low <= code <= high for low, high in CHINESE):
        return "alone"
    return "letter"
