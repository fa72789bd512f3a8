"""The web page of lamina serve, as bytes, and the routes that it reads. `make browser` tests its appearance and behaviour."""
import base64
import gzip
import hashlib
import json
import re
import time

import pytest
from conftest import MODEL, PATIENCE, explains, run
from servers import Server

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 512, "--temp", 0).ready()
    yield s
    assert s.close() == 0, s.log


def page(server, **headers):
    return server.get("/", headers=BROWSER | headers)


def test_browsers_get_the_page_and_others_a_line(server, source):
    status, text, headers = page(server)
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    assert text == (source / "web/dist/index.html").read_bytes()
    assert server.get("/")[1] == b"lamina is running\n" == server.get("/", headers={"Accept": "*/*"})[1]


def test_compressed_and_cached(server):
    plain, (status, small, headers) = page(server)[1], page(server, **{"Accept-Encoding": "br, gzip"})
    assert status == 200 and headers["Content-Encoding"] == "gzip" and gzip.decompress(small) == plain
    assert len(small) <= 350_000                        # bytes that a browser fetches
    assert page(server, **{"Accept-Encoding": "gzip;q=0"})[2]["Content-Encoding"] is None
    status, text, again = page(server, **{"If-None-Match": headers["ETag"]})
    assert status == 304 and not text and again["ETag"] == headers["ETag"]
    assert page(server, **{"If-None-Match": '"other"'})[0] == 200


def test_a_browser_runs_this_script_alone(server):
    _, text, headers = page(server)
    policy = dict(p.split(" ", 1) for p in headers["Content-Security-Policy"].split("; "))
    for kind, tag in ("script-src", b"script"), ("style-src", b"style"):
        bodies = re.findall(rb"<%s(?: [^>]*)?>(.*?)</%s>" % (tag, tag), text, re.S)
        assert policy[kind] == " ".join("'sha256-" + base64.b64encode(hashlib.sha256(b).digest()).decode() + "'" for b in bodies)
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'" and policy["img-src"] == "data: blob:"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert not re.search(rb"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?!data:)", text.split(b"<script", 1)[0])


def test_a_prefix_is_before_every_path(build, model):
    """As llama-server's --api-prefix, and a proxy that keeps the path. The page asks for what stands beside it, so a proxy that removes the
    path needs nothing."""
    s = Server(build, "-c", 64, "--api-prefix", "/llm", "--slots").ready_at("/llm/health")
    for route in ("/", "/v1/models", "/props", "/api/tags", "/slots", "/v1/facts?path=parameters", "/openapi.json"):
        assert s.get("/llm" + route)[0] == 200 and s.get(route)[0] == s.get("/llmx" + route)[0] == s.get("//llm" + route)[0] == 404, route
    assert s.post("/llm/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200 == s.post("/llm/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1})[0]
    assert s.get("/health")[1]["error"]["message"] == "the path /health does not exist" and s.get("/llm/none")[1]["error"]["message"] == "the path /llm/none does not exist"
    described = json.loads(run(build / "src/cli/lamina", "serve", "--openapi", "--api-prefix", "/llm").stdout)
    assert s.get("/llm/openapi.json")[1]["servers"] == described["servers"] == [{"url": "/llm"}]
    status, text, headers = s.get("/llm", headers=BROWSER)
    assert status == 308 and headers["Location"] == "/llm/" and not text
    status, text, _ = s.get("/llm/", headers=BROWSER)
    assert status == 200 and not re.search(rb"(?:fetch|EventSource|open)\([\"'`]/", text)
    assert s.close() == 0


@pytest.mark.parametrize("prefix", ["llm", "/llm/", "/", "/a b", "/a?b", "http://x"])
def test_a_prefix_is_a_path(build, model, prefix):
    for more in ((), ("--openapi",)):
        done = run(build / "src/cli/lamina", "serve", MODEL, "--port", 0, "--api-prefix", prefix, *more)
        assert done.returncode == 2 and f'--api-prefix: "{prefix}" is not a path' in done.stderr


def test_no_page(build, model):
    s = Server(build, "--no-ui", "-c", 64).ready()
    assert page(s)[:2] == (200, b"lamina is running\n")
    assert s.close() == 0


def test_the_page_needs_no_key_and_numbers_do(build, model):
    s = Server(build, "--api-key", "k", "-c", 64).ready()
    assert page(s)[0] == 200
    for path in "/v1/machine", "/v1/facts", "/v1/drawing", "/v1/report", "/v1/settings":
        assert s.get(path)[0] in (401, 404)
    assert s.get("/v1/machine")[0] == 401
    assert s.get("/v1/machine", headers={"Authorization": "Bearer k"})[0] == 200
    assert s.close() == 0


def test_the_machine(server):
    server.post("/v1/completions", {"prompt": "Once", "max_tokens": 5})
    until = time.time() + PATIENCE
    while True:                                         # a client sees its request end before the schedule has removed it
        _, all_, _ = server.get("/v1/machine?plan=1")
        m, = all_["models"]
        if not m["now"]["writing"] or time.time() > until:
            break
    assert m["allocated"] == m["planned"] and m["allocated"]["total"] > 0
    assert m["now"]["pages"] >= m["now"]["pages_used"] and m["now"]["waiting"] == m["now"]["writing"] == 0
    assert m["totals"]["tokens"] >= 5 and m["totals"]["steps"] >= 5 and m["engine"]["context"] == 512
    assert all_["machine"]["cores"] >= 1 and all_["time"] >= all_["began"]
    assert "planned" not in server.get("/v1/machine")[1]["models"][0]


def test_streams_send_probabilities_with_their_tokens(server):
    """On llama.cpp's route, each event has the probabilities of its own tokens; together they are those of the whole response."""
    body = {"prompt": "Water is", "n_predict": 8, "n_probs": 3, "temperature": 0}
    whole = server.post("/completion", body)[1]["completion_probabilities"]
    _, text, _ = server.post("/completion", body | {"stream": True})
    events = [json.loads(line[6:]) for line in text.decode().split("\n\n") if line.startswith("data: ")]
    assert [t for e in events for t in e["completion_probabilities"]] == whole and len(whole) == 8
    assert all(t["token"] == t["top_logprobs"][0]["token"] for t in whole)


@explains
def test_facts_equal_inspect(server, build):
    own = json.loads(run(build / "src/cli/lamina", "inspect", MODEL, "--json", "-c", 512).stdout)
    assert server.get("/v1/facts?path=parameters")[1] == own["parameters"]
    assert server.get("/v1/facts")[1]["layers"] == own["layers"]
    status, error, _ = server.get("/v1/facts?path=nothing.here")
    assert status == 404 and error["error"]["type"] == "not_found_error"


@explains
def test_drawings_equal_explain(server, build):
    for name, layer in ("flow", 0), ("layer", 3), ("attention", 0):
        status, text, headers = server.get(f"/v1/drawing?name={name}&layer={layer}")
        own = run(build / "src/cli/lamina", "explain", "--diagram", name, MODEL, "--svg", *(["--layer", layer] if layer else []), "-c", 512, "--batch", 16).stdout
        assert status == 200 and headers["Content-Type"] == "image/svg+xml" and text.decode().strip() == own.strip()
    assert server.get("/v1/drawing?name=nothing")[0] == server.get("/v1/drawing?name=layer&layer=99")[0] == 400
    assert server.get("/v1/drawing?layer=x")[0] == server.get("/v1/drawing?language=xx")[0] == 400
    assert server.get("/v1/drawing?name=flow&language=my")[1] != server.get("/v1/drawing?name=flow")[1]


@explains
def test_settings_equal_inspect(server, build):
    s = server.get("/v1/settings")[1]
    c, b, k, p = s["now"]
    assert (s["contexts"][c], s["batches"][b], s["kv"][k], s["precisions"][p]) == (512, 16, "f16", "as stored")
    for context, batch, kv, precision in (512, 16, "f16", "as stored"), (2048, 4, "q8_0", "Q4_K_M"), (8192, 64, "f32", "f32"):
        c, b, k, p = s["contexts"].index(context), s["batches"].index(batch), s["kv"].index(kv), s["precisions"].index(precision)
        m = json.loads(run(build / "src/cli/lamina", "inspect", MODEL, "--json", "-c", context, "--batch", batch, "--kv-type", kv,
                           *([] if precision == "as stored" else ["--precision", precision])).stdout)["memory"]
        assert s["weights"][p] + s["mapped"][p] == m["weights"] + m["mapped"] and s["cache"][k * len(s["batches"]) + b][c] == m["kv"]
    assert server.get("/v1/settings?language=zh-Hans")[1]["precisions"][0] != "as stored" and server.get("/v1/settings?language=xx")[1]["error"]["param"] == "language"


@explains
def test_reports(server):
    report = server.get("/v1/report")[1]
    assert report["schema"].startswith("lamina.report/") and report["blocks"]
    html = server.get("/v1/report?form=html&language=zh-Hans")
    assert html[1].startswith(b"<!") and b'lang="zh-Hans"' in html[1] and html[2]["Content-Security-Policy"] == "sandbox"
    assert server.get("/v1/report?form=tex")[0] == 400


@explains
@pytest.mark.parametrize("path,name", [("/v1/report?format=html", "format"), ("/v1/drawing?kind=layer", "kind"), ("/v1/drawing?name=flow&na=1", "na"),
                                       ("/v1/facts?path=parameters&fact=1", "fact"), ("/v1/settings?lang=my", "lang"), ("/v1/machine?plans=1", "plans"),
                                       ("/props?models=x", "models"), ("/props?model,%20autoload=x", "model, autoload")])
def test_unknown_query_parameters_are_rejected_by_name(server, path, name):
    status, error, _ = server.get(path)
    assert status == 400 and f"unknown query parameter '{name}'" in json.dumps(error), error
    described = server.get("/openapi.json")[1]["paths"][path.split("?")[0]]["get"]["parameters"]
    assert name not in [p["name"] for p in described] and all(p["in"] == "query" for p in described)
