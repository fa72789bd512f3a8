#!/usr/bin/env python3
"""differences.py: the results of `lamina diff` for a model and its q4_0 form, computed with numpy, transformers and gguf-py.

    tools/oracle/differences.py LAMINA > tests/golden/diff/results.json

Needs a Python with torch, transformers and gguf. The model is tests/golden/imatrix/dense.json, made by `lamina synth --type f32`: a folder,
and a GGUF file that is quantised; transformers reads that file itself, with its own order of rows. The text is text.txt in the same folder.
lamina chooses the tensors to raise to q8_0; the effect is computed here, with gguf-py's q8_0.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMATRIX = ROOT / "tests/golden/imatrix"
CHUNK, CHUNKS = 64, 4
NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm"}


def folder_name(name):
    if name.startswith("blk."):
        _, layer, part, end = name.split(".")
        return f"model.layers.{layer}.{NAMES[part]}.{end}"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}[name]


def tensor(a, b):
    a, b = a.double().numpy(), b.double().numpy()
    d = numpy.abs(a - b)
    at = numpy.unravel_index(numpy.argmax(d), d.shape)
    other = d[d > 0]
    exponents = numpy.floor(numpy.log2(other)).astype(int)
    return {"cosine": float((a * b).sum() / math.sqrt((a * a).sum() * (b * b).sum())),
            "snr_db": 10 * math.log10((a * a).sum() / (d * d).sum()) if other.size else None, "max_abs": float(d.max()),
            "at": None if not other.size else [0, *([0] if a.ndim == 1 else []), *map(int, at)], "equal": int((d == 0).sum()),
            "counts": {str(k): int((exponents == k).sum()) for k in sorted(set(exponents.tolist()))}}


def run(model, ids):
    with torch.no_grad():
        out = model(ids, output_hidden_states=True)
    # the last hidden state is normalised; hooks provide the one before the norm
    return out.logits.double(), out.hidden_states


def streams(model, ids):
    kept = []
    hooks = [model.model.embed_tokens.register_forward_hook(lambda m, x, y: kept.append(y.detach().double()))]
    hooks += [layer.register_forward_hook(lambda m, x, y: kept.append((y[0] if isinstance(y, tuple) else y).detach().double()))
              for layer in model.model.layers]
    logits, _ = run(model, ids)
    for hook in hooks:
        hook.remove()
    return logits, kept


def divergence(p, q):
    lp, lq = p.log_softmax(-1), q.log_softmax(-1)
    return (lp.exp() * (lp - lq)).sum(-1)


def lens(model, stream, row):
    return int(model.lm_head(model.model.norm(stream[0, row].float())).argmax())


def main():
    lamina = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for args in (("synth", IMATRIX / "dense.json", folder / "dense.gguf", "--type", "f32"),
                     ("synth", IMATRIX / "dense.json", folder / "dense", "--type", "f32"),
                     ("quantize", folder / "dense.gguf", folder / "q.gguf", "q4_0")):
            subprocess.run([lamina, *args, "-q"], check=True)
        reply = json.loads(subprocess.run([lamina, "diff", folder / "dense", folder / "q.gguf", "-f", IMATRIX / "text.txt", "-c", str(CHUNK), "--json",
                                          "-ctk", "f32", "-ctv", "f32"], check=True, capture_output=True).stdout)
        a = transformers.AutoModelForCausalLM.from_pretrained(folder / "dense", dtype=torch.float32)
        b = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file="q.gguf", dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "dense")
        text = (IMATRIX / "text.txt").read_text().removesuffix("\n")
        ids = tokenizer(text, return_tensors="pt").input_ids[:, :CHUNK * CHUNKS].reshape(CHUNKS, CHUNK)
        x, y = a.state_dict(), b.state_dict()
        results = {"tensors": {t["name"]: tensor(x[folder_name(t["name"])], y[folder_name(t["name"])]) for t in reply["tensors"]}}
        pairs = [(streams(a, chunk[None]), streams(b, chunk[None])) for chunk in ids]
        results["layers"] = [float(torch.cat([((q[1][i] - p[1][i]).norm(dim=-1) / p[1][i].norm(dim=-1)).flatten() for p, q in pairs]).mean())
                             for i in range(len(pairs[0][0][1]))]
        kls = torch.cat([divergence(p[0], q[0]).flatten() for p, q in pairs])
        same = torch.cat([(p[0].argmax(-1) == q[0].argmax(-1)).flatten() for p, q in pairs])
        results |= {"mean_kl": float(kls.mean()), "max_kl": float(kls.max()), "same_top": float(same.double().mean())}
        at = int((~same).nonzero()[0]) if not same.all() else None
        if at is not None:
            chunk, row = divmod(at, CHUNK)
            other = [lens(a, p, row) != lens(b, q, row) for p, q in zip(pairs[chunk][0][1], pairs[chunk][1][1])]
            settled = max(i for i in range(len(other)) if all(other[i:]) and (i == 0 or not other[i - 1]))
            results["first_flip"] = {"chunk": chunk, "position": row, "layer": other.index(True) - 1, "settled": settled - 1}
        second = ids[CHUNKS // 2:]
        before, results["advice"] = float(torch.stack([divergence(p[0], q[0]).mean() for p, q in pairs[CHUNKS // 2:]]).mean()), []
        for advice in reply["advice"]:
            mixed = {k: v.clone() for k, v in y.items()}
            for t in advice["tensors"]:
                w = x[folder_name(t)].numpy()
                q8 = gguf.quants.quantize(w, gguf.GGMLQuantizationType.Q8_0)
                mixed[folder_name(t)] = torch.from_numpy(gguf.quants.dequantize(q8, gguf.GGMLQuantizationType.Q8_0))
            b.load_state_dict(mixed)
            after = [divergence(p[0], run(b, chunk[None])[0]).mean() for (p, _), chunk in zip(pairs[CHUNKS // 2:], second)]
            results["advice"].append({"tensors": advice["tensors"], "kl": float(torch.stack(after).mean()), "kl_before": before})
    json.dump(results, sys.stdout, indent=1)


main()
