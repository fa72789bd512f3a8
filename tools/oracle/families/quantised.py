"""Quantised files of one wider Llama, with rows of 256, the block of the K types; and of a small Mixtral. The reference computes with
the dequantised weights."""

from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

from case import Case
from quantise import in_turn, layers, mixture
from reference import kv_modulo, uniform_attention

SHAPE = dict(vocab_size=131, hidden_size=256, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=64, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=130,
             eos_token_id=130, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 10000.0})


def quantised(name, shows, quantise, **kw):
    return Case(name=name, family="quantised", config=LlamaConfig, model=LlamaForCausalLM, shows=shows, quantise=quantise,
                flips={"attention uniform": uniform_attention, "kv modulo": kv_modulo}, kwargs={**SHAPE, **kw}, rows=(16,),
                taps=False)


CASES = [
    quantised("q8_0", "Q8_0 throughout", mixture("Q8_0"), num_hidden_layers=1),
    quantised("q4_k_m", "the usual download: Q4_K with Q6_K where llama.cpp wants it; rows of 128 (o_proj) fall back",
              mixture("Q4_K_M"), head_dim=32),
    quantised("classic", "every older type, the K types and the 16-bit floats, one after the other",
              in_turn("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "F16", "BF16", "IQ4_NL",
                      "IQ4_XS", "MXFP4")),
    quantised("codebooks", "every type with a codebook, the ternary ones",
              in_turn("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0",
                      "MXFP4", "Q4_K", "Q2_K", "IQ3_S")),
    Case(name="experts", family="quantised", config=MixtralConfig, model=MixtralForCausalLM,
         shows="gate and up of the experts are of types that want their input in different forms, either way round",
         quantise=layers(ffn_gate_exps=("F16", "Q8_0", "Q4_0", "BF16"), ffn_up_exps=("Q8_0", "F16", "Q8_0", "Q4_1"),
                         ffn_down_exps=("Q8_0", "Q4_0", "F16", "Q8_0")),
         flips={"attention uniform": uniform_attention, "kv modulo": kv_modulo}, rows=(16,), taps=False,
         kwargs=dict(SHAPE, hidden_size=64, intermediate_size=64, num_hidden_layers=4, head_dim=16, num_local_experts=4,
                     num_experts_per_tok=2)),
]
