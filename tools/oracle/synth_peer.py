#!/usr/bin/env python3
"""synth_peer.py: does llama.cpp load what `lamina synth` writes, and compute the same from it?

    tools/oracle/synth_peer.py LAMINA [PATTERN …]

Every golden's configuration becomes a GGUF file in float32; llama.cpp's logits of it are the golden that `lamina verify` is held
to. Then presets of every family, cut to a few layers, in q4_k_m: loaded, finite, spread. Prints one line each; status 1 when
one differs by more than 1e-3 of the largest logit (llama.cpp's cache is float32 here).
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
KNOWN = {}


def synth(lamina, *args):
    done = subprocess.run([lamina, "synth", *map(str, args), "--force", "-q"], capture_output=True, text=True)
    return done.stderr.strip().split("\n")[-1] if done.returncode else ""


def golden(lamina, config, folder):
    model, truth = folder / "m.gguf", folder / "g.safetensors"
    why = synth(lamina, config, model, "--type", "f32")
    if why:
        return None, why
    vocabulary = json.loads(config.read_text())["vocab_size"]
    ids = [i % vocabulary for i in IDS]
    logits = run(model, [ids])[0]
    save_file({"input_ids": np.array([ids]), "logits": logits[None]}, truth, metadata={"source": "llama.cpp"})
    done = subprocess.run([lamina, "verify", model, truth, "--json", "--kv-type", "f32"], capture_output=True, text=True)
    if not done.stdout:
        return None, done.stderr
    return json.loads(done.stdout).get("max_rel_err"), done.stderr


def main():
    lamina, patterns = sys.argv[1], sys.argv[2:] or ["*"]
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for config in sorted((ROOT / "tests/golden").glob("*/*/config.json")):
            case = "/".join(config.parts[-3:-1])
            if not any(fnmatch.fnmatch(case, p) for p in patterns):
                continue
            try:
                error, why = golden(lamina, config, folder)
            except Exception as e:                                                     # llama.cpp says only that it failed
                error, why = None, f"LLAMA.CPP {e}"
                wrong += 1
            wrong += error is not None and error > 1e-3
            print(f"{case:32}", f"{error:.1e}" if error is not None else why, flush=True)
    sys.exit(wrong > 0)


main()
