#!/usr/bin/env python3
"""scores.py: what a hundred texts cost the demo model, token by token.

    tools/oracle/scores.py build/assets/smollm2-135m-instruct-q4_1.gguf [--out tests/golden/smollm2/scores.jsonl]

The weights are dequantised by gguf-py and run by transformers in float32, without special tokens added. Each line: the text,
its ids, and for each token but the first the natural logarithm of its probability given those before it."""
import argparse
import json
import sys
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).resolve().parent
MOST = 120                      # maximum characters of a text
GOLDEN = HERE.parents[1] / "tests" / "golden" / "smollm2"
sys.path.insert(0, str(HERE))

import smollm2  # noqa: E402
import tokenizer_texts  # noqa: E402


@torch.no_grad()
def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path)
    p.add_argument("--out", type=Path, default=GOLDEN / "scores.jsonl")
    args = p.parse_args()
    transformers.logging.set_verbosity_error()
    m, t = smollm2.load(args.model), smollm2.tokenizer(args.model)
    paragraphs = [x for x in (GOLDEN / "text.txt").read_text().split("\n") if len(x) > 60]
    texts = [x if len(x) < MOST else x[:x.rindex(" ", 0, MOST)] for x in tokenizer_texts.SCRIPTS + smollm2.PROMPTS + paragraphs][:100]
    assert len(texts) == 100
    with args.out.open("w") as out:
        for text in texts:
            ids = t.encode(text, add_special_tokens=False).ids
            logits = m(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
            logprobs = [round(-x, 6) for x in smollm2.nll(logits, ids).tolist()[1:]]
            out.write(json.dumps({"text": text, "ids": ids, "logprobs": logprobs}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
