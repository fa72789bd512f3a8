#!/usr/bin/env python3
"""Golden cases for the sampler: logits and options -> the remaining tokens with their probabilities.

    samplers.py > tests/golden/sampler/cases.txt

Stages that transformers implements are computed by its logits processors in float64 (top-k, top-p, min-p, typical,
temperature, repetition penalty). The others follow their published descriptions, as naively as possible: presence and
frequency penalties (OpenAI API reference), top-n-sigma (2411.07641), mirostat 2 (2007.14966), DRY and XTC (the proposals
for text-generation-webui), dynamic temperature (entropy-scaled, as in llama.cpp's documentation).

Each case is a few lines: `case NAME`, `set OPTION VALUE`, `bias ID VALUE`, `history IDS`, `breaker HEAD TAIL...`,
`logits VALUES`, and `keep ID:P ...`, best first."""
import math
import random

import torch
from transformers.generation import logits_process as lp

INF = float("inf")


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


def softmax(logits):
    best = max(logits.values())
    e = {i: math.exp(x - best) for i, x in logits.items()}
    total = sum(e.values())
    return {i: x / total for i, x in e.items()}


def through(processor, logits, n, history=None):
    """Apply a transformers processor to {id: logit}; missing tokens have logit -inf."""
    scores = torch.full((1, n), -INF, dtype=torch.float64)
    for i, x in logits.items():
        scores[0, i] = x
    out = processor(torch.tensor([history or [0]]), scores)[0].tolist()
    return {i: out[i] for i in logits if out[i] > -INF}


def bias(logits, o, n, h):
    out = dict(logits)
    for i, x in o.get("bias", []):
        out[i] += x
    return {i: x for i, x in out.items() if x > -INF}


def penalties(logits, o, n, h):
    last = o.get("repeat_last_n", 64)
    seen = h if last < 0 else h[len(h) - min(last, len(h)):]
    out = dict(logits)
    if not seen:
        return out
    penalty = o.get("repeat_penalty", 1.0)
    if penalty != 1:
        out = through(lp.RepetitionPenaltyLogitsProcessor(penalty=penalty), out, n, seen)
    for i in out:
        times = seen.count(i)
        if times:
            out[i] -= times * o.get("frequency_penalty", 0.0) + o.get("presence_penalty", 0.0)
    return out


def dry(logits, o, n, h):
    multiplier = o.get("dry_multiplier", 0.0)
    if not multiplier:
        return logits
    last, allowed, base = o.get("dry_penalty_last_n", -1), o.get("dry_allowed_length", 2), o.get("dry_base", 1.75)
    h = h if last < 0 else h[len(h) - min(last, len(h)):]
    breakers = o.get("breakers", [])
    # Repeats must not extend back across a breaker: find the newest complete one.
    limit = len(h)
    for start in range(len(h) - 1, -1, -1):
        ends = [start + len(b) for b in breakers if h[start:start + len(b)] == b]
        if ends:
            limit = len(h) - max(ends)
            break
    alone = {b[0] for b in breakers if len(b) == 1}
    longest = {}
    for at in range(1, len(h)):                       # h[at] follows h[:at]; m: how many last tokens of h[:at] equal the last ones of h
        m = 0
        while m < at and m < limit and h[at - 1 - m] == h[len(h) - 1 - m]:
            m += 1
        if m >= allowed:
            longest[h[at]] = max(longest.get(h[at], 0), m)
    return {i: x - multiplier * base ** (longest[i] - allowed) if i in longest and i not in alone else x
            for i, x in logits.items()}


def top_n_sigma(logits, o, n, h):
    k = o.get("top_n_sigma", -1.0)
    if k <= 0 or len(logits) < 2:
        return logits
    x = torch.tensor(list(logits.values()), dtype=torch.float64)
    least = float(x.max() - k * x.std(unbiased=False))
    return {i: v for i, v in logits.items() if v >= least}


def ranked(logits):
    return sorted(logits, key=lambda i: (-logits[i], i))


def top_k(logits, o, n, h):
    """Break ties with the k-th token in favour of lower ids; transformers keeps all tied tokens."""
    k = o.get("top_k", 40)
    if k <= 0:
        return logits
    out = through(lp.TopKLogitsWarper(top_k=k), logits, n)
    return {i: out[i] for i in ranked(out)[:k]}


def at_least(o):
    return max(1, o.get("min_keep", 0))


def typ_p(logits, o, n, h):
    p = o.get("typical_p", 1.0)
    if p >= 1:
        return logits
    # transformers requires a mass within (0, 1)
    return through(lp.TypicalLogitsWarper(mass=max(p, 1e-9), min_tokens_to_keep=at_least(o)), logits, n)


def top_p(logits, o, n, h):
    p = o.get("top_p", 0.95)
    return through(lp.TopPLogitsWarper(top_p=p, min_tokens_to_keep=at_least(o)), logits, n) if p < 1 else logits


def min_p(logits, o, n, h):
    p = o.get("min_p", 0.05)
    return through(lp.MinPLogitsWarper(min_p=p, min_tokens_to_keep=at_least(o)), logits, n) if p > 0 else logits


def xtc(logits, o, n, h):
    """Always apply XTC, as with probability 1; another test counts how often it is drawn."""
    if o.get("xtc_probability", 0.0) == 0 or o.get("xtc_threshold", 0.1) > 0.5:
        return logits
    p = softmax(logits)
    top = [i for i in ranked(logits) if p[i] >= o.get("xtc_threshold", 0.1)]
    if len(top) < 2 or len(p) - (len(top) - 1) < o.get("min_keep", 0):
        return logits
    return {i: x for i, x in logits.items() if i not in top[:-1]}


def temperature(logits, o, n, h):
    t, r = o.get("temperature", 0.8), o.get("dynatemp_range", 0.0)
    if t <= 0:
        return {i: logits[i] for i in ranked(logits)[:1]}
    if r > 0 and len(logits) > 1:
        p = softmax(logits)
        entropy = -sum(x * math.log(x) for x in p.values() if x > 0) / math.log(len(p))
        low = max(0.0, t - r)
        t = low + (t + r - low) * entropy ** o.get("dynatemp_exponent", 1.0)
    return through(lp.TemperatureLogitsWarper(temperature=t), logits, n)


def mirostat(logits, o, n, h):
    """Apply the first step of version 2: mu = 2 tau; drop tokens with a surprise above mu bits."""
    p = softmax(logits)
    keep = [i for i in p if -math.log2(p[i]) <= 2 * o.get("mirostat_tau", 5.0)] or ranked(logits)[:1]
    return {i: logits[i] for i in keep}


STAGES = dict(penalties=penalties, dry=dry, top_n_sigma=top_n_sigma, top_k=top_k, typ_p=typ_p, top_p=top_p, min_p=min_p,
              xtc=xtc, temperature=temperature)
DEFAULT = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
OFF = dict(top_k=0, top_p=1.0, min_p=0.0, temperature=1.0)


def chain(logits, o, n, h):
    out = bias(logits, o, n, h)
    order = o.get("order", DEFAULT).split(";")
    if o.get("mirostat"):
        for s in order:
            if s in ("penalties", "dry"):
                out = STAGES[s](out, o, n, h)
        return mirostat(temperature(out, o, n, h), o, n, h)
    for s in order:
        out = STAGES[s](out, o, n, h)
    return temperature(out, dict(temperature=0.0), n, h) if o.get("temperature", 0.8) <= 0 else out


def case(name, o, logits, h=()):
    n = len(logits)
    start = {i: x for i, x in enumerate(logits) if x > -INF}
    left = softmax(chain(start, o, n, list(h)))
    print("case", name)
    for k, v in o.items():
        if k == "bias":
            for i, x in v:
                print("bias", i, "%.9g" % x)
        elif k == "breakers":
            for b in v:
                print("breaker", *b)
        else:
            print("set", k, "%.9g" % v if isinstance(v, float) else v)
    if h:
        print("history", *h)
    print("logits", *("%.9g" % x for x in logits))
    print("keep", *("%d:%.8g" % (i, left[i]) for i in ranked(left)))


def main():
    r = random.Random(20260)

    def logits(n, spread=3.0):
        return [f32(r.gauss(0, spread)) for _ in range(n)]

    def off(**more):
        return {**OFF, **{k: f32(v) if isinstance(v, float) else v for k, v in more.items()}}

    def history(n, length):
        """Return a history with repeats: phrases of a few tokens again and again."""
        out, phrases = [], [[r.randrange(n) for _ in range(r.randrange(1, 7))] for _ in range(4)]
        while len(out) < length:
            out += r.choice(phrases)
        return out[:length]

    case("nothing", off(), logits(12))
    case("defaults", {}, logits(60))
    case("one_token", {}, [0.5])
    case("impossible_tokens", {}, [-INF, 1.0, -INF, 2.0, 0.25, -INF])
    case("ties", off(top_k=1), [1.0, 2.0, 2.0, 0.0, -0.0])
    case("tie_greedy", off(temperature=0.0), [1.0, 3.0, 3.0, 2.0])
    case("tie_zeros", off(top_k=2), [-0.0, 0.0, -1.0, 0.0])
    case("greedy_without_temperature", {**off(temperature=0.0), "order": "top_k;top_p"}, logits(20))
    for i, t in enumerate([0.1, 0.7, 1.3, 5.0]):
        case(f"temperature_{i}", off(temperature=t), logits(10))
    for i, (t, g, x) in enumerate([(0.8, 0.5, 1.0), (1.0, 2.0, 0.7), (0.6, 0.6, 2.0)]):
        case(f"dynatemp_{i}", off(temperature=t, dynatemp_range=g, dynatemp_exponent=x), logits(16))
    for k in (1, 2, 7, 29, 30, 31):
        case(f"top_k_{k}", off(top_k=k), logits(30))
    case("top_k_many", off(top_k=50), logits(700))
    for p in (0.0, 0.1, 0.5, 0.9, 0.99):
        case(f"top_p_{p}", off(top_p=p), logits(40))
        case(f"top_p_{p}_keep", off(top_p=p, min_keep=5), logits(40))
        case(f"typical_{p}", off(typical_p=p), logits(40, 1.5))
        case(f"typical_{p}_keep", off(typical_p=p, min_keep=4), logits(40, 1.5))
    case("top_p_many", off(top_p=0.8), logits(600, 1.0))
    case("typical_many", off(typical_p=0.5), logits(600, 1.0))
    for p in (0.01, 0.1, 0.5, 1.0):
        case(f"min_p_{p}", off(min_p=p), logits(40))
        case(f"min_p_{p}_keep", off(min_p=p, min_keep=6), logits(40))
    for k in (0.5, 1.0, 2.0):
        case(f"top_n_sigma_{k}", off(top_n_sigma=k), logits(50))
    for x in (0.02, 0.1, 0.3, 0.51):
        case(f"xtc_{x}", off(xtc_probability=1.0, xtc_threshold=x), logits(20, 1.0))
        case(f"xtc_{x}_keep", off(xtc_probability=1.0, xtc_threshold=x, min_keep=18), logits(20, 1.0))
    case("bias", off(bias=[(2, 4.5), (3, -INF), (2, 0.5), (0, -1.25)]), logits(8))
    for i, o in enumerate([dict(repeat_penalty=1.3), dict(presence_penalty=0.7), dict(frequency_penalty=0.4),
                           dict(repeat_penalty=0.8, presence_penalty=-0.5, frequency_penalty=0.2)]):
        for last in (-1, 0, 1, 5, 64):
            if last or i == 0:
                case(f"penalties_{i}_{last}", off(repeat_last_n=last, **o), logits(14), history(14, 40))
    case("penalties_after_cut", {**off(top_k=5, repeat_penalty=2.0), "order": "top_k;penalties;temperature"}, logits(14), history(14, 30))
    for i in range(12):
        o = off(dry_multiplier=r.choice([0.5, 1.0, 2.0]), dry_base=r.choice([1.0, 1.5, 1.75]), dry_allowed_length=r.choice([1, 2, 3]),
                dry_penalty_last_n=r.choice([-1, -1, 10, 33]))
        n = r.choice([6, 10, 20])
        case(f"dry_{i}", o, logits(n), history(n, r.choice([3, 20, 60, 150])))
    case("dry_same_token", off(dry_multiplier=0.1, dry_base=1.2), logits(5), [3] * 30)
    for i in range(16):
        n = r.choice([6, 10])
        h = history(n, r.choice([20, 60]))
        b = [[r.randrange(n) for _ in range(r.choice([1, 1, 2, 3]))] for _ in range(r.choice([1, 2, 3]))]
        case(f"dry_breakers_{i}", {**off(dry_multiplier=1.0, dry_allowed_length=r.choice([1, 2])), "breakers": b}, logits(n), h)
    for tau in (0.5, 1.0, 2.0, 5.0):
        case(f"mirostat_{tau}", dict(mirostat=2, mirostat_tau=tau, temperature=f32(0.9), top_k=2), logits(50))
    case("mirostat_penalties", dict(mirostat=2, mirostat_tau=1.5, temperature=1.0, repeat_penalty=1.5), logits(14), history(14, 30))
    names = list(STAGES)
    for i in range(40):
        n = r.choice([12, 50, 200])
        o = {k: (f32(v) if isinstance(v, float) else v) for k, v in dict(
            temperature=r.choice([0.5, 0.8, 1.5]), top_k=r.choice([0, 5, 40]), top_p=r.choice([0.6, 0.95, 1.0]), min_p=r.choice([0.0, 0.05, 0.2]),
            typical_p=r.choice([0.4, 0.9, 1.0, 1.0]), top_n_sigma=r.choice([-1.0, -1.0, 1.5]), xtc_probability=r.choice([0.0, 1.0]),
            xtc_threshold=r.choice([0.05, 0.2]), repeat_penalty=r.choice([1.0, 1.2]), frequency_penalty=r.choice([0.0, 0.3]),
            dry_multiplier=r.choice([0.0, 0.8]), dynatemp_range=r.choice([0.0, 0.4]), repeat_last_n=r.choice([-1, 8, 64])).items()}
        if i >= 15:
            o["order"] = ";".join(r.sample(names, r.randrange(1, len(names) + 1)))
        case(f"chain_{i}", o, logits(n), history(n, 50))


main()
