"""A case: one tiny model, what it proves, and how it is stored.

A family is one file in families/ that ends in a list CASES. The reference, the stores and the converter do not depend
on the family: they read what they need from the case.
"""

from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Callable


@dataclass(frozen=True)
class Case:
    name: str                       # folder below tests/golden/<family>/
    family: str
    config: type                    # the transformers configuration class
    model: type                     # the transformers model class
    kwargs: dict[str, Any]
    shows: str                      # what would be untested without this case
    flips: dict[str, Any]           # label -> config overrides, or a function of the model that breaks one feature;
                                    # each must move the logits by more than FLIP
    rows: tuple[int, ...] = (24,)   # lengths without padding; equal ones share a golden file, each other length has its own
    spelling: str = "v4"            # of config.json: v4 `rope_theta`, `rope_scaling`; v5 `rope_parameters`
    drop: tuple[str, ...] = ()      # keys removed from config.json, as in older checkpoints
    respell: dict[str, Any] = field(default_factory=dict)   # entries of config.json that are replaced verbatim
    extra: Callable | None = None   # tensors stored besides the weights
    relaid: Callable | None = None  # converts the stored folder to the layout of another family with the same computation
    stored: Callable | None = None  # makes the file's tensors from those that save_pretrained writes
    dtype: str = "F32"              # storage of the matrices; arithmetic is always float32
    shard_bytes: int = 0            # > 0: several files and an index
    tokenizer: bool = False         # also a tokenizer.json
    gguf: bool = True
    raw_config: bool = False        # the converter reads config.json itself, not the configuration that transformers makes from it
    peer: bool = True               # llama.cpp can run the twin
    gguf_note: str = ""             # why there is no twin, or how it differs
    gguf_patch: Callable | None = None      # changes the twin, for example adds what the converter does not write
    converter: Callable | None = None       # methods of the converter's class that replace its own, made from the class
    plain_vocab: bool = False       # give the converter our BPE instead of the SentencePiece model or special tokens that it expects
    quantise: Any = None            # quantised files only: see quantise.py
    peer_options: dict[int, Any] = field(default_factory=dict)     # length -> options of llama.cpp's context for rows of that length
    taps: bool = True
    module: tuple[str, str] | Callable = ("", "")       # a prefix of module paths in transformers, and its form in files; or a function
    attention: str = "eager"        # sdpa if eager is wrong
    greedy: int = 24
    init: Callable | None = None    # changes weights after reference.sensitive()

    def in_files(self, path: str) -> str:
        """Return a module's path as files spell it."""
        if callable(self.module):
            return self.module(path)
        return self.module[1] + path.removeprefix(self.module[0]) if path.startswith(self.module[0]) else path

    @property
    def path(self) -> str:
        return f"{self.family}/{self.name}"


def bare(tensors: dict[str, Any]) -> dict[str, Any]:
    """A function for `stored`: rename the tensors as in a decoder saved without its head, "layers.0…" for "model.layers.0…"."""
    return {name.removeprefix("model."): x for name, x in tensors.items()}


BARE = dict(stored=bare, taps=False, tie_word_embeddings=True, gguf=False, gguf_note="the twin would be that of the whole model")

FLIP = 1e-2         # a wrong feature must change some logit by more than this
MARGIN = 0.02       # minimum between the two best logits at every greedy step, so that rounding cannot change an id


def all_cases() -> list[Case]:
    cases = []
    for file in sorted((Path(__file__).parent / "families").glob("*.py")):
        if file.stem != "__init__":
            cases += import_module(f"families.{file.stem}").CASES
    paths = [c.path for c in cases]
    assert len(set(paths)) == len(paths), "two cases of one name"
    return cases
