"""Random configurations of every family for transformers: odd sizes, every switch that changes the mathematics.

Each function returns the keywords of a configuration; FAMILIES maps a name to (function, configuration class, model class)."""

VOCABULARIES = (97, 256, 513, 1003)
POSITIONS = 256


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def often(r, share):
    return r.random() < share


def sizes(r):
    """Return heads, head width, MLP width, layers."""
    return r.choice((2, 3, 4, 6, 8)), r.choice((8, 16, 24, 32)), r.choice((64, 100, 129, 260)), r.choice((1, 2, 3, 4))


def tokens(vocabulary):
    return {"vocab_size": vocabulary, "bos_token_id": 1, "eos_token_id": 2}


def rope(r, head_dim):
    """Return rope parameters with any scaling."""
    kind = r.choice(("default", "default", "linear", "dynamic", "llama3", "yarn", "longrope"))
    trained = r.choice((16, 32, 64))
    p = {"rope_type": kind, "rope_theta": r.choice((10000.0, 500000.0, 1e6, 250.0))}
    if kind in ("linear", "dynamic", "yarn"):
        p["factor"] = r.choice((1.5, 2.0, 4.0))
    if kind in ("llama3", "yarn", "longrope"):
        p["original_max_position_embeddings"] = trained
    if kind == "llama3":
        p |= {"factor": r.choice((2.0, 8.0)), "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if kind == "yarn":
        p |= {"beta_fast": 16.0, "beta_slow": 2.0} if often(r, .3) else {}
        p |= {"attention_factor": 1.3} if often(r, .3) else {}
        p |= {"truncate": False} if often(r, .3) else {}
        p |= {"mscale": .7, "mscale_all_dim": .5} if often(r, .3) else {}
    if kind == "longrope":
        half = head_dim // 2
        p |= {"short_factor": [1 + .05 * i for i in range(half)], "long_factor": [1 + .4 * i for i in range(half)],
              "factor": r.choice((2.0, 4.0))}
    return {"rope_parameters": p}


def plain_rope(r, *shares):
    """Return unscaled rope parameters, for one of the given shares of each head's lanes."""
    p = {"rope_type": "default", "rope_theta": r.choice((10000.0, 500.0, 1e6))}
    share = r.choice(shares) if shares else None
    return {"rope_parameters": p | ({"partial_rotary_factor": share} if share else {})}


def decoder(r, **more):
    """Return the keywords common to the descendants of Llama; `more` replaces them."""
    heads, head_dim, mlp, layers = sizes(r)
    return tokens(r.choice(VOCABULARIES)) | {
        "hidden_size": heads * head_dim, "num_attention_heads": heads, "num_key_value_heads": r.choice(divisors(heads)),
        "num_hidden_layers": layers, "intermediate_size": mlp, "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": often(r, .5), "pad_token_id": 0} | more


def scaled(r, **more):
    """Return a decoder whose heads need not fill its width, with any rotary scaling."""
    head_dim = r.choice((8, 16, 24, 32, 64))
    return decoder(r, hidden_size=r.choice((48, 64, 96, 160, 256)), head_dim=head_dim,
                   rms_norm_eps=r.choice((1e-3, 1e-5, 1e-6)), **rope(r, head_dim), **more)


def gpt(r, **more):
    """Return keywords with GPT-2's names."""
    heads, head_dim, _, layers = sizes(r)
    return tokens(r.choice(VOCABULARIES)) | {"n_embd": heads * head_dim, "n_head": heads, "n_layer": layers,
                                             "n_positions": POSITIONS} | more


# ---- families ----

def llama(r):
    return scaled(r, attention_bias=often(r, .3), mlp_bias=often(r, .3),
                  hidden_act=r.choice(("silu", "gelu", "gelu_new", "relu", "gelu_pytorch_tanh")))


def mistral(r):
    return scaled(r, sliding_window=r.choice((None, 4, 16, 40)))


def mixtral(r):
    return mistral(r) | {"num_local_experts": r.choice((2, 4, 5)), "num_experts_per_tok": r.choice((1, 2))}


def qwen2(r):
    x = decoder(r, use_sliding_window=often(r, .5), sliding_window=8, max_window_layers=r.choice((0, 1, 2)))
    return x | rope(r, x["hidden_size"] // x["num_attention_heads"])


def qwen3(r):
    return scaled(r, attention_bias=often(r, .3))


def granite(r):
    x = decoder(r, embedding_multiplier=3.0, residual_multiplier=.4, attention_multiplier=.11, logits_scaling=4.0,
                attention_bias=often(r, .3))
    return x | rope(r, x["hidden_size"] // x["num_attention_heads"])


def gpt2(r):
    return gpt(r, n_inner=r.choice((None, 60, 131)), activation_function=r.choice(("gelu_new", "gelu", "relu")),
               scale_attn_by_inverse_layer_idx=often(r, .3), scale_attn_weights=often(r, .8),
               tie_word_embeddings=often(r, .7))


def falcon(r):
    heads, head_dim, mlp, layers = sizes(r)
    new = often(r, .4)
    return tokens(r.choice(VOCABULARIES)) | plain_rope(r) | {
        "hidden_size": heads * head_dim, "num_attention_heads": heads, "num_hidden_layers": layers,
        "new_decoder_architecture": new, "multi_query": often(r, .5), "parallel_attn": often(r, .6), "bias": often(r, .4),
        "num_kv_heads": r.choice(divisors(heads)) if new else None,
        "num_ln_in_parallel_attn": r.choice((None, 1, 2)) if new else None,
        "alibi": False, "max_position_embeddings": POSITIONS, "ffn_hidden_size": r.choice((None, mlp))}


def mpt(r):
    heads, head_dim, _, layers = sizes(r)
    return tokens(r.choice(VOCABULARIES)) | {
        "d_model": heads * head_dim, "n_heads": heads, "n_layers": layers, "expansion_ratio": 4, "max_seq_len": POSITIONS,
        "no_bias": True, "attn_config": {"alibi": True, "clip_qkv": r.choice((None, .8, 2.0)),
                                         "softmax_scale": r.choice((None, .2)), "alibi_bias_max": r.choice((4, 8, 16))}}


def gpt_neox(r):
    x = decoder(r, hidden_act=r.choice(("gelu", "gelu_fast", "gelu_new", "relu")), use_parallel_residual=often(r, .6),
                attention_bias=often(r, .7), **plain_rope(r, .25, .5, 1.0))
    x.pop("num_key_value_heads")
    return x


def gptj(r):
    return gpt(r, n_inner=r.choice((None, 129)), rotary_dim=r.choice((4, 8)), tie_word_embeddings=False,
               activation_function=r.choice(("gelu_new", "gelu")))


def gpt_neo(r):
    heads, head_dim, mlp, _ = sizes(r)
    kinds = r.choice(([[["global", "local"], 2]], [[["global"], 1], [["local"], 1]], [[["local"], 2]]))
    return tokens(r.choice(VOCABULARIES)) | {
        "hidden_size": heads * head_dim, "num_heads": heads, "num_layers": sum(len(k) * n for k, n in kinds),
        "attention_types": kinds, "window_size": r.choice((3, 8, 64)), "intermediate_size": r.choice((None, mlp)),
        "max_position_embeddings": POSITIONS, "tie_word_embeddings": often(r, .7)}


def opt(r):
    heads, head_dim, mlp, layers = sizes(r)
    return tokens(r.choice(VOCABULARIES)) | {
        "hidden_size": heads * head_dim, "num_attention_heads": heads, "num_hidden_layers": layers, "ffn_dim": mlp,
        "do_layer_norm_before": often(r, .7), "word_embed_proj_dim": r.choice((heads * head_dim, 24)),
        "enable_bias": often(r, .8), "activation_function": r.choice(("relu", "gelu")),
        "max_position_embeddings": POSITIONS, "tie_word_embeddings": often(r, .7), "_remove_final_layer_norm": often(r, .2)}


def bloom(r):
    heads, head_dim, _, layers = sizes(r)
    return tokens(r.choice(VOCABULARIES)) | {
        "hidden_size": heads * head_dim, "n_head": heads, "n_layer": layers, "layer_norm_epsilon": r.choice((1e-5, 1e-3)),
        "apply_residual_connection_post_layernorm": often(r, .3), "tie_word_embeddings": often(r, .7)}


def gpt_bigcode(r):
    return gpt(r, n_inner=r.choice((None, 129)), multi_query=often(r, .6), scale_attn_weights=often(r, .8),
               activation_function=r.choice(("gelu_pytorch_tanh", "gelu")), tie_word_embeddings=often(r, .7))


def phi(r):
    return decoder(r, layer_norm_eps=r.choice((1e-5, 1e-3)), qk_layernorm=False, **plain_rope(r, .25, .5, 1.0))


def phi3(r):
    return decoder(r, sliding_window=r.choice((None, 5, 20)), **plain_rope(r, None, .5))


def starcoder2(r):
    return decoder(r, use_bias=often(r, .7), sliding_window=r.choice((None, 6, 40)), hidden_act="gelu_pytorch_tanh",
                   **plain_rope(r))


def stablelm(r):
    return decoder(r, use_qkv_bias=often(r, .5), qk_layernorm=often(r, .5), use_parallel_residual=often(r, .4),
                   **plain_rope(r, .25, .5, 1.0))


def cohere(r):
    return decoder(r, logit_scale=r.choice((.0625, .5)), use_qk_norm=often(r, .5), attention_bias=often(r, .3),
                   **plain_rope(r))


def xglm(r):
    heads, head_dim, mlp, layers = sizes(r)
    return tokens(r.choice(VOCABULARIES)) | {
        "d_model": heads * head_dim, "attention_heads": heads, "num_layers": layers, "ffn_dim": mlp,
        "activation_function": r.choice(("gelu", "relu")), "scale_embedding": often(r, .7),
        "max_position_embeddings": POSITIONS, "bos_token_id": 0, "tie_word_embeddings": often(r, .8)}


def ctrl(r):
    return gpt(r, dff=r.choice((64, 129)), tie_word_embeddings=True)


def openai_gpt(r):
    return gpt(r, afn=r.choice(("gelu", "relu", "silu")))


def gemma(r):
    return decoder(r, head_dim=r.choice((8, 16, 32)), tie_word_embeddings=True, **plain_rope(r))


def gemma2(r):
    return gemma(r) | {"sliding_window": r.choice((4, 16, 50)), "query_pre_attn_scalar": r.choice((16, 50)),
                       "attn_logit_softcapping": r.choice((20.0, 50.0, None)),
                       "final_logit_softcapping": r.choice((10.0, 30.0, None))}


def gemma3(r):
    return decoder(r, head_dim=r.choice((8, 16, 32)), tie_word_embeddings=True, sliding_window=r.choice((4, 16, 50)),
                   query_pre_attn_scalar=r.choice((16, 50)))


def olmo2(r):
    return decoder(r, attention_bias=often(r, .3), **plain_rope(r))


def smollm3(r):
    return decoder(r, no_rope_layer_interval=r.choice((2, 4)), attention_bias=often(r, .2), use_sliding_window=False,
                   **plain_rope(r))


def glm(r):
    return decoder(r, head_dim=r.choice((16, 32)), attention_bias=often(r, .5), **plain_rope(r, .5, 1.0))


def ernie(r):
    return decoder(r, head_dim=r.choice((16, 32)), use_bias=often(r, .4), **plain_rope(r))


def experts(r):
    return {"num_experts": r.choice((4, 6)), "num_experts_per_tok": r.choice((1, 2, 3)),
            "moe_intermediate_size": r.choice((40, 64)), "norm_topk_prob": often(r, .5),
            "decoder_sparse_step": r.choice((1, 2)), "mlp_only_layers": r.choice(([], [0]))}


def qwen2_moe(r):
    return decoder(r, shared_expert_intermediate_size=r.choice((48, 80)), **experts(r), **plain_rope(r))


def qwen3_moe(r):
    return decoder(r, head_dim=r.choice((16, 32)), **experts(r), **plain_rope(r))


def granite_moe(r):
    return decoder(r, num_local_experts=r.choice((4, 6)), num_experts_per_tok=r.choice((1, 2, 3)), embedding_multiplier=2.0,
                   residual_multiplier=.5, attention_multiplier=.2, logits_scaling=3.0, **plain_rope(r))


def gpt_oss(r):
    return decoder(r, head_dim=r.choice((16, 32)), num_local_experts=r.choice((4, 6)), num_experts_per_tok=r.choice((1, 2)),
                   sliding_window=r.choice((4, 16)))


def deepseek(r):
    heads = r.choice((2, 4, 6))
    return tokens(r.choice(VOCABULARIES)) | plain_rope(r) | {
        "hidden_size": r.choice((64, 96)), "num_attention_heads": heads, "num_key_value_heads": heads,
        "num_hidden_layers": r.choice((2, 3)), "intermediate_size": r.choice((64, 100)),
        "moe_intermediate_size": r.choice((24, 40)), "n_routed_experts": 8, "num_experts_per_tok": r.choice((2, 3)),
        "n_shared_experts": r.choice((1, 2)), "first_k_dense_replace": r.choice((0, 1)), "q_lora_rank": r.choice((None, 24)),
        "kv_lora_rank": r.choice((16, 40)), "qk_rope_head_dim": r.choice((8, 16)), "qk_nope_head_dim": r.choice((16, 24)),
        "v_head_dim": r.choice((16, 20)), "n_group": r.choice((2, 4)), "topk_group": 2,
        "routed_scaling_factor": r.choice((1.0, 2.5)), "norm_topk_prob": often(r, .5),
        "max_position_embeddings": POSITIONS, "tie_word_embeddings": False}


def deepseek_v2(r):
    return deepseek(r) | {"topk_method": r.choice(("greedy", "group_limited_greedy"))}


# ---- variants with rarely published features ----

def any_rope(family):
    """Return a variant of the family with scaled rotary frequencies, where published models have plain ones."""
    def make(r):
        x = family(r)
        share = x.get("rope_parameters", {}).get("partial_rotary_factor")
        width = x.get("head_dim") or x["hidden_size"] // x["num_attention_heads"]
        return x | {"rope_parameters": rope(r, int(width * (share or 1)))["rope_parameters"]
                    | ({"partial_rotary_factor": share} if share else {})}
    return make


def any_layers(family, **switch):
    """Return a variant of the family with a window in a random subset of the layers."""
    def make(r):
        x = family(r) | {"sliding_window": r.choice((4, 9, 30))} | switch
        kinds = [r.choice(("full_attention", "sliding_attention")) for _ in range(x["num_hidden_layers"])]
        return x | {"layer_types": kinds}
    return make


def cohere2(r):
    x = cohere(r)
    del x["use_qk_norm"]
    return x


def granite_moe_shared(r):
    return granite_moe(r) | {"shared_intermediate_size": r.choice((48, 64))}


def deepseek_yarn(family):
    def make(r):
        return family(r) | {"rope_parameters": {
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16.0,
            "beta_slow": 2.0, "mscale": r.choice((.7, 1.0)), "mscale_all_dim": r.choice((.7, 1.0))}}
    return make


def _causal(stem):
    return stem + "Config", stem + "ForCausalLM"


FAMILIES = {
    "llama": (llama, *_causal("Llama")), "mistral": (mistral, *_causal("Mistral")), "mixtral": (mixtral, *_causal("Mixtral")),
    "qwen2": (qwen2, *_causal("Qwen2")), "qwen3": (qwen3, *_causal("Qwen3")), "granite": (granite, *_causal("Granite")),
    "gpt2": (gpt2, "GPT2Config", "GPT2LMHeadModel"), "falcon": (falcon, *_causal("Falcon")), "mpt": (mpt, *_causal("Mpt")),
    "gpt_neox": (gpt_neox, *_causal("GPTNeoX")), "gptj": (gptj, *_causal("GPTJ")), "gpt_neo": (gpt_neo, *_causal("GPTNeo")),
    "opt": (opt, *_causal("OPT")), "bloom": (bloom, *_causal("Bloom")),
    "gpt_bigcode": (gpt_bigcode, *_causal("GPTBigCode")), "phi": (phi, *_causal("Phi")), "phi3": (phi3, *_causal("Phi3")),
    "starcoder2": (starcoder2, *_causal("Starcoder2")), "stablelm": (stablelm, *_causal("StableLm")),
    "cohere": (cohere, *_causal("Cohere")), "xglm": (xglm, *_causal("XGLM")), "ctrl": (ctrl, "CTRLConfig", "CTRLLMHeadModel"),
    "openai_gpt": (openai_gpt, "OpenAIGPTConfig", "OpenAIGPTLMHeadModel"), "gemma": (gemma, *_causal("Gemma")),
    "gemma2": (gemma2, *_causal("Gemma2")), "gemma3": (gemma3, "Gemma3TextConfig", "Gemma3ForCausalLM"),
    "olmo2": (olmo2, *_causal("Olmo2")), "smollm3": (smollm3, *_causal("SmolLM3")), "glm": (glm, *_causal("Glm")),
    "glm4": (glm, *_causal("Glm4")), "ernie": (ernie, *_causal("Ernie4_5")), "qwen2_moe": (qwen2_moe, *_causal("Qwen2Moe")),
    "qwen3_moe": (qwen3_moe, *_causal("Qwen3Moe")), "granite_moe": (granite_moe, *_causal("GraniteMoe")),
    "gpt_oss": (gpt_oss, *_causal("GptOss")), "deepseek_v2": (deepseek_v2, *_causal("DeepseekV2")),
    "deepseek_v3": (deepseek, *_causal("DeepseekV3")),
    "cohere2": (any_layers(cohere2), *_causal("Cohere2")),
    "granite_moe_shared": (granite_moe_shared, *_causal("GraniteMoeShared")),
}

SCALED = ("gpt_neox", "phi", "starcoder2", "stablelm", "cohere", "gemma", "gemma2", "olmo2", "glm", "glm4", "ernie", "qwen2_moe",
          "qwen3_moe", "granite_moe", "gpt_oss", "smollm3")
FAMILIES |= {f"{name}+rope": (any_rope(FAMILIES[name][0]), *FAMILIES[name][1:]) for name in SCALED}
FAMILIES |= {f"{name}+layers": (any_layers(FAMILIES[name][0]), *FAMILIES[name][1:]) for name in ("gemma2", "gpt_oss")}
FAMILIES |= {f"{name}+layers": (any_layers(FAMILIES[name][0], use_sliding_window=True), *FAMILIES[name][1:])
             for name in ("qwen2", "qwen3", "qwen2_moe", "smollm3")}
FAMILIES |= {f"{name}+yarn": (deepseek_yarn(FAMILIES[name][0]), *FAMILIES[name][1:]) for name in ("deepseek_v2", "deepseek_v3")}
