"""ERNIE 4.5, dense: pairs of adjacent lanes rotate, one switch for all biases."""

from transformers import Ernie4_5Config, Ernie4_5ForCausalLM

from case import Case
from reference import no_bias, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, pad_token_id=0,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0})


def case(name, shows, flips, **kw):
    options = {"plain_vocab": True} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="ernie4_5", config=Ernie4_5Config, model=Ernie4_5ForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("tied", "pairs of adjacent lanes, heads of 12 on a hidden size of 32, tied though the file does not say so",
         {"theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}}, head_dim=12, rows=(12,),
         drop=("tie_word_embeddings",), respell={"architectures": ["Ernie4_5_ForCausalLM"]}),
    case("biases", "biases on every projection; untied, heads of 128 as the file need not say", {"no bias": no_bias("self_attn"), "no bias of MLP": no_bias("mlp")},
         use_bias=True, tie_word_embeddings=False, num_attention_heads=1, num_key_value_heads=1, head_dim=128, drop=("head_dim", "rope_theta"), rows=(12,), gguf=False,
         gguf_note="llama.cpp does not load all of the biases"),
]
