"""Tokenizers: every text survives, files round-trip, unknown characters, errors."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minidl as md
from minidl.text import BPETokenizer, ByteTokenizer, CharTokenizer

CHAR = CharTokenizer("hello wörld\n")
ANY = st.text(st.characters(exclude_categories=()))  # lone surrogates too


def bpe():
    pytest.importorskip("tokenizers", reason="needs the extra `text`")
    return BPETokenizer.train(["the cat sat on the mat, the cat"] * 5, vocab_size=270)


@settings(deadline=None)
@given(ANY)
def test_every_text_survives(text):
    for tokenizer in (CHAR, ByteTokenizer()):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert all(0 <= i < tokenizer.vocab_size for i in ids)


def test_every_text_survives_bpe():
    tokenizer = bpe()

    @settings(deadline=None)
    @given(st.text())
    def check(text):
        assert tokenizer.decode(tokenizer.encode(text)) == text

    check()
    assert len(tokenizer.encode("the cat")) < 7 and tokenizer.vocab_size <= 270


@given(st.lists(st.integers(0, 255)))
def test_what_a_model_writes_decodes(ids):
    assert isinstance(ByteTokenizer().decode(ids), str)
    assert isinstance(CHAR.decode(i + len(CHAR.chars) for i in ids), str)


@pytest.mark.parametrize("make", [ByteTokenizer, lambda: CHAR, bpe,
                                  lambda: CharTokenizer("abé ", byte_fallback=False)])
def test_saved_and_loaded(tmp_path, make):
    tokenizer = make()
    tokenizer.save(tmp_path / "tokenizer.json")
    again = type(tokenizer).load(tmp_path / "tokenizer.json")
    assert again.vocab_size == tokenizer.vocab_size
    assert again.encode("ab é") == tokenizer.encode("ab é")
    assert again.decode(again.encode("ab é")) == "ab é"


def test_characters_without_bytes():
    tokenizer = CharTokenizer("cab", byte_fallback=False)
    assert tokenizer.vocab_size == 3 and tokenizer.encode("abc") == [0, 1, 2]
    with pytest.raises(ValueError, match="the character 'x' is not in its vocabulary"):
        tokenizer.encode("abx")


def test_gpt2_vocab_and_merges_load(tmp_path):
    tokenizer = bpe()
    tokenizer.tokenizer.model.save(str(tmp_path))
    assert (tmp_path / "merges.txt").exists()
    assert BPETokenizer.load(tmp_path).encode("the cat é") == tokenizer.encode("the cat é")
    tokenizer.save(tmp_path / "tokenizer.json")
    assert BPETokenizer.load(tmp_path).encode("the mat") == tokenizer.encode("the mat")


def test_training_from_files(tmp_path):
    pytest.importorskip("tokenizers", reason="needs the extra `text`")
    (tmp_path / "a.txt").write_text("the cat sat on the mat, the cat" * 5)
    assert len(BPETokenizer.train_files([tmp_path / "a.txt"], 270).encode("the cat")) < 7


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install 'minidl\[text\]'"):
        BPETokenizer.train(["a"], 300)


@pytest.mark.parametrize("act, kind, what", [
    (lambda t: ByteTokenizer().decode([256]), ValueError, "below 256, got 256 to 256"),
    (lambda t: CHAR.decode([-1]), ValueError, "CharTokenizer: tokens must be at least 0"),
    (lambda t: CharTokenizer.load(saved(t)), ValueError, "is not a char tokenizer that minidl"),
    (lambda t: BPETokenizer.train(["a"], 9), ValueError, "vocab_size=9 is too small"),
    (lambda t: md.text.nothing, AttributeError, "no attribute 'nothing'"),
])
def test_wrong_arguments_get_a_sentence(tmp_path, act, kind, what):
    with pytest.raises(kind, match=what):
        act(tmp_path)


def saved(folder):
    ByteTokenizer().save(folder / "byte.json")
    return folder / "byte.json"
