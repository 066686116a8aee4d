"""Cached decoding against the plain loop, and the ways to choose a token."""

import numpy as np
import pytest

import minidl as md
from minidl.generate import Sampler, generate, stream
from minidl.generate.text import TextWriter

MODELS = [md.models.GPT, md.models.Llama]
PROMPTS = [[5, 6, 7, 8, 9], [100], [3, 200, 1]]


class Letters:
    def encode(self, text):
        return [ord(c) for c in text]

    def decode(self, ids):
        return "".join(map(chr, ids))


@pytest.fixture(params=MODELS)
def model(request):
    md.manual_seed(1)
    model = request.param.from_preset("tiny")
    with md.no_grad():
        for p in model.parameters():
            p.mul_(5)                       # far from uniform, so that equal tokens mean something
    return model


def plain(model, prompt, count):
    """Greedy, the whole window through the model for every token."""
    tokens, start, context = list(prompt), max(0, len(prompt) - 64), 64
    with md.no_grad():
        for _ in range(count):
            if len(tokens) - start > context:
                start = len(tokens) - (context + 1) // 2
            tokens.append(model(md.tensor([tokens[start:]]))[0, -1].argmax().item())
    return tokens[len(prompt):]


@pytest.mark.parametrize("count", [10, 150])
def test_cached_equals_uncached(model, count):
    prompt = PROMPTS[0]
    assert generate(model, [prompt], count, temperature=0) == [plain(model, prompt, count)]


def test_rows_of_a_batch_are_as_if_alone(model):
    expected = [plain(model, prompt, 20) for prompt in PROMPTS]
    assert len({tuple(row) for row in expected}) == 3
    assert generate(model, PROMPTS, 20, temperature=0) == expected


def test_a_prompt_longer_than_the_context(model):
    prompt = list(range(100))
    assert generate(model, [prompt], 5, temperature=0) == [plain(model, prompt, 5)]


def test_stream_gives_the_same_and_leaves_the_model_as_it_was(model):
    assert list(stream(model, [1, 2], 8, seed=4)) == generate(model, [[1, 2]], 8, seed=4)[0]
    tokens = stream(model, [1, 2], 8)
    next(tokens)
    assert md.is_grad_enabled() and not model.training
    tokens.close()
    assert model.training


def test_modules_keep_their_own_modes(model):
    model.norm.eval()
    generate(model, [[1]], 2)
    assert model.training and not model.norm.training


@pytest.mark.parametrize("seed", range(8))
def test_streamed_text_is_generated_text(model, seed):
    # The model writes random bytes: broken, unfinished and whole characters.
    options = {"tokenizer": md.text.ByteTokenizer(), "seed": seed, "temperature": 2.0}
    ids = generate(model, [list(b"ab")], 60, seed=seed, temperature=2.0)[0]
    whole = generate(model, ["ab"], 60, **options)[0]
    pieces = list(stream(model, "ab", 60, **options))
    assert "".join(pieces) == whole == bytes(ids).decode("utf-8", "replace")
    assert "" not in pieces and len(pieces) > 20
    stop = whole[20:22]
    cut = generate(model, ["ab"], 60, stop=[stop], **options)[0]
    assert cut == whole[: whole.index(stop)]
    assert "".join(stream(model, "ab", 60, stop=stop, **options)) == cut


def test_seeds(model):
    a, b, c = (generate(model, PROMPTS, 10, seed=seed) for seed in (1, 1, 2))
    assert a == b != c


def test_texts_stop_strings_and_eos(model):
    whole = generate(model, ["ab"], 12, tokenizer=Letters(), temperature=0)[0]
    assert len(whole) == 12
    stop = whole[4:6]
    cut = generate(model, ["ab"], 12, tokenizer=Letters(), stop=[stop], temperature=0)
    assert cut == [whole[: whole.index(stop)]]
    eos = ord(whole[3])
    ended = generate(model, ["ab"], 12, tokenizer=Letters(), eos_id=eos, temperature=0)
    assert ended == [whole[: whole.index(whole[3])]]


LOGITS = np.log([[0.5, 0.3, 0.15, 0.05]])


@pytest.mark.parametrize("options, expected", [
    ({}, [0.5, 0.3, 0.15, 0.05]),
    ({"temperature": 0}, [1, 0, 0, 0]),
    ({"temperature": 0.5}, np.square([0.5, 0.3, 0.15, 0.05]) / 0.365),
    ({"top_k": 2}, [0.625, 0.375, 0, 0]),
    ({"top_p": 0.7}, [0.625, 0.375, 0, 0]),
    ({"top_p": 0.0}, [1, 0, 0, 0]),
    ({"min_p": 0.25}, np.array([0.5, 0.3, 0.15, 0]) / 0.95),
], ids=str)
def test_probabilities(options, expected):
    np.testing.assert_allclose(Sampler(**options).probabilities(LOGITS, [[0]])[0], expected, 1e-6)


def test_repetition_penalty():
    logits = np.array([[2.0, -1.0, 1.0]])
    p = Sampler(repetition_penalty=2.0).probabilities(logits, [[0, 1, 0]])[0]
    np.testing.assert_allclose(p, np.exp([1, -2, 1]) / np.exp([1, -2, 1]).sum())


@pytest.mark.parametrize("options, message", [
    ({"temperature": -1}, "temperature must be at least 0"), ({"top_k": 0}, "top_k must be"),
    ({"top_p": 2}, "top_p must be from 0 to 1"), ({"stop": ["x"]}, "stop strings need a tokenizer"),
    ({"stop": "", "tokenizer": Letters()}, "at least one character"),
    ({"stop": [""], "tokenizer": Letters()}, "at least one character"),
    ({"max_new_tokens": -1}, "max_new_tokens must be at least 0, got -1"),
])
def test_wrong_arguments_get_a_sentence(model, options, message):
    options = {"max_new_tokens": 2, **options}
    for function, prompt in ((generate, [[1]]), (stream, [1])):
        with pytest.raises(md.errors.ArgumentError, match=message):
            function(model, prompt, **options)     # stream complains when called, not when read


def test_wrong_prompts_get_a_sentence(model):
    with pytest.raises(md.errors.ArgumentError, match="needs a tokenizer"):
        stream(model, "text", 2)
    with pytest.raises(md.errors.ArgumentError, match="put the text into a list"):
        generate(model, "text", 2, tokenizer=Letters())
    with pytest.raises(md.errors.ArgumentError, match="at least one token"):
        generate(model, [[]], 2)


def pieces_of(text, stop=(), prompt=""):
    writer = TextWriter(md.text.ByteTokenizer(), list(prompt.encode()), stop)
    pieces = []
    for byte in text if isinstance(text, bytes) else text.encode():
        pieces.append(writer.push(byte))
        if writer.stopped:
            break
    return [*pieces, writer.end()]


def test_characters_come_whole():
    assert pieces_of("aé€😀") == ["a", "", "é", "", "", "€", "", "", "", "😀", ""]
    assert pieces_of(b"\xe2\x82") == ["", "", "\ufffd"]
    assert "".join(pieces_of(b"\xff" * 9)) == "\ufffd" * 9
    assert pieces_of(b"\x82\xac", prompt="é")[-1] == "\ufffd\ufffd"


def test_stop_strings_are_held_back_until_it_is_clear():
    assert pieces_of("a\n\nb", ["\n\n"]) == ["a", "", "", ""]
    assert pieces_of("a\nb\n", ["\n\n"]) == ["a", "", "\nb", "", "\n"]
    assert pieces_of("ababac", ["abac"]) == ["", "", "", "ab", "", "", ""]
    assert pieces_of("xabc", ["abcd", "c"]) == ["x", "", "", "ab", ""]


def test_text_goes_on_from_the_prompt():
    """Llama's tokenizer writes no space before the first word of a text, but one after a prompt."""

    class Words:
        def encode(self, text):
            return [int(word) for word in text.split()]

        def decode(self, ids):
            return " ".join(map(str, ids))

    writer = TextWriter(Words(), [1, 2])
    assert writer.push(3) + writer.push(4) == " 3 4"


TEXT = "naïve 日本語 🙂🙃👩‍👩‍👧 \n\n\ttabs  and   spaces € \ufffd end"


def tokenizers():
    yield md.text.ByteTokenizer()
    yield md.text.CharTokenizer("naive tabs and")
    pytest.importorskip("tokenizers", reason="needs the extra `text`")
    yield md.text.BPETokenizer.train(["naïve 日本 tabs and spaces"] * 3, 280)


def test_every_tokenizer_streams_its_text():
    for tokenizer in tokenizers():
        ids = tokenizer.encode(TEXT)
        for cut in (0, 1, 7):
            writer = TextWriter(tokenizer, ids[:cut])
            pieces = [writer.push(token) for token in ids[cut:]]
            before = tokenizer.decode(ids[:cut]).rstrip("\ufffd")
            assert before + "".join([*pieces, writer.end()]) == TEXT
