"""MPT: ALiBi, fused q, k, v clamped together, norms without bias, GELU by the error function."""

from transformers import MptConfig, MptForCausalLM

from case import Case

ATTENTION = {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "attn_type": "multihead_attention",
             "attn_uses_sequence_id": False, "clip_qkv": None, "prefix_lm": False, "qk_ln": False, "softmax_scale": None}
BASE = dict(vocab_size=131, d_model=32, n_layers=2, n_heads=4, max_seq_len=48, bos_token_id=130, eos_token_id=130)
ERF = "llama.cpp computes GELU in the tanh form, through a table of halves"


def no_alibi(model):
    """Ignore the distance of keys."""
    build = model.transformer.build_mpt_alibi_tensor
    model.transformer.build_mpt_alibi_tensor = lambda *a, **k: 0 * build(*a, **k)


def clipped(limit):
    """Return a flip: q, k and v clamped at another limit, or not at all."""
    return {"attn_config": {**ATTENTION, "clip_qkv": limit}}


def mpt(name, shows, flips, attention=None, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    config = {**ATTENTION, **(attention or {})}
    return Case(name=name, family="mpt", config=MptConfig, model=MptForCausalLM, shows=shows, flips={"no ALiBi": no_alibi, **flips},
                kwargs={**BASE, **kw, "attn_config": config}, respell={"attn_config": config, "architectures": ["MPTForCausalLM"]},
                **{"gguf_note": ERF, **options})


CASES = [
    mpt("alibi", "ALiBi over four heads, q, k and v one after the other, no biases", {"clamped": clipped(1.0)}, rows=(12,)),
    mpt("clamped", "q, k and v clamped right after the projection, six heads, a scale of its own",
        {"not clamped": clipped(None), "scale": {"attn_config": {**ATTENTION, "clip_qkv": 0.9}}},
        attention={"clip_qkv": 0.9, "softmax_scale": 0.7}, d_model=36, n_heads=6, rows=(12,), gguf=False,
        gguf_note="the converter writes no scale of scores: the file would be another model"),
    mpt("twelve-heads", "twelve heads, clamped", {"not clamped": clipped(None)},
        attention={"clip_qkv": 1.5}, d_model=48, n_heads=12, rows=(20,)),
]
