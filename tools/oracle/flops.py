#!/usr/bin/env python3
"""flops.py: the FLOPs that PyTorch counts per module for one forward pass of every tiny model.

    tools/oracle/flops.py >tests/golden/flops/torch.tsv

`torch.utils.flop_counter.FlopCounterMode` counts the matrix products that run, by their shapes, without knowledge of the model.
Attention is eager: scores are counted for every query and key, masked or not. Recurrences are not counted: transformers computes them in chunks,
by products that a recurrence from position to position does not have. One line per module that runs a product, inner modules
included: case, tokens, path ("." is the whole), FLOPs. tests/unit/study/flop_counter.c compares them and explains every difference.
"""
import dataclasses
import functools
import sys
from pathlib import Path

import torch
import transformers
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parent))

import case as cases  # noqa: E402
import reference  # noqa: E402

TOKENS = 12
RECURRENCES = ("mamba_selective_scan", "mamba2_chunk_scan", "torch_chunk_gated_delta_rule", "chunk_kimi_delta_attention")


def uncounted(function):
    @functools.wraps(function)
    def call(*values, **named):
        with _disable_current_modes():
            return function(*values, **named)
    call.uncounted = True
    return call


def leave_out_recurrences(model):
    module = sys.modules[type(model).__module__]
    for name in RECURRENCES:
        function = getattr(module, name, None)
        if function and not hasattr(function, "uncounted"):
            setattr(module, name, uncounted(function))


@torch.no_grad()
def counted(model, tokens):
    """Return FLOPs by module path, in the order of the model's modules: the counter's own order differs between releases of torch."""
    ids = torch.arange(tokens).remainder(model.config.vocab_size).view(1, tokens)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, use_cache=False)
    sums = {}
    for path, ops in counter.get_flop_counts().items():
        sums[path] = sum(ops.values())
    root = type(model).__name__
    assert sums.pop("Global") == sums[root]
    counts = {path.removeprefix(root).lstrip("."): n for path, n in sums.items() if n}
    ordered = {path or ".": counts.pop(path) for path, _ in model.named_modules() if path in counts}
    assert not counts, counts
    apart = (".gate_up_proj", ".indexer") if model.config.model_type == "minimax_m3_vl_text" else ()         # several modules in checkpoints
    return {path: n for path, n in ordered.items() if not path.endswith(apart)}


def main():
    transformers.logging.set_verbosity_error()
    print("# case\ttokens\tmodule\tFLOPs that torch.utils.flop_counter counts")
    for c in cases.all_cases():
        if c.quantise:
            continue
        model = reference.build(dataclasses.replace(c, attention="eager"))
        model.set_experts_implementation("eager")       # the counter does not support grouped products and fused scores
        leave_out_recurrences(model)
        reference.sensitive(c, model, 0)
        tokens = min(TOKENS, getattr(model.config, "max_position_embeddings", TOKENS) or TOKENS)
        for path, n in counted(model, tokens).items():
            print(c.path, tokens, path, n, sep="\t")


main()
