"""Reference by transformers in float32: models with sensitive weights, their logits, taps and greedy continuation."""

import copy
from contextlib import contextmanager

import torch

from case import FLIP, MARGIN, Case

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def build(case: Case, overrides: dict | None = None) -> torch.nn.Module:
    """Return the model of a case; its weights are not set yet."""
    config = case.config(**copy.deepcopy({**case.kwargs, **(overrides or {})}))
    config._attn_implementation = case.attention
    with torch.device("cpu"):
        return case.model(config).float().eval()


def sensitive(case: Case, model: torch.nn.Module, seed: int) -> None:
    """Set weights with which every part matters: attention far from uniform, no bias and no norm at its default.

    Values are rounded to the storage type here, so that the reference computes in float32 with the values of the file.
    """
    g = torch.Generator().manual_seed(seed)
    normal = lambda shape: torch.randn(shape, generator=g)
    tied = getattr(model.config, "tie_word_embeddings", False)
    last_norm = None
    done = set()
    for name, p in model.named_parameters():
        if p.data_ptr() in done:
            continue
        done.add(p.data_ptr())
        if name.endswith("bias"):
            value = 0.3 * normal(p.shape)
        elif p.dim() == 1:
            value = 1 + 0.35 * normal(p.shape)
            last_norm = name if "layers." not in name and ".h." not in name else last_norm
        else:
            gain = 1.8 if any(s in name for s in ("q_proj", "k_proj")) else 1.3
            fan_in = p.shape[-1]
            value = normal(p.shape) * (0.8 if "embed" in name else gain / fan_in ** 0.5)
        p.data.copy_(value)
    if tied and last_norm:              # otherwise the row of the last token wins and greedy decoding repeats it
        p = model.get_parameter(last_norm)
        p.data.mul_(torch.where(torch.rand(p.shape, generator=g) < 0.5, -1.0, 1.0))
        table = model.get_input_embeddings().weight
        table.data.mul_(0.6 * (32 / table.shape[1]) ** 0.5)
    if case.init:
        case.init(case, model, g)
    if case.dtype != "F32":
        for name, p in model.named_parameters():
            p.data.copy_(p.data.to(DTYPES[case.dtype]).float())


def tokens(case: Case, seed: int) -> list[torch.Tensor]:
    """Return one [1, T] row of random ids per sequence."""
    g = torch.Generator().manual_seed(1000 + seed)
    return [torch.randint(0, case.kwargs["vocab_size"], (1, n), generator=g) for n in case.rows]


def positions(chosen):
    """Return chosen positions [B, T, k] in rising order, -1 past those that a row sees: what lies behind a row is in its choice when it sees fewer."""
    rows = torch.arange(chosen.shape[1], device=chosen.device)[None, :, None]
    seen = torch.where(chosen <= rows, chosen, chosen.shape[1]).sort(-1).values
    return torch.where(seen < chosen.shape[1], seen, -1).float()


@contextmanager
def hooks(model, taps):
    """Collect the output of every module under its path (except rotary tables, activations and containers)."""
    handles = []
    def keep(path):
        def hook(module, _args, out):
            if type(module).__name__.endswith("HyperConnection"):   # numbers for what follows, and what the branch reads
                out = out[-1]
            out = out[0] if isinstance(out, tuple) else out
            if isinstance(module, torch.nn.Conv1d):         # [B, C, T + padding]: the last ones are of no position
                out = out[..., :out.shape[-1] - module.padding[0]].transpose(1, 2).contiguous()
            if isinstance(out, torch.Tensor) and out.dim() == 3:
                taps[path] = out.detach().clone() if out.is_floating_point() else positions(out)
        return hook
    for path, module in model.named_modules():
        leaf = path.rsplit(".", 1)[-1]
        if path and leaf not in ("model", "transformer", "lm_head", "act_fn", "act", "activation_fn", "activation", "rotary_emb") and "dropout" not in leaf:
            handles.append(module.register_forward_hook(keep(path)))
    yield
    for h in handles:
        h.remove()


@torch.no_grad()
def logits(model, ids, taps=None):
    """Return the logits of all positions at once. The model is copied, so that rotary tables that remember lengths start afresh."""
    model = copy.deepcopy(model)
    if taps is None:
        return model(input_ids=ids, use_cache=False).logits.float()
    with hooks(model, taps):
        return model(input_ids=ids, use_cache=False).logits.float()


@torch.no_grad()
def greedy(model, ids, n):
    """Return n greedy ids after the prompt and their smallest margin, with a cache as in transformers' generate.

    The cache matters if the rotary base depends on the length: earlier keys keep the base with which they were written.
    """
    model = copy.deepcopy(model)
    out, margin, past, step = [], float("inf"), None, ids
    for _ in range(n):
        result = model(input_ids=step, past_key_values=past, use_cache=True)
        past = getattr(result, "past_key_values", None)
        best = result.logits[0, -1].float().topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        out.append(best.indices[0].item())
        step = best.indices[:1].view(1, 1) if past is not None else torch.cat([step, best.indices[:1].view(1, 1)], 1)
    return out, margin


def prepare(case: Case, quantised=None):
    """Find the first seed with wide greedy margins and at least 6 distinct ids in each continuation; return (model, seed, rows).

    `quantised(case, model)` writes the file and loads its weights into the model.
    """
    for seed in range(2000):
        model = build(case)
        sensitive(case, model, seed)
        if quantised:
            quantised(case, model)
        rows = tokens(case, seed)
        found = []
        for ids in rows:
            out, margin = greedy(model, ids, case.greedy)
            if margin < MARGIN or len(set(out)) < min(6, case.greedy):
                break
            found.append((ids, out, margin))
        if len(found) == len(rows):
            return model, seed, found
    raise SystemExit(f"{case.path}: no seed gives wide greedy margins")


def flipped(case: Case, model, ids) -> dict[str, float]:
    """Return how far the logits move per flip, that is when one feature is wrong; exit if a flip moves them too little."""
    base = logits(model, ids)
    flips = {"norms are one": ones, "positions ignored": unrotated, **case.flips}
    moved = {}
    for label, flip in flips.items():
        if callable(flip):
            other = copy.deepcopy(model)
            undo = flip(other)
            if undo is NotImplemented:
                continue
        else:
            other, undo = build(case, flip), None
            other.load_state_dict(model.state_dict(), strict=False)
            other.tie_weights()
        difference = (logits(other, ids) - base).abs().max().item()
        if undo:
            undo()
        if not difference > FLIP:
            raise SystemExit(f"{case.path}: '{label}' moves the logits by {difference:.2g} only")
        moved[label] = difference
    return moved


# Flips that any family may use: each makes one feature wrong.

def ones(model):
    """Set every norm weight to its default."""
    found = [p for name, p in model.named_parameters() if p.dim() == 1 and not name.endswith("bias")]
    for p in found:
        p.data.fill_(1.0)
    return None if found else NotImplemented


def unrotated(model):
    """Set all rotary angles to zero."""
    found = [m for m in model.modules() if hasattr(m, "inv_freq")]
    for module in found:
        module.register_forward_hook(lambda _m, _a, out: torch.ones_like(out) if torch.is_tensor(out)     # e^(i angle)
                                     else (torch.ones_like(out[0]), torch.zeros_like(out[1])))
    return None if found else NotImplemented


def no_bias(part):
    """Return a flip that sets the biases of modules whose name contains `part` to zero."""
    def flip(model):
        for name, p in model.named_parameters():
            if name.endswith("bias") and part in name:
                p.data.zero_()
    return flip


def uniform_attention(model):
    """Multiply the scores by zero."""
    for module in model.modules():
        if hasattr(module, "scaling"):
            module.scaling = 0.0


def kv_modulo(model):
    """Let query head h read key-value head h mod G, not h / (H/G)."""
    from sys import modules
    home = modules[type(model).__module__]
    right = home.repeat_kv
    home.repeat_kv = lambda x, n: x.repeat(1, n, 1, 1)
    def undo():
        home.repeat_kv = right
    return undo


def scale_of(width):
    """Return a flip that divides the scores by the square root of another width."""
    def flip(model):
        for module in model.modules():
            if hasattr(module, "scaling"):
                module.scaling = width ** -0.5
    return flip


def other_head(model):
    """Give the model a head that differs from the embedding."""
    head = model.get_output_embeddings()
    head.weight = torch.nn.Parameter(head.weight.data.roll(1, 0))
