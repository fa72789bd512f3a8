"""Write a case as files: the Hugging Face folder in the spelling of public checkpoints, and the golden."""

import json
import shutil
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

import reference
from case import Case

SOURCE = "transformers {t}, torch {p}, float32, {a} attention; tools/oracle/make.py {path}, seed {seed}"


def golden(case: Case, model, seed: int, found, folder: Path) -> list[str]:
    """Write one file per length, rows of equal length as one batch; return the names. The first, `golden.safetensors`, has the taps."""
    lengths = list(dict.fromkeys(ids.shape[1] for ids, _, _ in found))
    names = []
    for n in lengths:
        rows = [(ids, out) for ids, out, _ in found if ids.shape[1] == n]
        whole, parts = [], []
        for ids, _ in rows:
            taps = {}
            whole.append(reference.logits(model, ids, taps))
            parts.append(taps)
        tensors = {
            "input_ids": torch.cat([ids for ids, _ in rows]),
            "logits": torch.cat(whole),
            "greedy_ids": torch.tensor([out for _, out in rows]),
        }
        for path in parts[0] if case.taps and not names else ():
            tensors[f"tap.{case.in_files(path)}"] = torch.cat([p[path] for p in parts])
        name = "golden.safetensors" if not names else f"golden-{n}.safetensors"
        source = SOURCE.format(t=transformers.__version__, p=torch.__version__, a=case.attention, path=case.path, seed=seed)
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / name, metadata={"source": source})
        names.append(name)
    return names


def hugging_face(case: Case, model, folder: Path) -> None:
    """Write config.json and model.safetensors (or shards with their index) in the layout of save_pretrained."""
    stored = case.model(model.config).to(reference.DTYPES[case.dtype])
    stored.load_state_dict(model.state_dict())
    stored.tie_weights()
    stored.save_pretrained(folder, max_shard_size=case.shard_bytes or "1GB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    if case.extra:
        whole = load_file(folder / "model.safetensors") | case.extra(stored)
        save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    if case.stored:
        save_file(case.stored(load_file(folder / "model.safetensors")), folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    if case.spelling == "v4":
        config = v4(config)
    config = {k: v for k, v in config.items() if k not in case.drop} | case.respell
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    if case.tokenizer:
        for name, text in tokenizer(case.kwargs["vocab_size"]).items():
            (folder / name).write_text(text)


def v4(config: dict) -> dict:
    """Return the spelling of nearly all public checkpoints: rope_theta at the top level, rope_scaling next to it or null."""
    config = dict(config)
    config.pop("transformers_version", None)
    config["torch_dtype"] = config.pop("dtype")
    rope = dict(config.pop("rope_parameters", None) or {})
    if "full_attention" in rope:         # one rotation per kind of layer
        full, local = dict(rope["full_attention"]), rope["sliding_attention"]
        config["rope_theta"], config["rope_local_base_freq"] = full.pop("rope_theta"), local["rope_theta"]
        config["rope_scaling"] = None if full["rope_type"] == "default" else full
    elif rope:
        config["rope_theta"] = rope.pop("rope_theta")
        if "partial_rotary_factor" in rope:
            config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
        config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    return config


def tokenizer(vocab_size: int) -> dict[str, str]:
    """Return a byte-level BPE of exactly this size: bytes (all 256, or ASCII if no more fit), merges, one special token."""
    byte = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {b: chr(b) for b in byte}
    for i, b in enumerate(b for b in range(256) if b not in names):
        names[b] = chr(256 + i)
    base = [names[b] for b in range(256 if vocab_size > 270 else 128)]
    vocab, merges = {t: i for i, t in enumerate(base)}, []
    for left in "tehnraiosdl":
        for right in "hereninsoatou":
            if len(vocab) < vocab_size - 1 and left + right not in vocab:
                vocab[left + right] = len(vocab)
                merges.append([left, right])
    end = {"id": vocab_size - 1, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": vocab, "merges": merges}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
             "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    dump = lambda x: json.dumps(x, ensure_ascii=False) + "\n"
    return {"tokenizer.json": dump(whole), "tokenizer_config.json": dump(config)}


def check(case: Case, folder: Path, found, model) -> None:
    """Check that transformers, reading the folder back, computes bitwise identical logits."""
    again = case.model.from_pretrained(folder, dtype=torch.float32, attn_implementation=case.attention).eval()
    for ids, _, _ in found:
        if not torch.equal(reference.logits(again, ids), reference.logits(model, ids)):
            raise SystemExit(f"{case.path}: the stored model is another one")


def clean(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
