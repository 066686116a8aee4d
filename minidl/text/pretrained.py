"""The tokenizers of published models, by Hugging Face's `tokenizers` (the extra `text`)."""

from __future__ import annotations

from typing import Any

from minidl import ops
from minidl._core import Tensor
from minidl.checkpoint.gguf import read_values
from minidl.checkpoint.hub import local_path
from minidl.errors import ArgumentError, CheckpointError

from .bpe import BPETokenizer, Path, library

CONTROL = 3  # the type of tokens that stand for no text, in a GGUF file


class PretrainedTokenizer(BPETokenizer):
    """The tokenizer of a published model, whatever its algorithm. :meth:`load` takes what
    ``md.models.from_pretrained`` takes.

    >>> tokenizer = md.text.BPETokenizer.train(["to be or not to be"], vocab_size=260)
    >>> index, mask = md.text.PretrainedTokenizer(tokenizer.tokenizer).batch(["to be", "or"])
    >>> mask.sum(1)
    tensor([2, 2])
    """

    @classmethod
    def load(cls, path: Path) -> PretrainedTokenizer:
        """Read a folder with tokenizer.json (or vocab.json and merges.txt), such a file, a GGUF
        file with a byte-level vocabulary, or the files of a name at the Hugging Face hub."""
        place = local_path(path)
        if place.endswith(".gguf"):
            return cls(_from_gguf(place))
        tokenizer = BPETokenizer.load(place).tokenizer
        tokenizer.no_padding()      # some files ask for a fixed length
        tokenizer.no_truncation()
        return cls(tokenizer)

    def batch(self, texts: list[str], max_length: int | None = None) -> tuple[Tensor, Tensor]:
        """Texts as one array of tokens (B, T), with the special ones around each that the model
        was trained with, and the mask (B, T): 1 for a token, 0 for what fills up short rows.
        Texts are cut at ``max_length`` tokens."""
        if max_length is not None:
            self.tokenizer.enable_truncation(max_length)
        try:
            rows = [row.ids for row in self.tokenizer.encode_batch(texts)]
        finally:
            self.tokenizer.no_truncation()
        longest = max(map(len, rows), default=0)
        index = [row + [0] * (longest - len(row)) for row in rows]
        mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
        return ops.tensor(index), ops.tensor(mask)

    def token_id(self, token: str) -> int:
        """The number of a token, of a special one for example."""
        found = self.tokenizer.token_to_id(token)
        if found is None:
            raise ArgumentError(f"{token!r} is not a token of this tokenizer")
        return int(found)


def _from_gguf(path: str) -> Any:
    """A tokenizer from the values of a GGUF file; those of SentencePiece are not read."""
    values = read_values(path)
    names = ("model", "pre", "tokens", "merges", "token_type")
    kind, split, tokens, merges, types = (values.get(f"tokenizer.ggml.{n}", []) for n in names)
    pre = library().pre_tokenizers
    splits = {"gpt-2": [], "smollm": [pre.Digits(individual_digits=True)]}
    if kind != "gpt2" or not isinstance(split, str) or split not in splits:
        raise CheckpointError(
            f"{path}: its tokenizer is of the kind {kind!r:.40}, {split!r:.40}; minidl reads gpt2 "
            f"with {' or '.join(splits)}. Load the model's tokenizer.json instead"
        )
    try:
        pairs = [tuple(pair.split(" ", 1)) for pair in merges]
        vocab = {token: i for i, token in enumerate(tokens)}
        tokenizer = library().Tokenizer(library().models.BPE(vocab, pairs))
    except Exception as error:  # the library raises no class of its own
        raise CheckpointError(f"{path}: its tokenizer is damaged: {error!s:.200}") from None
    tokenizer.pre_tokenizer = pre.Sequence([*splits[split], pre.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = library().decoders.ByteLevel()
    special = [token for token, type_ in zip(tokens, types, strict=False) if type_ == CONTROL]
    tokenizer.add_special_tokens([library().AddedToken(t, normalized=False) for t in special])
    return tokenizer
