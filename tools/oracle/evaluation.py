#!/usr/bin/env python3
"""evaluation.py: perplexity and divergence by llama-perplexity, a sliding window by transformers, questions by lm-eval.

    PYTHONPATH=LM_EVAL tools/oracle/evaluation.py LAMINA LLAMA_PERPLEXITY > tests/golden/eval/results.json

Needs a Python with torch and transformers; LM_EVAL: path of lm_eval 0.4.13, if it is not installed there. The model is
tests/golden/imatrix/dense.json, made by `lamina synth --type f32`, and the same in q4_0, converted back to float32; the text is text.txt in
the same folder. The questions are tests/golden/eval/*.jsonl: lm-eval runs its own task files with these questions as their data.
"""
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import transformers
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN, IMATRIX = ROOT / "tests/golden/eval", ROOT / "tests/golden/imatrix"
TASKS = {"hellaswag": ("hellaswag/hellaswag.yaml", 0), "winogrande": ("winogrande/default.yaml", 0), "arc": ("arc/arc_easy.yaml", 0),
         "mmlu": ("mmlu/default/_default_template_yaml", 0), "mmlu-2": ("mmlu/default/_default_template_yaml", 2)}


def perplexities(tool, folder, model, other):
    """Return the perplexity of `model` with its error, and the results of `other` against it: label -> printed numbers."""
    def reply(*args):
        for _ in range(5):               # its log sometimes ends before the last lines
            done = subprocess.run([tool, "-f", IMATRIX / "text.txt", "-c", "64", "-t", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off",
                                   "--kl-divergence-base", folder / "base", *args], capture_output=True, text=True, check=True)
            if "Final estimate" in done.stdout + done.stderr or "Same top p:" in done.stdout + done.stderr:
                return done.stdout + done.stderr
        raise SystemExit("llama-perplexity says nothing")
    final = re.search(r"PPL = ([\d.]+) \+/- ([\d.]+)", reply("-m", model))
    return {"perplexity": [float(x) for x in final.groups()],
            "kl": {m[1].strip(): [float(x) for x in re.findall(r"-?[\d.]+", m[2])]
                   for m in re.finditer(r"^([A-Z0-9][^:\n]*(?:\([^\n]*\))?\s*):\s+(-?[\d.]+%?(?: ±\s+[\d.]+)?)", reply("-m", other, "--kl-divergence"), re.M)
                   if not m[1].startswith("0.")}}


def sliding(model, ids, length, stride):
    total, n, before = 0.0, 0, 1
    for begin in range(0, ids.shape[1], stride):
        end = min(begin + length, ids.shape[1])
        with torch.no_grad():
            logits = model(ids[:, begin:end]).logits[0].double().log_softmax(-1)
        for t in range(before, end):
            total -= logits[t - 1 - begin, ids[0, t]].item()
            n += 1
        before = end
        if end == ids.shape[1]:
            break
    return {"context": length, "stride": stride, "tokens": n, "perplexity": math.exp(total / n)}


def questions(model, tokenizer):
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    where = pathlib.Path(lm_eval.__file__).parent / "tasks"

    class Loader(yaml.SafeLoader):
        pass

    def function(folder):
        def read(loader, node):
            import importlib.util
            module, name = node.value.rsplit(".", 1)
            spec = importlib.util.spec_from_file_location(module, folder / f"{module}.py")
            made = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(made)
            return getattr(made, name)
        return read

    lm, found = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1), {}
    for name, (path, shots) in TASKS.items():
        Loader.add_constructor("!function", function((where / path).parent))
        form, scores = name.split("-")[0], []
        lines = [json.loads(line) for line in (GOLDEN / f"{form}.jsonl").read_text().splitlines()]
        for subject in sorted({line.get("subject", "") for line in lines}):
            with tempfile.TemporaryDirectory() as folder:
                files = {}
                for split, source in (("validation", form), ("dev", f"{form}-dev")):
                    if (GOLDEN / f"{source}.jsonl").exists():
                        files[split] = f"{folder}/{split}.jsonl"
                        kept = [x for x in (json.loads(s) for s in (GOLDEN / f"{source}.jsonl").read_text().splitlines()) if x.get("subject", "") == subject]
                        pathlib.Path(files[split]).write_text("".join(json.dumps(x) + "\n" for x in kept))
                config = yaml.load((where / path).read_text(), Loader)
                config.update(task=f"{name}{subject}", dataset_path="json", dataset_name=None, dataset_kwargs={"data_files": files},
                              test_split=None, validation_split="validation", num_fewshot=shots)
                config.pop("training_split", None)
                if subject:
                    config["description"] = f"The following are multiple choice questions (with answers) about {subject.replace('_', ' ')}.\n\n"
                done = lm_eval.simple_evaluate(model=lm, tasks=[config], log_samples=True, bootstrap_iters=0)
            for sample in sorted(done["samples"][f"{name}{subject}"], key=lambda s: s["doc_id"]):
                scores.append({"subject": subject, "logprobs": [r[0][0] if isinstance(r[0], (list, tuple)) else r[0] for r in sample["filtered_resps"]]
                               if isinstance(sample["filtered_resps"][0][0], (list, tuple)) else [r[0] for r in sample["filtered_resps"]],
                               "greedy": [bool(r[1]) for r in sample["filtered_resps"]], "acc": sample["acc"], "acc_norm": sample.get("acc_norm")})
        n = len(scores)
        acc = sum(s["acc"] for s in scores) / n
        found[name] = {"acc": acc, "stderr": math.sqrt(sum((s["acc"] - acc) ** 2 for s in scores) / (n - 1)) / math.sqrt(n),
                       "acc_norm": None if scores[0]["acc_norm"] is None else sum(s["acc_norm"] for s in scores) / n, "items": scores}
    return found


def main():
    lamina, tool = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for args in (("synth", IMATRIX / "dense.json", folder / "dense.gguf", "--type", "f32"),
                     ("synth", IMATRIX / "dense.json", folder / "dense", "--type", "f32"),
                     ("quantize", folder / "dense.gguf", folder / "q.gguf", "q4_0"),
                     ("quantize", folder / "q.gguf", folder / "wide.gguf", "f32", "--requantize")):
            subprocess.run([lamina, *args, "-q"], check=True)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder / "dense", dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "dense")
        ids = tokenizer((IMATRIX / "text.txt").read_text().removesuffix("\n"), return_tensors="pt").input_ids
        results = perplexities(tool, folder, folder / "dense.gguf", folder / "wide.gguf")
        results["sliding"] = [sliding(model, ids, 64, 32), sliding(model, ids, 50, 7), sliding(model, ids, 200, 199)]
        results["questions"] = questions(model, tokenizer)
    json.dump(results, sys.stdout, indent=1)


main()
