"""lamina serve: API keys with limits, SIGHUP, the environment, TLS, several addresses, priorities, lamina usage."""
import concurrent.futures
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
import warnings

import openai
import pytest
from conftest import SOURCE, run
from servers import ENDS, Server

TINY = SOURCE / "tests/golden/llama/gqa/model.gguf"
ASK = {"prompt": "the", "max_tokens": 4, "temperature": 0}


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def used(answer):
    return answer["usage"]["total_tokens"]


def test_each_key_has_its_own_limits(build, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# who\nfree\nfew requests=2\nsmall tokens=5 # a minute\nday tokens_day=8\n")
    s = Server(build, "-c", 64, "--api-key-file", keys, "--api-key", "flag", "--store", tmp_path / "store", model=TINY).ready()

    def ask(key, **more):
        return s.post("/v1/completions", ASK | more, headers=bearer(key))
    for _ in range(4):
        assert ask("free")[0] == ask("flag")[0] == 200
    assert [ask("few")[0] for _ in range(4)] == [200, 200, 429, 429]
    assert s.post("/tokenize", {"content": "x"}, headers=bearer("few"))[0] == 429          # every request to the model counts
    assert s.get("/v1/models", headers=bearer("few"))[0] == 200                            # lists are not limited
    for key, what, least, most in (("few", "requests a minute", 1, 30), ("small", "tokens a minute", 1, 60), ("day", "tokens a day", 1, 86400)):
        if key != "few":
            counts = [used(r[1]) for r in (ask(key) for _ in range(12)) if r[0] == 200]
            assert sum(counts) >= (5 if key == "small" else 8) > sum(counts[:-1])
        status, r, headers = ask(key)
        assert (status, r["error"]["code"], r["error"]["type"]) == (429, "rate_limit_exceeded", "rate_limit_exceeded")
        assert what in r["error"]["message"] and least <= int(headers["Retry-After"]) <= most
    status, r, _ = s.post("/v1/messages", {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "x"}]}, headers={"X-Api-Key": "few"})
    assert (status, r["error"]["type"]) == (429, "rate_limit_error")
    with pytest.raises(openai.RateLimitError):
        openai.OpenAI(base_url=s.url + "/v1", api_key="few", max_retries=0).completions.create(model="m", **ASK)
    assert ask("free")[0] == 200
    assert s.close() == 0
    s = Server(build, "-c", 64, "--api-key-file", keys, "--store", tmp_path / "store", model=TINY).ready()
    assert ask("day")[0] == 429                  # the store holds the tokens of the day, not of the minute
    assert ask("few")[0] == 200
    assert s.close() == 0

    table = run(build / "src/cli/lamina", "usage", tmp_path / "store")
    assert table.returncode == 0 and table.stderr == ""
    rows = json.loads(run(build / "src/cli/lamina", "usage", tmp_path / "store", "--json").stdout)["rows"]
    assert len(rows) == 5 and len({r["key"] for r in rows}) == 5 and len(table.stdout.splitlines()) == 6
    mine = json.loads(run(build / "src/cli/lamina", "usage", tmp_path / "store", "--api-key", "day", "--json").stdout)["rows"]
    assert [r["requests"] >= 1 and r["input_tokens"] + r["output_tokens"] >= 8 for r in mine] == [True]


@pytest.mark.parametrize("limit", ["tokens=5", "tokens_day=5"])
def test_a_key_that_occurs_twice_has_the_limits_of_its_last_line(build, tmp_path, limit):
    keys = tmp_path / "keys"
    keys.write_text(f"flag {limit}\ntwice tokens=1000000\nother\ntwice {limit}\n")
    s = Server(build, "-c", 64, "--api-key-file", keys, "--api-key", "flag", model=TINY).ready()
    for key in ("flag", "twice"):
        statuses = [s.post("/v1/completions", ASK, headers=bearer(key))[0] for _ in range(4)]
        assert statuses[0] == 200 and statuses[-1] == 429, (key, statuses)
    assert s.close() == 0


def test_a_large_key_file_is_read_again_while_requests_are_answered(build, tmp_path):
    """The number of keys is the largest that is allowed. Comparing each with each would be 10^10 comparisons while requests wait."""
    keys = tmp_path / "keys"
    keys.write_text("".join(f"key-{i}\n" for i in range(100000)))
    s = Server(build, "-c", 64, "--api-key-file", keys, model=TINY).ready()
    s.process.send_signal(signal.SIGHUP)
    s.wait_for("100000 API keys from now on")
    assert s.post("/v1/completions", ASK, headers=bearer("key-99999"))[0] == 200
    assert s.close() == 0


@pytest.mark.parametrize("path, body", [("/v1/completions", {"n": 2}), ("/v1/embeddings", {})])
def test_tokens_count_if_the_client_leaves_before_the_end(build, model, tmp_path, path, body):
    """Otherwise a client that closes each connection early has no limit. The request cannot end by itself before it is closed: the first
    generates as long as its client reads, and the inputs of the second take many steps."""
    keys = tmp_path / "keys"
    keys.write_text("leaves tokens=100\n")
    s = Server(build, "-c", 4096, "-np", 2, "--embeddings", "--api-key-file", keys, "--store", tmp_path / "store").ready()
    if path == "/v1/completions":
        with stream(s, "leaves", **body) as c:
            got = b""
            while got.count(b"data: ") < 120:
                got += c.recv(1 << 16)
    else:
        text = json.dumps({"input": ["a b c d " * 200] * 256})
        with socket.create_connection(("127.0.0.1", s.port), timeout=ENDS) as c:
            c.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer leaves\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
            until = time.time() + ENDS
            while not any(slot["n_held"] > 400 for slot in s.get("/slots", headers=bearer("leaves"))[1]):
                assert time.time() < until
    until = time.time() + ENDS
    while not (rows := s.get("/v1/usage", headers=bearer("leaves"))[1]["data"]):         # the server notices after a moment
        assert time.time() < until
        time.sleep(0.01)
    assert rows[0]["requests"] == 1 and rows[0]["input_tokens"] + rows[0]["output_tokens"] >= 100
    assert s.get("/slots", headers=bearer("leaves"))[0] == 200                              # not limited
    assert s.post("/v1/completions", ASK, headers=bearer("leaves"))[0] == 429
    assert s.close() == 0


def test_limits_without_keys_apply_to_all_clients(build):
    s = Server(build, "-c", 64, "--requests-per-minute", 2, model=TINY).ready()
    assert [s.post("/v1/completions", ASK, headers=bearer(k))[0] for k in "abc"] == [200, 200, 429]
    assert s.close() == 0


def test_the_key_file_is_read_again_at_sighup(build, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("old requests=1\nboth requests=1\n")
    s = Server(build, "-c", 64, "--api-key-file", keys, model=TINY).ready()
    assert [s.post("/v1/completions", ASK, headers=bearer(k))[0] for k in ("old", "both", "both", "new")] == [200, 200, 429, 401]
    other = tmp_path / "other"
    other.write_text("both requests=1\nnew\n")
    other.rename(keys)                           # as editors and deployments replace files
    s.process.send_signal(signal.SIGHUP)
    s.wait_for("2 API keys from now on")
    assert [s.post("/v1/completions", ASK, headers=bearer(k))[0] for k in ("old", "both", "new")] == [401, 429, 200]
    keys.write_text("new requests=many\n")
    s.process.send_signal(signal.SIGHUP)
    s.wait_for("API keys stay as they are")
    assert any("requests=many" in line and "line 1" in line for line in s.log)
    assert s.post("/v1/completions", ASK, headers=bearer("new"))[0] == 200
    keys.unlink()
    s.process.send_signal(signal.SIGHUP)
    s.wait_for("no such file or folder")
    assert s.post("/v1/completions", ASK, headers=bearer("new"))[0] == 200 and s.get("/health")[0] == 200
    assert s.close() == 0 and not any("both" in line for line in s.log)


@pytest.mark.parametrize("text,why", [("", "holds no key"), ("key words=3\n", "words=3"), ("key tokens=-1\n", "tokens=-1"), ("key priority=high\n", "priority=high"), ("x" * 5000 + "\n", "more than"),
                                      ("key requests=99999999999999999999999\n", "requests="), ("one\ntwo\n".encode("utf-16"), "line 1: the text is not UTF-8, but probably UTF-16"),
                                      (b"one\ncl\xe9 tokens=1\n", "line 2: the text is not UTF-8"), (b"one\ntw\0o\n", "line 2: a NUL character")])
def test_key_files_that_are_wrong(build, tmp_path, text, why):
    keys = tmp_path / "keys"
    keys.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = run(build / "src/cli/lamina", "serve", TINY, "--port", 0, "--api-key-file", keys)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and last.startswith("error: --api-key-file: ") and why in last


def test_flags_are_taken_from_the_environment(build):
    def start(*flags, **variables):
        return subprocess.Popen([str(build / "src/cli/lamina"), "serve", *map(str, flags)], stderr=subprocess.PIPE, text=True,
                                env={**os.environ, **{f"LAMINA_ARG_{name}": value for name, value in variables.items()}})
    p = start("-c", 32, MODEL=str(TINY), PORT="0", CTX_SIZE="64", ALIAS="one,two", METRICS="on", NO_SLOTS="false", NO_SANDBOX="1", API_KEY="a b")
    try:
        while not (line := p.stderr.readline()).startswith("listening on "):
            assert line
        s = Server.__new__(Server)
        s.port = int(line.rsplit(":", 1)[1])
        until = time.time() + ENDS
        while s.get("/health")[0] != 200 and time.time() < until:
            time.sleep(0.02)
        assert s.get("/v1/models")[0] == 401 and s.get("/v1/models", headers=bearer("b"))[1]["data"][0]["id"] == "one"
        props = s.get("/props", headers=bearer("a"))[1]
        assert props["default_generation_settings"]["n_ctx"] == 32 and props["endpoint_metrics"] and props["endpoint_slots"]    # the flag wins
    finally:
        p.terminate()
        assert p.wait(ENDS) == 0
        p.stderr.close()
    for variables, why in (({"PORT": "many"}, "LAMINA_ARG_PORT"), ({"METRICS": "perhaps"}, "LAMINA_ARG_METRICS"), ({"PARALLEL": "0"}, "LAMINA_ARG_PARALLEL")):
        p = start(TINY, **variables)
        reply = p.communicate(timeout=ENDS)[1].splitlines()[-1]
        assert p.returncode == 2 and reply.startswith(f"error: {why}: "), reply


def test_usage_rejects_files_that_are_not_stores(build, tmp_path):
    lamina = build / "src/cli/lamina"
    other = tmp_path / "other"
    other.write_bytes(b"no database at all" * 100)
    for path, status in ((tmp_path / "none", 1), (other, 1), (tmp_path, 1)):
        done = run(lamina, "usage", path)
        assert done.returncode == status and done.stderr.startswith("error: ") and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other"]                         # no file is created
    assert run(lamina, "usage").returncode == 2


# ---- addresses and TLS ----

@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
               "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem")
    assert made.returncode == 0, made.stderr
    return folder / "key.pem", folder / "cert.pem"


def test_https_by_openai_s_client(build, certificate):
    key, cert = certificate
    s = Server(build, "-c", 64, "--ssl-key-file", key, "--ssl-cert-file", cert, model=TINY)
    assert s.url.startswith("https://127.0.0.1:")
    trust = ssl.create_default_context(cafile=cert)
    until = time.time() + ENDS
    status = 503
    while status != 200 and time.time() < until:
        c = http.client.HTTPSConnection("localhost", s.port, context=trust, timeout=ENDS)
        c.request("GET", "/health")
        status = c.getresponse().status
        assert c.sock.version() in ("TLSv1.2", "TLSv1.3")
        c.close()
    os.environ["SSL_CERT_FILE"] = str(cert)
    try:
        client = openai.OpenAI(base_url=s.url + "/v1", api_key="none", max_retries=0, timeout=ENDS)
        whole = client.completions.create(model="m", **ASK).choices[0].text
        assert "".join(c.choices[0].text for c in client.completions.create(model="m", stream=True, **ASK)) == whole
    finally:
        del os.environ["SSL_CERT_FILE"]
    with pytest.raises(ssl.SSLCertVerificationError):
        http.client.HTTPSConnection("localhost", s.port, timeout=ENDS, context=ssl.create_default_context()).request("GET", "/health")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, OSError)), socket.create_connection(("127.0.0.1", s.port)) as plain:
        old.wrap_socket(plain)
    with socket.create_connection(("127.0.0.1", s.port), timeout=ENDS) as plain:         # HTTP to an HTTPS port: no response, no harm
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert not plain.recv(100).startswith(b"HTTP/1.1 200")
    assert s.close() == 0


@pytest.mark.parametrize("flags,why", [(["--ssl-key-file", "{key}"], "both"), (["--ssl-key-file", "{cert}", "--ssl-cert-file", "{cert}"], ""),
                                       (["--ssl-key-file", "/none", "--ssl-cert-file", "{cert}"], "/none")])
def test_invalid_keys_and_certificates(build, certificate, flags, why):
    done = run(build / "src/cli/lamina", "serve", TINY, "--port", 0, *[f.format(key=certificate[0], cert=certificate[1]) for f in flags])
    assert done.returncode in (1, 2) and done.stderr.splitlines()[-1].startswith("error: ") and why in done.stderr


def test_several_addresses_at_once(build, tmp_path):
    path = tmp_path / "socket"
    hosts = ["--host", "127.0.0.1", "--host", f"unix:{path}"]
    six = socket.has_ipv6 and os.path.exists("/proc/net/if_inet6") and "00000001 01" in open("/proc/net/if_inet6", encoding="ascii").read()
    s = Server(build, "-c", 64, *hosts, *(["--host", "::1"] if six else []), model=TINY).ready()
    answers = [s.post("/v1/completions", ASK)[1]["choices"]]
    if six:
        port = int(next(line for line in s.log if "[::1]" in line).rsplit(":", 1)[1])
        c = http.client.HTTPConnection("::1", port, timeout=ENDS)
        c.request("POST", "/v1/completions", json.dumps(ASK))
        answers.append(json.loads(c.getresponse().read())["choices"])
        c.close()
    with socket.socket(socket.AF_UNIX) as u:
        u.settimeout(ENDS)
        u.connect(str(path))
        body = json.dumps(ASK)
        u.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        text = b"".join(iter(lambda: u.recv(4096), b""))
    answers.append(json.loads(text.split(b"\r\n\r\n", 1)[1])["choices"])
    assert all(a == answers[0] for a in answers)
    assert s.close() == 0 and not path.exists()


def test_slots_belong_to_their_key(build, model, tmp_path):
    """A key can neither save, overwrite, restore, erase nor list what another key has in a slot or a file. A missing file and one of another
    key are the same. The prefix in a file serves only requests of its key."""
    s = Server(build, "--api-key", "one", "--api-key", "two", "-c", 512, "--parallel", 1, "--temp", 0, "--slot-save-path", tmp_path).ready()

    def ask(key, path, body):
        return s.post(path, body, headers={"Authorization": f"Bearer {key}"})

    def cached(key):
        return ask(key, "/completion", {"prompt": text, "n_predict": 2})[1]["timings"]["cache_n"]

    def listed(key):
        return s.get("/slots", headers={"Authorization": f"Bearer {key}"})[1][0]
    text = "The keeper of the lighthouse wrote a letter to her sister every week. " * 8
    assert cached("one") == 0
    saved = ask("one", "/slots/0?action=save", {"filename": "mine"})[1]["n_saved"]
    assert saved > 64 and listed("one")["n_held"] == saved
    assert {listed("two")[name] for name in ("n_held", "n_prompt_tokens", "n_decoded")} == {0}
    foreign, missing = (ask("two", "/slots/0?action=restore", {"filename": name}) for name in ("mine", "none"))
    assert foreign[:2] == missing[:2] and (foreign[0], foreign[1]["error"]["param"]) == (400, "filename")
    assert "mine" not in foreign[1]["error"]["message"] and str(tmp_path) not in foreign[1]["error"]["message"]
    for action in ("save", "erase"):
        status, answer, _ = ask("two", f"/slots/0?action={action}", {"filename": "mine"})
        assert (status, answer["error"]["param"]) == (400, "id_slot") and "of this key" in answer["error"]["message"]
    assert cached("two") == 0 and ask("two", "/slots/0?action=save", {"filename": "mine"})[1]["n_saved"] > 64       # another file
    status, answer, _ = ask("one", "/slots/0?action=restore", {"filename": "mine"})            # it would empty the slot of the other key
    assert (status, answer["error"]["param"]) == (400, "id_slot") and listed("two")["n_held"] > 64
    assert len(list(tmp_path.iterdir())) == 2
    for key, other in (("one", "two"), ("two", "one")):
        assert cached(key) > 0 and ask(key, "/slots/0?action=erase", {})[0] == 200
        assert ask(key, "/slots/0?action=restore", {"filename": "mine"})[1]["n_restored"] > 64
        assert ask(other, "/slots/0?action=erase", {})[0] == 400 and cached(key) >= 64
    assert s.close() == 0


# ---- priority ----

def waiting(server, headers):
    lines = server.get("/metrics", headers=headers)[1].decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith("llamacpp:requests_deferred "))


def until_waiting(server, n, headers):
    until = time.time() + ENDS
    while waiting(server, headers) != n:
        assert time.time() < until
        time.sleep(0.01)


def stream(server, key, **more):
    """Send a request that generates as long as the client reads, and longer than anything else here takes."""
    body = json.dumps({"prompt": "On and on", "max_tokens": 4000, "ignore_eos": True, "stream": True} | more)
    s = socket.create_connection(("127.0.0.1", server.port), timeout=ENDS)
    s.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return s


def some_of(s):
    """Return the bytes received up to and including the first piece of text."""
    got = b""
    while b"data: " not in got:
        more = s.recv(1 << 16)
        assert more, got
        got += more
    return got


@pytest.fixture(scope="module")
def ranked(build, tmp_path_factory, model):
    """A server with one slot, so that the order of admission is visible."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("plain\nfirst priority=-3\nlast priority=4 # nights\n")
    s = Server(build, "-c", 4100, "-np", 1, "--metrics", "--api-key-file", keys).ready()
    yield s
    assert s.close() == 0, s.log


@pytest.mark.parametrize("early, late", [(("plain", {"priority": 5}), ("plain", {"priority": -1})), (("plain", {"priority": 5}), ("plain", {})),
                                         (("plain", {}), ("first", {})), (("last", {}), ("plain", {})), (("last", {"priority": -9}), ("plain", {"priority": 3}))],
                         ids=["numbers", "none is 0", "of a key", "of a key, behind", "a key cannot pass itself"])
def test_the_lower_priority_is_admitted_first(ranked, early, late):
    """A long request has the slot, a long one waits, and a short one with a lower number arrives later: it is answered before the waiting
    one has ended."""
    headers = bearer("plain")
    with stream(ranked, "plain") as holder:
        some_of(holder)                                              # it has the slot
        with stream(ranked, early[0], **early[1]) as waits:
            until_waiting(ranked, 1, headers)
            answers = []
            asks = threading.Thread(target=lambda: answers.append(ranked.post("/v1/completions", ASK | late[1], headers=bearer(late[0]))))
            asks.start()
            until_waiting(ranked, 2, headers)
            holder.close()
            asks.join(ENDS)
            assert answers[0][0] == 200
            assert b"[DONE]" not in some_of(waits)
    until_waiting(ranked, 0, headers)


def test_no_request_waits_for_ever(ranked):
    """After 64 later requests have passed it, a request is admitted next, whatever its priority; the rest wait for it."""
    headers, passed, more = bearer("plain"), 64, 9
    ask = lambda: ranked.post("/v1/completions", ASK | {"max_tokens": 1, "priority": -1}, headers=headers)[0]
    with stream(ranked, "plain") as holder, concurrent.futures.ThreadPoolExecutor(passed + more) as pool:
        some_of(holder)
        with stream(ranked, "last", priority=1000) as waits:
            until_waiting(ranked, 1, headers)
            requested = [pool.submit(ask) for _ in range(passed + more)]
            until_waiting(ranked, 1 + passed + more, headers)
            holder.close()
            some_of(waits)
            assert waiting(ranked, headers) == more
        assert {a.result(ENDS) for a in requested} == {200}


def test_a_priority_that_the_key_does_not_allow_is_a_warning(ranked):
    status, r, _ = ranked.post("/v1/completions", ASK | {"priority": -9}, headers=bearer("last"))
    assert status == 200 and r["warnings"] == ["priority: -9 is below the priority of the API key; 4 is used"]
    assert "warnings" not in ranked.post("/v1/completions", ASK | {"priority": 9}, headers=bearer("last"))[1]
    for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}), ("/completion", {"prompt": "a", "n_predict": 1}),
                       ("/v1/responses", {"input": "a", "max_output_tokens": 1}), ("/v1/messages", {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]})):
        assert ranked.post(path, body | {"priority": -9}, headers=bearer("last"))[1]["warnings"][0].startswith("priority: -9 "), path
    status, r, _ = ranked.post("/v1/completions", ASK | {"priority": "high"}, headers=bearer("last"))
    assert (status, r["error"]["param"]) == (400, "priority")
