"""Gemma 1, 2 and 3, text: norm weights stored minus one, scaled embeddings, soft caps, alternating windows, two rotations."""

from transformers import (Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GemmaConfig, GemmaForCausalLM)

from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=12, max_position_embeddings=128, rms_norm_eps=1e-6, bos_token_id=130, eos_token_id=130, pad_token_id=0)
KINDS = {"gemma": (GemmaConfig, GemmaForCausalLM), "gemma2": (Gemma2Config, Gemma2ForCausalLM),
         "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM)}
DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}


def two(full=1e6, local=100.0, **scaling):
    return {"full_attention": {"rope_type": "default", "rope_theta": full, **scaling},
            "sliding_attention": {"rope_type": "default", "rope_theta": local}}


def calm(case, model, g):
    """Make embeddings times sqrt(D) as large as in other families, and norms about one; layers of deep models add little."""
    model.get_input_embeddings().weight.data.div_(case.kwargs["hidden_size"] ** 0.5)
    for name, p in model.named_parameters():
        if "norm" in name:
            p.data.sub_(1)
    if case.kwargs["num_hidden_layers"] > 6:
        for name, p in model.named_parameters():
            if "post_" in name:
                p.data.mul_(0.3).sub_(0.6)
    last = model.model.norm.weight
    last.data.copy_((1 + last.data) * last.data.roll(1).sign() - 1)


def unscaled(model):
    """Leave the embeddings unscaled."""
    model.model.embed_tokens.embed_scale.fill_(1.0)


def case(name, family, shows, flips, **kw):
    options = {"init": calm, "plain_vocab": True} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config, model = KINDS[family]
    rope = {} if family == "gemma3" and "rope_parameters" not in kw else {"rope_parameters": DEFAULT}
    return Case(name=name, family=family, config=config, model=model, shows=shows,
                flips={"attention uniform": uniform_attention, "embedding not scaled": unscaled, **flips},
                kwargs={**BASE, "tie_word_embeddings": True, **rope, **kw}, **options)


CASES = [
    case("gqa", "gemma", "embeddings times the root of the width, norms less one, GELU in its tanh form; tied though the file does not say so",
         {"SiLU": {"hidden_act": "silu"}}, rows=(12,), drop=("tie_word_embeddings",)),
    case("mqa", "gemma", "one key-value head, three heads; hidden_act \"gelu\", which means the tanh form here; BF16, sharded",
         {"ReLU": {"hidden_act": "relu"}}, hidden_size=36, num_attention_heads=3, num_key_value_heads=1, head_dim=16, dtype="BF16",
         shard_bytes=20_000, rows=(12,), respell={"hidden_act": "gelu", "hidden_activation": None}),
    case("caps", "gemma2", "soft caps on scores and logits, windows of 7 keys in layers 0 and 2, a scale of the scores of its own", {
        "no cap on scores": {"attn_logit_softcapping": None}, "no cap on logits": {"final_logit_softcapping": None},
        "windows everywhere": {"layer_types": ["sliding_attention"] * 3}, "no windows": {"sliding_window": 100},
        "scale of head_dim": {"query_pre_attn_scalar": 12}}, num_hidden_layers=3, sliding_window=7, query_pre_attn_scalar=5,
        attn_logit_softcapping=2.5, final_logit_softcapping=3.0, drop=("layer_types",), gguf=False,
        gguf_note="GGUF has no key for the scale of the scores"),
    case("windows", "gemma2", "windows of 5 keys in the first of each two layers, the scale that GGUF files imply", {
        "no cap on scores": {"attn_logit_softcapping": None}, "other layers": {"layer_types": ["full_attention", "sliding_attention"] * 2}},
        num_hidden_layers=4, sliding_window=5, query_pre_attn_scalar=12, attn_logit_softcapping=3.0, final_logit_softcapping=4.0,
        drop=("layer_types",)),
    case("plain", "gemma2", "no caps, layer types as the file lists them, untied", {
        "caps": {"attn_logit_softcapping": 2.0}, "layers in turns": {"layer_types": ["sliding_attention", "full_attention", "full_attention"]}},
        num_hidden_layers=3, sliding_window=6, query_pre_attn_scalar=12, attn_logit_softcapping=None, final_logit_softcapping=None,
        layer_types=["full_attention", "full_attention", "sliding_attention"], tie_word_embeddings=False, spelling="v5", gguf=False,
        gguf_note="the converter wants the caps and knows no other turns"),
    case("rotations", "gemma3", "a rotation of its own in the layers with a window of 6 keys, heads of q and k normalised; seven layers, the "
         "sixth without a window", {
        "one rotation": {"rope_parameters": two(100.0)}, "windows everywhere": {"layer_types": ["sliding_attention"] * 7},
        "no windows": {"sliding_window": 100}}, num_hidden_layers=7, hidden_size=24, intermediate_size=24, sliding_window=6,
        query_pre_attn_scalar=12, rope_parameters=two(local=10000.0, full=50.0) , drop=("layer_types", "_sliding_window_pattern")),
    case("scaled", "gemma3", "linear scaling in the layers without a window alone, a cap on the logits, a scale of its own", {
        "no scaling": {"rope_parameters": two()}, "no cap": {"final_logit_softcapping": None}, "scale of head_dim": {"query_pre_attn_scalar": 12}},
        num_hidden_layers=3, sliding_window=6, query_pre_attn_scalar=7, final_logit_softcapping=3.0,
        layer_types=["full_attention", "sliding_attention", "full_attention"], spelling="v5",
        rope_parameters=two(1e4, 100.0, rope_type="linear", factor=4.0), gguf=False, gguf_note="GGUF has no key for the scale of the scores"),
]
