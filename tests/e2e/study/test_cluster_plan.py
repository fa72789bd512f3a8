"""lamina cluster plan: every number is compared with one derived here from the shape of the model and the link."""
import json
import math

import pytest

from conftest import run

# Llama 3.1 8B, from its config.json.
H, LAYERS, KV, FFN, VOCAB, CONTEXT = 4096, 32, 1024, 14336, 128256, 8192
MATRICES = LAYERS * (2 * H * H + 2 * H * KV + 3 * H * FFN) + VOCAB * H          # read per token: without the embedding table
LINKS = {"25gbe": (20e-6, 2.8e9), "ib400": (2e-6, 45e9)}


@pytest.fixture(scope="module")
def lamina(build, limits):
    return build / "src/cli/lamina"


def plan(lamina, *flags, code=0):
    done = run(lamina, "cluster", "plan", *flags, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def near(a, b, share):
    return abs(a - b) <= share * abs(b)


@pytest.mark.parametrize("link", LINKS)
def test_the_two_terms(lamina, link):
    alpha, rate = LINKS[link]
    p = plan(lamina, "llama-3.1-8b", "--nodes", "8", "--link", link, "--device", "epyc-9654", "--precision", "bf16", "-c", str(CONTEXT))
    memory = 460.8e9
    assert [(s["split"], s["copies"]) for s in p["splits"]] == [("tp=1", 8), ("tp=2", 4), ("pp=2", 4), ("tp=4", 2), ("tp=2,pp=2", 2),
                                                                ("pp=4", 2), ("tp=8", 1), ("tp=4,pp=2", 1), ("tp=2,pp=4", 1), ("pp=8", 1)]
    for s in [s for s in p["splits"] if s["pp"] == 1]:
        n, one = s["tp"], s["one_stream"]
        hops = math.ceil(math.log2(n))
        sent = (n - 1) * 4 * (2 * LAYERS * H + VOCAB // n) if n > 1 else 0      # two sums per layer; every rank gets all logits
        assert s["exchanges_per_token"] == (2 * LAYERS + 1 if n > 1 else 0) and s["sent_per_token"] == sent
        assert near(one["latency"], hops * alpha * (2 * LAYERS + 1 + 2), 1e-9) or n == 1        # plus the leader's two messages
        assert near(one["transfer"], sent / rate, 1e-3) or n == 1
        cache = CONTEXT * 2 * KV * LAYERS * 2                                   # f16
        assert near(one["computing"], (2 * MATRICES + cache) / n / memory, 0.01)
        assert near(one["tokens_per_second"], 1 / (one["computing"] + one["latency"] + one["transfer"]), 1e-9)
        assert near(s["many_streams"]["computing"], (2 * MATRICES + 8 * cache) / n / memory, 0.01)
        assert near(s["many_streams"]["tokens_per_second"], 8 * s["copies"] / s["many_streams"]["seconds"], 1e-9)
        assert near(s["memory"]["kv"], 8 * cache / n, 0.01)
        assert near(s["memory"]["weights"], 2 * (MATRICES / n + VOCAB * H), 0.01)     # every rank holds the embedding table
        assert s["prompt"]["latency"] == pytest.approx(one["latency"])          # 512 tokens are one step
    best = max(p["splits"], key=lambda s: s["one_stream"]["tokens_per_second"])
    assert p["best"]["one_stream"] == best["split"]


@pytest.mark.parametrize("link", LINKS)
def test_runs_of_layers(lamina, link):
    """Runs of layers take the time of one node and one message of a row each; the memory is divided."""
    alpha, rate = LINKS[link]
    p = plan(lamina, "llama-3.1-8b", "--nodes", "4", "--link", link, "--device", "epyc-9654", "--precision", "bf16", "-c", str(CONTEXT))
    rows = {s["split"]: s for s in p["splits"]}
    one, four, both = rows["tp=1"], rows["pp=4"], rows["tp=2,pp=2"]
    assert near(four["one_stream"]["computing"], one["one_stream"]["computing"], 1e-6) and four["sent_per_token"] == 4 * H
    assert near(four["one_stream"]["latency"], alpha * (4 + 2 * 2), 1e-9)                   # in a ring, plus the leader's two to all ranks
    assert near(four["one_stream"]["transfer"], (4 * 4 * H + 2 * (56 + 16)) / rate, 1e-3)
    assert four["weights_of_all_ranks"] == one["weights_of_all_ranks"]
    layer = 2 * (MATRICES - VOCAB * H) / LAYERS
    assert four["memory"]["weights"] < one["memory"]["weights"] / 4 + layer
    assert near(both["one_stream"]["latency"], alpha * (2 * LAYERS + 1 + 2 + 2 * 2), 1e-9)  # sums of two, two messages, the leader's
    assert near(both["one_stream"]["computing"], one["one_stream"]["computing"] / 2, 0.01)


def test_a_slow_link_wants_fewer_ranks(lamina):
    """A quantised 8B is fastest on 2 or 4 nodes over 25 GbE, on 8 or more over InfiniBand, on one over 1 GbE."""
    def best(link):
        return int(plan(lamina, "llama-3.1-8b", "--nodes", "16", "--link", link, "--device", "epyc-7763", "--precision", "Q4_0", "-c", "512")["best"]["one_stream"][3:].split(",")[0])
    assert best("25gbe") in (2, 4) and best("ib400") >= 8 and best("1gbe") == 1


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-2-2b", "mixtral-8x7b"])
def test_the_simulator_agrees_where_parts_are_equal(lamina, model):
    p = plan(lamina, model, "--simulate", "4", "--device", "epyc-9654", "--link", "25gbe")
    for s in p["splits"]:
        for t in s["one_stream"], s["many_streams"], s["prompt"]:
            assert near(t["simulated_seconds"], t["seconds"], 0.02)


def test_the_simulator_waits_for_the_slowest_rank(lamina):
    """32 heads are not split over 64 nodes; over 24 the parts are unequal, and sums wait for the ranks with two heads."""
    p = plan(lamina, "llama-3.1-8b", "--simulate", "24", "--device", "epyc-9654", "--link", "ib400")
    last = next(s for s in p["splits"] if s["tp"] == 24)
    assert last["tp"] == 24 and last["one_stream"]["simulated_seconds"] >= 0.999 * last["one_stream"]["computing"]
    p = plan(lamina, "llama-3.1-8b", "--simulate", "64", "--device", "epyc-9654")
    assert p["most_tp"] == 32 and max(s["tp"] for s in p["splits"]) == 32 and len(p["splits"]) == 26


def test_memory_equals_the_plan_of_each_rank(lamina, model):
    p = plan(lamina, model, "--nodes", "3", "--ram", "2GiB", "--streams", "2", "-c", "512", "--cpu", "ref", "-t", "1")
    row = next(s for s in p["splits"] if s["tp"] == 3)
    assert row["tp"] == 3 and p["precision"] == "as stored"
    totals = []
    for rank in range(3):
        text = run(lamina, "inspect", model, "--split", "tp=3", "--rank", rank, "--query", "memory", "--context", "512", "--batch", "2", "--cpu", "ref",
                   "--threads", "1")
        memory = json.loads(text.stdout)
        totals.append(memory["weights"] + memory["mapped"] + memory["kv"] + memory["scratch"])
    assert row["memory"]["total"] == max(totals) and totals.index(max(totals)) == row["memory"]["rank"]


def test_deepseek_on_eight_nodes(lamina):
    """Most weights are experts; the cache of latent attention is the same on every rank."""
    p = plan(lamina, "deepseek-v2", "--nodes", "8", "--link", "25gbe", "--device", "epyc-9654", "--ram", "96GiB")
    assert p["precision"] == "f16" and {s["ranks"] for s in p["splits"] if s["fits"]} == {8}
    rows = {s["split"]: s for s in p["splits"]}
    assert len({rows[f"tp={n}"]["memory"]["kv"] for n in (1, 2, 4, 8)}) == 1 and rows["pp=8"]["memory"]["kv"] < rows["tp=8"]["memory"]["kv"] / 6
    assert near(rows["tp=8"]["weights_of_all_ranks"], rows["tp=1"]["weights_of_all_ranks"], 0.15)


@pytest.mark.parametrize("flags, code, shows", [
    (["llama-3.1-8b", "--nodes", "2", "--ram", "1G"], 4, "Q8_0"),
    (["llama-3.1-8b"], 2, "requires exactly one of --nodes and --simulate"),
    (["llama-3.1-8b", "--nodes", "2", "--simulate", "2"], 2, "requires exactly one of --nodes and --simulate"),
    (["llama-3.1-8b", "--nodes", "2", "--link", "string"], 2, '"string" is none of 25gbe, 1gbe, 10gbe, 100gbe, ib400'),
    (["llama-3.1-8b", "--nodes", "2", "--precision", "Q9"], 2, "unknown precision"),
])
def test_rejections(lamina, flags, code, shows):
    done = run(lamina, "cluster", "plan", *flags, "--device", "epyc-9654")
    assert done.returncode == code and (shows in done.stderr or code == 4 and "are needed on one" in done.stderr)
    assert run(lamina, "cluster", "dance").returncode == 2
