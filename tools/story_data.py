"""Packs stories into rows of token ids for training and for measuring."""

import numpy

import stories

_CHUNK = 512  # stories tokenized at once


class PackedStories:
    """Endless rows of `length` ids. Every row begins at the beginning of a story; every story ends
    with the end token and the next one follows at once; the last one of a row is cut."""

    def __init__(self, tokenizer, end_id: int, length: int, seed: int):
        self._tokenizer = tokenizer
        self._end_id = end_id
        self._length = length
        self._source = stories.stories(seed)
        self._ready = []

    def _next_story(self) -> list:
        if not self._ready:
            texts = [next(self._source).text for _ in range(_CHUNK)]
            encoded = self._tokenizer.encode_batch(texts)
            self._ready = [encoding.ids + [self._end_id] for encoding in reversed(encoded)]
        return self._ready.pop()

    def _row(self) -> list:
        row = []
        while len(row) < self._length:
            row += self._next_story()
        return row[:self._length]

    def batch(self, rows: int) -> numpy.ndarray:
        """[rows, length] int64."""
        return numpy.array([self._row() for _ in range(rows)], dtype=numpy.int64)
