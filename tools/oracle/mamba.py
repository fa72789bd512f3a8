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


FLIPS = {"no state": per_mixer(forgets), "taps reversed": per_mixer(taps_reversed), "no skip": per_mixer(no_skip),
         "norm before gate": norm_first, "no dt_bias": no_bias("dt_bias")}
GROUPS = {"groups modulo": groups_modulo, "one group": one_group}
