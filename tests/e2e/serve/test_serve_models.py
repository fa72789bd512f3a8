"""lamina serve with several models: loaded on request, unloaded when idle, never while they answer."""
import concurrent.futures
import http.client
import json
import re
import shutil
import socket
import threading
import time

import ollama
import openai
import pytest
from conftest import MODEL, PATIENCE, SANITIZED, SOURCE, run
from prometheus_client.parser import text_string_to_metric_families
from servers import Server

TINY = SOURCE / "tests/golden/llama/gqa/model.gguf"
ASK = {"prompt": "a", "max_tokens": 8, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = tmp_path_factory.mktemp("models")
    for name in ("one", "two", "three"):
        shutil.copy(TINY, at / f"{name}.gguf")
    (at / "notes.txt").write_text("no model")
    (at / "damaged.gguf").write_bytes(TINY.read_bytes()[:2000])
    return at


@pytest.fixture(scope="module")
def several(build, folder, model):
    s = Server(build, "--models-dir", folder, "--metrics", "-c", 128, "--keep-alive", -1, model=model).ready()
    yield s
    assert s.close() == 0, s.log
    assert [line for line in s.log if "damaged.gguf is passed over" in line]
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


def states(server):
    return {m["id"]: m["status"]["value"] for m in server.get("/v1/models")[1]["data"]}


def until(condition, seconds=PATIENCE):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_each_model_is_loaded_on_request(several):
    assert set(states(several)) == {MODEL.stem, "one", "two", "three"}
    assert states(several)["three"] == "unloaded"
    got, answer, _ = several.post("/v1/completions", ASK | {"model": "three"})
    assert got == 200 and answer["model"] == "three" and answer["usage"]["completion_tokens"] == 8
    assert states(several)["three"] == "loaded" and states(several)["two"] == "unloaded"
    assert several.get("/v1/models/three")[1]["status"]["bytes"] > 100000
    assert several.get("/v1/models/three")[1]["meta"]["n_vocab"] == 131


def test_every_dialect_routes_by_the_name(several):
    client = openai.OpenAI(base_url=several.url + "/v1", api_key="none", max_retries=0)
    texts = {client.completions.create(model=m, prompt="a", max_tokens=8, temperature=0, extra_body={"ignore_eos": True}).choices[0].text
             for m in ("one", "Two", "three:latest")}
    assert len(texts) == 1                   # they are the same model
    assert several.post("/completion", {"model": "one", "prompt": "a", "n_predict": 8, "temperature": 0, "ignore_eos": True})[1]["content"] in texts
    assert several.post("/tokenize", {"model": "one", "content": "ab"})[1]["tokens"] == several.post("/tokenize?model=two", {"content": "ab"})[1]["tokens"]
    reply = client.chat.completions.create(model=MODEL.stem, messages=[{"role": "user", "content": "Hello"}], max_completion_tokens=4)
    assert reply.model == MODEL.stem and reply.usage.completion_tokens == 4


@pytest.mark.parametrize("path,body,form", [
    ("/v1/completions", {"prompt": "a"}, "openai"), ("/v1/chat/completions", {"messages": []}, "openai"), ("/completion", {"prompt": "a"}, "openai"),
    ("/v1/embeddings", {"input": "a"}, "openai"), ("/tokenize", {"content": "a"}, "openai"),
    ("/v1/messages", {"messages": [], "max_tokens": 1}, "anthropic"), ("/api/chat", {"messages": []}, "ollama"), ("/api/show", {}, "ollama"),
])
def test_an_unknown_model_is_404_and_a_missing_one_400(several, path, body, form):
    for model, status in (("four", 404), (None, 400)):
        got, answer, _ = several.post(path, body | ({"model": model} if model else {}))
        reply = answer["error"] if form == "ollama" else answer["error"]["message"]
        assert got == status and "one" in reply and "three" in reply, answer
        if form == "openai":
            assert answer["error"]["param"] == "model" and (model is None or answer["error"]["code"] in ("model_not_found", 404))
        if form == "anthropic":
            assert answer["type"] == "error" and (model is None or answer["error"]["type"] == "not_found_error")


def test_lists_name_loaded_models(several):
    several.post("/v1/completions", ASK | {"model": "one"})
    client = ollama.Client(host=several.url)
    loaded = [name for name, state in states(several).items() if state == "loaded"]
    assert "one" in loaded and [m.model for m in client.ps().models] == loaded
    assert {m.model for m in client.list().models} == set(states(several))
    assert all(m.expires_at.year > 2300 for m in client.ps().models)
    families = {f.name: f for f in text_string_to_metric_families(several.get("/metrics")[1].decode())}
    assert {s.labels["model_name"]: s.value for s in families["lamina_model_loaded"].samples} == {n: n in loaded for n in states(several)}
    assert {s.labels["model_name"] for s in families["vllm:num_requests_running"].samples} == set(loaded)


def test_listing_loads_nothing(several):
    client = ollama.Client(host=several.url)
    client.generate(model="two", prompt="", keep_alive=0)
    assert until(lambda: states(several)["two"] == "unloaded")
    assert client.show("two").modelinfo["llama.context_length"] == 128
    assert several.get("/props")[1]["role"] == "router" and several.get("/props?model=two")[1]["is_sleeping"]
    assert several.get("/slots")[0] == 400 and several.get("/props?model=four")[0] == 404
    assert several.post("/v1/completions", ASK | {"model": "two", "temperature": "hot"})[0] == 400
    assert states(several)["two"] == "unloaded"


def test_keep_alive_of_a_request(several):
    client = ollama.Client(host=several.url)
    assert client.generate(model="one", prompt="", keep_alive=-1).done_reason == "load"
    assert states(several)["one"] == "loaded"
    client.generate(model="one", prompt="a", raw=True, options={"num_predict": 2}, keep_alive="1h30m")
    left = next(m for m in client.ps().models if m.model == "one").expires_at.timestamp() - time.time()
    assert 5000 < left <= 5401
    assert client.generate(model="one", prompt="", keep_alive=0).done_reason == "unload"
    assert until(lambda: states(several)["one"] == "unloaded")
    for bad in ("soon", "1x", {}):
        assert several.post("/api/generate", {"model": "one", "prompt": "a", "keep_alive": bad})[0] == 400
    assert client.generate(model="one", prompt="a", raw=True, options={"num_predict": 2}, keep_alive=0).done     # answers, then is unloaded
    assert until(lambda: states(several)["one"] == "unloaded")


def test_models_unloaded_together_are_all_freed(several):
    """The second model is to be unloaded while the memory of the first is being released."""
    for _ in range(8):
        for name in ("three", "two", "one"):
            assert several.post("/v1/completions", ASK | {"model": name})[0] == 200
        for name in ("two", "three", "one"):
            several.post("/api/generate", {"model": name, "keep_alive": 0})
        assert until(lambda: "loaded" not in [states(several)[name] for name in ("one", "two", "three")])


def test_loading_delays_no_request(several):
    ask = {"model": MODEL.stem, "prompt": "a", "max_tokens": 1}
    several.post("/v1/completions", ASK | {"model": "one"})
    meanwhile = 0
    for _ in range(20):
        several.post("/api/generate", {"model": MODEL.stem, "keep_alive": 0})
        assert until(lambda: states(several)[MODEL.stem] == "unloaded")
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            slow = other.submit(several.post, "/v1/completions", ask)
            while not slow.done():
                before = states(several)[MODEL.stem]
                assert several.post("/v1/completions", ASK | {"model": "one"})[0] == 200
                meanwhile += before == "loading" and states(several)[MODEL.stem] == "loading"
        assert slow.result()[0] == 200
        if meanwhile:
            break
    assert meanwhile


# ---- memory ----

@pytest.fixture(scope="module")
def bytes_of_one(several):
    several.post("/v1/completions", ASK | {"model": "one"})
    return several.get("/v1/models/one")[1]["status"]["bytes"]


def whole(stream):
    r = http.client.HTTPResponse(stream)
    r.begin()
    text = r.read().decode()
    stream.close()
    pieces = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    assert text.endswith("data: [DONE]\n\n") and not any("error" in p for p in pieces), text[-300:]
    return "".join(p["choices"][0]["text"] for p in pieces if p["choices"])


def test_a_model_that_does_not_fit_waits_for_the_others(build, folder, several, bytes_of_one, model):
    long = ASK | {"model": MODEL.stem, "prompt": "Once upon a time", "max_tokens": 60}
    text = several.post("/v1/completions", long)[1]["choices"][0]["text"]
    limit = several.get(f"/v1/models/{MODEL.stem}")[1]["status"]["bytes"] + bytes_of_one // 2
    s = Server(build, folder / "one.gguf", "-c", 128, "--mem-limit", f"{limit}B", model=model).ready()
    for _ in range(2):
        stream = s.stream(long)
        stream.recv(1, socket.MSG_PEEK)                      # the model is generating
        with concurrent.futures.ThreadPoolExecutor(8) as crowd:
            others = [crowd.submit(s.post, "/v1/completions", ASK | {"model": m}) for m in ("one", MODEL.stem, "one", MODEL.stem)]
            assert whole(stream) == text
            assert [o.result()[0] for o in others] == [200] * 4
        assert list(states(s).values()).count("loaded") == 1
    assert s.close() == 0


def test_three_models_alternate_where_two_fit(build, folder, bytes_of_one):
    s = Server(build, folder / "two.gguf", folder / "three.gguf", "-c", 128, "--mem-limit", f"{bytes_of_one * 5 // 2}B", model=folder / "one.gguf").ready()
    most = 0
    stop = threading.Event()

    def watch():
        nonlocal most
        while not stop.is_set():
            most = max(most, list(states(s).values()).count("loaded"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    with concurrent.futures.ThreadPoolExecutor(12) as crowd:
        answers = list(crowd.map(lambda i: s.post("/v1/completions", ASK | {"model": ("one", "two", "three")[i % 3], "seed": i}), range(60)))
    stop.set()
    watcher.join()
    assert [a[0] for a in answers] == [200] * 60 and len({a[1]["choices"][0]["text"] for a in answers}) == 1
    assert 1 <= most <= 2
    assert s.close() == 0


def test_oversized_requests_are_rejected_with_both_numbers(build, folder, lamina):
    s = Server(build, folder / "two.gguf", "-c", 128, "--mem-limit", "1000B", model=folder / "one.gguf").ready()
    got, answer, headers = s.post("/v1/completions", ASK | {"model": "one"})
    assert got == 507 and answer["error"]["code"] == "model_does_not_fit" and headers["x-should-retry"] == "false"
    needed, limit = map(int, re.findall(r"needs (\d+) bytes of memory, the limit is (\d+)", answer["error"]["message"])[0])
    assert limit == 1000 < needed and states(s) == {"one": "failed", "two": "unloaded"}
    assert s.post("/api/chat", {"model": "two", "messages": []})[0] == 507
    assert s.close() == 0
    done = run(lamina, "serve", TINY, "--port", 0, "--mem-limit", "1000B", *(["--no-sandbox"] if SANITIZED else []))
    assert "listening" not in done.stderr
    assert done.returncode == 4 and re.search(r"needs \d+ bytes of memory, the limit is 1000", done.stderr.splitlines()[-1])


@pytest.fixture(scope="module")
def lamina(build):
    return build / "src/cli/lamina"


def test_idle_models_are_unloaded_and_loaded_again(build, folder):
    s = Server(build, "-c", 128, "--keep-alive", "20ms", model=folder / "one.gguf").ready()
    assert until(lambda: states(s)["one"] == "unloaded")
    assert s.get("/health")[0] == 200 and s.get("/api/ps")[1]["models"] == []
    texts = set()
    for _ in range(3):
        texts.add(s.post("/v1/completions", ASK)[1]["choices"][0]["text"])
        assert until(lambda: states(s)["one"] == "unloaded")
    assert len(texts) == 1
    assert s.close() == 0


def test_one_model_stays_loaded_and_is_reported(build):
    s = Server(build, "-c", 128, model=TINY).ready()
    answer = s.post("/api/generate", {"prompt": "a", "raw": True, "stream": False, "keep_alive": 0, "options": {"num_predict": 1}})[1]
    assert any("keep_alive" in w for w in answer["warnings"]) and states(s) == {"model": "loaded"}
    assert s.close() == 0


def test_shutdown_while_requests_wait_for_a_model(build, folder, bytes_of_one):
    s = Server(build, folder / "two.gguf", "-c", 128, "--mem-limit", f"{bytes_of_one * 3 // 2}B", "--drain-timeout", 60, model=folder / "one.gguf").ready()
    s.post("/v1/completions", ASK | {"model": "one"})
    stream = s.stream(ASK | {"model": "one", "max_tokens": 120, "n": 8})
    stream.recv(1)
    with concurrent.futures.ThreadPoolExecutor(2) as crowd:
        waits = crowd.submit(s.post, "/v1/completions", ASK | {"model": "two"})
        until(lambda: states(s)["two"] != "unloaded", 5)
        assert s.close() == 0
        assert waits.result()[0] in (200, 503)
    stream.close()


@pytest.mark.parametrize("args,why", [
    (["one.gguf", "one.gguf"], 'two models are called "one"'), (["one.gguf", "--alias", "a", "--alias", "b"], "2 names for 1 model"),
    (["one.gguf", "two.gguf", "--alias", "x", "--alias", "X"], 'two models are called "X"'), (["one.gguf", "--keep-alive", "soon"], "--keep-alive"),
])
def test_impossible_lists(lamina, folder, args, why):
    done = run(lamina, "serve", "--port", 0, *[folder / a if a.endswith(".gguf") else a for a in args])
    assert done.returncode == 2 and why in done.stderr, done.stderr


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("path, name", [
    (f"models--acme--tiny/snapshots/{COMMIT}", "acme/tiny"), (f"models--acme--tiny/snapshots/{COMMIT}/", "acme/tiny"),
    (f"models--gpt2/snapshots/{COMMIT}", "gpt2"), ("plain/", "plain"), ("plain//", "plain"), ("snapshots/plain", "plain"), ("models--a--b", "models--a--b"),
    (f"models--acme--tiny/snapshots/{COMMIT}/small.gguf", "small")])
def test_a_folder_of_the_cache_has_the_name_of_its_repository(build, tmp_path, path, name):
    """Requests, /v1/models and /v1/models/NAME name it as the hub does, with its slash, whether a client encodes it or not."""
    at = tmp_path / path
    if path.endswith(".gguf"):
        at.parent.mkdir(parents=True)
        shutil.copy(TINY, at)
    else:
        at.mkdir(parents=True)
        for f in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(TINY.with_name(f), at)
    s = Server(build, f"{tmp_path}/{path}", TINY, "-c", 128, model=None).ready()
    assert list(states(s)) == [name, "model"]
    assert openai.OpenAI(base_url=s.url + "/v1", api_key="none").models.retrieve(name).id == s.get("/v1/models/" + name)[1]["id"] == name
    status, answer, _ = s.post("/v1/completions", ASK | {"model": name})
    assert status == 200 and answer["model"] == name
    for wrong in (name + "/x", "x/" + name, "x" * 300):
        assert s.get("/v1/models/" + wrong)[0] == 404
    assert s.close() == 0


def test_a_model_whose_file_has_vanished_is_named(build, tmp_path):
    for name in ("one", "two"):
        shutil.copy(TINY, tmp_path / f"{name}.gguf")
    s = Server(build, "--models-dir", tmp_path, "-c", 128, model=None).ready()
    (tmp_path / "two.gguf").unlink()
    for _ in range(2):
        got, answer, _ = s.post("/v1/completions", ASK | {"model": "two"})
        assert got >= 400 and answer["error"]["message"] == "the model two cannot be loaded: no such file or folder", answer
    assert states(s)["two"] == "failed" and s.post("/v1/completions", ASK | {"model": "one"})[0] == 200
    assert s.close() == 0, s.log


def test_damaged_models_are_rejected_by_name(lamina, folder, tmp_path):
    assert run(lamina, "serve", folder / "one.gguf", folder / "damaged.gguf", "--port", 0).returncode == 3
    assert run(lamina, "serve", "--models-dir", tmp_path, "--port", 0).returncode == 1
