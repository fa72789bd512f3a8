#!/usr/bin/env python3
"""tests/golden/nested/: models that also see, tiny and random, and the logits of a text in them.

    tools/oracle/nested.py [--out tests/golden/nested]

Each kind as transformers saves it: config.json with text_config, which leaves out what the class has anyway, tensors of all parts. logits.safetensors:
what the whole model makes of token ids without a picture. classes.json: what the classes have for the sizes that a text_config may leave out."""
import argparse
import contextlib
import json
import shutil
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = Path(__file__).resolve().parent
TEXT = dict(vocab_size=96, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8)
PLAIN = {k: v for k, v in TEXT.items() if k != "head_dim"}
VIT = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=8)
SIGLIP = VIT | dict(model_type="siglip_vision_model", vision_use_head=False)
TOWER = dict(hidden_size=16, vocab_size=8)
SIGLIP2 = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_patches=4, patch_size=2,
               model_type="siglip2_vision_model", vision_use_head=False)
CLIP = VIT | dict(model_type="clip_vision_model", projection_dim=16)
QWEN = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=16)
MROPE = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [1, 1, 2]}
TEMPERED = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 8.0, "original_max_position_embeddings": 4, "beta_fast": 32.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4}
DELTA = TEXT | dict(num_hidden_layers=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
                    rope_parameters=MROPE | dict(mrope_interleaved=True, partial_rotary_factor=0.25))
MIXTURE = {k: v for k, v in DELTA.items() if k != "intermediate_size"} | dict(
    num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], num_experts=4, num_experts_per_tok=2,
    moe_intermediate_size=8, shared_expert_intermediate_size=8)
# kind: class, text_config, vision_config, other members
KINDS = {
    "gemma3": ("Gemma3", TEXT | dict(num_hidden_layers=7, sliding_window=5), SIGLIP, dict(mm_tokens_per_image=1)),
    "gemma3n": ("Gemma3n", TEXT | dict(layer_types=["sliding_attention", "full_attention"], sliding_window=5, intermediate_size=[20, 20], laurel_rank=4,
                                       hidden_size_per_layer_input=8, vocab_size_per_layer_input=80, num_kv_shared_layers=0, altup_num_inputs=2,
                                       activation_sparsity_pattern=[0.6, 0.0]), TOWER, dict(audio_config=TOWER)),
    "gemma4": ("Gemma4", TEXT | dict(layer_types=["sliding_attention", "full_attention"], per_layer_config={"1": {"head_dim": 16}}, sliding_window=5,
                                     hidden_size_per_layer_input=8, vocab_size_per_layer_input=96),
               VIT | dict(num_key_value_heads=2, head_dim=8, position_embedding_size=16), {}),
    "gemma4_unified": ("Gemma4Unified", TEXT | dict(layer_types=["sliding_attention", "full_attention"], per_layer_config={"1": {"head_dim": 16}}, sliding_window=5),
                       dict(patch_size=2, pooling_kernel_size=1, mm_embed_dim=16, mm_posemb_size=8, output_proj_dims=16), {}),
    "mistral3": ("Mistral3", TEXT | dict(model_type="mistral", sliding_window=None, rope_parameters={"rope_type": "default", "rope_theta": 1e9}),
                 VIT | dict(model_type="pixtral", head_dim=8), dict(tie_word_embeddings=False)),
    "mistral3-tied": ("Mistral3", TEXT | dict(model_type="mistral"), VIT | dict(model_type="pixtral", head_dim=8), {}),
    "mistral3-ministral3": ("Mistral3", TEXT | dict(model_type="ministral3", rope_parameters=TEMPERED), VIT | dict(model_type="pixtral", head_dim=8),
                            dict(tie_word_embeddings=True)),
    "mistral3-mistral4": ("Mistral3", TEXT | dict(model_type="mistral4", kv_lora_rank=8, q_lora_rank=8, qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=6,
                                                  n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, num_key_value_heads=2,
                                                  rope_parameters=TEMPERED), VIT | dict(model_type="pixtral", head_dim=8), dict(tie_word_embeddings=False)),
    "minimax_m3_vl": ("MiniMaxM3VL", TEXT | dict(intermediate_size=8, dense_intermediate_size=24, shared_intermediate_size=8, num_local_experts=4,
                                                 num_experts_per_tok=2, rotary_dim=8, index_n_heads=1, index_head_dim=8, index_block_size=2,
                                                 index_topk_blocks=3, layer_types=["full_attention", "minimax_m3_sparse"],
                                                 mlp_layer_types=["dense", "sparse"]), VIT | dict(hidden_size=24), dict(projector_hidden_size=16, tie_word_embeddings=False)),
    "llama4": ("Llama4", TEXT | dict(intermediate_size_mlp=20, num_local_experts=3, num_hidden_layers=4, attention_chunk_size=5, floor_scale=3, attn_scale=0.5,
                                     interleave_moe_layer_step=2), VIT | dict(vision_output_dim=16, projector_input_dim=16, projector_output_dim=16),
               dict(tie_word_embeddings=False)),
    "llava": ("Llava", TEXT | dict(model_type="llama"), CLIP, {}),
    "llava_next": ("LlavaNext", TEXT | dict(model_type="mistral", sliding_window=6), CLIP, {}),
    "llava_onevision": ("LlavaOnevision", PLAIN | dict(model_type="qwen2"), SIGLIP, {}),
    "idefics3": ("Idefics3", TEXT | dict(model_type="llama"), VIT, dict(pad_token_id=0)),
    "smolvlm": ("SmolVLM", TEXT | dict(model_type="llama"), VIT, dict(pad_token_id=0)),
    "internvl": ("InternVL", TEXT | dict(model_type="qwen3"), VIT | dict(image_size=[16, 16], patch_size=[8, 8]), dict(tie_word_embeddings=False)),
    "lfm2_vl": ("Lfm2Vl", PLAIN | dict(model_type="lfm2", num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"],
                                       block_auto_adjust_ff_dim=False), SIGLIP2, dict(projector_hidden_size=16)),
    "qwen2_vl": ("Qwen2VL", PLAIN | dict(rope_parameters=MROPE), dict(depth=1, embed_dim=16, hidden_size=16, num_heads=2), {}),
    "qwen2_5_vl": ("Qwen2_5_VL", PLAIN | dict(rope_parameters=MROPE), QWEN | dict(fullatt_block_indexes=[0]), dict(tie_word_embeddings=True)),
    "qwen3_vl": ("Qwen3VL", TEXT | dict(rope_parameters=MROPE | dict(mrope_interleaved=True)), QWEN | dict(deepstack_visual_indexes=[0], num_position_embeddings=4), {}),
    "qwen3_5": ("Qwen3_5", DELTA, QWEN | dict(num_position_embeddings=4), dict(tie_word_embeddings=False)),
    "qwen3_5_moe": ("Qwen3_5Moe", MIXTURE, QWEN | dict(num_position_embeddings=4), dict(tie_word_embeddings=False)),
}
SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings",
         "head_dim", "rms_norm_eps")


def flat(config):
    """Return the published form of Qwen2-VL and Qwen2.5-VL: keys of the language model at the top level, rotation as in transformers 4."""
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    return {**text, **config, "rope_theta": rope["rope_theta"], "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]}}


def whole_class(name):
    return getattr(transformers, {"MiniMaxM3VL": "MiniMaxM3Sparse"}.get(name, name) + "ForConditionalGeneration")


@contextlib.contextmanager
def without_towers():
    """Build Gemma 3n without its parts for images and audio, which need a library of their own: a text does not reach them."""
    module = transformers.models.gemma3n.modeling_gemma3n
    real = module.AutoModel.from_config
    module.AutoModel.from_config = lambda config, **kw: real(config, **kw) if "text" in config.model_type else torch.nn.Identity()
    try:
        yield
    finally:
        module.AutoModel.from_config = real


@torch.no_grad()
def make(kind, out):
    with without_towers() if kind == "gemma3n" else contextlib.nullcontext():
        return build(kind, out)


@torch.no_grad()
def build(kind, out):
    name, text, vision, more = KINDS[kind]
    torch.manual_seed(len(kind))
    config = getattr(transformers, name + "Config")(text_config=dict(text), vision_config=dict(vision), **more)
    model = whole_class(name)(config).float().eval()
    for path, p in model.named_parameters():
        p.copy_((1 if "norm" in path and p.dim() == 1 else 0) + torch.randn(p.shape) * (0.3 if p.dim() == 1 else 0.6))
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((out / "config.json").read_text())
    config = {k: v for k, v in config.items() if k != "audio_config" or k in more}      # null: there is no such part
    for part, given in (("text_config", text), ("vision_config", vision), *((k, v) for k, v in more.items() if k == "audio_config")):
        config[part] = {k: v for k, v in config[part].items() if k in given or k == "model_type" or (part == "text_config" and k == "rope_parameters")}
    if kind == "qwen2_5_vl":
        config = flat(config)
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    again, loading = whole_class(name).from_pretrained(out, dtype=torch.float32, output_loading_info=True)
    assert not loading["missing_keys"], loading
    ids = torch.randint(1, 60, (1, 14))
    logits = again.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    save_file({"input_ids": ids, "logits": logits.contiguous()}, out / "logits.safetensors",
              metadata={"source": f"transformers {transformers.__version__}, float32; tools/oracle/nested.py"})
    return config


def classes():
    """Return the default sizes of each text class that the kinds use."""
    found = {}
    for name in ("Gemma3Text", "Mistral", "Llama", "Qwen2", "Qwen3", "Lfm2", "Qwen2VLText", "Qwen2_5_VLText", "Qwen3VLText",
                 "Qwen3_5Text", "Qwen3_5MoeText", "Ministral3", "Mistral4", "Llama4Text", "MiniMaxM3VLText"):
        module = transformers.models
        kind = getattr(transformers, name + "Config", None)
        if kind is None:
            kind = type({"Qwen2VLText": transformers.Qwen2VLConfig, "Qwen2_5_VLText": transformers.Qwen2_5_VLConfig,
                         "Qwen3VLText": transformers.Qwen3VLConfig}[name]().get_text_config())
        c = kind()
        rope = c.rope_parameters or {}
        found[c.model_type] = {k: getattr(c, k, None) for k in SIZES} | {"rope_theta": rope.get("full_attention", rope).get("rope_theta")}
    return found


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--out", type=Path, default=HERE.parents[1] / "tests/golden/nested")
    out = a.parse_args().out
    for kind in KINDS:
        make(kind, out / "models" / kind)
    (out / "classes.json").write_text(json.dumps(classes(), indent=1) + "\n")


if __name__ == "__main__":
    main()
