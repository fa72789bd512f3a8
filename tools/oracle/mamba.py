"""Weights and flips of models with Mamba layers."""

import sys

import torch

from reference import no_bias


def mixers(model):
    """Return the modules that have a state."""
    return [m for m in model.modules() if hasattr(m, "A_log")]


def decays(case, model, g):
    """Let states last: decays of 0.7 to 0.98 per position, and other values of D than those of norms."""
    for m in mixers(model):
        m.A_log.data.copy_(-2.5 + 1.5 * torch.rand(m.A_log.shape, generator=g))
        m.D.data.copy_(0.7 * torch.randn(m.D.shape, generator=g))


def per_mixer(change):
    """Return a flip that applies `change` to every module with a state."""
    def apply(model):
        with torch.no_grad():
            for m in mixers(model):
                change(m)
    return apply


def forgets(m):
    m.A_log.fill_(10.0)


def taps_reversed(m):
    m.conv1d.weight.copy_(m.conv1d.weight.flip(-1))


def no_skip(m):
    m.D.zero_()


def norm_first(model):
    """Normalise before the gate, not after it."""
    for m in model.modules():
        if type(m).__name__.endswith("RMSNormGated"):
            right = type(m).forward
            m.forward = lambda x, gate=None, m=m, right=right: right(m, x) * torch.nn.functional.silu(gate)


def one_group(model):
    """Normalise all lanes together."""
    for m in model.modules():
        if type(m).__name__.endswith("RMSNormGated"):
            m.group_size, m.n_groups = m.weight.numel(), 1


def groups_modulo(model):
    """Let head h read group h mod G, not h / (H/G)."""
    home = sys.modules[type(model).__module__]
    right = home.mamba2_chunk_scan

    def wrong(x, dt, A, B, C, **kw):
        n = x.shape[2] // B.shape[2]
        return right(x, dt, A, B.repeat(1, 1, n, 1), C.repeat(1, 1, n, 1), **kw)
    patched = {m: m.forward for m in mixers(model)}
    home.mamba2_chunk_scan = wrong
    def undo():
        home.mamba2_chunk_scan = right
    assert patched
    return undo


def one_decay(m):
    """Let all numbers of a lane decay alike."""
    m.A_log.copy_(m.A_log.mean(-1, keepdim=True).expand_as(m.A_log))


def gate_first(m):
    """Take the gate from the first half of in_proj."""
    m.in_proj.weight.copy_(m.in_proj.weight.roll(m.in_proj.weight.shape[0] // 2, 0))


def swapped(m):
    """Exchange B and C."""
    w, n = m.x_proj.weight, m.A_log.shape[1]
    w[-2 * n:] = w[-2 * n:].roll(n, 0)


def inner_norms_at_one(model):
    for name, p in model.named_parameters():
        if name.endswith(("dt_layernorm.weight", "b_layernorm.weight", "c_layernorm.weight")):
            p.data.fill_(1)


FLIPS = {"no state": per_mixer(forgets), "taps reversed": per_mixer(taps_reversed), "no skip": per_mixer(no_skip),
         "norm before gate": norm_first, "no dt_bias": no_bias("dt_bias")}
GROUPS = {"groups modulo": groups_modulo, "one group": one_group}
SCAN_FLIPS = {"no state": per_mixer(forgets), "taps reversed": per_mixer(taps_reversed), "no skip": per_mixer(no_skip), "one decay": per_mixer(one_decay),
              "gate first": per_mixer(gate_first), "B and C swapped": per_mixer(swapped), "no bias of the time step": no_bias("dt_proj.bias")}
