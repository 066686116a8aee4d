"""load_corpus: the standard library, files and folders, in a known order and size."""

import pytest

from minidl.text import load_corpus


def test_the_standard_library_is_text_enough():
    text = load_corpus()
    assert 1_500_000 < len(text.encode()) <= 2_000_000
    assert "def " in text and text == load_corpus()
    assert load_corpus(max_bytes=1000) == text[:1000]


def test_files_and_folders_in_order(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.txt").write_text("two")
    (tmp_path / "b" / "1.txt").write_text("one é")
    (tmp_path / "b" / "0.bin").write_bytes(b"\xff\xfe")
    (tmp_path / "a.txt").write_text("first ")
    assert load_corpus([tmp_path / "a.txt", tmp_path / "b"]) == "first one étwo"
    assert load_corpus(tmp_path / "b", max_bytes=5) == "one "
    with pytest.raises(ValueError, match=r"0\.bin is not UTF-8 text"):
        load_corpus(tmp_path / "b" / "0.bin")
    with pytest.raises(FileNotFoundError, match="is not there"):
        load_corpus(tmp_path / "c")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"there is no text in .*empty"):
        load_corpus([tmp_path / "empty"])
