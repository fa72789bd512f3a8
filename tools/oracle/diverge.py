#!/usr/bin/env python3
"""diverge.py: how far two models are apart on one text, from the logits that transformers gave for each.

    tools/oracle/diverge.py [--out tests/golden/diverge/llama.json]

The two goldens are of models with the same vocabulary, and of the same ids (make.py). Everything is computed in float64 with numpy:
log-softmax, the Kullback-Leibler divergence of the first from the second, percentiles, what the text's own tokens gain and lose."""
import argparse
import json
import struct
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"
MODEL, REFERENCE = "llama/mqa", "llama/biases"
TYPES = {"F32": np.float32, "I64": np.int64}


def tensors(case: str) -> dict[str, np.ndarray]:
    data = (GOLDEN / case / "golden.safetensors").read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    out = {}
    for name in ("input_ids", "logits"):
        t = json.loads(data[8:end])[name]
        a, b = t["data_offsets"]
        out[name] = np.frombuffer(data[end + a:end + b], TYPES[t["dtype"]]).reshape(t["shape"])
    return out


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, default=GOLDEN / "diverge" / "llama.json")
    out = p.parse_args().out
    ours, theirs = tensors(MODEL), tensors(REFERENCE)
    ids = ours["input_ids"][0]
    assert (ids == theirs["input_ids"][0]).all()
    a, b = log_softmax(ours["logits"][0])[:-1], log_softmax(theirs["logits"][0])[:-1]
    kl = (np.exp(b) * (b - a)).sum(axis=-1)
    reply = np.arange(len(ids) - 1), ids[1:]
    dp = np.exp(a[reply]) - np.exp(b[reply])
    document = {
        "model": MODEL, "reference": REFERENCE, "ids": ids.tolist(), "kl": kl.tolist(),
        "logprobs": a[reply].tolist(), "reference_logprobs": b[reply].tolist(),
        "same_top": (a.argmax(axis=-1) == b.argmax(axis=-1)).tolist(),
        "mean_kl": kl.mean(), "max_kl": kl.max(), "max_position": int(kl.argmax()) + 1,
        **{f"{name}_kl": np.percentile(kl, q) for name, q in (("median", 50), ("p90", 90), ("p95", 95), ("p99", 99))},
        "mean_dp": dp.mean(), "rms_dp": np.sqrt((dp ** 2).mean()), "max_dp": np.abs(dp).max(),
        "perplexity": np.exp(-a[reply].mean()), "reference_perplexity": np.exp(-b[reply].mean()),
    }
    out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
