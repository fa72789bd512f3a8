"""nanochat: norms without weights, also behind the embedding; a rotation the other way, before q and k are normalised; capped logits."""

from transformers import NanoChatConfig, NanoChatForCausalLM

from case import Case
from reference import kv_modulo, no_bias, uniform_attention

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
BASE = dict(vocab_size=131, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3,
            max_position_embeddings=128, rms_norm_eps=1e-6, bos_token_id=0, eos_token_id=1, pad_token_id=1, rope_parameters=PLAIN, tie_word_embeddings=False)


def forwards(model):
    """Rotate the way of other families."""
    from sys import modules
    home = modules[type(model).__module__]
    right = home.rotate_half
    home.rotate_half = lambda x: -right(x)

    def undo():
        home.rotate_half = right
    return undo


def bare_embedding(model):
    """Leave the norm behind the embedding out."""
    inner = model.model
    norm, calls = inner.norm.forward, []

    def second(x):
        calls.append(1)
        return x if len(calls) == 1 else norm(x)
    inner.norm.forward = second


def loud(case, model, g):
    """Let layers add more than the embedding, whose tied row would win otherwise."""
    for name, p in model.named_parameters():
        if case.kwargs["tie_word_embeddings"] and name.endswith(("o_proj.weight", "fc2.weight")):
            p.data.mul_(4)
        if case.kwargs["tie_word_embeddings"] and "embed" in name:
            p.data.mul_(0.3)


def case(name, shows, flips, **kw):
    options = {"init": loud} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="nanochat", config=NanoChatConfig, model=NanoChatForCausalLM, shows=shows, flips={
        "attention uniform": uniform_attention, "no cap": {"final_logit_softcapping": None}, "rotated forwards": forwards,
        "no norm of the embedding": bare_embedding, "SiLU": {"hidden_act": "silu"}, **flips},
        kwargs={**BASE, **kw}, gguf=False, gguf_note="llama.cpp does not know this family", **options)


CASES = [
    case("plain", "as many key/value heads as heads, logits capped, untied", {}, rows=(12,), final_logit_softcapping=3.0),
    case("gqa", "grouped queries, biases of attention, another epsilon, tied, BF16, sharded", {
        "kv modulo": kv_modulo, "no biases": no_bias("self_attn")}, rows=(14,), num_attention_heads=4, num_key_value_heads=2, hidden_size=32,
        attention_bias=True, tie_word_embeddings=True, dtype="BF16", rms_norm_eps=1e-3, final_logit_softcapping=8.0, shard_bytes=12000),
]
