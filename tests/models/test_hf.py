"""The models against Hugging Face's own, with the weights going there and back."""

import numpy as np
import pytest

import minidl as md

torch = pytest.importorskip("torch", reason="compares with PyTorch")
transformers = pytest.importorskip("transformers", reason="compares with transformers")

V, CONTEXT, WIDTH = 50, 16, 32


def gpt():
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=V, n_positions=CONTEXT, n_embd=WIDTH, n_layer=2, n_head=4, bos_token_id=0,
        eos_token_id=0))
    ours = md.models.GPTConfig(V, CONTEXT, layers=2, heads=4, width=WIDTH)
    return md.models.GPT, ours, theirs


def llama(tied):
    def build():
        theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=V, max_position_embeddings=CONTEXT, hidden_size=WIDTH, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
            tie_word_embeddings=tied, rms_norm_eps=1e-5, rope_theta=500.0))
        ours = md.models.LlamaConfig(V, CONTEXT, layers=2, heads=4, kv_heads=2, width=WIDTH,
                                     hidden=48, rope_base=500.0, tied=tied)
        return md.models.Llama, ours, theirs

    return build


def bert():
    theirs = transformers.BertModel(transformers.BertConfig(
        vocab_size=V, max_position_embeddings=CONTEXT, hidden_size=WIDTH, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=48), add_pooling_layer=False)
    ours = md.models.BERTConfig(V, CONTEXT, layers=2, heads=4, width=WIDTH, hidden=48)
    return md.models.BERT, ours, theirs


MODELS = {"gpt": gpt, "llama": llama(False), "llama tied": llama(True), "bert": bert}


@pytest.fixture(params=MODELS)
def built(request):
    torch.manual_seed(0)
    cls, config, theirs = MODELS[request.param]()
    with torch.no_grad():
        for p in theirs.parameters():       # biases and norms too, or a swap would go unseen
            p.add_(0.2 * torch.randn_like(p))
    return cls, config, theirs.eval()


def output(theirs, index, **options):
    with torch.no_grad():
        return theirs(torch.tensor(index), **options)[0].numpy()


def test_same_results(built):
    cls, config, theirs = built
    model = cls.from_hf(theirs.state_dict(), config)
    index = np.random.default_rng(0).integers(0, V, (3, CONTEXT))
    expected = output(theirs, index)
    np.testing.assert_allclose(model(md.tensor(index)).detach().numpy(), expected, 2e-4, 2e-4)


def test_the_way_back(built):
    cls, config, theirs = built
    back = cls.from_hf(theirs.state_dict(), config).to_hf()
    expected = theirs.state_dict()
    assert set(back) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(back[name].numpy(), value.numpy(), name)
    theirs.load_state_dict({name: torch.tensor(value.numpy()) for name, value in back.items()})


def test_names_without_prefix_and_with_buffers():
    cls, config, theirs = gpt()
    state = {n.removeprefix("transformer."): v for n, v in theirs.state_dict().items()}
    del state["lm_head.weight"]
    state["h.0.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT)
    index = md.tensor([[3, 1, 2]])
    same = cls.from_hf(theirs.state_dict(), config)(index) == cls.from_hf(state, config)(index)
    assert bool(same.all())


def test_a_whole_bert_with_its_heads():
    cls, config, theirs = bert()
    state = {f"bert.{n}": v for n, v in theirs.state_dict().items()}
    state |= {"cls.predictions.bias": torch.zeros(V), "bert.pooler.dense.bias": torch.zeros(4),
              "bert.embeddings.position_ids": torch.arange(CONTEXT)[None]}
    same = cls.from_hf(state, config)(md.tensor([[1]])) == cls.from_hf(
        theirs.state_dict(), config)(md.tensor([[1]]))
    assert bool(same.all())


def test_bert_with_padding_and_segments():
    cls, config, theirs = bert()
    theirs.eval()
    model = cls.from_hf(theirs.state_dict(), config)
    index = np.array([[5, 6, 7, 8], [9, 10, 0, 0]])
    mask, segments = np.array([[1, 1, 1, 1], [1, 1, 0, 0]]), np.array([[0, 0, 1, 1], [0, 1, 0, 0]])
    expected = output(theirs, index, attention_mask=torch.tensor(mask),
                      token_type_ids=torch.tensor(segments))
    actual = model(md.tensor(index), md.tensor(mask), md.tensor(segments)).detach().numpy()
    np.testing.assert_allclose(actual[mask == 1], expected[mask == 1], 1e-4, 1e-5)
    mean = output(theirs, index[1:, :2]).mean(1)
    embedded = model.embed(md.tensor(index), md.tensor(mask)).detach().numpy()[1:]
    np.testing.assert_allclose(embedded, mean / np.linalg.norm(mean), 1e-4, 1e-5)
