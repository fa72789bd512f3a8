"""Gemma 3n, text: four residual streams predicted and corrected, a residual of low rank, inputs of each layer, shared caches, sparse gates."""

import torch
from transformers import Gemma3nForCausalLM, Gemma3nTextConfig

from case import Case
from reference import uniform_attention

ROPES = {"full_attention": {"rope_type": "default", "rope_theta": 1000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
PAIR = ["sliding_attention", "full_attention"]
BASE = dict(vocab_size=131, vocab_size_per_layer_input=131, hidden_size=24, intermediate_size=20, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, hidden_size_per_layer_input=8, num_kv_shared_layers=2, laurel_rank=6, max_position_embeddings=128,
            sliding_window=6, layer_types=PAIR * 2, rope_parameters=ROPES, activation_sparsity_pattern=[0.8, 0.8, 0.0, 0.0],
            final_logit_softcapping=3.0, bos_token_id=130, eos_token_id=130, pad_token_id=0, tie_word_embeddings=True)


def calm(case, model, g):
    """Embeddings times sqrt(D) as large as in other families, heads of scale 1 not saturated, coefficients that count, factors off 0."""
    wide = case.kwargs["hidden_size"] ** 0.5
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embed_tokens." in name:
                p.div_(wide)
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                p.mul_(0.5)
            if name.endswith("embed_tokens_per_layer.weight"):
                p.div_(case.kwargs["hidden_size_per_layer_input"] ** 0.5)
            if name.endswith("modality_router.weight"):
                p.mul_(wide)
            if name.endswith(("prediction_coefs.weight", "correction_coefs.weight")):
                p.mul_(0.5)
            if name.endswith("correct_output_scale"):
                p.copy_(0.6 + 0.6 * torch.rand(p.shape, generator=g))


def unscaled(model):
    model.model.embed_tokens.embed_scale.fill_(1.0)


def zeroed(part):
    """A function that zeroes every parameter whose name has this part."""
    def apply(model):
        with torch.no_grad():
            for name, p in model.named_parameters():
                if part in name:
                    p.zero_()
    return apply


def case(name, shows, flips, **kw):
    options = {"init": calm, "plain_vocab": True, "spelling": "v5", "taps": False} | {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="gemma3n", config=Gemma3nTextConfig, model=Gemma3nForCausalLM, shows=shows,
                flips={"attention uniform": uniform_attention, "embedding not scaled": unscaled, **flips}, kwargs={**BASE, **kw}, **options)


CASES = [
    case("streams", "four streams, a residual of low rank, inputs of each layer, caches shared by the last two layers, sparse gates, a cap",
         {"no windows": {"sliding_window": 100}, "no cap": {"final_logit_softcapping": 30.0}, "all gates": {"activation_sparsity_pattern": [0.0] * 4},
          "no prediction": zeroed("prediction_coefs"), "no correction": zeroed("correction_coefs"), "no low rank": zeroed("laurel.linear_right"),
          "no inputs": zeroed("per_layer_projection.weight"), "no own rows": zeroed("embed_tokens_per_layer")},
         rows=(9,)),
    case("third", "three streams, of which layers compute the third; no factors; a table of fewer tokens; BF16",
         {"the first stream": {"altup_active_idx": 0}, "factors": {"altup_correct_scale": True}}, altup_num_inputs=3, altup_active_idx=2,
         altup_correct_scale=False, vocab_size_per_layer_input=70, num_kv_shared_layers=0, activation_sparsity_pattern=[0.0, 0.6, 0.0, 0.6],
         tie_word_embeddings=False, dtype="BF16", rows=(9,), gguf=False, gguf_note="llama.cpp's converter takes four streams only"),
]
