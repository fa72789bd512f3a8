#!/usr/bin/env python3
"""synth_peer.py: check that llama.cpp loads files of `lamina synth` and computes the same from them.

    tools/oracle/synth_peer.py LAMINA [PATTERN …]

The configuration of every golden becomes a GGUF file in float32, and `lamina verify` compares lamina's logits with llama.cpp's. Then both
programs run the smallest preset of every family, cut to two layers, in q4_k_m, with their fast arithmetic, and the mean divergence of their
predictions is printed. One line each; docs/dev/families.md lists the known differences: windows, YaRN's betas and attention factor, and
groups of experts, which llama.cpp ignores.
"""
import fnmatch
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from peer import run                                                                                        # noqa: E402

IDS = [5, 42, 79, 116, 22, 59, 96]


def synth(lamina, *args):
    done = subprocess.run([lamina, "synth", *map(str, args), "--force", "-q"], capture_output=True, text=True)
    return done.stderr.strip().split("\n")[-1] if done.returncode else ""


def compare(lamina, folder, ids, *flags):
    """Return (the result of `lamina verify` on llama.cpp's logits of folder/m.gguf, or None, and the reason why)."""
    model, truth = folder / "m.gguf", folder / "g.safetensors"
    try:
        logits = run(model, [ids])[0]
    except ValueError as e:                                                            # llama.cpp gives no reason
        return None, f"llama.cpp: {e}"
    if not np.isfinite(logits).all():
        return None, "llama.cpp: logits are not finite"
    save_file({"input_ids": np.array([ids]), "logits": logits[None]}, truth, metadata={"source": "llama.cpp"})
    done = subprocess.run([lamina, "verify", model, truth, "--json", *flags], capture_output=True, text=True)
    return (json.loads(done.stdout), "") if done.stdout else (None, done.stderr)


def goldens(lamina, patterns, folder):
    for config in sorted((ROOT / "tests/golden").glob("*/*/config.json")):
        case = "/".join(config.parts[-3:-1])
        if not any(fnmatch.fnmatch(case, p) for p in patterns):
            continue
        verdict, why = None, synth(lamina, config, folder / "m.gguf", "--type", "f32")
        if not why:
            vocabulary = json.loads(config.read_text())["vocab_size"]
            verdict, why = compare(lamina, folder, [i % vocabulary for i in IDS], "--kv-type", "f32")
        print(f"{case:32}", f"{verdict['max_rel_err']:.1e}" if verdict and "max_rel_err" in verdict else why, flush=True)


def presets(lamina, patterns, folder):
    listed = json.loads(subprocess.run([lamina, "presets", "--json"], capture_output=True, text=True, check=True).stdout)
    smallest = {}
    for p in sorted(listed, key=lambda p: p["vocabulary"] * p["hidden"]):
        smallest.setdefault(p["family"], p)
    for family, p in sorted(smallest.items()):
        if not any(fnmatch.fnmatch(p["name"], pattern) for pattern in patterns):
            continue
        verdict, why = None, synth(lamina, p["name"], folder / "m.gguf", "--type", "q4_k_m", "--layers", "2")
        if not why:
            verdict, why = compare(lamina, folder, IDS, "--compute", "auto", "--tol", "1")
        reply = f"mean divergence {verdict['mean_kl']:.1e} nats, best token equal {verdict['argmax_agreement']:.0%}" if verdict else why
        print(f"{family:16}{p['name']:24}", reply, flush=True)


def main():
    lamina, patterns = sys.argv[1], sys.argv[2:] or ["*"]
    with tempfile.TemporaryDirectory() as name:
        goldens(lamina, patterns, pathlib.Path(name))
        presets(lamina, patterns, pathlib.Path(name))


main()
