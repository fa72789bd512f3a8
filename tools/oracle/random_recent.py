"""Random configurations of the families of 2025 and 2026 for transformers, in the form of random_configs.py."""
from random_configs import _causal, decoder, often, plain_rope, rope, scaled, tokens, POSITIONS, VOCABULARIES

FULL, WINDOW, STATE = "full_attention", "sliding_attention", "linear_attention"


def drawn(r, n, *kinds):
    """Return a kind for each of n layers, all of `kinds` among them if n allows it."""
    some = list(kinds[:n]) + [r.choice(kinds) for _ in range(n - len(kinds))]
    r.shuffle(some)
    return some


def windows(r, x, *widths):
    """Add a window in random layers."""
    return x | {"sliding_window": r.choice(widths or (4, 9, 40)), "layer_types": drawn(r, x["num_hidden_layers"], FULL, WINDOW)}


def corrected(r, x):
    """Add groups of experts chosen by corrected sigmoids, with DeepSeek's names, and plain MLPs in the first layers."""
    groups, per_group = r.choice(((1, 6), (2, 4), (4, 2)))
    return x | {"n_routed_experts": groups * per_group, "num_experts_per_tok": r.choice((1, 2)), "n_group": groups,
                "topk_group": r.choice([g for g in (1, 2) if g <= groups]), "n_shared_experts": r.choice((1, 2)),
                "routed_scaling_factor": r.choice((1.0, 2.5)), "norm_topk_prob": often(r, .6), "moe_intermediate_size": r.choice((24, 40)),
                "first_k_dense_replace": r.choice((0, 1))}


# ---- attention alone ----

def exaone4(r):
    x = scaled(r)
    return windows(r, x) if often(r, .6) else x | {"sliding_window": None, "layer_types": [FULL] * x["num_hidden_layers"]}


def seed_oss(r):
    return scaled(r, attention_bias=often(r, .7), attention_out_bias=often(r, .3), mlp_bias=often(r, .3))


def olmo(r):
    return decoder(r, clip_qkv=r.choice((None, .6)), attention_bias=often(r, .3), **plain_rope(r))


def olmo3(r):
    return windows(r, decoder(r, attention_bias=often(r, .3), **plain_rope(r)))


def arcee(r):
    return scaled(r, attention_bias=often(r, .3), mlp_bias=often(r, .3))


def nemotron(r):
    return decoder(r, attention_bias=often(r, .3), mlp_bias=often(r, .3), norm_eps=r.choice((1e-5, 1e-3)), **plain_rope(r, .25, .5, 1.0))


def hunyuan(r):
    x = decoder(r, head_dim=r.choice((8, 16, 24)), attention_bias=often(r, .3))
    if often(r, .5):
        return x | plain_rope(r)
    return x | {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": r.choice((50.0, 1000.0)), "factor": 1.0}}


def apertus(r):
    return scaled(r, attention_bias=often(r, .3))


def ministral3(r):
    x = decoder(r, head_dim=r.choice((8, 16, 24)))
    return x | {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": r.choice((2.0, 16.0)),
                                    "original_max_position_embeddings": r.choice((8, 32)), "beta_fast": 32.0, "beta_slow": 1.0,
                                    "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": r.choice((0.0, .1, .4))}}


def nanochat(r):
    x = decoder(r, tie_word_embeddings=False, final_logit_softcapping=r.choice((15.0, 4.0)), **plain_rope(r))
    return x


def granite_swa(r):
    x = decoder(r, embedding_multiplier=3.0, residual_multiplier=.4, attention_multiplier=.11, logits_scaling=4.0)
    return windows(r, x | plain_rope(r))


def minicpm3(r):
    heads = r.choice((2, 4, 6))
    return tokens(r.choice(VOCABULARIES)) | plain_rope(r) | {
        "hidden_size": r.choice((64, 96)), "num_attention_heads": heads, "num_key_value_heads": heads, "num_hidden_layers": r.choice((1, 2, 3)),
        "intermediate_size": r.choice((64, 100)), "q_lora_rank": 24, "kv_lora_rank": r.choice((16, 40)), "qk_rope_head_dim": r.choice((8, 16)),
        "qk_nope_head_dim": r.choice((16, 24)), "v_head_dim": r.choice((16, 20)), "max_position_embeddings": POSITIONS}


def gemma4(r):
    layers = r.choice((2, 3, 5))
    heads, kv = r.choice(((2, 1), (4, 2), (4, 4)))
    kinds = drawn(r, layers - 1, WINDOW, FULL) + [FULL]
    inputs = r.choice((0, 0, 8))
    shared = r.choice((0, 1)) if inputs and FULL in kinds[:-1] else 0
    x = tokens(r.choice(VOCABULARIES)) | {
        "hidden_size": r.choice((32, 48)), "intermediate_size": r.choice((64, 100)), "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv, "head_dim": r.choice((8, 16)), "layer_types": kinds, "sliding_window": r.choice((4, 16, 50)),
        "final_logit_softcapping": r.choice((None, 10.0)), "hidden_size_per_layer_input": inputs, "num_kv_shared_layers": shared,
        "max_position_embeddings": POSITIONS, "pad_token_id": 0, "rope_parameters": {
            FULL: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": r.choice((.25, .5, 1.0))},
            WINDOW: {"rope_type": "default", "rope_theta": 1e4}}}
    x |= {"global_head_dim": r.choice((x["head_dim"], 32)), "attention_k_eq_v": not inputs and often(r, .4)}
    x |= {"vocab_size_per_layer_input": x["vocab_size"], "use_double_wide_mlp": shared > 0 and often(r, .5)}
    if not inputs and often(r, .5):
        x |= {"enable_moe_block": True, "num_experts": 6, "top_k_experts": r.choice((1, 2)), "moe_intermediate_size": r.choice((24, 40))}
    return x


def gemma3n(r):
    layers, streams, (heads, kv), vocabulary = r.choice((2, 4, 5)), r.choice((2, 3, 4)), r.choice(((2, 1), (4, 2))), r.choice(VOCABULARIES)
    shared = r.choice((0, 1, 2)) if layers > 2 else 0
    own = [WINDOW, FULL] + [r.choice((WINDOW, FULL)) for _ in range(layers - shared - 2)]
    return tokens(vocabulary) | {
        "hidden_size": r.choice((32, 48)), "intermediate_size": r.choice((64, 100)), "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv, "head_dim": r.choice((8, 16)), "layer_types": own + [r.choice((WINDOW, FULL)) for _ in range(shared)],
        "sliding_window": r.choice((4, 16, 50)), "hidden_size_per_layer_input": r.choice((8, 16)), "num_kv_shared_layers": shared,
        "vocab_size_per_layer_input": r.choice((vocabulary, vocabulary - 20)), "laurel_rank": r.choice((4, 10)), "altup_num_inputs": streams,
        "altup_active_idx": r.randrange(streams), "altup_correct_scale": often(r, .5), "final_logit_softcapping": r.choice((5.0, 10.0)),
        "activation_sparsity_pattern": [r.choice((0.0, .6, .95)) for _ in range(layers)], "max_position_embeddings": POSITIONS, "pad_token_id": 0,
        "tie_word_embeddings": often(r, .5), "rope_parameters": {FULL: {"rope_type": "default", "rope_theta": 1e5},
                                                                  WINDOW: {"rope_type": "default", "rope_theta": 1e3}}}


def whole_heads(r, x):
    """Make the width a multiple of the number of heads, as some classes require."""
    return x | {"hidden_size": x["num_attention_heads"] * r.choice((8, 12, 24))}


def ministral(r):
    return windows(r, decoder(r, head_dim=r.choice((8, 16, 24)), **plain_rope(r)))


def cwm(r):
    x = windows(r, whole_heads(r, scaled(r, mlp_bias=often(r, .3))))
    return x if often(r, .7) else {k: v for k, v in x.items() if k != "layer_types"}


def helium(r):
    x = scaled(r, attention_bias=often(r, .3), mlp_bias=often(r, .3))
    return x | {"rms_norm_eps": r.choice((1e-8, 1e-3)), "hidden_size": x["head_dim"] * x["num_attention_heads"]}


def llama_biases(r):
    biased = often(r, .4)
    return whole_heads(r, scaled(r, attention_bias=biased, mlp_bias=biased))


def jais2(r):
    x = whole_heads(r, scaled(r, attention_bias=often(r, .6), mlp_bias=often(r, .6)))
    eps = x.pop("rms_norm_eps")
    return x | {"layer_norm_eps": eps}


def vaultgemma(r):
    x = windows(r, decoder(r, head_dim=r.choice((8, 16)), attention_bias=often(r, .3), query_pre_attn_scalar=r.choice((8, 20)), **plain_rope(r)))
    return x | {"attn_logit_softcapping": r.choice((None, 5.0)), "final_logit_softcapping": r.choice((None, 4.0)), "pad_token_id": 0}


# ---- experts ----

def olmoe(r):
    return decoder(r, num_experts=r.choice((4, 6)), num_experts_per_tok=r.choice((1, 3)), norm_topk_prob=often(r, .5),
                   clip_qkv=r.choice((None, .8)), attention_bias=often(r, .3), **plain_rope(r))


def flex_olmo(r):
    """Two experts at least: the norm behind the mixture cancels the weight of a single one, whose gradient is then rounding."""
    return decoder(r, num_experts=r.choice((4, 6)), num_experts_per_tok=r.choice((2, 3)), norm_topk_prob=often(r, .5), attention_bias=often(r, .3),
                   rms_norm_eps=r.choice((1e-5, 1e-1)), **plain_rope(r))


def axk1(r):
    x = latent(r)
    first = min(x.pop("first_k_dense_replace"), x["num_hidden_layers"])
    return x | {"q_lora_rank": r.choice((12, 24)), "attention_bias": often(r, .3), "rope_interleave": often(r, .6),
                "mlp_layer_types": ["dense"] * first + drawn(r, x["num_hidden_layers"] - first, "sparse", "dense"), **plain_rope(r)}


def phimoe(r):
    x = decoder(r, head_dim=8, num_local_experts=r.choice((3, 6)), num_experts_per_tok=2, router_jitter_noise=r.choice((0.0, .01, .1, .3)),
                attention_bias=often(r, .5), lm_head_bias=often(r, .5), rms_norm_eps=r.choice((1e-5, 1e-3)), sliding_window=r.choice((None, None, 9)))
    mscale = r.choice((1.0, 1.24))
    long = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 16, "short_mscale": mscale, "long_mscale": mscale,
            "short_factor": [1.0, 1.1, 1.3, 1.6], "long_factor": [1.0, 2.0, 3.0, 5.0]}
    return x | plain_rope(r) if often(r, .6) else x | {"rope_parameters": long}


def glm4_moe(r):
    return corrected(r, decoder(r, head_dim=r.choice((8, 16)), attention_bias=often(r, .5), use_qk_norm=often(r, .5), **plain_rope(r, .5, 1.0)))


def exaone_moe(r):
    x = corrected(r, windows(r, decoder(r, head_dim=r.choice((8, 16)), **plain_rope(r))))
    x["num_experts"], x["num_shared_experts"] = x.pop("n_routed_experts"), x.pop("n_shared_experts")
    first = min(x.pop("first_k_dense_replace"), x["num_hidden_layers"])
    return x | {"mlp_layer_types": ["dense"] * first + ["sparse"] * (x["num_hidden_layers"] - first)}


def dots1(r):
    x = corrected(r, decoder(r, head_dim=r.choice((8, 16)), attention_bias=often(r, .3), **plain_rope(r)))
    return windows(r, x) if often(r, .5) else x


def minimax_m2(r):
    return decoder(r, head_dim=r.choice((8, 16)), num_local_experts=r.choice((4, 6)), num_experts_per_tok=r.choice((1, 2)),
                   **plain_rope(r, .5, 1.0))


def deepseek_v4(r):
    """Layers of all kinds of attention; heads of the indexer enough that hardly an entry has a score of 0 by all."""
    x = decoder(r, num_key_value_heads=1)
    n, heads, width = x["num_hidden_layers"], x["num_attention_heads"], r.choice((8, 16, 32))
    x = {k: v for k, v in x.items() if k != "intermediate_size"}
    return x | {
        "hidden_size": r.choice((24, 48, 64)), "head_dim": width, "q_lora_rank": r.choice((12, 24)), "moe_intermediate_size": r.choice((8, 20)),
        "n_routed_experts": r.choice((4, 6)), "num_experts_per_tok": r.choice((1, 2)), "n_shared_experts": 1, "routed_scaling_factor": r.choice((1.0, 2.5)),
        "layer_types": drawn(r, n, "compressed_sparse_attention", WINDOW, "heavily_compressed_attention"),
        "mlp_layer_types": drawn(r, n, "moe", "hash_moe"), "sliding_window": r.choice((3, 8, 40)), "swiglu_limit": r.choice((.8, 10.0)),
        "compress_rates": {"compressed_sparse_attention": r.choice((1, 3, 4, 7)), "heavily_compressed_attention": r.choice((2, 5, 16, 70))},
        "compress_rope_theta": r.choice((500.0, 160000.0)), "rope_theta": r.choice((500.0, 10000.0)), "partial_rotary_factor": r.choice((.25, .5, 1.0)),
        "o_groups": r.choice([d for d in (1, 2, heads) if heads % d == 0]), "o_lora_rank": r.choice((8, 20)), "hc_mult": r.choice((1, 2, 4)),
        "hc_sinkhorn_iters": r.choice((1, 3, 20)), "hc_eps": r.choice((1e-6, 1e-3)), "rms_norm_eps": r.choice((1e-6, 1e-3)),
        "index_n_heads": 16, "index_head_dim": r.choice((32, 48)), "index_topk": r.choice((1, 4, 9, 100))}


def hunyuan_moe(r):
    return hunyuan(r) | {"num_experts": r.choice((4, 5)), "moe_topk": r.choice((1, 2))}


def hy_v3(r):
    x = decoder(r, head_dim=r.choice((8, 16)), attention_bias=often(r, .3), mlp_bias=often(r, .3), **plain_rope(r))
    return x | {"num_experts": 6, "num_experts_per_tok": r.choice((1, 2)), "num_shared_experts": r.choice((1, 2)),
                "moe_intermediate_size": 24, "router_scaling_factor": r.choice((1.0, 1.8)),
                "mlp_layer_types": drawn(r, x["num_hidden_layers"], "sparse", "dense")}


def ernie_moe(r):
    return decoder(r, use_bias=often(r, .4), moe_num_experts=6, moe_k=r.choice((1, 2)), moe_num_shared_experts=r.choice((0, 1, 2)),
                   moe_intermediate_size=r.choice((24, 40)), moe_layer_start_index=r.choice((0, 1)), moe_layer_interval=r.choice((1, 2)),
                   num_hidden_layers=r.choice((2, 3, 4)), **plain_rope(r))


def llama4(r):
    layers = r.choice((2, 3, 4))
    return decoder(r, head_dim=r.choice((8, 16)), num_hidden_layers=layers, intermediate_size_mlp=r.choice((64, 100)),
                   num_local_experts=r.choice((2, 4)), num_experts_per_tok=1, interleave_moe_layer_step=r.choice((1, 2)),
                   use_qk_norm=often(r, .5), attention_chunk_size=r.choice((8, 32, 100)), no_rope_layers=[r.choice((0, 1)) for _ in range(layers)],
                   attn_temperature_tuning=often(r, .6), floor_scale=r.choice((4, 64)), attn_scale=.3,
                   attention_bias=often(r, .3), **plain_rope(r))


def afmoe(r):
    x = windows(r, decoder(r, head_dim=r.choice((8, 16)), attention_bias=often(r, .3), mup_enabled=often(r, .5), **plain_rope(r)))
    return x | {"moe_intermediate_size": 24, "num_experts": r.choice((4, 6)), "num_experts_per_tok": r.choice((1, 2)), "route_scale": r.choice((1.0, 1.8)),
                "num_shared_experts": r.choice((1, 2)), "num_dense_layers": r.choice((0, 1))}


def laguna(r):
    x = windows(r, decoder(r, head_dim=r.choice((8, 16)), attention_bias=often(r, .3), num_key_value_heads=1))
    return x | {"moe_intermediate_size": 24, "num_experts": r.choice((4, 6)), "num_experts_per_tok": r.choice((1, 2)), "gating": r.choice(("per-head", "per-element")),
                "shared_expert_intermediate_size": r.choice((16, 40)), "moe_routed_scaling_factor": r.choice((1.0, 2.5)),
                "moe_router_logit_softcapping": r.choice((0.0, .7)), "mlp_layer_types": drawn(r, x["num_hidden_layers"], "sparse", "dense"),
                "num_attention_heads_per_layer": [x["num_attention_heads"] * (1 + (k == WINDOW)) for k in x["layer_types"]],
                "rope_parameters": {k: {"rope_type": "default", "rope_theta": t, "partial_rotary_factor": r.choice((.5, 1.0))}
                                    for k, t in ((FULL, 1e5), (WINDOW, 1e3))}}


def cohere2_moe(r):
    x = windows(r, decoder(r, head_dim=r.choice((8, 16)), attention_bias=often(r, .3), logit_scale=r.choice((.25, 1.0)), **plain_rope(r)))
    return x | {"num_experts": r.choice((4, 6)), "num_experts_per_tok": r.choice((1, 2)), "num_shared_experts": r.choice((0, 1, 2)),
                "prefix_dense_intermediate_size": 48, "expert_selection_fn": r.choice(("softmax", "sigmoid")), "norm_topk_prob": often(r, .5),
                "shared_expert_combination_strategy": r.choice(("average", "sum")), "rms_norm_eps": r.choice((None, 1e-5)),
                "mlp_layer_types": drawn(r, x["num_hidden_layers"], "sparse", "dense")}


def mimo(r):
    x = windows(r, decoder(r, head_dim=r.choice((12, 16)), v_head_dim=r.choice((8, 16, 20)), attention_bias=often(r, .3), num_key_value_heads=1,
                           num_attention_heads=r.choice((2, 4))))
    groups, per_group = r.choice(((1, 6), (2, 4)))
    return x | {"moe_intermediate_size": 24, "n_routed_experts": groups * per_group, "n_group": groups, "topk_group": 1, "num_experts_per_tok": r.choice((1, 2)),
                "norm_topk_prob": often(r, .6), "routed_scaling_factor": r.choice((1.0, 1.5)), "attention_value_scale": r.choice((None, .7)),
                "mlp_layer_types": drawn(r, x["num_hidden_layers"], "sparse", "dense"),
                "rope_parameters": {k: {"rope_type": "default", "rope_theta": t, "partial_rotary_factor": r.choice((.5, 1.0))}
                                    for k, t in ((FULL, 1e5), (WINDOW, 1e3))}}


def granitemoe_swa(r):
    return granite_swa(r) | {"num_local_experts": r.choice((4, 6)), "num_experts_per_tok": r.choice((1, 2)), "shared_intermediate_size": r.choice((0, 40))}


def latent(r):
    heads = r.choice((2, 4, 6))
    x = {"hidden_size": r.choice((64, 96)), "num_attention_heads": heads, "num_key_value_heads": heads, "num_hidden_layers": r.choice((2, 3)),
         "intermediate_size": r.choice((64, 100)), "q_lora_rank": r.choice((None, 24)), "kv_lora_rank": r.choice((16, 40)),
         "qk_rope_head_dim": r.choice((8, 16)), "qk_nope_head_dim": r.choice((16, 24)), "v_head_dim": r.choice((16, 20)),
         "max_position_embeddings": POSITIONS, "tie_word_embeddings": False}
    return corrected(r, tokens(r.choice(VOCABULARIES)) | x)


def mistral4(r):
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": r.choice((0.0, .2))}
    return latent(r) | {"q_lora_rank": 24, "rope_parameters": yarn}


def sparse(r):
    x = latent(r) | plain_rope(r)
    return x | {"q_lora_rank": r.choice((12, 24)), "index_n_heads": 16, "index_head_dim": r.choice((16, 24)), "index_topk": r.choice((5, 16, 64))}


# ---- layers with a state ----

def delta(r, x):
    keys, each = r.choice(((1, 2), (2, 1), (2, 3))), r.choice((8, 12))
    return x | {"linear_conv_kernel_dim": r.choice((3, 4)), "linear_key_head_dim": each, "linear_value_head_dim": r.choice((8, 20)),
                "linear_num_key_heads": keys[0], "linear_num_value_heads": keys[0] * keys[1],
                "layer_types": drawn(r, x["num_hidden_layers"], STATE, FULL)}


def qwen3_next(r):
    x = delta(r, decoder(r, head_dim=r.choice((8, 16)), attention_bias=often(r, .3), num_hidden_layers=r.choice((2, 3, 4)), **plain_rope(r, .25, .5)))
    return x | {"num_experts": 6, "num_experts_per_tok": r.choice((1, 3)), "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40,
                "norm_topk_prob": often(r, .5), "mlp_only_layers": r.choice(([], [0]))}


def qwen3_5(r):
    return delta(r, decoder(r, head_dim=r.choice((8, 16)), attention_bias=often(r, .3), num_hidden_layers=r.choice((2, 3, 4)), **plain_rope(r, .25, .5)))


def qwen3_5_moe(r):
    x = qwen3_5(r)
    del x["intermediate_size"]
    return x | {"num_experts": 6, "num_experts_per_tok": r.choice((1, 3)), "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40}


def lfm2(r):
    x = decoder(r, conv_bias=often(r, .4), conv_L_cache=r.choice((3, 5)), num_hidden_layers=r.choice((2, 3, 5)), norm_eps=r.choice((1e-5, 1e-3)), **plain_rope(r))
    return x | {"block_auto_adjust_ff_dim": often(r, .4), "block_multiple_of": 8, "layer_types": drawn(r, x["num_hidden_layers"], "conv", FULL)}


def lfm2_moe(r):
    x = lfm2(r)
    del x["block_auto_adjust_ff_dim"], x["block_multiple_of"]
    return x | {"moe_intermediate_size": 24, "num_experts": 6, "num_experts_per_tok": r.choice((1, 2)), "num_dense_layers": r.choice((0, 1)),
                "norm_topk_prob": often(r, .5), "use_expert_bias": often(r, .6), "routed_scaling_factor": r.choice((1.0, 2.0))}


def scan(r):
    return tokens(r.choice(VOCABULARIES)) | {
        "hidden_size": r.choice((32, 48)), "num_hidden_layers": r.choice((1, 2, 3)), "state_size": r.choice((4, 12, 16)), "expand": r.choice((1, 2, 3)),
        "conv_kernel": r.choice((3, 4)), "use_bias": often(r, .3), "use_conv_bias": often(r, .6), "tie_word_embeddings": often(r, .5),
        "time_step_rank": r.choice(("auto", 5))}


def mamba2(r):
    heads, width = r.choice(((2, 16), (4, 8), (6, 16)))
    return tokens(r.choice(VOCABULARIES)) | {
        "hidden_size": heads * width // 2, "num_heads": heads, "head_dim": width, "expand": 2, "num_hidden_layers": r.choice((1, 2, 3)),
        "state_size": r.choice((8, 16)), "n_groups": r.choice([g for g in (1, 2) if heads % g == 0]), "conv_kernel": r.choice((3, 4)),
        "use_bias": often(r, .3), "use_conv_bias": often(r, .6), "tie_word_embeddings": often(r, .5), "chunk_size": 16, "pad_token_id": 0}


def jamba(r):
    return decoder(r, num_hidden_layers=4, attn_layer_period=r.choice((2, 4)), attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=r.choice((0, 1)),
                   num_experts=r.choice((1, 4)), num_experts_per_tok=1, mamba_d_state=r.choice((8, 16)), mamba_d_conv=r.choice((3, 4)), mamba_expand=2,
                   mamba_dt_rank=r.choice(("auto", 6)), mamba_conv_bias=often(r, .6), mamba_proj_bias=often(r, .3), use_mamba_kernels=False)


def mixer(r, hidden, ratio=2):
    """Return the sizes of Mamba-2 mixers of a width, with the names of Bamba and Granite."""
    heads = r.choice([h for h in (2, 4, 8) if hidden * ratio % h == 0])
    return {"mamba_n_heads": heads, "mamba_d_head": hidden * ratio // heads, "mamba_d_state": r.choice((8, 16)), "mamba_n_groups": r.choice((1, 2)),
            "mamba_d_conv": r.choice((3, 4)), "mamba_expand": ratio, "mamba_conv_bias": often(r, .6), "mamba_proj_bias": often(r, .3), "mamba_chunk_size": 16}


def granite_hybrid(r):
    x = decoder(r, num_hidden_layers=r.choice((2, 3)), embedding_multiplier=2.0, residual_multiplier=.5, attention_multiplier=.2, logits_scaling=3.0,
                num_local_experts=r.choice((0, 4)), num_experts_per_tok=2, shared_intermediate_size=r.choice((48, 64)),
                position_embedding_type=r.choice(("rope", "nope", None)))
    if not x["num_local_experts"]:
        x["num_experts_per_tok"] = 0
    return x | mixer(r, x["hidden_size"]) | {"layer_types": drawn(r, x["num_hidden_layers"], "mamba", "attention")}


def falcon_h1(r):
    x = decoder(r, num_hidden_layers=r.choice((1, 2)), head_dim=r.choice((8, 16)), mamba_rms_norm=often(r, .5), projectors_bias=often(r, .3),
                embedding_multiplier=2.0, lm_head_multiplier=.5, key_multiplier=.7, attention_in_multiplier=1.2, attention_out_multiplier=.8,
                ssm_in_multiplier=.9, ssm_out_multiplier=1.1, mlp_multipliers=[.9, .6], ssm_multipliers=[.5, 1.5, .7, 1.2, .8], **plain_rope(r))
    m = mixer(r, x["hidden_size"])
    return x | m | {"mamba_d_ssm": m["mamba_n_heads"] * m["mamba_d_head"], "mamba_norm_before_gate": often(r, .5)}


def nemotron_h(r):
    layers = r.choice((3, 4))
    x = decoder(r, head_dim=r.choice((8, 16)), num_hidden_layers=layers, mamba_num_heads=4, mamba_head_dim=r.choice((8, 16)), ssm_state_size=r.choice((8, 16)),
                n_groups=r.choice((1, 2)), conv_kernel=4, use_conv_bias=often(r, .6), use_bias=often(r, .3), mlp_bias=often(r, .3), attention_bias=often(r, .3),
                chunk_size=16, layer_norm_epsilon=1e-5)
    x["hybrid_override_pattern"] = "".join(drawn(r, layers, "M", "*", "-"))
    return x


def recurrent_gemma(r):
    heads, width = r.choice(((2, 16), (4, 8)))
    return tokens(r.choice(VOCABULARIES)) | {
        "hidden_size": heads * width, "lru_width": r.choice((heads * width, 2 * heads * width)), "num_attention_heads": heads,
        "num_key_value_heads": r.choice((1, heads)), "num_hidden_layers": r.choice((2, 3, 4)), "intermediate_size": r.choice((64, 128)),
        "attention_window_size": r.choice((6, 40)), "conv1d_width": r.choice((3, 4)), "block_types": ["recurrent", "recurrent", "attention"],
        "attention_bias": often(r, .3), "w_init_variance_scale": .01, "pad_token_id": 0}


def bitnet(r):
    """Where a row's rounding falls the other way, logits move by up to some percent: float32 and float64 of transformers differ so in a fifth of these."""
    x = decoder(r, attention_bias=often(r, .3), rms_norm_eps=r.choice((1e-5, 1e-3)), **plain_rope(r))
    online = {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}
    return x | ({"quantization_config": online} if often(r, .7) else {})


RECENT = {
    "exaone4": (exaone4, *_causal("Exaone4")), "seed_oss": (seed_oss, *_causal("SeedOss")), "olmo": (olmo, *_causal("Olmo")),
    "olmo3": (olmo3, *_causal("Olmo3")), "arcee": (arcee, *_causal("Arcee")), "nemotron": (nemotron, *_causal("Nemotron")),
    "hunyuan": (hunyuan, *_causal("HunYuanDenseV1")), "apertus": (apertus, *_causal("Apertus")), "ministral3": (ministral3, *_causal("Ministral3")),
    "nanochat": (nanochat, *_causal("NanoChat")), "granite_swa": (granite_swa, *_causal("GraniteSWA")), "minicpm3": (minicpm3, *_causal("MiniCPM3")),
    "gemma4": (gemma4, "Gemma4TextConfig", "Gemma4ForCausalLM"), "olmoe": (olmoe, *_causal("Olmoe")), "glm4_moe": (glm4_moe, *_causal("Glm4Moe")),
    "exaone_moe": (exaone_moe, *_causal("ExaoneMoe")), "dots1": (dots1, *_causal("Dots1")), "minimax_m2": (minimax_m2, *_causal("MiniMaxM2")),
    "hunyuan_moe": (hunyuan_moe, *_causal("HunYuanMoEV1")), "hy_v3": (hy_v3, *_causal("HYV3")), "ernie_moe": (ernie_moe, *_causal("Ernie4_5_Moe")),
    "llama4": (llama4, "Llama4TextConfig", "Llama4ForCausalLM"), "glm4_moe_lite": (latent, *_causal("Glm4MoeLite")),
    "mistral4": (mistral4, *_causal("Mistral4")), "deepseek_v32": (sparse, *_causal("DeepseekV32")), "glm_moe_dsa": (sparse, *_causal("GlmMoeDsa")),
    "qwen3_next": (qwen3_next, *_causal("Qwen3Next")), "qwen3_5": (qwen3_5, "Qwen3_5TextConfig", "Qwen3_5ForCausalLM"),
    "qwen3_5_moe": (qwen3_5_moe, "Qwen3_5MoeTextConfig", "Qwen3_5MoeForCausalLM"), "lfm2": (lfm2, *_causal("Lfm2")),
    "lfm2_moe": (lfm2_moe, *_causal("Lfm2Moe")), "mamba": (scan, *_causal("Mamba")), "falcon_mamba": (scan, *_causal("FalconMamba")),
    "mamba2": (mamba2, *_causal("Mamba2")), "jamba": (jamba, *_causal("Jamba")), "granite_hybrid": (granite_hybrid, *_causal("GraniteMoeHybrid")),
    "falcon_h1": (falcon_h1, *_causal("FalconH1")), "nemotron_h": (nemotron_h, *_causal("NemotronH")),
    "gemma3n": (gemma3n, "Gemma3nTextConfig", "Gemma3nForCausalLM"), "afmoe": (afmoe, *_causal("Afmoe")), "laguna": (laguna, *_causal("Laguna")), "cohere2_moe": (cohere2_moe, *_causal("Cohere2Moe")),
    "mimo": (mimo, *_causal("MiMoV2Flash")), "granitemoe_swa": (granitemoe_swa, *_causal("GraniteMoeSWA")),
    "ministral": (ministral, *_causal("Ministral")), "cwm": (cwm, *_causal("Cwm")), "helium": (helium, *_causal("Helium")),
    "internlm3": (llama_biases, "InternLM3Config", "LlamaForCausalLM"), "iquestcoder": (llama_biases, "IQuestCoderConfig", "LlamaForCausalLM"),
    "jais2": (jais2, *_causal("Jais2")), "vaultgemma": (vaultgemma, *_causal("VaultGemma")),
    "deepseek_v4": (deepseek_v4, *_causal("DeepseekV4")),
    "flex_olmo": (flex_olmo, *_causal("FlexOlmo")), "axk1": (axk1, *_causal("AXK1")),
    "phimoe": (phimoe, *_causal("Phimoe")), "bitnet": (bitnet, *_causal("BitNet")),
    "recurrent_gemma": (recurrent_gemma, *_causal("RecurrentGemma")),
}
