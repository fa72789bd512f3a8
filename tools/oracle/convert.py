"""The GGUF twin, by llama.cpp's own converter: its names, keys and permutations, not ours.

The converter lives in the source package of llama-cpp-python (vendor/llama.cpp: convert_hf_to_gguf.py and conversion/);
its place is given by a flag, nothing of it is copied here.
"""

import logging
import sys
import tempfile
from pathlib import Path

import store
from case import Case

OUTTYPE = {"F32": "ALL_F32", "BF16": "MOSTLY_BF16", "F16": "MOSTLY_F16"}


def load(llama_cpp: Path):
    """llama.cpp's conversion package; its table of known pre-tokenizers is asked for GPT-2's, which ours is."""
    if "conversion" not in sys.modules:
        sys.path[:0] = [str(llama_cpp / "gguf-py"), str(llama_cpp)]
        import conversion.base
        conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
        for name in ("hf-to-gguf", "gguf", "conversion"):
            logging.getLogger(name).setLevel(logging.ERROR)
    import conversion
    return conversion


def gguf(case: Case, folder: Path, llama_cpp: Path, out: Path) -> None:
    """Writes `out` from the Hugging Face folder of the case."""
    conversion = load(llama_cpp)
    import gguf as g                    # the one beside the converter, which may be newer than the package
    import torch
    with tempfile.TemporaryDirectory() as tmp:
        work = Path(tmp) / case.path.replace("/", "-")      # the converter takes the model's name from its folder
        work.mkdir()
        for file in folder.iterdir():
            if file.suffix in (".json", ".safetensors") and not file.name.startswith("golden"):
                (work / file.name).symlink_to(file.resolve())
        for name, text in store.tokenizer(case.kwargs["vocab_size"]).items():
            if not (work / name).exists():
                (work / name).write_text(text)
        hparams = conversion.ModelBase.load_hparams(work, False)
        kind = conversion.get_model_class(conversion.get_model_architecture(hparams, conversion.ModelType.TEXT))
        with torch.inference_mode():
            kind(work, getattr(g.LlamaFileType, OUTTYPE[case.dtype]), out, eager=True).write()
