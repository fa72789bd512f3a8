#!/usr/bin/env python3
"""clients.py: tests/e2e/serve/clients/*.json, what programs that use a server send to `lamina serve`, and what they make of its answers.

    tools/oracle/clients.py FOLDER [CLIENT …]                   # in a namespace without network: unshare -n, then ip link set lo up

FOLDER has the clients' programs, installed by hand, in these versions:

    npm install --prefix FOLDER/npm @openai/codex@0.171.0 @anthropic-ai/claude-code@2.1.332 opencode-ai@1.18.33 @continuedev/cli@1.5.47
    (cd FOLDER/npm/node_modules/opencode-ai && node postinstall.mjs)
    python3 -m venv FOLDER/aider && FOLDER/aider/bin/pip install aider-chat==0.86.2
    python3 -m venv FOLDER/langchain && FOLDER/langchain/bin/pip install langchain==1.5.2 langchain-openai==1.7.4 langgraph==1.2.24

Each client runs against a proxy in front of build/test's server, whose model plays answers back (tests/e2e/playback.py). The sessions: a task
with a tool, a stream that the user stops, a model that the server does not have, a prompt beyond the context. Texts of the clients that are
longer than LONG are cut, and say so: the tests need what the program sends, not its instructions."""
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/e2e"))
import playback  # noqa: E402
from servers import Server  # noqa: E402

PORT = 8080
LONG = 240
WAIT = 120                                                  # seconds for one run of a client
TASK = "Write hello to hello.txt"
DO = "echo hello > hello.txt && cat hello.txt"
SAY, DONE = "I will write it.", "hello.txt now has one line."
FILL = "yes 'hello hello hello hello hello hello hello hello' | head -600 && " + DO       # 29 kB, 5,000 tokens
SUMMARY = "A summary: the task is to write hello to hello.txt."
URL = f"http://127.0.0.1:{PORT}"
PRIVATE = ("authorization", "x-api-key", "host", "content-length", "connection", "accept-encoding")


class Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, server):
        self.behind, self.seen, self.streamed = server.port, [], threading.Event()
        super().__init__(("127.0.0.1", PORT), Forward)


class Forward(http.server.BaseHTTPRequestHandler):
    """Passes a request on, and its response back as it comes."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = {"method": self.command, "path": self.path, "headers": dict(self.headers.items()), "body": body.decode(), "answer": ""}
        self.server.seen.append(seen)
        c = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=WAIT)
        c.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "host")})
        r = c.getresponse()
        seen["status"] = r.status
        self.send_response_only(r.status)
        for name, value in r.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection", "keep-alive"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):                  # the client has gone: so does the request to the server
            while more := r.read1(4096):
                seen["answer"] += more.decode(errors="replace")
                self.wfile.write(more)
                self.wfile.flush()
                if len(seen["answer"]) > 20000:
                    self.server.streamed.set()
        c.close()
        self.close_connection = True

    do_GET = do_POST = do_HEAD = forward


def call(name, **arguments):
    return "<tool_call>\n" + f'{{"name": "{name}", "arguments": {json.dumps(arguments, separators=(",", ":"))}}}\n</tool_call>'


# ---- the clients: (version, the name of its shell tool or None, (command, environment, files) of a task) ----

def codex(folder, model, task, window):
    config = (f"model_context_window = {window}\n" if window else "") + f'model_provider = "lamina"\n[model_providers.lamina]\nname = "lamina"\nbase_url = "{URL}/v1"\nwire_api = "responses"\n'
    return [folder / "npm/node_modules/.bin/codex", "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "-m", model, task], {}, {"~/.codex/config.toml": config}


def claude_code(folder, model, task, window):
    return ([folder / "npm/node_modules/@anthropic-ai/claude-code-linux-x64/claude", "-p", task, "--allowedTools", "Bash"],
            {"ANTHROPIC_BASE_URL": URL, "ANTHROPIC_AUTH_TOKEN": "none", "ANTHROPIC_MODEL": model, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
            | ({"CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(window)} if window else {}), {})


def opencode(folder, model, task, window):
    config = {"$schema": "https://opencode.ai/config.json", "model": f"lamina/{model}", "provider": {"lamina": {
        "npm": "@ai-sdk/openai-compatible", "name": "lamina", "options": {"baseURL": URL + "/v1"}, "models": {model: {"name": model}
        | ({"limit": {"context": window, "output": 1000}} if window else {})}}}}
    return [folder / "npm/node_modules/.bin/opencode", "run", task], {}, {"opencode.json": json.dumps(config)}


def continue_cli(folder, model, task, window):
    config = (f"name: lamina\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: lamina\n    provider: openai\n    model: {model}\n"
              f"    apiBase: {URL}/v1\n    apiKey: none\n    roles: [chat]\n    capabilities: [tool_use]\n"
              + (f"    defaultCompletionOptions:\n      contextLength: {window}\n      maxTokens: 1000\n" if window else ""))
    return [folder / "npm/node_modules/.bin/cn", "--config", "config.yaml", "--auto", "-p", task], {}, {"config.yaml": config}


def aider(folder, model, task, _):
    return ([folder / "aider/bin/aider", "--model", f"openai/{model}", "--yes-always", "--no-check-update", "--no-show-model-warnings",
             "--no-git", "--analytics-disable", "--message", task, "hello.txt"], {"OPENAI_API_BASE": URL + "/v1", "OPENAI_API_KEY": "none"}, {"hello.txt": ""})


AGENT = '''
import contextlib, signal, subprocess, sys
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_openai import ChatOpenAI

def shell(command: str) -> str:
    """Run a command in the shell."""
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout

url, model, task, window = sys.argv[1:]
chat = ChatOpenAI(base_url=url + "/v1", api_key="none", model=model)
if task == "stop":
    with contextlib.closing(chat.stream("Count.")) as pieces:
        for n, _ in enumerate(pieces):
            if n == 300:
                break
    print("stopped")
    sys.exit()
shorter = [SummarizationMiddleware(chat, trigger=("tokens", int(window)), keep=("messages", 1))] if int(window) else []
agent = create_agent(chat, [shell], system_prompt="Be brief.", middleware=shorter)
for mode, part in agent.stream({"messages": [("user", task)]}, stream_mode=["messages", "values"]):
    if mode == "values":
        print(part["messages"][-1].pretty_repr())
'''


def langchain(folder, model, task, window):
    return [folder / "langchain/bin/python", "agent.py", URL, model, task, window or 0], {}, {"agent.py": AGENT}


# Open WebUI's packages are too many to install: the requests of its OpenAI and ollama connections, and what it reads of the answers, as in its source
# (open-webui 0.12.4: routers/openai.py, routers/ollama.py, routers/tasks.py, utils/payload.py, utils/middleware.py).
WEBUI = '''
import json, subprocess, sys, urllib.error, urllib.request

url, model, task = sys.argv[1:]
KEY = {"Authorization": "Bearer none", "Content-Type": "application/json"}
TOOL = {"type": "function", "function": {"name": "shell", "description": "Run a command in the shell.", "parameters": {
    "type": "object", "properties": {"command": {"type": "string", "description": "The command."}}, "required": ["command"]}}}

def send(path, body=None):
    request = urllib.request.Request(url + path, body and json.dumps(body).encode(), KEY)
    try:
        return urllib.request.urlopen(request)
    except urllib.error.HTTPError as e:
        sys.exit("the provider returned " + str(e.code) + ": " + json.load(e)["error"]["message"])

def openai(messages):
    """Return the text and the calls of a streamed answer, as middleware.py adds them up."""
    text, calls = "", {}
    answer = send("/v1/chat/completions", {"stream": True, "model": model, "messages": messages, "stream_options": {"include_usage": True}, "tools": [TOOL]})
    for n, line in enumerate(answer):
        if task == "stop" and n > 300:
            answer.close()
            sys.exit("stopped")
        if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
            for choice in json.loads(line[6:])["choices"]:
                text += choice["delta"].get("content") or ""
                for part in choice["delta"].get("tool_calls") or []:
                    call = calls.setdefault(part["index"], part)
                    if call is not part:
                        call["function"]["arguments"] += part["function"].get("arguments") or ""
    return text, list(calls.values())

json.load(send("/v1/models"))["data"][0]["id"]
messages = [{"role": "user", "content": task}]
while True:
    text, calls = openai(messages)
    print(text)
    if not calls:
        break
    messages.append({"role": "assistant", "content": text, "tool_calls": calls})
    for call in calls:
        done = subprocess.run(json.loads(call["function"]["arguments"])["command"], shell=True, capture_output=True, text=True).stdout
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done})
title = json.load(send("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "### Task: Generate a title for: " + task}], "stream": False, "max_tokens": 1000}))
print(title["choices"][0]["message"]["content"])
# The same server as an ollama connection.
json.load(send("/api/version"))["version"]
assert model in [m["model"] for m in json.load(send("/api/tags"))["models"]]
json.load(send("/api/ps"))["models"]
json.load(send("/api/show", {"model": model}))["capabilities"]
ours = [{"role": "user", "content": task}]
parts = [json.loads(line) for line in send("/api/chat", {"model": model, "messages": ours, "stream": True, "tools": [TOOL], "options": {"num_predict": 200}})]
call = [c for p in parts for c in p["message"].get("tool_calls", [])][0]
ours += [{"role": "assistant", "content": "".join(p["message"]["content"] for p in parts), "tool_calls": [call]}, {"role": "tool", "content": done}]
print("".join(json.loads(line)["message"]["content"] for line in send("/api/chat", {"model": model, "messages": ours, "stream": True, "tools": [TOOL]})))
'''


def open_webui(_, model, task, __):
    return [sys.executable, "webui.py", URL, model, task], {}, {"webui.py": WEBUI}


# Version; the shell tool and its argument; the context that the client is told in the session `shortened` (None: it has no such setting).
CLIENTS = {"codex": ("@openai/codex 0.171.0", ("exec_command", "cmd"), 11000, codex), "claude_code": ("@anthropic-ai/claude-code 2.1.332", ("Bash", "command"), 50000, claude_code),
           "opencode": ("opencode-ai 1.18.33", ("bash", "command"), 12000, opencode), "continue": ("@continuedev/cli 1.5.47", ("Bash", "command"), 8000, continue_cli),
           "aider": ("aider-chat 0.86.2", None, None, aider),
           "langchain": ("langchain 1.5.2, langchain-openai 1.7.4, langgraph 1.2.24", ("shell", "command"), 4000, langchain),
           "open_webui": ("open-webui 0.12.4, its requests by hand", ("shell", "command"), None, open_webui)}
EDIT = f"{SAY}\n\nhello.txt\n```\nhello\n```\n"             # aider has no tools: it reads edits from the text


def sessions(name, tool, window):
    """Return {session: the model's answers, the server's flags, what the client is told}."""
    def work(command):
        return f"{SAY}\n{call(tool[0], **{tool[1]: command})}"
    usual = {"answers": [work(DO), DONE] if tool else [], "plain": ["Title"] if tool else [EDIT], "flags": ["-c", "60000"], "model": "demo", "task": TASK}
    listed = {"turn": usual, "stop": usual | {"answers": [playback.ENDLESS] if tool else [], "plain": ["Title"] if tool else [playback.ENDLESS], "stopped": True},
              "unknown_model": usual | {"model": "missing"}, "too_long": usual | {"flags": ["-c", "700"], "task": TASK + "." + " It is long." * 600}}
    if name in ("langchain", "open_webui"):                                 # a program closes the stream itself
        listed["stop"] |= {"task": "stop", "plain": [playback.ENDLESS]}
    if window:
        listed["shortened"] = usual | {"answers": [work(FILL), work(FILL + " "), DONE], "plain": [SUMMARY], "window": window}
    return listed


# ---- a run, and what is stored of it ----

def run(folder, command, script):
    home, work = folder / "home", folder / "project"
    for d in (home, work):
        shutil.rmtree(d, ignore_errors=True)
        d.mkdir()
    argv, env, files = command(folder, script["model"], script["task"], script.get("window"))
    for name, text in files.items():
        path = pathlib.Path(name.replace("~", str(home))) if name[0] == "~" else work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    model = playback.write(folder / "demo.gguf", script["answers"], script["plain"])
    other = shutil.copy(model, folder / "other.gguf")
    server = Server(SOURCE / "build/test", other, "-np", "2", *script["flags"], model=model).ready()
    proxy = Proxy(server)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    with open(folder / "printed", "w+") as printed:
        client = subprocess.Popen(list(map(str, argv)), cwd=work, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True,
                                  env={"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", "IS_SANDBOX": "1"} | env)
        if script.get("stopped"):
            assert proxy.streamed.wait(WAIT), "no stream"
            if script["task"] == TASK:
                client.send_signal(signal.SIGINT)
        try:
            status = client.wait(WAIT)
        except subprocess.TimeoutExpired:
            os.killpg(client.pid, signal.SIGKILL)
            status = "killed"
        until = time.time() + 10
        while script.get("stopped") and any(s["is_processing"] for s in server.get("/slots?model=demo")[1]) and time.time() < until:
            time.sleep(0.05)
        idle = not any(s["is_processing"] for s in server.get("/slots?model=demo")[1]) if script["model"] == "demo" else True
        printed.seek(0)
        text = printed.read()
    proxy.shutdown()
    proxy.server_close()
    server.close()
    wrote = (work / "hello.txt").read_text() if (work / "hello.txt").exists() else None
    return proxy.seen, {"status": status, "printed": text, "hello.txt": wrote, "server_idle": idle}


class Store:
    """Texts without what belongs to one machine or one moment; members that several requests have are stored once."""

    def __init__(self, folder):
        self.folder, self.parts = str(folder), {}

    def clean(self, text):
        text = text.replace(self.folder, "/work")
        text = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "01234567-89ab-4cde-8f01-23456789abcd", text)
        text = re.sub(r"\b[0-9a-f]{32,}\b", lambda m: "0" * len(m[0]), text)
        return re.sub(r"\x1b\[[0-9;]*m", "", text)

    def value(self, v):
        if isinstance(v, str):
            v = self.clean(v)
            if len(v) <= LONG:
                return v
            marks = SUMMARY if SUMMARY in v else "summary" if "summar" in v.lower() else ""       # the model's template looks for them
            return f"{v[:LONG // 2]} [{len(v) - LONG // 2} characters are left out{marks and ': ' + marks}]"
        if isinstance(v, list):
            return [self.value(i) for i in v]
        return {k: self.value(i) for k, i in v.items()} if isinstance(v, dict) else v

    def shared(self, v):
        name = hashlib.sha256(json.dumps(v).encode()).hexdigest()[:8]
        self.parts[name] = v
        return {"$part": name}

    def request(self, r):
        kept = {"method": r["method"], "path": r["path"], "headers": {k: self.value(v) for k, v in r["headers"].items() if k.lower() not in PRIVATE}, "status": r.get("status")}
        if r["body"]:
            body = self.value(json.loads(r["body"]))
            kept["body"] = {k: self.shared(v) if k in ("tools", "system") else v for k, v in body.items()}
        if kept["status"] != 200:
            kept["answer"] = self.value(json.loads(r["answer"])) if r["answer"] else ""
        return kept


def record(folder, name):
    version, tool, window, command = CLIENTS[name]
    store, kept = Store(folder), {}
    for session, script in sessions(name, tool, window).items():
        seen, ended = run(folder, command, script)
        ended["printed"] = store.clean(ended["printed"])[-LONG:]
        kept[session] = {"script": {k: v for k, v in script.items() if k not in ("model", "task")}, "requests": [store.request(r) for r in seen], "ended": ended}
        print(f"{name} {session}: status {ended['status']}, hello.txt {ended['hello.txt']!r}, idle {ended['server_idle']}")
        for r in seen:
            print("   ", r["method"], r["path"], len(r["body"]), r.get("status"), r["answer"][:250] if r.get("status") != 200 else re.findall(r'"warnings":\[.*?\]', r["answer"])[:1])
        print("    |", "\n    | ".join(ended["printed"].splitlines()[-12:]))
    to = SOURCE / f"tests/e2e/serve/clients/{name}.json"
    to.parent.mkdir(exist_ok=True)
    to.write_text(json.dumps({"client": version, "sessions": kept, "parts": store.parts}, indent=1, ensure_ascii=False) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    for name in sys.argv[2:] or CLIENTS:
        record(folder, name)


if __name__ == "__main__":
    main()
