"""Recorded sessions of clients (clients/*.json, by tools/oracle/clients.py): their requests are sent again, to models that play the same answers
back, and each client must get what it got when it did its task: text, calls, errors, an end of the stream that it closes."""
import http.client
import json
import re
import time

import playback
import pytest
from conftest import PATIENCE, SOURCE
from servers import Server

CLIENTS = {p.stem: json.loads(p.read_text()) for p in sorted((SOURCE / "tests/e2e/serve/clients").glob("*.json"))}
LEFT_OUT = re.compile(r" \[(\d+) characters are left out")
CONTEXT = 20000
each = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(scope="module")
def servers(build, tmp_path_factory):
    """A server for each client, with one model for each script of its sessions."""
    running = {}

    def of(client):
        if client not in running:
            folder = tmp_path_factory.mktemp(client)
            sessions = CLIENTS[client]["sessions"]
            models = [playback.write(folder / f"{name}.gguf", sessions[name]["script"]["answers"], sessions[name]["script"]["plain"])
                      for name in ("turn", "stop", "shortened") if name in sessions]
            running[client] = Server(build, *models[1:], "-c", CONTEXT, "-np", 2, model=models[0]).ready()
        return running[client]
    yield of
    assert all(s.close() == 0 for s in running.values()), [s.log for s in running.values()]


def body_of(client, session, request):
    """Return the body of a request, with the name of the session's model."""
    parts = CLIENTS[client]["parts"]
    body = {k: parts[v["$part"]] if isinstance(v, dict) and "$part" in v else v for k, v in request.get("body", {}).items()}
    if body.get("model") == "demo":
        body["model"] = session if session in ("stop", "shortened") else "turn"
    return body


def sent(client, session):
    """Return [(request, body)] of a session."""
    return [(r, body_of(client, session, r)) for r in CLIENTS[client]["sessions"][session]["requests"]]


def send(server, request, body):
    """Send a request as the client did, with its headers, and return the status and the text of the response."""
    return server.ask(request["method"], request["path"], json.dumps(body) if body else None, headers=request["headers"])[:2]


# ---- answers, in the form of each dialect: (text, [(name, arguments)]) ----

def events(text):
    return [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: {")]


def of_chat(got):
    text, calls = "", {}
    for e in events(got) if isinstance(got, bytes) else [got]:
        for choice in e["choices"]:
            message = choice["delta"] if "delta" in choice else choice["message"]
            text += message.get("content") or ""
            for at, c in enumerate(message.get("tool_calls") or []):
                call = calls.setdefault(c.get("index", at), ["", ""])
                call[0] += c["function"].get("name") or ""
                call[1] += c["function"].get("arguments") or ""
    return text, [(name, json.loads(arguments)) for name, arguments in calls.values()]


def of_messages(got):
    text, calls = "", []
    for e in events(got):
        if e["type"] == "content_block_start" and e["content_block"]["type"] == "tool_use":
            calls.append([e["content_block"]["name"], ""])
        elif e["type"] == "content_block_delta":
            if e["delta"]["type"] == "input_json_delta":
                calls[-1][1] += e["delta"]["partial_json"]
            else:
                text += e["delta"]["text"]
    return text, [(name, json.loads(arguments)) for name, arguments in calls]


def of_responses(got):
    items = events(got)[-1]["response"]["output"]
    return ("".join(p["text"] for i in items if i["type"] == "message" for p in i["content"]),
            [(i["name"], json.loads(i["arguments"])) for i in items if i["type"] == "function_call"])


def of_ollama(got):
    parts = [json.loads(line) for line in got.splitlines()]
    return "".join(p["message"]["content"] for p in parts), [(c["function"]["name"], c["function"]["arguments"]) for p in parts for c in p["message"].get("tool_calls", [])]


READS = {"/v1/chat/completions": of_chat, "/v1/messages": of_messages, "/v1/responses": of_responses, "/api/chat": of_ollama}


def meaning(script):
    """Return what a text of the script means: (text, [(name, arguments)])."""
    text, *calls = script.split("\n<tool_call>\n")
    calls = [json.loads(c.removesuffix("\n</tool_call>")) for c in calls]
    return text, [(c["name"], c["arguments"]) for c in calls]


def history(body):
    """Return the calls that a client sends back, in any dialect."""
    items = body["input"] if isinstance(body.get("input"), list) else body.get("messages", [])
    blocks = [b for m in items if isinstance(m.get("content"), list) for b in m["content"]]
    def read(a):
        return json.loads(a) if isinstance(a, str) else a
    return ([(c["function"]["name"], read(c["function"]["arguments"])) for m in items for c in m.get("tool_calls", [])] +
            [(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"] +
            [(i["name"], read(i["arguments"])) for i in items if i.get("type") == "function_call"])


@pytest.mark.parametrize("client, session", [(c, s) for c, d in CLIENTS.items() for s in ("turn", "shortened") if s in d["sessions"]])
def test_a_task_is_done(servers, client, session):
    """Each answer is one of the script in its order, the client sends the calls back as they were, and the last answer ends the task."""
    script, given, said = CLIENTS[client]["sessions"][session]["script"], [], []
    known = [meaning(t) for t in script["answers"] + script["plain"]]
    for request, body in sent(client, session):
        status, got = send(servers(client), request, body)
        assert status == request["status"] == 200, (request["path"], got)
        assert b"unknown field" not in (got if isinstance(got, bytes) else json.dumps(got).encode())
        if read := READS.get(request["path"].split("?")[0]):
            answer = read(got)
            prefilled = body.get("messages", [{}])[-1].get("role") == "assistant"      # Continue, after a summary: nothing is left to say
            assert answer in known or (prefilled and answer == ("", [])), answer
            assert all(call in given for call in history(body)), (given, history(body))
            given += answer[1]
            said.append(answer)
    tools = [a for a in said if a in known[:len(script["answers"])]] or said
    assert tools[0] == known[0] and tools[-1] == known[max(0, len(script["answers"]) - 1)]
    if session == "shortened":                              # the client asked for a summary, and went on with it
        assert meaning(script["plain"][0]) in said and script["plain"][0] in json.dumps(sent(client, session)[-1][1])
    assert CLIENTS[client]["sessions"][session]["ended"]["hello.txt"] == "hello\n"


@each
def test_a_stream_that_the_client_closes_ends(servers, client):
    """The answer has no end but the context. After the client has gone, the slot is free long before."""
    server = servers(client)
    for request, body in sent(client, "stop"):
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        c.request(request["method"], request["path"], json.dumps(body) if body else None, request["headers"])
        r = c.getresponse()
        assert r.status == 200
        got = b""
        while got.count(b"\ndata: ") < 60 and (piece := r.read1(1000)):
            got += piece
        if b"and on" not in got and b"n, and" not in got:    # a title, which ends
            continue
        assert piece, got
        r.close()
        c.close()
        until = time.time() + PATIENCE
        while any(s["is_processing"] for s in server.get("/slots?model=stop")[1]):
            assert time.time() < until
            time.sleep(0.02)
        assert max(s["n_held"] for s in server.get("/slots?model=stop")[1]) < CONTEXT // 2


def fault_of(answer):
    """Return an error without its numbers and names of models."""
    return re.sub(r"\d+|; this server has [^\"}]*", "N", json.dumps(answer))


@each
@pytest.mark.parametrize("session", ["unknown_model", "too_long"])
def test_an_error_has_the_form_that_the_client_reads(servers, client, session):
    """The errors are those after which the client did the right thing: `ended` of the session."""
    for request, body in sent(client, session):
        if session == "too_long" and request["status"] == 400:    # as long as it was: longer than the context
            body = json.loads(LEFT_OUT.sub(lambda m: " long" * CONTEXT, json.dumps(body), count=1))
        status, got = send(servers(client), request, body)
        assert status == request["status"], got
        if status != 200:
            assert fault_of(got) == fault_of(request["answer"]), got


def test_the_page_lists_the_versions():
    """docs/server/clients.md names the versions of the recorded clients, and those of the libraries that other tests use."""
    page = (SOURCE / "docs/server/clients.md").read_text()
    pinned = (SOURCE / "tests/requirements.txt").read_text()
    names = {"claude_code": "Claude Code", "open_webui": "Open WebUI", "langchain": "LangChain"}
    for client, recorded in CLIENTS.items():
        version = re.search(r"\d+\.[\d.]+\d", recorded["client"])[0]
        assert re.search(rf"(?i)^\| \[?{names.get(client, client)}\b[^|]*\| {re.escape(version)} \|", page, re.M), (client, version)
    for library in ("openai", "anthropic", "ollama"):
        version = re.search(rf"^{library}==(\S+)", pinned, re.M)[1]
        assert re.search(rf"(?i)^\| \[{library} for Python\][^|]*\| {re.escape(version)} \|", page, re.M), (library, version)
    node = json.loads((SOURCE / "tools/browser/package.json").read_text())
    assert f"| OpenAI for Node | {(node.get('devDependencies') or node['dependencies'])['openai']} |" in page
