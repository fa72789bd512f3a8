"""Well-formed containers of impossible models: GGUF files, and folders with a config.json."""
import json
import struct

from gguf_files import ARR, BOOL, F32, I32, STR, T_F32, U32, array, gguf, kv, string, tensor, u32
from safetensors_files import st

ABSENT = object()


def model(keys=None, tensors=None, extra=()):
    """A whole small Llama (2 heads of 2, 1 layer, 6 tokens) with some keys or tensors replaced, removed or added."""
    k = {
        "general.architecture": (STR, string("llama")),
        "llama.block_count": (U32, u32(1)),
        "llama.context_length": (U32, u32(16)),
        "llama.embedding_length": (U32, u32(4)),
        "llama.feed_forward_length": (U32, u32(4)),
        "llama.attention.head_count": (U32, u32(2)),
        "llama.attention.head_count_kv": (U32, u32(1)),
        "llama.attention.layer_norm_rms_epsilon": (F32, struct.pack("<f", 1e-5)),
        "llama.rope.dimension_count": (U32, u32(2)),
        "llama.rope.freq_base": (F32, struct.pack("<f", 1e4)),
        "tokenizer.ggml.model": (STR, string("llama")),
        "tokenizer.ggml.tokens": (ARR, strings(TOKENS)),
        "tokenizer.ggml.scores": (ARR, array(F32, 6, struct.pack("<6f", *range(6)))),
        "tokenizer.ggml.token_type": (ARR, array(I32, 6, struct.pack("<6i", 2, 3, 3, 6, 1, 1))),
        "tokenizer.ggml.bos_token_id": (U32, u32(1)),
        "tokenizer.ggml.eos_token_id": (U32, u32(2)),
    }
    t = {
        "token_embd.weight": (4, 6), "output_norm.weight": (4,), "output.weight": (4, 6), "blk.0.attn_norm.weight": (4,),
        "blk.0.attn_q.weight": (4, 4), "blk.0.attn_k.weight": (4, 2), "blk.0.attn_v.weight": (4, 2),
        "blk.0.attn_output.weight": (4, 4), "blk.0.ffn_norm.weight": (4,), "blk.0.ffn_gate.weight": (4, 4),
        "blk.0.ffn_up.weight": (4, 4), "blk.0.ffn_down.weight": (4, 4),
    }
    k.update(keys or {})
    t.update(tensors or {})
    t.update(extra)
    entries, at = [], 0
    for name, shape in t.items():
        if shape is ABSENT:
            continue
        kind = T_F32
        if isinstance(shape, tuple) and shape and isinstance(shape[0], tuple):
            shape, kind = shape
        entries.append(tensor(name, shape, kind, at))
        n = {T_F32: 4, 26: 4}[kind]
        for d in shape:
            n *= d
        at += n + -n % 32
    return gguf([kv(key, *v) for key, v in k.items() if v is not ABSENT], entries, b"\0" * at)


TOKENS = ["<unk>", "<s>", "</s>", "<0x41>", "\u2581a", "b"]


def strings(words):
    return array(STR, len(words), b"".join(string(w) for w in words))


def f32(v):
    return F32, struct.pack("<f", v)


def model_files():
    f = {}

    def number(key, *values, kind=U32, pack="<I"):
        for v in values:
            f[f"{key.split('.', 1)[1].replace('.', '-')}-{v}".replace("_", "-")] = model({key: (kind, struct.pack(pack, v))})

    def odd(name, keys):
        f[name] = model(keys)

    # sizes: each is a divisor or a count somewhere
    number("llama.block_count", 0, 2, 100000, 2**32 - 1)                                    # CVE-2025-0312, #25821
    number("llama.embedding_length", 0, 3, 5, 2**32 - 1)
    number("llama.feed_forward_length", 0, 5, 2**32 - 1)
    number("llama.attention.head_count", 0, 3, 2**32 - 1)                                   # CVE-2025-0317
    number("llama.attention.head_count_kv", 0, 3, 4)
    number("llama.context_length", 0)
    number("llama.rope.dimension_count", 1, 4, 2**32 - 1)
    number("llama.attention.key_length", 0, 3, 2**31)
    for key in ("block_count", "embedding_length", "feed_forward_length", "attention.head_count",
                "attention.layer_norm_rms_epsilon"):
        odd(f"{key.replace('.', '-').replace('_', '-')}-absent", {f"llama.{key}": ABSENT})
    odd("block-count-string", {"llama.block_count": (STR, string("1"))})
    odd("block-count-negative", {"llama.block_count": (I32, struct.pack("<i", -1))})
    odd("block-count-float", {"llama.block_count": f32(1)})
    odd("head-count-array-short", {"llama.block_count": (U32, u32(2)), "llama.attention.head_count": (ARR, array(U32, 1, u32(2)))})
    odd("head-count-array-of-strings", {"llama.attention.head_count": (ARR, strings(["2"]))})
    odd("head-count-array-zero", {"llama.attention.head_count": (ARR, array(U32, 1, u32(0)))})
    # numbers
    for name, v in (("nan", float("nan")), ("infinite", float("inf")), ("negative", -1e-5), ("zero", 0.0), ("large", 2.0)):
        odd(f"epsilon-{name}", {"llama.attention.layer_norm_rms_epsilon": f32(v)})
    for name, v in (("nan", float("nan")), ("infinite", float("inf")), ("negative", -1e4), ("zero", 0.0)):
        odd(f"freq-base-{name}", {"llama.rope.freq_base": f32(v)})
    odd("scaling-unknown", {"llama.rope.scaling.type": (STR, string("dynamo")), "llama.rope.scaling.factor": f32(2)})
    odd("scaling-not-string", {"llama.rope.scaling.type": (U32, u32(1))})
    for name, v in (("nan", float("nan")), ("large", 1e9), ("negative", -2.0)):
        odd(f"scaling-factor-{name}", {"llama.rope.scaling.type": (STR, string("linear")), "llama.rope.scaling.factor": f32(v)})
    # the architecture
    odd("architecture-absent", {"general.architecture": ABSENT})
    odd("architecture-unknown", {"general.architecture": (STR, string("lama"))})
    odd("architecture-number", {"general.architecture": (U32, u32(1))})
    odd("architecture-empty", {"general.architecture": (STR, string(""))})
    odd("architecture-huge", {"general.architecture": (STR, string("l" * 1000))})
    # tensors
    f["tensor-absent"] = model(tensors={"blk.0.attn_q.weight": ABSENT})
    f["tensor-absent-embedding"] = model(tensors={"token_embd.weight": ABSENT})
    f["tensor-unused"] = model(extra={"blk.0.attn_q_extra.weight": (4,)})
    f["tensor-of-a-second-layer"] = model(extra={"blk.1.attn_norm.weight": (4,)})
    f["tensor-shape"] = model(tensors={"blk.0.attn_k.weight": (4, 4)})
    f["tensor-transposed"] = model(tensors={"blk.0.attn_k.weight": (2, 4)})
    f["tensor-rank"] = model(tensors={"output_norm.weight": (2, 2)})
    f["tensor-bias-shape"] = model(extra={"blk.0.attn_q.bias": (3,)})
    f["tensor-rope-freqs-shape"] = model(extra={"rope_freqs.weight": (3,)})
    # the vocabulary
    key = "tokenizer.ggml."
    odd("tokens-fewer", {key + "tokens": (ARR, strings(TOKENS[:5]))})                       # llama.cpp read past the scores
    odd("tokens-none", {key + "tokens": (ARR, array(STR, 0, b""))})
    odd("tokens-absent", {key + "tokens": ABSENT})
    odd("tokens-numbers", {key + "tokens": (ARR, array(U32, 6, b"\0" * 24))})
    odd("tokens-string", {key + "tokens": (STR, string("a"))})
    odd("tokens-twice", {key + "tokens": (ARR, strings(TOKENS[:5] + ["\u2581a"]))})         # llama.cpp aborted
    odd("tokens-byte-negative", {key + "tokens": (ARR, strings(TOKENS[:3] + ["<0x-1>"] + TOKENS[4:]))})   # #25969
    odd("tokens-byte-long", {key + "tokens": (ARR, strings(TOKENS[:3] + ["<0x100>"] + TOKENS[4:]))})
    odd("scores-fewer", {key + "scores": (ARR, array(F32, 5, b"\0" * 20))})
    odd("scores-strings", {key + "scores": (ARR, strings(TOKENS))})
    odd("scores-nan", {key + "scores": (ARR, array(F32, 6, struct.pack("<6f", *[float("nan")] * 6)))})
    odd("types-fewer", {key + "token_type": (ARR, array(I32, 5, struct.pack("<5i", 2, 3, 3, 6, 1)))})
    odd("types-unknown", {key + "token_type": (ARR, array(I32, 6, struct.pack("<6i", 2, 3, 3, 6, 1, 77)))})
    odd("types-negative", {key + "token_type": (ARR, array(I32, 6, struct.pack("<6i", 2, 3, 3, 6, 1, -1)))})
    odd("tokenizer-model-unknown", {key + "model": (STR, string("gpt3"))})
    odd("tokenizer-model-number", {key + "model": (U32, u32(1))})
    odd("bos-past-end", {key + "bos_token_id": (U32, u32(6))})
    odd("eos-past-end", {key + "eos_token_id": (U32, u32(6))})
    odd("eos-negative", {key + "eos_token_id": (I32, struct.pack("<i", -2))})
    odd("eos-string", {key + "eos_token_id": (STR, string("</s>"))})
    odd("unknown-past-end", {key + "unknown_token_id": (U32, u32(1000))})
    bpe = {key + "model": (STR, string("gpt2")), key + "pre": (STR, string("gpt-2")), key + "scores": ABSENT,
           key + "tokens": (ARR, strings(["<|end|>", "a", "b", "ab", "c", "d"])),
           key + "token_type": (ARR, array(I32, 6, struct.pack("<6i", 3, 1, 1, 1, 1, 1)))}
    odd("merges-without-space", {**bpe, key + "merges": (ARR, strings(["ab"]))})
    odd("merges-leading-space", {**bpe, key + "merges": (ARR, strings([" ab"]))})
    odd("merges-unknown-half", {**bpe, key + "merges": (ARR, strings(["a x"]))})
    odd("merges-unknown-whole", {**bpe, key + "merges": (ARR, strings(["a c"]))})
    odd("merges-many", {**bpe, key + "merges": (ARR, strings(["a b"] * 40))})               # more than there is to split
    odd("merges-numbers", {**bpe, key + "merges": (ARR, array(U32, 1, u32(1)))})
    odd("merges-absent", bpe)
    odd("merges-none", {**bpe, key + "merges": (ARR, array(STR, 0, b""))})
    odd("pre-unknown", {**bpe, key + "pre": (STR, string("gpt-5")), key + "merges": (ARR, strings(["a b"]))})
    # parts that contradict each other
    odd("vocab-size-7", {"llama.vocab_size": (U32, u32(7))})
    odd("tokens-more", {key + "tokens": (ARR, strings([*TOKENS, "c"])), key + "scores": ABSENT, key + "token_type": ABSENT})
    odd("separator-string", {key + "seperator_token_id": (STR, string("b"))})
    odd("head-count-array-long", {"llama.attention.head_count": (ARR, array(U32, 2, u32(2) + u32(2)))})
    odd("feed-forward-array-long", {"llama.feed_forward_length": (ARR, array(U32, 2, u32(4) + u32(4)))})
    odd("scaling-factor-zero", {"llama.rope.scaling.type": (STR, string("linear")), "llama.rope.scaling.factor": f32(0)})
    odd("scaling-linear-zero", {"llama.rope.scale_linear": f32(0)})
    odd("value-length-4", {"llama.attention.value_length": (U32, u32(4))})
    odd("not-causal", {"llama.attention.causal": (BOOL, b"\0")})
    odd("layout-unknown", {"llama.tensor_data_layout": (STR, string("shuffled"))})
    odd("add-bos-2", {key + "add_bos_token": (BOOL, b"\2")})
    odd("bools-2", {"llama.x": (ARR, array(BOOL, 3, b"\0\1\2"))})
    odd("template-number", {"tokenizer.chat_template": (U32, u32(1))})
    odd("template-array", {"tokenizer.chat_template.tool_use": (ARR, strings(["a"]))})
    f["tensor-integers"] = model(tensors={"blk.0.attn_q.weight": ((4, 4), 26)})
    return f


LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 6, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "max_position_embeddings": 16, "hidden_act": "silu", "tie_word_embeddings": True,
}


def model_folders():
    """Name -> config.json; the weights are right."""
    f, names = {}, {"model.embed_tokens.weight": [6, 4], "model.norm.weight": [4]}
    for name, shape in (("input_layernorm", [4]), ("post_attention_layernorm", [4]), ("self_attn.q_proj", [4, 4]),
                        ("self_attn.k_proj", [2, 4]), ("self_attn.v_proj", [2, 4]), ("self_attn.o_proj", [4, 4]),
                        ("mlp.gate_proj", [4, 4]), ("mlp.up_proj", [4, 4]), ("mlp.down_proj", [4, 4])):
        names[f"model.layers.0.{name}.weight"] = shape

    def weights(more=None, less=()):
        header, at = {}, 0
        for name, shape in {**names, **(more or {})}.items():
            if name in less:
                continue
            n = 2
            for d in shape:
                n *= d
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
            at += n
        return st(json.dumps(header, separators=(",", ":")), b"\0" * at)

    def odd(name, **change):
        config = {k: v for k, v in {**LLAMA, **change}.items() if v is not ABSENT}
        f[name] = {"config.json": json.dumps(config), "model.safetensors": weights()}

    for key, values in {
        "hidden_size": (0, -4, "4", 4.0, 2**32, 8, ABSENT, None), "num_hidden_layers": (0, 2, 10**9, [1]),
        "num_attention_heads": (0, 3, 2**31), "num_key_value_heads": (0, 3, 2), "intermediate_size": (0, 8, True),
        "vocab_size": (0, 7, 2**40), "head_dim": (0, 3, 4, -2), "rms_norm_eps": (0, -1, "x", 2), "rope_theta": (0, -1, "x"),
        "max_position_embeddings": (0, -1), "hidden_act": ("gelo", 3), "model_type": ("lama", 3, ABSENT),
        "rope_scaling": ({"type": "dynamo", "factor": 2}, {"type": "linear"}, {"type": "linear", "factor": 0},
                         {"type": "linear", "factor": "2"}, {"rope_type": "llama3", "factor": 8},
                         {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                          "original_max_position_embeddings": 8},
                         {"rope_type": "longrope", "short_factor": [1], "long_factor": [1, 2]}, "linear", [1]),
        "tie_word_embeddings": ("yes",), "quantization_config": ({"quant_method": "gptq"},),
    }.items():
        for i, v in enumerate(values):
            odd(f"{key.replace('_', '-')}-{i}", **{key: v})
    odd("untied-without-head", tie_word_embeddings=False)
    f["tensor-absent"] = {"config.json": json.dumps(LLAMA),
                          "model.safetensors": weights(less=("model.layers.0.mlp.up_proj.weight",))}
    f["tensor-unused"] = {"config.json": json.dumps(LLAMA), "model.safetensors": weights({"model.layers.1.mlp.up_proj.weight": [4, 4]})}
    f["tensor-shape"] = {"config.json": json.dumps(LLAMA), "model.safetensors": weights({"model.norm.weight": [2, 2]})}
    good = {"config.json": json.dumps(LLAMA), "model.safetensors": weights()}
    f["template-number"] = {**good, "tokenizer_config.json": '{"chat_template": 1}'}
    f["tokenizer-broken"] = {**good, "tokenizer.json": "{"}
    f["tokenizer-array"] = {**good, "tokenizer.json": "[]"}
    f["tokenizer-nested"] = {**good, "tokenizer.json": "[" * 3000}
    f["tokenizer-without-model"] = {**good, "tokenizer.json": "{}"}
    f["tokenizer-wordpiece"] = {**good, "tokenizer.json": '{"model":{"type":"WordPiece","vocab":{}}}'}
    f["tokenizer-id-negative"] = {**good, "tokenizer.json": '{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}'}
    f["tokenizer-id-huge"] = {**good, "tokenizer.json": '{"model":{"type":"BPE","vocab":{"a":4294967296},"merges":[]}}'}
    f["tokenizer-id-twice"] = {**good, "tokenizer.json": '{"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}}'}
    f["tokenizer-merge-unknown"] = {**good, "tokenizer.json": '{"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}'}
    f["generation-config-broken"] = {**good, "generation_config.json": "{,}"}
    return f
