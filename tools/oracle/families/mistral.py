"""Mistral and Mixtral: a window much shorter than the sequence, and none; routed experts."""

from transformers import MistralConfig, MistralForCausalLM, MixtralConfig, MixtralForCausalLM

from case import BARE, Case
from convert import experts_apart
from reference import uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=8, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def case(name, shows, flips, model=(MistralConfig, MistralForCausalLM), family="mistral", **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family=family, config=model[0], model=model[1], shows=shows,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, "tie_word_embeddings": True, **kw}, **options)


MOE = (MixtralConfig, MixtralForCausalLM)

CASES = [
    case("window", "a sliding window of 5 keys, the query's own included, in a sequence of 24",
         {"window of 6": {"sliding_window": 6}, "no window": {"sliding_window": None}}, sliding_window=5, gguf=False,
         gguf_note="the converter writes no window key: the file would be another model"),
    case("no-window", "sliding_window null, heads wider than hidden / heads", {"window": {"sliding_window": 5}},
         sliding_window=None, head_dim=12, rows=(12,)),
    case("experts", "two of four experts, renormalised", {"one expert": {"num_experts_per_tok": 1}}, model=MOE, family="mixtral",
         num_local_experts=4, num_experts_per_tok=2, sliding_window=None, rows=(12,)),
    case("experts-window", "three of five experts behind a window", {"no window": {"sliding_window": None}}, model=MOE, family="mixtral",
         num_local_experts=5, num_experts_per_tok=3, sliding_window=5, gguf=False,
         gguf_note="the converter writes no window key: the file would be another model"),
    case("experts-apart", "a twin with one tensor for each expert, as files of early 2024 have it", {"one expert": {"num_experts_per_tok": 1}},
         model=MOE, family="mixtral", num_local_experts=3, num_experts_per_tok=2, sliding_window=None, rows=(12,), gguf_patch=experts_apart,
         peer=False, taps=False),
    case("bare", "saved without its head", {"one expert": {"num_experts_per_tok": 1}}, model=MOE, family="mixtral", num_local_experts=4,
         sliding_window=None, rows=(12,), **BARE),
    case("unsaid", "what a file means that gives neither the rotary base nor heads of keys nor experts", {
        "theta": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}, "six experts": {"num_experts_per_tok": 6}}, model=MOE,
         family="mixtral", num_attention_heads=16, num_key_value_heads=8, hidden_size=16, intermediate_size=12, sliding_window=None,
         num_local_experts=8, num_experts_per_tok=2, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, rows=(24,), spelling="v5",
         respell={"rope_parameters": {"rope_type": "default"}}, gguf=False, gguf_note="GGUF says all of it", taps=False,
         drop=("num_key_value_heads", "rms_norm_eps", "num_local_experts", "num_experts_per_tok", "sliding_window")),
]
