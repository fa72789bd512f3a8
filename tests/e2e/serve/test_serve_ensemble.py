"""serve --ensemble: models that answer as one give the bits of `run --ensemble`, alone and under load."""
import concurrent.futures
import json

import openai
import pytest
from conftest import MODEL, run
from test_ensemble import PROMPT, TINY, lamina, other  # noqa: F401 (fixtures)
from servers import Server

RULES = ["mean", "logmean", "contrast"]
LONG = [5 + i % 100 for i in range(90)]


@pytest.fixture(scope="module", params=RULES)
def rule(request):
    return request.param


@pytest.fixture(scope="module")
def server(build, other, rule):  # noqa: F811
    """A server with the ensemble and one of its models alone; its cache has space for two requests at a time."""
    s = Server(build, "--ensemble", f"both={TINY}:0.9,{other}:0.6", "--ensemble-rule", rule, "-c", 128, "--parallel", 3, "--cache-tokens", 256,
               "--alias", "one", "--keep-alive", -1, "--embeddings", model=TINY).ready()
    yield s
    assert s.close() == 0, s.log
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


def received(lamina, other, rule, ids, n, *flags):  # noqa: F811
    done = run(lamina, "run", "--ensemble", f"both={TINY}:0.9,{other}:0.6", "--ensemble-rule", rule, "--ids", ",".join(map(str, ids)), "-n", n,
               "--ignore-eos", "--json", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["ensemble"]


def ask(server, ids, most, **more):
    status, answer, _ = server.post("/v1/completions", {"model": "both", "prompt": ids, "max_tokens": most, "ignore_eos": True, "contributions": True} | more)
    assert status == 200, answer
    return answer


def test_the_same_bits_as_run(server, lamina, other, rule):  # noqa: F811
    for ids, flags, more in ((PROMPT, ["--temp", 0], {"temperature": 0}), (LONG, ["--temp", 1, "-s", 7], {"temperature": 1, "seed": 7})):
        alone, reply = received(lamina, other, rule, ids, 20, *flags), ask(server, ids, 20, **more)["ensemble"]
        assert reply["name"] == "both" and reply["rule"] == rule
        assert [m["weight"] for m in reply["models"]] == [m["weight"] for m in alone["models"]]
        assert reply["choices"] == [{"index": 0, "tokens": alone["tokens"]}] and len(alone["tokens"]) == 20


def test_the_same_bits_among_many_requests(server, lamina, other, rule):  # noqa: F811
    """Six requests, three at a time, with pages for two: some are preempted and recomputed, in both engines."""
    alone = {seed: received(lamina, other, rule, LONG, 30, "--temp", 1, "-s", seed)["tokens"] for seed in range(6)}
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        reply = list(pool.map(lambda seed: ask(server, LONG, 30, temperature=1, seed=seed), range(6)))
    for seed, answer in enumerate(reply):
        assert answer["ensemble"]["choices"][0]["tokens"] == alone[seed]
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_log_probabilities_and_constraints_use_the_mixture(server):
    answer = ask(server, PROMPT, 6, temperature=0, logprobs=2, n=2)
    for choice, told_of in zip(answer["choices"], answer["ensemble"]["choices"]):
        assert choice["logprobs"]["token_logprobs"] == pytest.approx([t["logprob"] for t in told_of["tokens"]], abs=1e-5)
    held = ask(server, PROMPT, 20, temperature=1, ignore_eos=False, guided_regex="[ab]{3}")
    assert held["choices"][0]["text"].strip("ab") == "" and len(held["choices"][0]["text"]) == 3
    assert [t["members"] for t in held["ensemble"]["choices"][0]["tokens"]]


def test_a_stream_ends_with_the_contributions(server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    body = {"model": "both", "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "extra_body": {"contributions": True, "ignore_eos": True}}
    whole = client.completions.create(**body)
    events = list(client.completions.create(**body, stream=True, stream_options={"include_usage": True}))
    assert "".join(e.choices[0].text for e in events if e.choices) == whole.choices[0].text
    assert events[-1].model_extra["ensemble"] == whole.model_extra["ensemble"]


def test_lists_name_the_ensemble_and_its_members(server, rule):
    listed = {m["id"]: m for m in server.get("/v1/models")[1]["data"]}
    assert set(listed) == {"one", "both"} and "ensemble" not in listed["one"]
    assert [m["model"] for m in listed["both"]["ensemble"]["models"]] == ["gqa", "other"] and listed["both"]["ensemble"]["rule"] == rule
    assert listed["both"]["meta"]["n_params"] == 2 * listed["one"]["meta"]["n_params"]
    fingerprints = {m: server.post("/v1/completions", {"model": m, "prompt": PROMPT, "max_tokens": 1})[1]["system_fingerprint"] for m in listed}
    assert fingerprints["one"] != fingerprints["both"]


@pytest.mark.parametrize("path,body", [("/v1/completions", {"prompt": PROMPT, "echo": True, "logprobs": 1, "max_tokens": 0}), ("/v1/embeddings", {"input": PROMPT}),
                                       ("/v1/trace", {"prompt": "a"})])
def test_options_of_one_model_are_rejected(server, path, body):
    status, answer, _ = server.post(path, body | {"model": "both"})
    assert status == 501 and "ensemble" in answer["error"]["message"], answer


def test_contributions_need_an_ensemble(server):
    status, answer, _ = server.post("/v1/completions", {"model": "one", "prompt": PROMPT, "max_tokens": 1, "contributions": True})
    assert status == 400 and answer["error"]["param"] == "contributions", answer


@pytest.mark.parametrize("flags,status,why", [
    (["--ensemble", f"{TINY},{TINY}"], 2, "needs a name for requests: NAME="), (["--ensemble", f"x={TINY}"], 2, "two or more models"), (["--ensemble-rule", "logmean", TINY], 2, "--ensemble"),
    (["--ensemble", f"x={TINY},{MODEL}"], 2, "smollm2"), (["--ensemble", f"x={TINY},/nowhere"], 1, "/nowhere"),
    (["--ensemble", f"x={TINY},{TINY}", "--ensemble", f"X={TINY},{TINY}"], 2, "two models are called"),
])
def test_unservable_models_are_reported_at_the_start(lamina, model, flags, status, why):  # noqa: F811
    done = run(lamina, "serve", "--port", 0, *flags)
    assert done.returncode == status and why in done.stderr.splitlines()[-1], done.stderr
