"""716 statements from documents about models, each compared with the fact that answers it.

tests/golden/facts/facts.tsv has the stated value (seed_value), the true value (true_value, checked by hand against published
configurations), the verdict, and the answer: text in which {path} stands for a fact or, after '=', arithmetic in which
[path] or [model:path] does. Numbers must equal the true value to the precision in which it is written; texts must equal `expect`.
`computed` answers come from the program; when every number of a description is changed they must change too, except for the
`fixed` ones, which hold for every model. `explained` answers come from the catalogue of statements; `unsupported` ones
state what cannot be checked. LAMINA_REWRITE=1 rewrites `expect`: read the diff.
"""
import collections
import csv
import json
import os
import re

import pytest
from conftest import BARE, run

TOKENS = {"plain": "4", "changed": "5"}
NAMES = re.compile(r"[{\[]((?:[\w.-]+:)?[a-z_]\w*(?:\[\d+\])?(?:\.\w+(?:\[\d+\])?)*)[}\]]")


def paths_of(answer):
    """Yield (model or None, path, name) of every fact that an answer names. Shapes like [batch, seq] name none."""
    found = NAMES.findall(answer) if answer.startswith("=") else re.findall(r"\{([^}]+)\}", answer)
    for name in found:
        model, _, path = name.rpartition(":")
        yield model or None, path, name


def changed(config):
    """Return the same description with every size different, but consistent."""
    c = dict(config)
    heads = c.get("num_attention_heads", c.get("n_head"))
    for key, value in config.items():
        if key in ("vocab_size", "intermediate_size", "moe_intermediate_size"):
            c[key] = value + 256
        elif key in ("num_hidden_layers", "n_layer"):
            c[key] = value + 2
        elif key in ("max_position_embeddings", "n_positions", "n_ctx"):
            c[key] = value * 2
        elif key in ("rms_norm_eps", "layer_norm_epsilon"):
            c[key] = value * 8
        elif key == "rope_theta":
            c[key] = value * 3
        elif key in ("kv_lora_rank", "q_lora_rank", "sliding_window", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
            c[key] = value + 32
        elif key == "num_experts_per_tok":
            c[key] = value + 1
        elif key == "topk_group":
            c[key] = value + 1
        elif key == "routed_scaling_factor":
            c[key] = value + 1
    if "attention_types" in c:
        c["attention_types"] = [[["global", "local"], c["n_layer"] // 2]]
    if "hidden_size" in c and "kv_lora_rank" not in c:                  # another number of heads, of another width
        c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"] = 2 * heads + 8, 4, 96
        c["hidden_size"] = (2 * heads + 8) * 96
    elif "hidden_size" in c:
        c["num_attention_heads"] = c["num_key_value_heads"] = heads + 16
        c["hidden_size"] = config["hidden_size"] + 1024
    else:
        c["n_head"], c["n_embd"] = heads + 4, (heads + 4) * 96
        c["n_inner"] = 3 * c["n_embd"] + 32
    c["tie_word_embeddings"] = not config.get("tie_word_embeddings", "n_embd" in config)
    return c


class Asker:
    """Facts of many models; those requested of one model are read in one call."""

    def __init__(self, lamina, folder):
        self.lamina, self.folder, self.known, self.descriptions = lamina, folder, {}, {}

    def describe(self, model, manner):
        """Return the model as an argument of the command line."""
        if manner == "plain":
            return model
        if model not in self.descriptions:
            config = json.loads(self.lamina(model, "--query", "config").stdout)
            path = self.folder / (re.sub(r"\W", "-", model) + ".json")
            path.write_text(json.dumps(changed(config)))
            self.descriptions[model] = path
        return self.descriptions[model]

    def ask(self, model, manner, paths):
        paths = sorted(p for p in set(paths) if (model, manner, p) not in self.known)
        if not paths:
            return
        flags = [f for p in paths for f in ("--query", p)]
        done = self.lamina(self.describe(model, manner), "--json", "--tokens", TOKENS[manner], *flags)
        assert done.returncode == 0, f"{model}, {manner}: {done.stderr}"
        values = json.loads(done.stdout)
        for one in values if len(paths) > 1 else [values]:
            self.known[model, manner, one["query"]] = one["value"]

    def answer(self, row, manner):
        text = row["answer"]
        values = {name: self.known[model or row["asked"], manner if not model else "plain", path]
                  for model, path, name in paths_of(text)}
        if text.startswith("="):
            terms = re.sub(NAMES, lambda m: repr(values[m.group(1)]), text[1:])
            assert re.fullmatch(r"[-+*/() .\de]+", terms), terms
            return eval(terms)                                          # noqa: S307: digits and operators only
        only = re.fullmatch(r"\{([^}]+)\}", text)
        if only:
            return values[only.group(1)]
        return re.sub(r"\{([^}]+)\}", lambda m: plain(values[m.group(1)]), text)


def plain(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(plain(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def agrees(got, true):
    """Return whether a number equals the true value to its written precision: 12.2637 is any number that rounds to it."""
    if re.fullmatch(r"\d+", true):
        return abs(got - int(true)) < 1e-9
    mantissa = re.split("e", true.lower())[0].replace(".", "").replace("-", "").lstrip("0")
    return float(f"{got:.{max(len(mantissa), 1)}g}") == pytest.approx(float(true), rel=1e-12, abs=0)


@pytest.fixture(scope="module")
def rows(source):
    with (source / "tests/golden/facts/facts.tsv").open(newline="") as f:
        found = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(found) == 716 and len({r["id"] for r in found}) == 716
    return found


@pytest.fixture(scope="module")
def asker(build, source, rows, tmp_path_factory):
    env = {**os.environ, **BARE}
    asker = Asker(lambda *a: run(build / "src/cli/lamina", "inspect", *a, cwd=source, env=env), tmp_path_factory.mktemp("changed"))
    wanted = collections.defaultdict(set)
    for r in rows:
        for model, path, _ in paths_of(r["answer"]):
            wanted[model or r["asked"], "plain"].add(path)
            if not model and r["kind"] == "computed":
                wanted[r["asked"], "changed"].add(path)
    for (model, manner), paths in wanted.items():
        asker.ask(model, manner, paths)
    return asker


def test_every_statement(asker, rows, source):
    wrong = []
    for r in rows:
        got = asker.answer(r, "plain")
        if r["compare"] == "number":
            good = isinstance(got, (int, float)) and agrees(got, r["true_value"])
        else:
            if os.environ.get("LAMINA_REWRITE"):
                r["expect"] = plain(got)
            good = plain(got) == r["expect"]
        if not good:
            wrong.append(f"{r['id']} {r['asked']} {r['quantity']}: {plain(got)}, not {r['true_value']} ({r['expect']})")
    if os.environ.get("LAMINA_REWRITE"):
        with (source / "tests/golden/facts/facts.tsv").open("w", newline="") as f:
            out = csv.DictWriter(f, rows[0].keys(), delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
            out.writeheader()
            out.writerows(rows)
    assert not wrong, "\n".join(wrong)


def stays(asker, r):
    """Return whether an answer has a number that does not depend on the description."""
    numeric = r["compare"] == "number" or re.search(r"\d", r["expect"]) and "{" in r["answer"]
    return r["kind"] == "computed" and numeric and not r["fixed"] and plain(asker.answer(r, "changed")) == plain(asker.answer(r, "plain"))


def test_answers_move(asker, rows):
    """No answer is a constant: when every size of the description is changed, its numbers change."""
    still = [f"{r['id']} {r['asked']} {r['quantity']}: {r['answer']} stays {plain(asker.answer(r, 'plain'))}" for r in rows if stays(asker, r)]
    assert not still, "\n".join(still)


def test_constants_would_be_found(asker, rows):
    """The two tests above detect constants: a true value written into the table passes the first and fails the second."""
    numbers = [r for r in rows if r["kind"] == "computed" and r["compare"] == "number" and not r["fixed"]
               and re.fullmatch(r"\d+(\.\d+)?", r["true_value"])]
    assert len(numbers) > 300
    for r in numbers:
        constant = {**r, "answer": "=" + r["true_value"]}
        assert agrees(asker.answer(constant, "plain"), r["true_value"]) and stays(asker, constant), r["id"]
    for r in rows:
        assert r["kind"] != "computed" or list(paths_of(r["answer"])) or not re.search(r"\d", r["answer"]), f"{r['id']}: computed from no fact"
    assert sum(bool(r["fixed"]) for r in rows if r["kind"] == "computed") <= 29


def test_unsupported_claims_are_flagged(rows):
    for r in rows:
        if r["verdict"] == "undefined" and r["true_value"] == "n/a":
            assert r["kind"] == "unsupported", r["id"]


def test_counts(rows):
    """Print the table of `make facts`; every row has an answer."""
    kinds = ["computed", "explained", "unsupported"]
    counts = collections.Counter((r["verdict"], r["kind"]) for r in rows)
    print(f"\n{'':22}{'rows':>6}" + "".join(f"{k:>13}" for k in kinds))
    for verdict in sorted({v for v, _ in counts}, key=lambda v: -sum(counts[v, k] for k in kinds)) + ["all"]:
        n = [sum(c for (v, kk), c in counts.items() if kk == k and verdict in (v, "all")) for k in kinds]
        print(f"{verdict:22}{sum(n):6}" + "".join(f"{x:13}" for x in n))
    print(f"{sum(counts.values())} of {len(rows)} answered")
    assert sum(counts[v, k] for v, k in counts if k in kinds) == len(rows) == 716
