"""lamina serve: llama.cpp's own routes, and further fields of requests in every dialect."""
import json
import shutil
import struct

import ollama
import openai
import pytest
from conftest import SOURCE
from servers import ENDS, Server, raw

ASK = {"prompt": "Water is made of", "n_predict": 8, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def server(build, model):
    s = Server(build, "-c", 512, "-np", 4, "--seed", 11, "--alias", "demo,small,quick", "--tags", "chat,tiny", "--cors-origins", "localhost",
               "--chat-template-file", SOURCE / "tests/e2e/serve/tools.jinja").ready()
    yield s
    assert s.close() == 0, s.log
    assert not [line for line in s.log if "Sanitizer" in line or "runtime error" in line]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=ENDS)


def events(text):
    return [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: {")]


def test_several_prompts_of_every_form_have_one_answer_each(server):
    ids = server.post("/tokenize", {"content": ASK["prompt"]})[1]["tokens"]
    one = server.post("/completion", ASK)[1]
    many = server.post("/completion", ASK | {"prompt": [ASK["prompt"], ids, {"prompt_string": ASK["prompt"]},
                                                        {"content": [{"type": "text", "text": ASK["prompt"]}]}]})[1]
    assert [m["content"] for m in many] == [one["content"]] * 4 and [m["index"] for m in many] == [0, 1, 2, 3]
    assert {m["prompt"] for m in many} == {ASK["prompt"]} and one["tokens_evaluated"] == len(ids)
    two = server.post("/completion", ASK | {"n_cmpl": 2, "temperature": 1.5, "seed": 3})[1]
    assert len(two) == 2 and two[0]["content"] != two[1]["content"]
    mixed = server.post("/completion", ASK | {"prompt": [*ids, " oxygen"]})[1]
    assert isinstance(mixed, dict) and mixed["prompt"] == ASK["prompt"] + " oxygen"
    status, r, _ = server.post("/completion", ASK | {"prompt": {"prompt_string": "x", "multimodal_data": "aGk="}})
    assert (status, r["error"]["code"]) == (400, 400)


def test_settings_are_listed_and_can_be_chosen(server):
    requested = ASK | {"ignore_eos": True, "stop": ["hydro"], "top_k": 7, "samplers": ["top_k", "temperature"], "logit_bias": [[5, -2]]}
    r = server.post("/completion", requested)[1]
    s = r["generation_settings"]
    assert (s["top_k"], s["samplers"], s["stop"], s["seed"], s["n_predict"]) == (7, ["top_k", "temperature"], ["hydro"], 11, 8)
    assert {"token": 5, "bias": -2.0} in s["logit_bias"] and any(b["bias"] is None for b in s["logit_bias"])
    props = server.get("/props")[1]["default_generation_settings"]["params"]
    assert props["seed"] == 11 and set(props) == set(s)
    some = server.post("/completion", ASK | {"response_fields": ["content", "generation_settings/n_predict", "no/such"]})[1]
    assert set(some) == {"content", "generation_settings/n_predict"} and some["generation_settings/n_predict"] == 8
    assert server.post("/completion", ASK | {"response_fields": [1]})[1]["error"]["message"]
    letters = server.post("/completion", ASK | {"samplers": "kt"})[1]
    assert letters["generation_settings"]["samplers"] == ["top_k", "temperature"]
    for wrong in ("kq", ["no_such"], 5):
        assert server.post("/completion", ASK | {"samplers": wrong})[0] == 400


def test_every_request_uses_the_seed_of_the_server(server):
    hot = ASK | {"temperature": 2.0, "n_predict": 16, "top_k": 0}
    first, again = (server.post("/completion", hot)[1]["content"] for _ in range(2))
    assert first == again and server.post("/completion", hot | {"seed": 12})[1]["content"] != first


def test_the_finish_reason_is_named(server, build):
    reply = server.post("/completion", ASK)[1]["content"].split()
    stop = " " + reply[2]
    r = server.post("/completion", ASK | {"stop": ["zzzz", stop]})[1]
    assert (r["stop_type"], r["stopping_word"], r["truncated"]) == ("word", stop, False)
    assert not r["has_new_line"]
    message = {"model": "demo", "max_tokens": 12, "messages": [{"role": "user", "content": "Name a colour."}], "temperature": 0}
    whole = server.post("/v1/messages", message)[1]["content"][0]["text"].split()
    cut = server.post("/v1/messages", message | {"stop_sequences": ["zzzz", whole[1]]})[1]
    assert (cut["stop_reason"], cut["stop_sequence"]) == ("stop_sequence", whole[1])
    received = events(server.post("/v1/messages", message | {"stop_sequences": [whole[1]], "stream": True})[1])
    assert [e["delta"]["stop_sequence"] for e in received if e["type"] == "message_delta"] == [whole[1]]


def test_probabilities_spell_their_tokens(server):
    r = server.post("/completion", ASK | {"n_probs": 3, "n_predict": 3})[1]["completion_probabilities"]
    assert len(r) == 3
    for token in r:
        assert bytes(token["bytes"]).decode("utf-8", "replace") == token["token"] and len(token["top_logprobs"]) == 3
        assert token["top_logprobs"][0]["logprob"] == token["logprob"] <= 0           # greedy: the best one
    _, text, _ = server.post("/completion", ASK | {"n_probs": 3, "n_predict": 3, "stream": True})
    streamed = [p for e in events(text) if not e["stop"] for p in e["completion_probabilities"]]
    assert streamed == r


def test_probabilities_after_sampling_are_of_what_was_left(server):
    """Reduced to four tokens, their probabilities add up to one; reduced to the most probable token, its probability is one."""
    r = server.post("/completion", ASK | {"n_probs": 10, "n_predict": 6, "temperature": 1.2, "top_k": 4, "top_p": 1, "min_p": 0, "seed": 5, "post_sampling_probs": True})[1]
    assert r["generation_settings"]["post_sampling_probs"] and len(r["completion_probabilities"]) == 6
    for token in r["completion_probabilities"]:
        top = [t["prob"] for t in token["top_probs"]]
        assert len(top) == 4 and sum(top) == pytest.approx(1, abs=1e-5) and top == sorted(top, reverse=True) and "logprob" not in token
        assert {t["id"]: t["prob"] for t in token["top_probs"]}[token["id"]] == token["prob"]
    own = server.post("/completion", ASK | {"n_probs": 10, "n_predict": 1})[1]["completion_probabilities"][0]
    certain = server.post("/completion", ASK | {"n_probs": 10, "n_predict": 1, "post_sampling_probs": True})[1]["completion_probabilities"][0]
    assert own["logprob"] < -0.01 and certain["prob"] == 1 and [(t["id"], t["prob"]) for t in certain["top_probs"]] == [(own["id"], 1)]


def test_a_grammar_may_begin_later(server):
    """A lazy grammar begins at a word, however it is split into tokens, or at a control token, which preserved_tokens shows."""
    free = server.post("/completion", ASK | {"n_predict": 24})[1]["content"]
    word = free.split()[4]
    lazy = {"n_predict": 24, "grammar": f'root ::= "{word}" "-" [0-9]{{3}}', "grammar_lazy": True, "grammar_triggers": [{"type": 1, "value": word}]}
    reply = server.post("/completion", ASK | lazy)[1]
    before, behind = free[:free.index(word)], reply["content"][free.index(word):]
    assert reply["content"].startswith(before) and behind[:-3] == word + "-" and behind[-3:].isdigit() and reply["stop_type"] == "eos"
    assert reply["generation_settings"]["grammar_triggers"] == lazy["grammar_triggers"] and reply["generation_settings"]["grammar_lazy"]
    mark = "<|im_start|>"
    token = server.post("/tokenize", {"content": mark})[1]["tokens"]
    by_token = {"n_predict": 9, "grammar": f'root ::= "{mark}" "abc"', "grammar_lazy": True, "logit_bias": [[mark, 100]]}
    for trigger in ({"type": 0, "value": mark, "token": token[0]}, {"type": 1, "value": mark}):
        hidden = server.post("/completion", ASK | by_token | {"grammar_triggers": [trigger]})[1]
        shown = server.post("/completion", ASK | by_token | {"grammar_triggers": [trigger], "preserved_tokens": [mark, "no token of it"]})[1]
        assert hidden["content"] == "abc" and shown["content"] == mark + "abc"


@pytest.mark.parametrize("more,field", [
    ({"grammar_lazy": True}, "grammar_lazy"), ({"grammar_triggers": [{"type": 1, "value": "a"}]}, "grammar_triggers"),
    ({"grammar": 'root ::= "a"', "grammar_lazy": True}, "grammar_triggers"),
    ({"grammar": 'root ::= "a"', "grammar_lazy": True, "grammar_triggers": [{"type": 2, "value": "a"}]}, "patterns are not supported"),
    ({"grammar": 'root ::= "a"', "grammar_lazy": True, "grammar_triggers": [{"type": 1, "value": "b"}]}, "does not fit"),
    ({"grammar": 'root ::= "a"', "grammar_lazy": True, "grammar_triggers": [{"type": 0, "value": "a", "token": 5}]}, "control token"),
    ({"preserved_tokens": [7]}, "preserved_tokens"), ({"t_max_predict_ms": "soon"}, "t_max_predict_ms"),
])
def test_impossible_triggers_are_rejected(server, more, field):
    status, r, _ = server.post("/completion", ASK | more)
    assert status == 400 and field in r["error"]["message"] + str(r["error"].get("param")), r


def test_the_time_limit_ends_a_text_after_a_line(server):
    long = {"n_predict": 450, "t_max_predict_ms": 1}
    cut = server.post("/completion", ASK | long | {"grammar": 'root ::= "\\n" [a-z]{1200}'})[1]
    assert cut["stop_type"] == "limit" and 1 < cut["tokens_predicted"] < 400 and cut["content"].startswith("\n") and cut["has_new_line"]
    received = events(server.post("/completion", ASK | long | {"grammar": 'root ::= "\\n" [a-z]{1200}', "stream": True})[1])
    assert received[-1]["stop"] and received[-1]["stop_type"] == "limit" and received[-1]["tokens_predicted"] < 400
    whole = server.post("/completion", ASK | long | {"grammar": "root ::= [a-z]{40}"})[1]
    assert whole["stop_type"] == "eos" and len(whole["content"]) == 40


def test_strings_can_be_biased(server):
    free = server.post("/completion", ASK)[1]["content"]
    word = " " + free.split()[0]
    for bias in ([[word, False]], {word: -100}):
        assert not server.post("/completion", ASK | {"logit_bias": bias})[1]["content"].startswith(word)
    assert server.post("/completion", ASK | {"logit_bias": [[word, "much"]]})[0] == 400


def test_progress_is_reported_while_the_prompt_is_processed(server):
    long = ASK | {"prompt": "one two three four five " * 60, "return_progress": True, "stream": True, "cache_prompt": False}
    received = [e["prompt_progress"] for e in events(server.post("/completion", long)[1]) if "prompt_progress" in e]
    assert received and received[-1]["processed"] == received[-1]["total"] > 200 and [t["processed"] for t in received] == sorted(t["processed"] for t in received)
    chat = CHAT | {"messages": [{"role": "user", "content": long["prompt"]}], "return_progress": True, "stream": True}
    received = [e for e in events(server.post("/v1/chat/completions", chat)[1]) if "prompt_progress" in e]
    assert received and all(e["choices"][0]["delta"] == {} for e in received)


def test_timings_arrive_with_each_piece(server):
    for path, requested in (("/completion", ASK), ("/v1/completions", {"prompt": "Water is", "max_tokens": 8}), ("/v1/chat/completions", CHAT)):
        received = events(server.post(path, requested | {"stream": True, "timings_per_token": True})[1])
        counts = [e["timings"]["predicted_n"] for e in received if "timings" in e]
        assert len(counts) > 2 and counts == sorted(counts) and all(e["timings"]["prompt_n"] > 0 for e in received if "timings" in e)
        assert not any("timings" in e for e in events(server.post(path, requested | {"stream": True})[1])[:-2])


def test_the_cache_shows_where_prompts_differ(server):
    """For prompts that differ in the middle, the response shows where, with the text around it."""
    base = "The quick brown fox jumps over the lazy dog. " * 20
    a, b = base + "Then it sleeps in the sun. " + base, base + "Then it wakes in the rain. " + base
    server.post("/completion", ASK | {"prompt": a})
    r = server.post("/completion", ASK | {"prompt": b, "explain_cache": True})[1]
    cache = r["cache"]
    assert 0 < cache["cached_tokens"] <= cache["same_tokens"] and not cache["whole"]
    assert "wakes" in cache["prompt"] and "sleeps" in cache["cached"] and cache["before"]
    assert r["timings"]["cache_n"] == cache["cached_tokens"] and cache["cached_tokens"] % 64 == 0
    again = server.post("/v1/completions", {"prompt": b, "max_tokens": 2, "explain_cache": True})[1]
    assert again["cache"]["cached_tokens"] > cache["cached_tokens"] and not again["cache"]["cached"] and again["usage"]["prompt_tokens_details"]["cached_tokens"] == again["cache"]["cached_tokens"]
    assert "cache" not in server.post("/completion", ASK)[1]
    assert "cache" in server.post("/v1/chat/completions", CHAT | {"explain_cache": True})[1]


def test_an_answer_continues_its_prefill(server):
    begun = CHAT | {"verbose": True, "messages": [*CHAT["messages"], {"role": "assistant", "content": "The colour <|im_end|>"}]}
    r = server.post("/v1/chat/completions", begun)[1]
    prompt = r["__verbose"]["prompt"]
    assert prompt.endswith("<|im_start|>assistant\nThe colour <|im_end|>") and r["choices"][0]["message"]["content"]
    ids = server.post("/tokenize", {"content": prompt})[1]["tokens"]
    assert r["usage"]["prompt_tokens"] > len(ids)            # text from a client forms no control token
    assert server.post("/v1/chat/completions", begun | {"continue_final_message": True, "add_generation_prompt": False})[1]["__verbose"] == r["__verbose"]
    closed = server.post("/v1/chat/completions", begun | {"continue_final_message": False})[1]["__verbose"]["prompt"]
    assert closed.endswith("<|im_end|>\n<|im_start|>assistant\n")
    thought = {"role": "assistant", "content": "Red", "reasoning_content": "Warm ones first."}
    r = server.post("/v1/chat/completions", CHAT | {"verbose": True, "reasoning_effort": "high", "messages": [*CHAT["messages"], thought]})[1]
    assert r["__verbose"]["prompt"].endswith("<think>\nWarm ones first.</think>Red")
    claude = server.post("/v1/messages", {"model": "demo", "max_tokens": 4, "messages": begun["messages"]})[1]
    assert claude["usage"]["input_tokens"] + claude["usage"]["cache_read_input_tokens"] == len(server.post(
        "/tokenize", {"content": prompt.removesuffix("The colour <|im_end|>")})[1]["tokens"]) + len(server.post(
            "/tokenize", {"content": "The colour <|im_end|>", "parse_special": False})[1]["tokens"])


@pytest.mark.parametrize("wrong,field", [
    ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"), ({"continue_final_message": 3}, "continue_final_message"),
    ({"continue_final_message": True, "messages": CHAT["messages"]}, "continue_final_message"),
    ({"messages": [*CHAT["messages"], {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]}, "messages")])
def test_impossible_prefixes_are_rejected(server, wrong, field):
    requested = CHAT | {"messages": [*CHAT["messages"], {"role": "assistant", "content": "a"}]} | wrong
    status, r, _ = server.post("/v1/chat/completions", requested)
    assert (status, r["error"]["param"]) == (400, field)


def test_tokens_of_a_conversation_are_counted(server):
    n = server.post("/v1/chat/completions/input_tokens", {"messages": CHAT["messages"]})[1]["input_tokens"]
    assert n == server.post("/v1/chat/completions", CHAT)[1]["usage"]["prompt_tokens"]


def test_a_template_without_tools_is_shown_with_a_warning(build, server, tmp_path):
    tool = {"type": "function", "function": {"name": "user", "parameters": {"type": "object", "properties": {}}}}
    plain = tmp_path / "plain.jinja"
    plain.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    other = Server(build, "-c", 256, "--chat-template-file", plain).ready()
    shown = other.post("/apply-template", {"messages": CHAT["messages"], "tools": [tool]})[1]
    assert shown["prompt"] == "user: Name a colour.\n" and "does not describe tools" in shown["warnings"][0]
    status, r, _ = other.post("/v1/chat/completions", CHAT | {"tools": [tool]})       # although its name is in the prompt
    assert (status, r["error"]["param"]) == (400, "tools")
    assert other.close() == 0
    assert "warnings" not in server.post("/apply-template", {"messages": CHAT["messages"], "tools": [tool]})[1]


def test_a_model_answers_to_its_aliases(server):
    listed = server.get("/v1/models")[1]["data"][0]
    assert (listed["id"], listed["aliases"], listed["tags"]) == ("demo", ["demo", "small", "quick"], ["chat", "tiny"])
    assert server.get("/v1/models/QUICK")[1]["id"] == "demo"


def test_pages_of_allowed_origins_may_send_requests(server):
    def preflight(origin):
        return server.ask("OPTIONS", "/v1/chat/completions", headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    for origin in ("http://localhost", "http://localhost:8080", "http://127.0.0.1:3000", "http://[::1]:3000"):
        status, _, headers = preflight(origin)
        assert (status, headers["Access-Control-Allow-Origin"], headers["Access-Control-Allow-Credentials"]) == (200, origin, None)
        assert "Authorization" in headers["Access-Control-Allow-Headers"]
        more = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-lang"}
        allowed = server.ask("OPTIONS", "/v1/chat/completions", headers=more)[2]["Access-Control-Allow-Headers"]
        assert "x-stainless-lang" in allowed, "OpenAI's client in a page sends headers of its own"
        assert server.ask("GET", "/v1/models", headers={"Origin": origin})[2]["Access-Control-Allow-Origin"] == origin
    for origin in ("http://evil.com", "http://localhost.evil.com", "http://notlocalhost"):
        assert preflight(origin)[2]["Access-Control-Allow-Origin"] is None
        assert server.ask("GET", "/v1/models", headers={"Origin": origin})[0] == 403
    assert server.ask("OPTIONS", "/v1/models", headers={"Host": "rebound.example", "Origin": "http://rebound.example"})[0] == 403


def test_the_best_of_several_texts(client):
    requested = dict(model="any", prompt="Once upon a time", max_tokens=6, temperature=1.2, seed=4, logprobs=0)
    all_four = client.completions.create(**requested, n=4)
    best = client.completions.create(**requested, n=2, best_of=4)
    means = {c.text: sum(c.logprobs.token_logprobs) / len(c.logprobs.token_logprobs) for c in all_four.choices}
    assert [c.text for c in best.choices] == sorted(means, key=means.get, reverse=True)[:2] and [c.index for c in best.choices] == [0, 1]
    assert best.usage.completion_tokens == all_four.usage.completion_tokens
    silent = client.completions.create(**requested | {"logprobs": None}, best_of=4)
    assert silent.choices[0].text == best.choices[0].text and silent.choices[0].logprobs is None
    for wrong in ({"n": 3, "best_of": 2}, {"best_of": 2, "stream": True}):
        with pytest.raises(openai.BadRequestError) as e:
            client.completions.create(**requested | wrong)
        assert e.value.param == "best_of"


def test_the_prompt_is_echoed_in_a_stream_too(client):
    requested = dict(model="any", prompt="Water is made", max_tokens=3, temperature=0, logprobs=1, echo=True)
    whole = client.completions.create(**requested).choices[0]
    pieces = [c.choices[0] for c in client.completions.create(**requested, stream=True) if c.choices]
    assert "".join(p.text for p in pieces) == whole.text and whole.text.startswith("Water is made")
    assert [x for p in pieces if p.logprobs for x in p.logprobs.token_logprobs] == whole.logprobs.token_logprobs
    assert [x for p in pieces if p.logprobs for x in p.logprobs.text_offset] == whole.logprobs.text_offset


# ---- fill in the middle ----

@pytest.fixture(scope="module")
def middle(build, tmp_path_factory):
    """A server with a small model whose vocabulary has the tokens to fill in the middle: three tokens of control characters are renamed."""
    folder = tmp_path_factory.mktemp("middle") / "model"
    shutil.copytree(SOURCE / "tests/golden/llama/gqa", folder)
    path = folder / "tokenizer.json"
    t = json.loads(path.read_text())
    names = {0: "<fim_prefix>", 1: "<fim_suffix>", 2: "<fim_middle>"}
    t["model"]["vocab"] = {names.get(i, piece): i for piece, i in t["model"]["vocab"].items()}
    t["added_tokens"] = [t["added_tokens"][0] | {"id": i, "content": name} for i, name in names.items()] + t["added_tokens"]
    path.write_text(json.dumps(t))
    (folder / "model.gguf").unlink()
    s = Server(build, "-c", 128, model=folder).ready()
    yield s
    assert s.close() == 0


def test_the_middle_is_generated_between_prefix_and_suffix(middle):
    begin = middle.post("/tokenize", {"content": "", "add_special": True})[1]["tokens"]

    def ids(text):
        return middle.post("/tokenize", {"content": text})[1]["tokens"]
    requested = {"input_prefix": "def f(", "input_suffix": "): pass", "prompt": "a", "n_predict": 6, "temperature": 0}
    expected = [*begin, 0, *ids("def f("), 1, *ids("): pass"), 2]
    by_hand = middle.post("/completion", {"prompt": [*expected, *ids("a")], "n_predict": 6, "temperature": 0})[1]
    filled = middle.post("/infill", requested)[1]
    assert filled["content"] == by_hand["content"] and filled["tokens_evaluated"] == len(expected) + 1
    more = middle.post("/infill", requested | {"input_extra": [{"filename": "a.py", "text": "x = 1\n"}]})[1]
    assert more["tokens_evaluated"] == filled["tokens_evaluated"] + len(ids("\n\n--- snippet ---\n\n")) + len(ids("x = 1\n"))
    assert more["prompt"].startswith("\n\n--- snippet ---\n\nx = 1\n<fim_prefix>def f(") or "--- snippet ---" in more["prompt"]
    bare = middle.post("/completion", {"prompt": expected, "n_predict": 6, "temperature": 0})[1]["content"]
    openai_s = middle.post("/v1/completions", {"prompt": "def f(", "suffix": "): pass", "max_tokens": 6, "temperature": 0})[1]
    assert openai_s["choices"][0]["text"] == bare and openai_s["usage"]["prompt_tokens"] == len(expected)
    c = ollama.Client(middle.url)
    assert c.generate("any", "def f(", suffix="): pass", options={"num_predict": 6, "temperature": 0}).response == bare
    assert "insert" in c.show("any").capabilities


def with_keys(path, out, **ids):
    """Write a GGUF file with further metadata, placed before the existing metadata and padded to a multiple of the alignment, so that the
    tensors stay aligned."""
    data = path.read_bytes()
    (n,) = struct.unpack_from("<Q", data, 16)
    keys = b"".join(struct.pack("<Q", len(k)) + k.encode() + struct.pack("<II", 4, v) for k, v in ((f"tokenizer.ggml.{name}_token_id", v) for name, v in ids.items()))
    filler = struct.pack("<Q", 6) + b"filler" + struct.pack("<I", 8)
    rest = -(len(keys) + len(filler) + 8) % 64
    keys += filler + struct.pack("<Q", rest) + b"x" * rest
    out.write_bytes(data[:16] + struct.pack("<Q", n + len(ids) + 1) + keys + data[24:])
    return out


@pytest.mark.parametrize("names", [("fim_pre", "fim_suf", "fim_mid", "fim_rep", "fim_sep"), ("prefix", "suffix", "middle")], ids=["now", "older"])
def test_metadata_names_the_tokens(build, tmp_path, names):
    """llama.cpp's layout (tools/server/README.md): <rep>myproject, <sep>NAME and text of each file, <sep>filename, then <pre> <suf> <mid>;
    without the repository tokens, each file is a snippet before those."""
    ids = dict(zip(names, (40, 41, 42, 43, 44)))
    s = Server(build, "-c", 128, model=with_keys(SOURCE / "tests/golden/llama/gqa/model.gguf", tmp_path / "m.gguf", **ids)).ready()
    begin = s.post("/tokenize", {"content": "", "add_special": True})[1]["tokens"]

    def text(t):
        return s.post("/tokenize", {"content": t, "parse_special": False})[1]["tokens"]
    middle = [40, *text("def f("), 41, *text("): pass"), 42, *text("a")]
    repository = [43, *text("myproject\n"), 44, *text("a.py"), *text("\n"), *text("x = 1\n"), 44, *text("filename"), *text("\n")] if len(ids) == 5 else \
        [*text("\n\n--- snippet ---\n\n"), *text("x = 1\n")]
    requested = {"input_prefix": "def f(", "input_suffix": "): pass", "prompt": "a", "n_predict": 5, "temperature": 0, "n_probs": 3}
    for extra, expected in (([], middle), ([{"filename": "a.py", "text": "x = 1\n"}], [*repository, *middle])):
        filled = s.post("/infill", requested | {"input_extra": extra})[1]
        by_hand = s.post("/completion", {"prompt": [*begin, *expected], "n_predict": 5, "temperature": 0, "n_probs": 3})[1]
        assert filled["tokens_evaluated"] == by_hand["tokens_evaluated"] and filled["prompt"] == by_hand["prompt"]
        assert filled["completion_probabilities"] == by_hand["completion_probabilities"]
    assert s.close() == 0


def test_a_model_without_such_tokens_is_reported(server):
    assert server.post("/infill", {"input_prefix": "a", "input_suffix": "b"})[0] == 501
    status, r, _ = server.post("/infill", {"input_prefix": "a", "input_extra": [{"filename": 1, "text": "x"}]})
    assert (status, r["error"]["param"]) == (400, "input_extra")
    status, r, _ = server.post("/v1/completions", {"prompt": "a", "suffix": "b"})
    assert (status, r["error"]["param"]) == (400, "suffix")
    assert "suffix" in server.post("/api/generate", {"model": "demo", "prompt": "a", "suffix": "b"})[1]["error"]


def test_pooling_of_vectors_defaults_to_the_servers(build, model):
    s = Server(build, "-c", 256, "--embeddings", "--pooling", "mean").ready()
    ask = {"input": "Roses are red"}
    reply, mean, last = (s.post("/v1/embeddings", ask | more)[1]["data"] for more in ({}, {"pooling": "mean"}, {"pooling": "last"}))
    assert reply == mean != last
    assert s.close() == 0


def test_settings_are_returned_as_sent(server):
    values = {"temperature": 0.7, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.1}
    settings = server.post("/completion", ASK | values)[1]["generation_settings"]
    assert {name: settings[name] for name in values} == values
    r = server.post("/v1/responses", {"input": "x", "max_output_tokens": 1, "temperature": 0.7, "top_p": 0.95})[1]
    assert (r["temperature"], r["top_p"]) == (0.7, 0.95)


def test_models_have_the_context_of_the_server(server):
    (m,) = server.get("/v1/models")[1]["data"]
    n = server.get("/props")[1]["default_generation_settings"]["n_ctx"]
    assert m["max_model_len"] == m["meta"]["n_ctx"] == n < m["meta"]["n_ctx_train"]


def test_a_target_may_be_absolute(server):
    for target, status in (("http://localhost/health", 200), ("HTTP://localhost:1/v1/models?x=1", 200), ("http://localhost", 200), ("http://localhost/none", 404)):
        got = raw(server, f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert got.startswith(f"HTTP/1.1 {status} ".encode()), (target, got[:200])
