"""RecurrentGemma: gated linear recurrences after a short convolution, and attention with a window and one key/value head."""

import torch
from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM

from case import Case
from reference import uniform_attention

BASE = dict(vocab_size=144, hidden_size=48, intermediate_size=80, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1,
            attention_window_size=6, bos_token_id=2, eos_token_id=1, pad_token_id=0)


def recurrences(model):
    """Return the modules that have a state."""
    return [m for m in model.modules() if hasattr(m, "recurrent_param")]


def decays(case, model, g):
    """Let states last: decays of 0.6 to 0.98 per position where the gate is half open; gates that are open to varying degrees."""
    for m in recurrences(model):
        m.recurrent_param.data.copy_(-5 + 3 * torch.rand(m.recurrent_param.shape, generator=g))


def per_module(change, kind="Rglru"):
    def apply(model):
        with torch.no_grad():
            for m in model.modules():
                if type(m).__name__.endswith(kind):
                    change(m)
    return apply


def forgets(m):
    m.recurrent_param.fill_(20.0)


def taps_reversed(m):
    m.conv_1d.weight.copy_(m.conv_1d.weight.flip(-1))


def gates_swapped(m):
    w = m.input_gate_weight.clone()
    m.input_gate_weight.copy_(m.recurrent_gate_weight)
    m.recurrent_gate_weight.copy_(w)


def gates_transposed(m):
    for w in (m.input_gate_weight, m.recurrent_gate_weight):
        w.copy_(w.transpose(1, 2).clone())


def no_gate_bias(m):
    m.input_gate_bias.zero_()
    m.recurrent_gate_bias.zero_()


def no_start(m):
    """Treat the first position like all others."""
    right = type(m).forward
    m.forward = lambda x, positions: right(m, x, positions + 1)


def branch_linear(m):
    m.act_fn = torch.nn.Identity()


def unscaled(model):
    model.model.normalizer.fill_(1.0)


def unrounded(model):
    """Keep the factor of the embedding in float32."""
    model.model.normalizer = torch.tensor(model.config.hidden_size ** 0.5, dtype=torch.float32)


FLIPS = {"no state": per_module(forgets), "taps reversed": per_module(taps_reversed, "RecurrentBlock"), "gates swapped": per_module(gates_swapped),
         "gates transposed": per_module(gates_transposed), "no bias of the gates": per_module(no_gate_bias), "no first position": per_module(no_start),
         "no function of the branch": per_module(branch_linear, "RecurrentBlock"), "embedding unscaled": unscaled, "factor not rounded": unrounded,
         "attention uniform": uniform_attention, "no window": {"attention_window_size": 2048}, "all lanes rotated": {"partial_rotary_factor": 1.0},
         "no cap": {"logits_soft_cap": 1e6}}


def case(name, shows, flips, **kw):
    options = {k: kw.pop(k) for k in list(kw) if k in Case.__dataclass_fields__}
    return Case(name=name, family="recurrent_gemma", config=RecurrentGemmaConfig, model=RecurrentGemmaForCausalLM, shows=shows, init=decays,
                flips={**FLIPS, **flips}, gguf=False, gguf_note="llama.cpp has no architecture for it", kwargs={**BASE, **kw}, **options)


CASES = [
    case("griffin", "two layers with a state and one with attention, repeated and cut; a window, one key/value head, half of the lanes rotated; tied",
         {}, rows=(24, 3)),
    case("wide", "states narrower than the model, three taps, another pattern, biases of q, k and v, two key/value heads; untied, BF16", {},
         lru_width=40, conv1d_width=3, block_types=["attention", "recurrent"], num_hidden_layers=3, attention_bias=True, num_key_value_heads=2,
         logits_soft_cap=5.0, tie_word_embeddings=False, rows=(20,), dtype="BF16", spelling="v5"),
]
