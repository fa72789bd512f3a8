"""The dialects of the server, tested alike: the route and request body of each, and how its responses and errors are read."""
import pytest
from conftest import SOURCE
from servers import Server

SAY = [{"role": "user", "content": "Say hello."}]


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 1024, "-np", 4, "--temp", 0, "--embeddings", "--alias", "demo", "--chat-template-file", SOURCE / "tests/e2e/serve/tools.jinja").ready()
    yield s
    assert s.close() == 0, s.log
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


def ok(server, path, body):
    status, answer, _ = server.post(path, body)
    assert status == 200, (path, body, answer)
    return answer


def refused(server, path, body):
    """Send a request that must be rejected; return the error message and the field that it names."""
    status, answer, _ = server.post(path, body)
    assert status == 400, (path, body, answer)
    error = answer["error"]
    message = error if isinstance(error, str) else error["message"]
    return message, (not isinstance(error, str) and error.get("param")) or (message.split("'")[1] if message.startswith("'") else message.split(":")[0])


def text_of(answer):
    """Return the generated text of a response in any dialect."""
    if "choices" in answer:
        c = answer["choices"][0]
        return c["text"] if "text" in c else c["message"]["content"]
    if "output" in answer:
        return "".join(p["text"] for item in answer["output"] if item["type"] == "message" for p in item["content"])
    content = answer.get("message", {}).get("content", answer.get("response", answer.get("content")))
    return "".join(p.get("text", "") for p in content) if isinstance(content, list) else content


# Each dialect: its route, a request body, and its name for the maximum number of tokens (None: options.num_predict).
DIALECTS = {
    "chat": ("/v1/chat/completions", {"messages": SAY}, "max_tokens"), "completions": ("/v1/completions", {"prompt": "Hello"}, "max_tokens"),
    "responses": ("/v1/responses", {"input": "Say hello."}, "max_output_tokens"), "messages": ("/v1/messages", {"messages": SAY}, "max_tokens"),
    "native": ("/completion", {"prompt": "Hello"}, "n_predict"), "ollama chat": ("/api/chat", {"messages": SAY, "stream": False}, None),
    "ollama generate": ("/api/generate", {"prompt": "Hello", "stream": False}, None),
}


def body_of(dialect, n=24, **more):
    path, body, most = DIALECTS[dialect]
    body = {**body, "model": "demo", **more}
    if most:
        return path, {**body, most: n}
    return path, {**body, "options": {"num_predict": n, "temperature": 0, **body.get("options", {})}}


each = pytest.mark.parametrize("dialect", DIALECTS)
