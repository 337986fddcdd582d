"""The text and its batches: the same everywhere, every time."""

from __future__ import annotations

import numpy as np
import pytest

from coconet.demo.corpus import VOCABULARY, batch, read_corpus
from coconet.demo.recipe import Recipe
from coconet.errors import ResourceError


def test_text_is_the_modules_in_order_of_their_names(tmp_path):
    texts = {"b.py": b"bbb\n", "a.py": b"aa\n", "c.txt": b"no", "aa.py": b"\xc3\xa9"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    whole = read_corpus(7, tmp_path)
    assert whole.codes.tobytes() == b"aa\nbbb\n"
    assert whole.files == 2
    assert read_corpus(5, tmp_path).codes.tobytes() == b"aa\nbb"
    assert read_corpus(3, tmp_path).files == 1


def test_too_little_text_is_an_error_that_says_how_much(tmp_path):
    (tmp_path / "a.py").write_text("aa\n")
    with pytest.raises(ResourceError, match="3 bytes") as caught:
        read_corpus(4, tmp_path)
    assert caught.value.need == "4 bytes"


def test_the_standard_library_is_enough_and_read_alike_twice():
    size = Recipe().text_bytes
    first, second = read_corpus(size), read_corpus(size)
    assert first.codes.size == size
    assert int(first.codes.max()) < VOCABULARY
    assert first.sha256 == second.sha256
    assert np.array_equal(first.codes, second.codes)


def test_batches_follow_their_own_text_and_differ_by_rank_and_step():
    recipe = Recipe(batch=3, context=16)
    corpus = read_corpus(100_000)
    codes, following = batch(corpus, recipe, step=4, rank=1)
    assert codes.shape == following.shape == (3, 16)
    assert np.array_equal(codes[:, 1:], following[:, :-1])
    text = corpus.codes.tobytes()
    assert all(row.astype(np.uint8).tobytes() in text for row in codes)
    again, _ = batch(corpus, recipe, step=4, rank=1)
    assert np.array_equal(codes, again)
    for place in ({"step": 5, "rank": 1}, {"step": 4, "rank": 0}):
        assert not np.array_equal(codes, batch(corpus, recipe, **place)[0])


def test_the_last_characters_can_be_drawn():
    corpus = read_corpus(1_000)
    recipe = Recipe(batch=5_000, context=998)
    _, following = batch(corpus, recipe, step=0, rank=0)
    assert {tuple(row[-2:]) for row in following} == {
        tuple(corpus.codes[997:999]),
        tuple(corpus.codes[998:1000]),
    }
