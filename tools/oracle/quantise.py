"""Quantised GGUF files by llama.cpp's own quantisers, and their weights in float32.

Three kinds: a mixture as llama.cpp chooses it (`Q4_K_M`: the file that users have), a list of types that the tensors take in
rotation, so that one small file contains every type, and separate types for some tensors of each layer. Reference: the weights as
gguf-py dequantises them, in transformers, float32.
"""

import ctypes
import tempfile
from itertools import cycle
from pathlib import Path

import numpy as np
import torch


def ggml():
    import llama_cpp
    return ctypes.CDLL(str(next((Path(llama_cpp.__file__).parent / "lib").glob("libggml-base.so*"))))


def mixture(name: str):
    """Return a quantiser: llama_model_quantize with a file type of llama.h, one thread."""
    def quantise(source: Path, out: Path):
        import llama_cpp
        import peer
        peer.quiet()
        options = llama_cpp.llama_model_quantize_default_params()
        options.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{name}")
        options.nthread = 1
        if llama_cpp.llama_model_quantize(str(source).encode(), str(out).encode(), ctypes.byref(options)):
            raise SystemExit(f"llama.cpp cannot quantise to {name}")
    return quantise


def by_name(choose):
    """Return a quantiser that gives each matrix the type that `choose` returns for its name; None leaves it unchanged."""
    def quantise(source: Path, out: Path):
        import gguf
        import convert
        chunk = ggml().ggml_quantize_chunk
        chunk.restype = ctypes.c_size_t

        def one(name, tensor):
            data = np.array(tensor.data)
            kind = choose(name) if data.ndim >= 2 else None
            if kind in (None, "F32"):
                return data, tensor.tensor_type
            kind = gguf.GGMLQuantizationType[kind]
            width = data.shape[-1]
            packed = np.empty(gguf.quant_shape_to_byte_shape(data.shape, kind), np.uint8)
            even = np.ones(width, np.float32)       # some types require an importance per column
            used = chunk(ctypes.c_int(int(kind)), data.ctypes.data_as(ctypes.c_void_p), packed.ctypes.data_as(ctypes.c_void_p),
                         ctypes.c_int64(0), ctypes.c_int64(data.size // width), ctypes.c_int64(width),
                         even.ctypes.data_as(ctypes.c_void_p))
            assert used == packed.nbytes, (kind, used, packed.nbytes)
            return packed, kind

        out.write_bytes(source.read_bytes())
        convert.rewrite(out, replace=one)
    return quantise


def in_turn(*types: str):
    """Return a quantiser that gives these types in rotation to the matrices, in the order of the file."""
    turn = cycle(types)
    return by_name(lambda _name: next(turn))


def layers(**types: tuple[str, ...]):
    """Return a quantiser that gives the matrix `part` of layer i the type types[part][i]."""
    def choose(name):
        words = name.split(".")
        return types[words[2]][int(words[1])] if words[0] == "blk" and words[2] in types else None
    return by_name(choose)


def weights(path: Path) -> dict[str, torch.Tensor]:
    """Return the float32 weights of a Llama or Mixtral GGUF by Hugging Face names; rows of q and k go from adjacent pairs to halves."""
    import gguf
    reader = gguf.GGUFReader(path)
    key = lambda k: reader.fields[f"llama.{k}"].contents()
    heads = {"attn_q": key("attention.head_count"), "attn_k": key("attention.head_count_kv")}
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    parts = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_output": "self_attn.o_proj"}
    parts |= {f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"} | {f"ffn_{x}": f"mlp.{x}_proj" for x in ("gate", "up", "down")}
    parts |= {"ffn_gate_inp": "mlp.gate"} | {f"ffn_{x}_exps": f"mlp.experts.{x}_proj" for x in ("gate", "up", "down")}
    out = {}
    for t in reader.tensors:
        stem, suffix = t.name.rsplit(".", 1)
        if stem.startswith("rope_"):
            continue
        value = torch.from_numpy(gguf.dequantize(np.array(t.data), t.tensor_type).astype(np.float32).copy())
        if stem.startswith("blk."):
            _, layer, part = stem.split(".")
            if part in heads:
                n = heads[part]
                value = value.reshape(n, -1, 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
            name = f"model.layers.{layer}.{parts[part]}"
        else:
            name = names[stem]
        out[name if "experts" in name else f"{name}.{suffix}"] = value.contiguous()
    for gate in [name for name in out if name.endswith("experts.gate_proj")]:
        stem = gate.removesuffix("gate_proj")
        out[f"{stem}gate_up_proj"] = torch.cat([out.pop(gate), out.pop(f"{stem}up_proj")], 1)
    return out


def load(model, path: Path) -> None:
    """Load the weights of the file into the model; a file without an output matrix has tied embeddings."""
    state = weights(path)
    if "lm_head.weight" not in state:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    model.tie_weights()


def make(case, model, llama_cpp: Path, out: Path) -> None:
    """Write the quantised file of this model and load it back into the model."""
    import convert
    import store
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        store.hugging_face(case, model, tmp)
        convert.gguf(case, tmp, llama_cpp, tmp / "f32.gguf")
        case.quantise(tmp / "f32.gguf", out)
    load(model, out)
