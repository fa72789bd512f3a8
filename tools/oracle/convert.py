"""Make the GGUF twin with llama.cpp's own converter: its names, keys and permutations, not ours.

The converter is in the source package of llama-cpp-python (vendor/llama.cpp: convert_hf_to_gguf.py and conversion/);
a flag gives its path, and nothing of it is copied here.
"""

import json
import logging
import sys
import tempfile
from pathlib import Path

import store
from case import Case

OUTTYPE = {"F32": "ALL_F32", "BF16": "MOSTLY_BF16", "F16": "MOSTLY_F16"}


def load(llama_cpp: Path):
    """Load llama.cpp's conversion package, and make it recognise every pre-tokenizer as GPT-2's, which ours is."""
    if "conversion" not in sys.modules:
        sys.path[:0] = [str(llama_cpp / "gguf-py"), str(llama_cpp)]
        import conversion.base
        conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
        for name in ("hf-to-gguf", "gguf", "conversion"):
            logging.getLogger(name).setLevel(logging.ERROR)
    import conversion
    return conversion


# models that the converter knows only by the class that they are published in
WRAPPED = {"PhimoeForCausalLM": "PhiMoEForCausalLM", "Mistral4ForCausalLM": "Mistral3ForConditionalGeneration"}


def finished(kind):
    """Return the converter class, extended to also yield what its generators return (StableLM's stacked norms)."""
    class Finished(kind):
        model_arch = kind.model_arch

        def modify_tensors(self, data_torch, name, bid):
            more = yield from kind.modify_tensors(self, data_torch, name, bid)
            if more is not None:
                yield from more
    return Finished


def gguf(case: Case, folder: Path, llama_cpp: Path, out: Path) -> None:
    """Write `out` from the Hugging Face folder of the case."""
    conversion = load(llama_cpp)
    import gguf as g                    # the copy next to the converter, which may be newer than the installed package
    import torch
    with tempfile.TemporaryDirectory() as tmp:
        # the converter takes the model's name from its folder; llama.cpp requires special tokens if the name contains phi3
        work = Path(tmp) / case.path.replace("/", "-").replace("phi3", "phi-mini")
        work.mkdir()
        for file in folder.iterdir():
            if file.suffix in (".json", ".safetensors") and not file.name.startswith("golden"):
                (work / file.name).symlink_to(file.resolve())
        for name, text in store.tokenizer(case.kwargs["vocab_size"]).items():
            if not (work / name).exists():
                (work / name).write_text(text)
        hparams = conversion.ModelBase.load_hparams(work, False)
        if case.raw_config:
            hparams = json.loads((work / "config.json").read_text())
        architecture = conversion.get_model_architecture(hparams, conversion.ModelType.TEXT)
        kind = conversion.get_model_class(WRAPPED.get(architecture, architecture))
        if case.plain_vocab:
            kind = type(kind.__name__, (kind,), {"model_arch": kind.model_arch, "set_vocab": lambda self: self._set_vocab_gpt2()})
        if case.converter:
            kind = type(kind.__name__, (kind,), {"model_arch": kind.model_arch, **case.converter(kind)})
        kind.no_mtp = case.extra is None    # layers that predict further tokens
        with torch.inference_mode():
            finished(kind)(work, getattr(g.LlamaFileType, OUTTYPE[case.dtype]), out, eager=True, hparams=hparams).write()


def rewrite(path: Path, keys=(), tensors=(), replace=None, drop=()) -> None:
    """Rewrite a file with additional keys [(name, value, type)] and tensors [(name, array)] or [(name, bytes, type)], without those in
    `drop`, and optionally with other data for its tensors: replace(name, tensor) -> (array, type)."""
    import gguf as g
    import numpy as np
    old = g.GGUFReader(path)
    new = g.GGUFWriter(path.with_suffix(".new"), old.fields["general.architecture"].contents())
    for name, f in old.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture" or name in {k for k, _, _ in keys} | set(drop):
            continue
        sub = f.types[-1] if f.types[0] == g.GGUFValueType.ARRAY else None
        new.add_key_value(name, f.contents(), f.types[0], sub_type=sub)
    for name, value, kind in keys:
        new.add_key_value(name, value, kind)
    for name, data, *kind in tensors:
        new.add_tensor(name, data, raw_dtype=kind[0] if kind else None)
    for t in old.tensors:
        if t.name in drop:
            continue
        data, kind = replace(t.name, t) if replace else (np.array(t.data), t.tensor_type)
        new.add_tensor(t.name, data, raw_dtype=kind)
    new.write_header_to_file()
    new.write_kv_data_to_file()
    new.write_tensors_to_file()
    new.close()
    path.with_suffix(".new").replace(path)


def experts_apart(case: Case, path: Path) -> None:
    """Rewrite a twin as in files of early 2024: one tensor per expert, "blk.0.ffn_gate.2.weight"."""
    import gguf as g
    import numpy as np
    stacks = [t for t in g.GGUFReader(path).tensors if "_exps" in t.name]
    rewrite(path, drop=[t.name for t in stacks],
            tensors=[(t.name.replace("_exps.", f".{e}."), np.array(t.data[e]), t.tensor_type) for t in stacks for e in range(len(t.data))])


def ones_dropped(case: Case, path: Path) -> None:
    """Drop the slowest dimensions of size one, as ggml does when it writes tensors (in every quantised file)."""
    def shaped(name, t):
        import numpy as np
        x = np.array(t.data)
        while x.ndim > 1 and x.shape[0] == 1:
            x = x[0]
        return x, t.tensor_type
    rewrite(path, replace=shaped)


def longrope(case: Case, path: Path) -> None:
    """Add the keys and tensors that llama.cpp needs for longrope; its Llama converter omits them, its Phi-3 converter writes them."""
    import math

    import gguf as g
    import numpy as np
    rope = case.kwargs["rope_parameters"]
    factor, original = rope["factor"], rope["original_max_position_embeddings"]
    attention = rope.get("attention_factor") or math.sqrt(1 + math.log(factor) / math.log(original))
    rewrite(path,
            keys=[(f"{case.family}.rope.scaling.attn_factor", attention, g.GGUFValueType.FLOAT32),
                  (f"{case.family}.rope.scaling.original_context_length", original, g.GGUFValueType.UINT32)],
            tensors=[("rope_factors_long.weight", np.array(rope["long_factor"], np.float32)),
                     ("rope_factors_short.weight", np.array(rope["short_factor"], np.float32))])
