"""Phi-3, Phi-3.5 and Phi-4-mini: fused projections, longrope on both sides of its switch, partial rotation, windows."""

from transformers import Phi3Config, Phi3ForCausalLM

from case import Case
from reference import kv_modulo, uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=128, original_max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=130, eos_token_id=130,
            pad_token_id=130, rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0})
SHORT, LONG = [1.0, 1.1, 1.25, 1.4, 1.6, 1.9], [1.0, 1.9, 2.8, 4.1, 6.0, 8.5]


def longrope(n, part, short=SHORT, long=LONG, **kw):
    return {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": part, "original_max_position_embeddings": 40,
            "short_factor": short[:n], "long_factor": long[:n], **kw}


def fused(case, model, g):
    """Make queries and keys as distinct as with separate projections."""
    for name, p in model.named_parameters():
        if "qkv_proj" in name:
            p.data[: p.shape[0] * 3 // 4].mul_(1.4)


def case(name, shows, flips, **kw):
    options = {"init": fused, "plain_vocab": True} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="phi3", config=Phi3Config, model=Phi3ForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("window", "q, k and v in one projection, gate and up in another; a window of 6 keys in all layers", {
        "no window": {"sliding_window": None}, "kv modulo": kv_modulo}, sliding_window=6,
        gguf_note="llama.cpp reads the window and does not apply it"),
    case("longrope", "48 positions take the long factors, 14 the short ones; half of the lanes rotate as in Phi-4-mini; tied", {
        "short for long": {"rope_parameters": longrope(2, 0.5, long=SHORT)}, "default": {"rope_parameters": {"rope_type": "default",
            "rope_theta": 1e4, "partial_rotary_factor": 0.5}}},
        rope_parameters=longrope(2, 0.5), max_position_embeddings=160, original_max_position_embeddings=40, tie_word_embeddings=True,
        rows=(48, 14), peer_options={14: {"kv_overrides": {"phi3.rope.scaling.original_context_length": 4096}}}),
    case("longrope-whole", "all lanes, spelled as in the files; untied, three heads", {
        "short for long": {"rope_parameters": longrope(6, 1.0, long=SHORT)}}, rope_parameters=longrope(6, 1.0), hidden_size=36,
        num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=160, original_max_position_embeddings=40, rows=(44,), spelling="v4",
        respell={"rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}}),
]
