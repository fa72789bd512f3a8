#!/usr/bin/env python3
"""tables.py: torchinfo 1.8.0's own table of tiny models of dense families, for `lamina inspect --view torchinfo --torchinfo-compat`.

    tools/oracle/tables.py tests/golden/torchinfo

Batch 1, 4 tokens, float32, with the cache, as in the published example.
"""
import dataclasses
import sys
from pathlib import Path

import torch
import transformers
from torchinfo import summary

sys.path.insert(0, str(Path(__file__).resolve().parent))

import case as cases  # noqa: E402
import reference  # noqa: E402

CASES = ["bloom/alibi", "ernie4_5/biases", "glm/half", "glm4/plain", "gpt2/plain", "gpt2/by-layer", "gpt_bigcode/multi-query",
         "gpt_neo/turns", "granite/defaults", "lfm2/convolutions", "llama/gqa", "llama/mha-tied", "mistral/window", "olmo2/gqa", "qwen2/biases",
         "qwen3/head-norm", "smollm3/every-fourth", "starcoder2/window"]
COLUMNS = ("input_size", "output_size", "num_params", "mult_adds")


def main():
    transformers.logging.set_verbosity_error()
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for c in cases.all_cases():
        if c.path not in CASES:
            continue
        model = reference.build(dataclasses.replace(c, attention="eager"))
        table = summary(model, input_data=torch.arange(4).view(1, 4), depth=4, verbose=0, col_names=COLUMNS, row_settings=("var_names",))
        (folder / f"{c.path.replace('/', '.')}.txt").write_text(str(table) + "\n")


main()
