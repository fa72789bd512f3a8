#!/usr/bin/env python3
"""tests/golden/trace/*.safetensors: values inside one tiny model of each kind by hooks of transformers, and the logits without a part.

For each case, in float32 on the first tokens of its own golden: outputs of each layer, attention and MLP (value.PATH [T, D]), the weights
of attention (weights.PATH [H, T, T]), probabilities of the logit lens after each layer for the last row (lens.PATH [V]), logits [T, V] with
one part removed (ablate.WHAT, WHAT as `lamina trace --set` writes it), with a vector added to the states after layers (vector.PATH [D],
steered), and the mean difference of two pairs of texts (pairs, direction.N [D]). vector.gguf: such a vector in llama.cpp's form, by gguf-py.
"""
import json
from pathlib import Path

import gguf
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parents[2] / "tests" / "golden"
LENGTH = 12
SCALE = 1.5

# layers; within a layer: attention, the projection of its heads, the MLP, the projection of its neurons; the last norm.
LLAMA = ("model.layers", "self_attn", "o_proj", "mlp", "down_proj", "model.norm")
CASES = {
    "llama/gqa": LLAMA,                                                              # grouped queries
    "deepseek_v2/groups": LLAMA,                                                      # a latent, experts with shared ones
    "mistral/window": LLAMA,                                                         # windows
    "gemma2/caps": LLAMA,                                                            # caps on scores and logits, norms after both parts
    "mixtral/experts": ("model.layers", "self_attn", "o_proj", "block_sparse_moe", None, "model.norm"),
    "bloom/alibi": ("transformer.h", "self_attention", "dense", "mlp", "dense_4h_to_h", "transformer.ln_f"),
    "gpt_neox/pythia": ("gpt_neox.layers", "attention", "dense", "mlp", "dense_4h_to_h", "gpt_neox.final_layer_norm"),      # parallel blocks
    "gpt2/plain": ("transformer.h", "attn", "c_proj", "mlp", "c_proj", "transformer.ln_f"),      # learned positions
}


def first(x):
    return x[0] if isinstance(x, tuple) else x


class Hooks:
    def __init__(self, model):
        self.model, self.handles = model, []

    def after(self, path, f):
        """Call f(output) after a module; its result replaces the output unless it is None."""
        def hook(module, args, out):
            new = f(first(out))
            if new is None:
                return None
            return (new, *out[1:]) if isinstance(out, tuple) else new
        self.handles.append(self.model.get_submodule(path).register_forward_hook(hook))

    def before(self, path, f):
        self.handles.append(self.model.get_submodule(path).register_forward_pre_hook(lambda module, args: (f(args[0]), *args[1:])))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for h in self.handles:
            h.remove()


def without(lanes):
    def f(x):
        x = x.clone()
        x[..., lanes] = 0
        return x
    return f


def theirs(path, name):
    """Return the path in this version of transformers, where a mixture's MLP may have another name than in checkpoints."""
    return path.replace("block_sparse_moe", "mlp") if name.startswith("mixtral") else path


@torch.no_grad()
def trace(name, parts):
    layers, attention, reads_heads, mlp, reads_neurons, norm = parts
    folder = ROOT / name
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = load_file(folder / "golden.safetensors")["input_ids"][:1, :LENGTH]
    n_layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    out = {"ids": ids[0]}
    own = ".dense" if name.startswith("bloom") else ""      # its modules add the residual; the projection gives the value before
    modules = dict(model.named_modules())

    def at(path):
        return path if path in modules else theirs(path, name)

    def logits():
        return model(input_ids=ids, use_cache=False).logits[0].float().contiguous()

    with Hooks(model) as h:
        def keep(path):
            def f(x):
                out[f"value.{path}"] = x.reshape(-1, x.shape[-1]).clone()
            return f
        for i in range(n_layers):
            for path in (f"{layers}.{i}", f"{layers}.{i}.{attention}{own}", f"{layers}.{i}.{mlp}{own and '.' + reads_neurons}"):
                h.after(at(path), keep(path))
        result = model(input_ids=ids, use_cache=False, output_attentions=True)
    out["logits"] = result.logits[0].float().contiguous()
    for i, a in enumerate(result.attentions):
        out[f"weights.{layers}.{i}.{attention}"] = a[0].float().contiguous()

    with Hooks(model) as h:                              # the lens: norm and head of the model applied to the state after a layer
        state = {}
        h.before(norm, lambda x: state["x"] if "x" in state else x)
        for i in range(n_layers):
            state["x"] = out[f"value.{layers}.{i}"][None]
            out[f"lens.{layers}.{i}"] = torch.softmax(logits()[-1].double(), -1).float()

    for i in range(n_layers):
        with Hooks(model) as h:
            path = at(f"{layers}.{i}.{attention}.{reads_heads}")
            width = (modules[path].weight.shape[0] if name.startswith("gpt2") else modules[path].weight.shape[1]) // heads
            h.before(path, without(slice(width, 2 * width)))
            out[f"ablate.{layers}.{i}.{attention}#head1=0"] = logits()
        with Hooks(model) as h:
            h.after(at(f"{layers}.{i}.{mlp}{own and '.' + reads_neurons}"), torch.zeros_like)
            out[f"ablate.{layers}.{i}.{mlp}{own and '.' + reads_neurons}=0"] = logits()
        neurons = reads_neurons and at(f"{layers}.{i}.{mlp}.{reads_neurons}")
        if neurons in modules:
            with Hooks(model) as h:
                h.before(neurons, without(slice(3, 4)))
                out[f"ablate.{layers}.{i}.{mlp}#neuron3=0"] = logits()
        gate = at(f"{layers}.{i}.{mlp}") + ".gate"
        if name.startswith("mixtral") and gate in modules:
            with Hooks(model) as h:                      # experts: set one expert's weights from the router to zero
                def close(m, args, y):
                    if isinstance(y, tuple):             # logits, weights, numbers
                        return (y[0], torch.where(y[2] == 1, torch.zeros_like(y[1]), y[1]), y[2])
                    return None
                h.handles.append(modules[gate].register_forward_hook(close))
                changed = logits()
                if not torch.equal(changed, out["logits"]):
                    out[f"ablate.{layers}.{i}.{mlp}#expert1=0"] = changed

    generator = torch.Generator().manual_seed(7)
    with Hooks(model) as h:
        for i in range(1, n_layers):
            v = torch.randn(out[f"value.{layers}.{i}"].shape[-1], generator=generator)
            out[f"{layers}.{i}"] = v
            h.after(f"{layers}.{i}", lambda x, v=v: x + SCALE * v)
        out["steered"] = logits()

    pairs = [[[5, 7, 11], [5, 7, 13]], [[2, 3, 4, 6], [8, 9]]]
    sums = {}
    with Hooks(model) as h:
        state = {}
        for i in range(1, n_layers):
            h.after(f"{layers}.{i}", lambda x, i=i: state.__setitem__(i, x[0, -1].clone()))
        for yes, no in pairs:
            for sign, text in ((1, yes), (-1, no)):
                model(input_ids=torch.tensor([text]), use_cache=False)
                for i, x in state.items():
                    sums[i] = sums.get(i, 0) + sign * x / len(pairs)
    for i, x in sums.items():
        out[f"direction.{i}"] = x.contiguous()
    return {k: v.contiguous() for k, v in out.items()}, pairs


def control_vector(path, tensors, layers):
    w = gguf.GGUFWriter(path, "controlvector")
    w.add_string("controlvector.model_hint", "llama")
    w.add_uint32("controlvector.layer_count", len(layers))
    for i in layers:
        w.add_tensor(f"direction.{i}", tensors[f"model.layers.{i}"].numpy())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main() -> None:
    torch.set_num_threads(1)
    folder = ROOT / "trace"
    folder.mkdir(exist_ok=True)
    for name, parts in CASES.items():
        tensors, pairs = trace(name, parts)
        save_file(tensors, folder / f"{name.replace('/', '-')}.safetensors", metadata={
            "source": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32, eager", "model": name,
            "layers": parts[0], "pairs": json.dumps(pairs), "scale": str(SCALE)})
        print(name, len(tensors), sum(t.numel() * t.element_size() for t in tensors.values()), [k for k in tensors if k.startswith("ablate")][:5])
        if name == "llama/gqa":
            control_vector(folder / "vector.gguf", tensors, range(1, sum(k.startswith("direction") for k in tensors) + 1))


if __name__ == "__main__":
    main()
