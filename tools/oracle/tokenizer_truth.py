"""The reference tokenizers: the tokenizers library on the assets of build/assets, without other layers.

transformers' AutoTokenizer is not a reference: it rewrites parts of the files.
"""
import json
import tempfile
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

NAMES = ("mistral", "llama3_1", "qwen3", "deepseek_v3", "smollm2", "gpt2")
DEMO = "smollm2-135m-instruct-q4_1.gguf"


def gpt2(folder: Path) -> Tokenizer:
    model = models.BPE.from_file(str(folder / "encoder.json"), str(folder / "vocab.bpe"))
    t = Tokenizer(model)
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False)])
    return t


def smollm2(path: Path) -> Tokenizer:
    """Return the demo model's tokenizer: byte-level BPE from GGUF keys, digits one by one before GPT-2's pattern."""
    from gguf import GGUFReader
    fields = GGUFReader(str(path)).fields
    tokens = [bytes(fields["tokenizer.ggml.tokens"].parts[i]).decode() for i in fields["tokenizer.ggml.tokens"].data]
    merges = [bytes(fields["tokenizer.ggml.merges"].parts[i]).decode() for i in fields["tokenizer.ggml.merges"].data]
    types = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
    vocab = {t: i for i, t in enumerate(tokens)}
    t = Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(tokens[i], special=True, normalized=False) for i, k in enumerate(types) if k == 3])
    return t


def load(name: str, assets: Path) -> Tokenizer:
    folder = assets / "tokenizers" / name
    if name == "gpt2":
        return gpt2(folder)
    if name == "smollm2":
        return smollm2(assets / DEMO)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))
