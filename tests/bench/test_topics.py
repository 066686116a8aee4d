"""The topics list what they measure, every bar belongs to a row, and every case can be computed."""

from pathlib import Path

import pytest

import minidl as md
from bench import topics
from bench.bars import BARS
from bench.libraries import LIBRARY, Library

NAMED = [t for t in topics.TOPICS if hasattr(topics.load(t), "cases")]
OURS = [peer for peer, library in LIBRARY.items() if library == "minidl"]


@pytest.mark.parametrize("topic", topics.TOPICS)
def test_a_topic_says_what_it_measures_and_runs_alone(topic):
    module = topics.load(topic)
    assert module.__doc__.splitlines()[0].endswith(".")
    assert hasattr(module, "cases") or hasattr(module, "rows")
    assert "run(__file__)" in Path(module.__file__).read_text()


@pytest.mark.parametrize("topic", NAMED)
def test_cases_are_distinct_and_some_are_quick(topic):
    cases = topics.cases(topic)
    assert all(case.builders.keys() <= LIBRARY.keys() and "minidl" in case.builders
               for case in cases)
    assert len({(case.name, case.shape) for case in cases}) == len(cases)
    assert any(case.quick for case in cases)


@pytest.mark.parametrize("bar", [b for b in BARS if b.topic in NAMED and b.against != "value"
                                 and b.case != "file of a matrix"], ids=str)
def test_every_bar_has_a_row(bar):
    figures = {"rate", "best"}
    assert any(bar.fits({"topic": bar.topic, "name": case.name, "shape": case.shape})
               and bar.against in figures | case.builders.keys()
               for case in topics.cases(bar.topic))


@pytest.mark.parametrize("topic", NAMED)
def test_minidl_computes_the_quick_cases(topic):
    for case in topics.cases(topic):
        for peer in set(OURS) & case.builders.keys() if case.quick else ():
            lib = Library(peer, 1)
            with lib.torch.set_grad_enabled(case.grad):
                case.builders[peer](lib)()
            lib.restart()                       # its files go


def test_scripts_are_the_same_text_for_both():
    script = Library("minidl", 1).script("gpt")
    assert script["torch"].__name__ == "minidl" and script["F"].__name__.startswith("minidl.")
    model = script["GPT"](17, 8, 2, 2, 16)
    prompt = script["torch"].zeros(1, 3, dtype=script["torch"].int64)
    tokens = script["generate"](model, prompt, 5)
    assert tokens.shape == (1, 8)
    greedy = prompt
    for _ in range(5):                          # without a cache
        last = model(greedy)[:, -1].argmax(dim=-1, keepdim=True)
        greedy = script["torch"].cat([greedy, last], dim=1)
    assert tokens.tolist() == greedy.tolist()


def test_both_libraries_compute_the_same_steps():
    torch = pytest.importorskip("torch")
    losses, before = {}, torch.get_num_threads()
    weights = None
    for peer in ("torch", "minidl"):
        lib = Library(peer, 1)
        script = lib.script("gpt")
        model = script["GPT"](17, 8, 2, 2, 16)
        if weights is None:
            weights = {name: w.detach().numpy().copy() for name, w in model.state_dict().items()}
        model.load_state_dict({name: lib.torch.from_numpy(w.copy()) for name, w in weights.items()})
        step = script["trainer"](model, lib.integers(17, 3, 8), lib.integers(17, 3, 8))
        losses[peer] = [float(step().detach()) for _ in range(5)]
    torch.set_num_threads(before)
    assert losses["minidl"] == pytest.approx(losses["torch"], rel=1e-4)


def test_the_llama_of_the_bench_is_minidls_own():
    torch = pytest.importorskip("torch")
    config = md.models.LlamaConfig(vocab_size=17, context=16, layers=2, heads=4, kv_heads=2,
                                   width=16, hidden=24, tied=False)
    model = md.models.Llama(config)
    script = Library("torch", torch.get_num_threads()).script("llama")
    other = script["Llama"](17, 16, 2, 4, 2, 16, 24)
    names = {name.replace("token.", "tokens.").replace("ffn.", ""): torch.from_numpy(w.numpy())
             for name, w in model.state_dict().items()}
    other.load_state_dict(names)
    found = script["generate"](other, torch.tensor([[1, 2, 3]]), 12)[0, 3:].tolist()
    assert md.generate.generate(model, [[1, 2, 3]], 12, temperature=0) == [found]
