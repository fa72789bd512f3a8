"""Models by their names on a hub: -hf fetches what the cache lacks; inspect and fit read only headers, by range requests."""
import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import SOURCE, run
from hubs import COMMIT, GOLDEN, Hub, environment, hub, leftovers, one_line, whole


@pytest.fixture
def lamina(build, tmp_path):
    (tmp_path / "tmp").mkdir()
    return lambda hub, *args, **more: run(build / "src/cli/lamina", *args, env=environment(hub, tmp_path, TMPDIR=str(tmp_path / "tmp"), **more), cwd=tmp_path)


@pytest.fixture
def gguf():
    data = (GOLDEN / "gqa/model.gguf").read_bytes()
    names = ["m-Q4_K_M.gguf", "m.Q8_0.gguf"]
    made = Hub({n: data for n in names}, names)
    yield made
    made.server.shutdown()


def requested(hub):
    return [(path, h.get("Range")) for path, h in hub.seen if "/resolve/" in path]


# ---- -hf ----

@pytest.mark.parametrize("spelling", ["-hf", "--hf-repo", "-hfr"])
def test_run_fetches(hub, lamina, tmp_path, spelling):
    done = lamina(hub, "run", spelling, "org/name", "--ids", "1 2 3", "-n", "2", "--temp", "0", "--json")
    assert done.returncode == 0, done.stderr
    whole(hub, tmp_path)
    n = len(hub.seen)
    again = lamina(hub, "run", spelling, "org/name", "--ids", "1 2 3", "-n", "2", "--temp", "0", "--json")
    assert again.returncode == 0 and len(hub.seen) == n
    by_name = lamina(hub, "run", "org/name", "--ids", "1 2 3", "-n", "2", "--temp", "0", "--json")
    assert by_name.returncode == 0 and len(hub.seen) == n
    assert json.loads(by_name.stdout)["ids"] == json.loads(done.stdout)["ids"] == json.loads(again.stdout)["ids"]


def test_types_and_files(gguf, lamina, tmp_path):
    for name in ("org/name", "org/name:Q8_0", "org/name:m-Q4_K_M.gguf", "org/name@main"):
        done = lamina(gguf, "run", "-hf", name, "--ids", "1 2 3", "-n", "1", "--json")
        assert done.returncode == 0, (name, done.stderr)
    n = len(gguf.seen)
    for name in ("org/name:Q8_0", "org/name:m-Q4_K_M.gguf"):
        done = lamina(gguf, "run", "-hf", name, "--ids", "1 2 3", "-n", "1", "--json", HF_HUB_OFFLINE="1")
        assert done.returncode == 0 and len(gguf.seen) == n, (name, done.stderr)
    one_line(lamina(gguf, "run", "-hf", "org/name:Q5_0", "--ids", "1", "-n", "1"), 1, "no GGUF file of the type Q5_0")


def test_nothing_is_fetched_without_a_request(hub, lamina):
    """For a bare name that the cache lacks, run prints the command to fetch it and sends no request."""
    done = lamina(hub, "run", "org/name", "--ids", "1", "-n", "1")
    one_line(done, 1, "org/name")
    assert "lamina pull org/name" in done.stderr and not hub.seen
    one_line(lamina(hub, "run", "-hf", "org/name", "--ids", "1", "-n", "1", HF_HUB_OFFLINE="1"), 1, "HF_HUB_OFFLINE")
    one_line(lamina(hub, "run", "-hf", "name", "--ids", "1"), 2, "expected org/name")
    assert not hub.seen


# ---- only headers ----

@pytest.mark.parametrize("words", [["-hf", "org/name"], ["org/name"]])
@pytest.mark.parametrize("command", ["inspect", "fit"])
def test_headers_alone(hub, lamina, tmp_path, command, words):
    """The page is that of the whole model, and no byte of a weight is fetched."""
    more = ["--device", "rtx-4090", "--json"] if command == "fit" else ["--view", "facts", "--json"]
    shutil.copytree(GOLDEN / "sharded", tmp_path / "name")
    here = json.loads(lamina(hub, command, tmp_path / "name", *more).stdout.replace(str(tmp_path / "name"), "FOLDER"))
    done = lamina(hub, command, *words, *more)
    assert done.returncode == 0, done.stderr
    there = json.loads(re.sub(r'[^"]*/lamina-heads-[^"/]*/org/name', "FOLDER", done.stdout))

    def same(a, b, at=""):
        if isinstance(a, dict):
            assert a.keys() == b.keys(), at
            for k in a:
                same(a[k], b[k], f"{at}.{k}")
        elif isinstance(a, list):
            assert len(a) == len(b), at
            for i, (x, y) in enumerate(zip(a, b)):
                same(x, y, f"{at}[{i}]")
        elif not any(word in at for word in ("name", "path", "source", "title", "speed", "seconds", "file", "second", "rate")):
            assert a == b, (at, a, b)
    same(here, there)
    shards = {n: d for n, d in hub.files.items() if n.endswith(".safetensors")}
    for path, span in requested(hub):
        name = path.split(f"{COMMIT}/")[1]
        if name in shards:
            start, end = map(int, span.removeprefix("bytes=").split("-"))
            header = 8 + int.from_bytes(shards[name][:8], "little")
            assert start < header and end < max(header, 64 + 200 * 30), (name, span, header)
    names = {p.split(f"{COMMIT}/")[1] for p, _ in requested(hub)}
    assert names == set(shards) | {"config.json", "generation_config.json", "model.safetensors.index.json"} & set(hub.files)
    assert not list((tmp_path / "tmp").iterdir()) and not (tmp_path / "hub").exists()
    assert "not their weights" in done.stderr


def test_headers_of_gguf(gguf, lamina, tmp_path):
    """A header longer than one request is fetched in pieces until it is complete."""
    from ggufs import keys_and_tensors
    data = (GOLDEN / "gqa/model.gguf").read_bytes()
    done = lamina(gguf, "inspect", "org/name:Q8_0", "--tensors", "--json")
    assert done.returncode == 0, done.stderr
    local = json.loads(lamina(gguf, "inspect", GOLDEN / "gqa/model.gguf", "--tensors", "--json").stdout)
    there = json.loads(done.stdout)
    for row in local + there:
        row.pop("file")
    assert there == local
    start = keys_and_tensors(data)[2]
    assert all(int(span.split("-")[1]) < max(1 << 16, start + (1 << 18)) for _, span in requested(gguf))
    assert not list((tmp_path / "tmp").iterdir())


def large(shards, per_shard):
    """A model of hundreds of gigabytes, of which only the headers and the length exist."""
    config = json.loads((GOLDEN / "sharded/config.json").read_text())
    config |= {"hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8,
               "vocab_size": 128256, "head_dim": 128, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    h, f, v, kv = 16384, 53248, 128256, 1024
    tensors = [("model.embed_tokens.weight", [v, h])]
    for i in range(126):
        at = f"model.layers.{i}."
        tensors += [(at + n + ".weight", s) for n, s in (
            ("input_layernorm", [h]), ("mlp.down_proj", [h, f]), ("mlp.gate_proj", [f, h]), ("mlp.up_proj", [f, h]), ("post_attention_layernorm", [h]),
            ("self_attn.k_proj", [kv, h]), ("self_attn.o_proj", [h, h]), ("self_attn.q_proj", [h, h]), ("self_attn.v_proj", [kv, h]))]
    tensors += [("model.norm.weight", [h]), ("lm_head.weight", [v, h])]
    parts = [tensors[i::shards] for i in range(shards)]
    files, sizes, index = {"config.json": json.dumps(config).encode()}, {}, {}
    for k, part in enumerate(parts, 1):
        name, header, at = f"model-{k:05d}-of-{shards:05d}.safetensors", {}, 0
        for tensor, shape in part:
            n = 2
            for d in shape:
                n *= d
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
            index[tensor] = name
            at += n
        text = json.dumps(header).encode()
        files[name], sizes[name] = len(text).to_bytes(8, "little") + text, 8 + len(text) + at
    files["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": index}).encode()
    return files, sizes


def test_405_billion_weights_in_a_megabyte(lamina, tmp_path):
    files, sizes = large(191, 0)
    hub = Hub(files, sizes)
    sent = [0]
    entry, send = hub.entry, hub.send

    def sized(path):
        found = entry(path)
        if path in sizes:
            found["lfs"]["size"] = sizes[path]
        return found

    def counted(r, status, body, headers={}):
        sent[0] += len(body)
        send(r, status, body, headers)

    def file(r, data, stop=None):
        total = sizes.get(r.path.split(f"{COMMIT}/")[1], len(data))
        start, end = map(int, r.headers["Range"].removeprefix("bytes=").split("-")) if r.headers["Range"] else (0, total - 1)
        body = data[start:end + 1] + bytes(max(0, end + 1 - max(start, len(data))))
        counted(r, 206 if r.headers["Range"] else 200, body, {"Content-Range": f"bytes {start}-{end}/{total}"} if r.headers["Range"] else {})
    hub.entry, hub.send, hub.file = sized, counted, file
    done = lamina(hub, "inspect", "org/name", "--query", "parameters.total", "--json")
    assert done.returncode == 0, done.stderr
    assert "405853388800" in done.stdout.replace(",", ""), done.stdout
    assert sent[0] < 1_000_000 and sum(sizes.values()) > 800e9, sent[0]
    fits = lamina(hub, "fit", "org/name", "--ram", "64G")
    assert fits.returncode == 4 and "GB" in fits.stdout, fits.stderr
    assert not list((tmp_path / "tmp").iterdir())
    hub.server.shutdown()


def ranges(answer):
    def fault(r):
        if "/resolve/" not in r.path or not r.headers["Range"]:
            return False
        answer(r)
        return True
    return fault


@pytest.mark.parametrize("name", ["no ranges", "other start", "other total", "more", "nonsense", "huge"])
def test_heads_of_a_server_that_misbehaves(hub, lamina, tmp_path, name):
    def part(body, start=None, total=None):
        def answer(r):
            data = hub.files[r.path.split(f"{COMMIT}/")[1]]
            first, last = map(int, r.headers["Range"].removeprefix("bytes=").split("-"))
            here = body(data, first, last)
            hub.send(r, 206, here, {"Content-Range": f"bytes {first if start is None else start}-{last}/{total or len(data)}"})
        return answer
    faults = {"no ranges": lambda r: hub.send(r, 200, hub.files[r.path.split(f"{COMMIT}/")[1]] + b"x"), "other start": part(lambda d, a, b: d[a:b + 1], 5),
              "other total": part(lambda d, a, b: d[a:b + 1], None, 10 ** 12), "more": part(lambda d, a, b: d[a:b + 1] + b"xx"),
              "nonsense": part(lambda d, a, b: b"\x05" * (b - a + 1)), "huge": part(lambda d, a, b: b"\xff" * (b - a + 1))}
    hub.faults = [ranges(faults[name])]
    done = lamina(hub, "inspect", "-hf", "org/name")
    one_line(done, 3 if name in ("nonsense", "huge") else 1)
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("data", [b"", b"GGUF", b"GGUF\3\0\0\0" + b"\xff" * 16, b"NOPE" + bytes(60), b"GGUF\3\0\0\0" + b"\1" + bytes(7) + b"\1" + bytes(7) + b"\xff" * 8 + bytes(200)])
def test_invalid_headers(lamina, tmp_path, data):
    hub = Hub({"m.gguf": data}, ["m.gguf"])
    one_line(lamina(hub, "inspect", "-hf", "org/name"), 3, "m.gguf")
    assert not list((tmp_path / "tmp").iterdir())
    hub.server.shutdown()


def test_a_hub_without_the_file(hub, lamina):
    """For a bare name the error is that of the cache and the hub's answer is a note; with -hf the error is the hub's."""
    hub.faults = [lambda r: hub.send(r, 404, b"", {"X-Error-Code": "RepoNotFound"}) or True]
    done = lamina(hub, "inspect", "org/other")
    one_line(done, 1, "org/other")
    assert "there is no such model" in done.stderr
    one_line(lamina(hub, "inspect", "-hf", "org/other"), 1, "there is no such model")


def test_abandoned_files_are_removed(hub, lamina, tmp_path):
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / f"tmp/lamina-heads-{dead.pid}-abcdef/org").mkdir(parents=True)
    (tmp_path / f"tmp/lamina-heads-{os.getpid()}-abcdef").mkdir()
    assert lamina(hub, "inspect", "org/name").returncode == 0
    assert [p.name for p in (tmp_path / "tmp").iterdir()] == [f"lamina-heads-{os.getpid()}-abcdef"]
