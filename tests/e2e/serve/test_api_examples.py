"""The requests of docs/server/api.md get responses with the members and types shown there, and every route has an example."""
import importlib.machinery
import importlib.util
import json

import pytest
from conftest import SOURCE, run
from servers import Server

loader = importlib.machinery.SourceFileLoader("httpexamples", str(SOURCE / "scripts/httpexamples"))
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("httpexamples", loader))
loader.exec_module(script)
EXAMPLES = {e["route"]: e for e in json.loads(script.PAGE.read_text())}


@pytest.fixture(scope="module")
def answers(build, model, tmp_path_factory):
    server = Server(build, *script.FLAGS, "--slot-save-path", tmp_path_factory.mktemp("slots")).ready()
    yield {route: rest for route, *rest in script.responses(server.url)}
    assert server.close() == 0, server.log


@pytest.mark.parametrize("route", [route for route, _, _ in script.REQUESTS])
def test_response(answers, route):
    shown, (path, body, status, answer) = EXAMPLES[route], answers[route]
    assert body == shown.get("request") and status == shown["status"], answer
    assert not list(script.differences(shown["response"], answer)), "scripts/httpexamples BUILD-FOLDER, scripts/httpdoc PROGRAM"


def test_every_route_has_an_example(build):
    described = json.loads(run(build / "src/cli/lamina", "serve", "--openapi").stdout)["paths"]
    assert set(EXAMPLES) == {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}


def test_differences_are_found():
    shown = {"a": 1, "b": [{"c": "x"}], "d": None}
    assert not list(script.differences(shown, {"a": 2.5, "b": [{"c": "y"}, 7], "d": None}))
    for seen in ({"a": "1"}, {"a": 1, "b": [], "d": None}, {"a": 1, "b": [{"c": 1}], "d": None}, {**shown, "e": 1}):
        assert list(script.differences(shown, seen)), seen
    assert not list(script.differences({"a": 1, "…": "…"}, {"a": 1, "z": 1}))
