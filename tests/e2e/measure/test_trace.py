"""lamina trace: the values that hooks of transformers see, to 1e-4 and mostly to 1e-6; interventions; unchanged bits; rejected input."""
import array
import contextlib
import json
import math
import os
import struct

import pytest
from conftest import BARE, MODEL, SOURCE, run, some
from ggufs import floats

GOLDEN = SOURCE / "tests/golden/trace"
CASES = sorted(p.stem for p in GOLDEN.glob("*.safetensors"))
EXACT = ["--compute", "f32", "-ctk", "f32", "-ctv", "f32"]
LEVELS = ["ref", "sse41", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"]
PARIS = "The capital of France is"


@pytest.fixture(scope="module")
def lamina(build):
    return lambda *args, **options: run(build / "src/cli/lamina", *args, **{"env": {**os.environ, **BARE}, **options})


def tensors(path):
    """Return {name: (shape, numbers)} and the metadata of a safetensors file."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    meta = head.pop("__metadata__", {})
    found = {}
    for name, t in head.items():
        begin, end = (8 + size + o for o in t["data_offsets"])
        found[name] = t["shape"], array.array({"F32": "f", "I64": "q"}[t["dtype"]], data[begin:end])
    return found, meta


def golden(case):
    found, meta = tensors(GOLDEN / f"{case}.safetensors")
    ids = ",".join(map(str, found.pop("ids")[1]))
    return found, meta, SOURCE / "tests/golden" / meta["model"], ids


def error(a, b):
    """Return the largest difference relative to the largest magnitude in b."""
    assert len(a) == len(b)
    return max(abs(x - y) for x, y in zip(a, b)) / max(map(abs, b))


def values(lamina, out, model, ids, patterns, *more):
    flags = [x for p in patterns for x in ("--values", p)]
    done = lamina("trace", model, "--ids", ids, *flags, "-o", out, "--force", *EXACT, *more)
    assert done.returncode == 0, done.stderr
    return tensors(out)[0]


def document(lamina, *args):
    done = lamina("trace", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- compared with transformers and PyTorch ----

def test_there_are_goldens_of_eight_families():
    assert len(CASES) == 8


@pytest.mark.parametrize("case", CASES)
def test_values_and_attention_equal_transformers(lamina, tmp_path, case):
    found, meta, model, ids = golden(case)
    names = {n.split(".", 1)[1]: n for n in found if n.startswith(("value.", "weights."))}
    requested = [p + "#weights" if n.startswith("weights.") else p for p, n in names.items()]
    patterns = [n.removeprefix("value.") if n.startswith("value.") else n.removeprefix("weights.") + "#weights"
                for n in found if n.startswith(("value.", "weights."))]
    got = values(lamina, tmp_path / "v.safetensors", model, ids, patterns)
    assert set(got) == set(patterns) | {"ids"} and len(requested) <= len(patterns)
    for n in found:
        if n.startswith("value."):
            shape, numbers = got[n.removeprefix("value.")]
        elif n.startswith("weights."):
            shape, numbers = got[n.removeprefix("weights.") + "#weights"]
        else:
            continue
        assert shape == found[n][0] and error(numbers, found[n][1]) < 1e-4, n


@pytest.mark.parametrize("case", CASES)
def test_ablated_logits_equal_transformers(lamina, tmp_path, case):
    found, meta, model, ids = golden(case)
    plain = found["logits"][1]
    names = [n for n in found if n.startswith("ablate.")]
    assert any("#head" in n for n in names) and any(n.endswith("#neuron3=0") or n.endswith("#expert1=0") for n in names)
    for n in some(names):
        got = values(lamina, tmp_path / "v.safetensors", model, ids, ["logits"], "--set", n.removeprefix("ablate."))["logits"][1]
        assert error(got, found[n][1]) < 1e-4, n
        assert error(found[n][1], plain) > 1e-4, f"{n} changes nothing: it shows nothing"


@pytest.mark.parametrize("case", CASES)
def test_the_lens_is_the_end_of_the_model_on_each_layer(lamina, case):
    found, meta, model, ids = golden(case)
    traced = document(lamina, model, "--ids", ids, "--top", "1", *EXACT)
    row = traced["rows"][0]
    last = [n for n in found if n.startswith("lens.")][-1]
    end = found[last][1]
    for x in row["lens"]:
        if x["part"] != "layer":
            continue
        p = found[f"lens.{x['path']}"][1]
        target = row["token"]["id"]
        assert abs(x["p"] - p[target]) < 1e-4 * max(p) and x["rank"] == 1 + sum(q > p[target] for q in p)
        kl = sum(a * math.log(a / b) for a, b in zip(end, p) if a > 0 and b > 0)
        assert abs(x["kl"] - kl) < 1e-3 * max(1, kl)
        assert [t["id"] for t in x["top"]] == sorted(range(len(p)), key=lambda i: -p[i])[:5] or len(set(p)) < len(p)


@pytest.mark.parametrize("case", CASES)
def test_steering_is_the_same_as_in_pytorch(lamina, tmp_path, case):
    found, meta, model, ids = golden(case)
    file = GOLDEN / f"{case}.safetensors"
    flags = [x for n in found if n.startswith(meta["layers"] + ".") for x in ("--add", f"{n}={file}:{meta['scale']}")]
    got = values(lamina, tmp_path / "v.safetensors", model, ids, ["logits"], *flags)["logits"][1]
    assert flags and error(got, found["steered"][1]) < 1e-4 and error(got, found["logits"][1]) > 1e-2


def test_llama_cpps_form_of_a_vector_steers_all_its_layers(lamina, tmp_path):
    found, meta, model, ids = golden("llama-gqa")
    got = values(lamina, tmp_path / "v.safetensors", model, ids, ["logits"], "--add", f"{GOLDEN / 'vector.gguf'}:{meta['scale']}")
    assert error(got["logits"][1], found["steered"][1]) < 1e-4


@pytest.mark.parametrize("case", CASES)
def test_a_vector_is_the_mean_difference_that_pytorch_finds(lamina, tmp_path, case):
    found, meta, model, ids = golden(case)
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(p) + "\n" for p in json.loads(meta["pairs"])))
    done = lamina("trace", model, "--vector", tmp_path / "v.gguf", "--pairs", tmp_path / "pairs.jsonl", *EXACT)
    assert done.returncode == 0, done.stderr
    made = floats((tmp_path / "v.gguf").read_bytes())
    assert set(made) == {n for n in found if n.startswith("direction.")}
    for n, numbers in made.items():
        assert error(numbers, found[n][1]) < 1e-4


# ---- unchanged bits, sums, interventions ----

def test_traced_logits_are_the_untraced_ones_to_the_bit(lamina, tmp_path):
    """The logits have the same bytes whether every value is saved or only the logits, at each instruction set level."""
    found, meta, model, ids = golden("mixtral-experts")
    for level in LEVELS:
        few = lamina("trace", model, "--ids", ids, "--values", "logits", "-o", tmp_path / "a.safetensors", "--force", "--cpu", level)
        if few.returncode:
            continue                                     # this machine does not have the level
        assert lamina("trace", model, "--ids", ids, "--values", "logits", "--values", "**", "-o", tmp_path / "b.safetensors", "--force",
                      "--cpu", level).returncode == 0
        a, b = tensors(tmp_path / "a.safetensors")[0], tensors(tmp_path / "b.safetensors")[0]
        assert len(b) > 40 and a["logits"][1].tobytes() == b["logits"][1].tobytes()


@pytest.mark.parametrize("case", CASES)
def test_parts_sum_to_the_logit(lamina, case):
    """They sum up by construction; the rest is so small that no part is missing."""
    found, meta, model, ids = golden(case)
    row = document(lamina, model, "--ids", ids, *EXACT)["rows"][0]
    parts = row["attribution"]
    assert abs(sum(p["logit"] for p in parts) - row["logit"]) < 1e-5 * max(1, abs(row["logit"]))
    assert parts[-1]["path"] == "rest" and abs(parts[-1]["logit"]) < 1e-5 * max(1, abs(row["logit"]))
    assert {"attention", "mlp", "embedding"} <= {p["part"] for p in parts}


def test_numbers_of_the_text_agree_with_score(lamina):
    traced = document(lamina, MODEL, "-p", PARIS)
    scored = json.loads(lamina("score", "-m", MODEL, "-p", PARIS, "--json").stdout)
    assert traced["ids"] == scored["ids"] and traced["tokens"][0]["surprise"] is None
    for t, s in zip(traced["tokens"][1:], scored["tokens"][1:]):
        assert abs(t["surprise"] + s["logprob"] / math.log(2)) < 1e-4
    row = traced["rows"][0]
    assert row["lens"][-1]["kl"] == 0 and row["lens"][-1]["rank"] == 1       # after the last layer the lens is the model
    for h in row["attention"]:
        assert 0 <= h["entropy"] <= math.log2(5) + 1e-6 and 0 <= h["first"] <= 1 + 1e-6 and 0 <= h["distance"] <= 4


def test_a_factor_of_one_changes_no_bit_and_zero_changes_the_text(lamina):
    same = document(lamina, MODEL, "-p", PARIS, "--set", "layers.*.mlp=1")
    assert same["mean_kl"] == 0 and same["first_difference"] is None and all(x["rel_err"] == 0 for x in same["layers"])
    # f32, because the output of the default arithmetic depends on the instruction set level.
    changed = document(lamina, MODEL, "-p", PARIS, "--set", "layers.23.self_attn=0", "-n", "4", "--compute", "f32")
    assert changed["before"]["text"].startswith(" Paris") and not changed["after"]["text"].startswith(" Paris")
    assert changed["first_difference"] == 4 and changed["differences"][4]["kl"] > 0.5
    assert changed["layers"][23]["rel_err"] == 0 < changed["layers"][24]["rel_err"]       # entry 0 is the embedding


def test_a_patch_brings_another_text_s_value(lamina, tmp_path):
    """Patching the state after the last layer at the last position with the state of another prompt gives that prompt's prediction."""
    other = "The capital of Italy is"
    assert lamina("trace", MODEL, "-p", other, "--values", "model.layers.29", "-o", tmp_path / "v.safetensors").returncode == 0
    theirs = document(lamina, MODEL, "-p", other)["next"]["top"]
    patched = document(lamina, MODEL, "-p", PARIS, "--patch", f"model.layers.29@4={tmp_path / 'v.safetensors'}")

    def rounded(top):
        return [(x["id"], round(x["p"], 6)) for x in top]
    assert rounded(patched["after"]["top"]) == rounded(theirs) != rounded(patched["before"]["top"])


def test_two_models_part_where_their_weights_differ(lamina, tmp_path):
    model = SOURCE / "tests/golden/llama/gqa/model.gguf"
    assert lamina("quantize", model, tmp_path / "q.gguf", "q4_0").returncode == 0
    done = document(lamina, model, "--ids", "1,2,3,4", "--compare", tmp_path / "q.gguf")
    assert done["mean_kl"] > 0 and len(done["differences"]) == 4 and done["moved_most"].startswith("model.")
    assert lamina("trace", MODEL, "-p", "a", "--compare", model).returncode == 2         # another vocabulary


def test_numpy_s_form_holds_one_value(lamina, tmp_path):
    done = lamina("trace", MODEL, "-p", PARIS, "--values", "model.layers.3.mlp", "-o", tmp_path / "v.npy")
    data = (tmp_path / "v.npy").read_bytes()
    assert done.returncode == 0 and data.startswith(b"\x93NUMPY\x01\x00") and b"'shape': (5, 576)" in data[:128]
    assert len(data) % 64 == 0 and len(data) - 4 * 5 * 576 in (64, 128)


# ---- text output ----

def test_the_page_is_numbers_in_a_pipe(lamina):
    done = lamina("trace", MODEL, "-p", PARIS, "-n", "1")
    assert done.returncode == 0 and "\033" not in done.stdout
    for text in ("“ Paris”", "layer 29", "embedding", "norm", "heads that look furthest back", "--set 'model.layers."):
        assert text in done.stdout
    picture = lamina("trace", MODEL, "-p", PARIS, "--attention", "23.4")
    assert picture.returncode == 0 and "█" in picture.stdout and "France" in picture.stdout


def test_operations_have_times(lamina):
    traced = document(lamina, MODEL, "-p", PARIS, "--times")
    paths = [t["path"] for t in traced["times"]]
    assert "model.layers.0.mlp.up_proj" in paths and "lm_head" in paths and all(t["seconds"] >= 0 for t in traced["times"])


def trace_in(page):
    """Return the document in a page that -o FILE.html wrote."""
    text = page.read_text()
    assert text.count("<script type=\"application/json\" id=\"trace\">") == 1 and text.startswith("<!doctype html>")
    return json.loads(text.split("id=\"trace\">")[1].split("</script>")[0])


def test_a_page_contains_the_trace(lamina, tmp_path):
    text = "a </script><!-- b"
    assert lamina("trace", MODEL, "-p", text, "-o", tmp_path / "t.html").returncode == 0
    saved, printed = trace_in(tmp_path / "t.html"), document(lamina, MODEL, "-p", text, "--all")
    printed.pop("schema")
    assert saved["trace"] == printed and saved["model"]
    assert lamina("trace", MODEL, "-p", text, "-o", tmp_path / "t.html").returncode == 2          # it exists


@pytest.mark.parametrize("flags,rows", [([], range(8, 40)), (["--at", 3], [3]), (["--all"], range(40))])
def test_a_page_has_the_last_positions(lamina, tmp_path, flags, rows):
    ids = ",".join(map(str, range(1, 41)))
    assert lamina("trace", SOURCE / "tests/golden/mixtral/bare", "--ids", ids, *flags, "-o", tmp_path / "t.html").returncode == 0
    assert [r["position"] for r in trace_in(tmp_path / "t.html")["trace"]["rows"]] == list(rows)


# ---- rejected input ----

@pytest.mark.parametrize("flags,where", [
    (["--set", "nowhere=0"], "nowhere"), (["--set", "layers.0.mlp=many"], "number"), (["--set", "layers.0.self_attn#head9=0"], "head 9 of 9"),
    (["--set", "layers.0.mlp#head0=0"], "no attention"), (["--set", "layers.0.mlp#neuron1536=0"], "neuron 1536 of 1536"),
    (["--set", "layers.0.mlp#expert0=0"], "no mixture"), (["--set", "layers.0.mlp#thing=0"], "headN"), (["--set", "=0"], "a path"),
    (["--add", "/nowhere"], "/nowhere"), (["--patch", "layers.0.mlp@x=/nowhere"], "position"), (["--at", "5"], "--at"), (["--at", "-6"], "--at"),
    (["--attention", "3"], "LAYER.HEAD"), (["--attention", "30.0"], "layer 30 of 30"), (["--attention", "0.9"], "no head 9"),
    (["--values", "nowhere", "-o", "/tmp/x.safetensors"], "nowhere"), (["--values", "layers.*.mlp", "-o", "/tmp/x.npy"], "one"),
    (["-o", "/tmp/x.txt"], ".html"), (["-o", "/tmp/x.html", "--values", "layers.0.mlp"], "--values"),
    (["-o", "/tmp/x.html", "--attention", "0.1"], "--attention"), (["-o", "/tmp/x.html", "--compare", MODEL], "--compare"),
    (["--values", "layers.0.mlp"], "--output"), (["--vector", "/tmp/x.gguf"], "--pairs"), (["--system", "x"], "--chat"),
])
def test_unsupported_requests_are_reported_in_a_line(lamina, flags, where):
    done = lamina("trace", MODEL, "-p", PARIS, *flags)
    last = [x for x in done.stderr.splitlines() if x.startswith("error: ")]
    assert done.returncode in (1, 2) and len(last) == 1 and where in last[0], done.stderr


@pytest.mark.parametrize("data", [b"", b"GGUF", b"\x10\0\0\0\0\0\0\0{}", b"\xff" * 64])
def test_broken_files_of_vectors_are_rejected(lamina, tmp_path, data):
    (tmp_path / "v.gguf").write_bytes(data)
    done = lamina("trace", MODEL, "-p", PARIS, "--add", tmp_path / "v.gguf")
    assert done.returncode == 3 and done.stderr.startswith("error: ") and done.stderr.count("error:") == 1


# ---- over HTTP ----

@pytest.fixture(scope="module")
def server(build, model):
    from servers import Server
    with contextlib.closing(Server(build, "--allow-interventions").ready()) as s:
        yield s


def requested(server, body, status=200):
    got, text = server.ask("POST", "/v1/trace", body, {"Content-Type": "application/json"})[:2]
    assert got == status, text
    return text if isinstance(text, dict) else json.loads(text)


def test_a_server_gives_the_same_numbers(server, lamina):
    received = requested(server, {"prompt": PARIS, "lens": 5, "attribution": True, "norms": True, "attention": True, "weights": [[23, 4]]})
    alone = document(lamina, MODEL, "-p", PARIS)
    row, own = received["rows"][0], alone["rows"][0]
    assert received["object"] == "trace" and received["tokens"] == alone["tokens"] and received["next"] == alone["next"]
    assert all(row[k] == own[k] for k in ("position", "token", "logit", "lens", "attribution", "norms", "attention"))
    assert abs(sum(row["weights"][0]["weights"]) - 1) < 1e-4 and received["usage"]["prompt_tokens"] == 5


def test_a_server_continues_and_intervenes(server):
    plain = requested(server, {"prompt": PARIS, "max_tokens": 2, "positions": [4]})
    assert plain["rows"][0]["token"]["text"] == " Paris" and plain["usage"]["completion_tokens"] == 2
    changed = requested(server, {"ids": plain["ids"][:5], "intervene": ["layers.23.self_attn=0"]})
    assert changed["next"]["top"][0]["text"] != " Paris"
    paths = server.get("/v1/trace/paths")[1]
    assert len(paths["layers"]) == 30 and paths["layers"][3]["attention"] == "model.layers.3.self_attn" and paths["layers"][3]["n_heads"] == 9


@pytest.mark.parametrize("body", [
    {}, {"prompt": ""}, {"prompt": "a", "ids": [1]}, {"ids": [-1]}, {"ids": ["a"]}, {"ids": [49152]}, {"prompt": "a", "lens": "x"}, {"prompt": "a", "lens": 21},
    {"prompt": "a", "attention": 3}, {"prompt": "a", "attention": [30]}, {"prompt": "a", "weights": [[1]]}, {"prompt": "a", "weights": [[0, 9]]},
    {"prompt": "a", "positions": [1]}, {"prompt": "a", "positions": [-2]}, {"prompt": "a", "positions": "some"}, {"prompt": "a", "intervene": ["nowhere=0"]},
    {"prompt": "a", "intervene": ["+/etc/passwd"]}, {"prompt": "a", "intervene": ["layers.0.mlp@0=/etc/passwd"]}, {"prompt": "a", "intervene": [1]}])
def test_a_server_rejects_unsupported_requests(server, body):
    assert requested(server, body, 400)["error"]["message"]


def test_a_text_may_contain_nul(lamina, tmp_path):
    (tmp_path / "text").write_bytes(b"a\0b")
    done = lamina("trace", MODEL, "-f", tmp_path / "text", "--json")
    assert done.returncode == 0 and [t["text"] for t in json.loads(done.stdout)["tokens"]] == ["a", "\0", "b"]


def test_a_pattern_without_a_match_offers_the_nearest_path(lamina, tmp_path):
    for args in (("--values", "layers.*.mlp", "--values", "layers.3.mpl", "-o", tmp_path / "v.safetensors"), ("--set", "layers.3.mpl=0")):
        done = lamina("trace", MODEL, "-p", "hi", *args)
        assert done.returncode == 2 and 'did you mean "layers.*.mlp"?' in done.stderr, done.stderr
    assert not (tmp_path / "v.safetensors").exists()
