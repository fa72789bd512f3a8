"""Ministral 3: YaRN, and a temperature of the queries that steps at multiples of the trained length."""

from transformers import Ministral3Config, Ministral3ForCausalLM

from case import Case
from reference import uniform_attention

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 6, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4}
BASE = dict(vocab_size=131, hidden_size=20, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=8, max_position_embeddings=48, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130, rope_parameters=YARN)


def rope(**kw):
    return {"rope_parameters": YARN | kw}


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="ministral3", config=Ministral3Config, model=Ministral3ForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, "tie_word_embeddings": False, **kw}, **options)


CASES = [
    case("tempered", "queries grow at positions 6, 12 and 18; the cosines have no factor", {
        "no temperature": rope(llama_4_scaling_beta=0.0), "steps of 12": rope(original_max_position_embeddings=12),
        "no YaRN": rope(rope_type="default"), "a magnitude": rope(mscale=0.0, mscale_all_dim=0.0)}, spelling="v5"),
    case("tied", "a tied head, heads wider than hidden / heads, a window, a magnitude", {
        "no temperature": rope(llama_4_scaling_beta=0.0, mscale=0.25), "no magnitude": rope(), "no window": {"sliding_window": None}},
         tie_word_embeddings=True, head_dim=12, sliding_window=5, rows=(12,), rope_parameters=YARN | {"mscale": 0.25}, spelling="v5", taps=False,
         gguf=False, gguf_note="the converter writes one of the two magnitudes and no window"),
    case("unsaid", "what a file means that gives no rotation", {"theta": rope(rope_theta=500000.0)}, rope_parameters=None, num_hidden_layers=1,
         max_position_embeddings=262144, spelling="v5", drop=("rope_parameters", "rms_norm_eps", "max_position_embeddings"), taps=False,
         gguf=False, gguf_note="GGUF says all of it"),
]
