"""Every public function is called from Python, and again with NULL for every pointer: an error or nothing, never a crash."""
import ctypes
import json
import math
import os
import pathlib
import shutil
import struct
import tempfile
import threading

import pytest
from conftest import SMALL
from lamina import LaminaError

pytestmark = pytest.mark.skipif(os.environ.get("LAMINA_SANITIZE", "none") != "none", reason="Python cannot load a library with sanitizers")
TREE = b"LlamaForCausalLM(\n  (model): LlamaModel(\n    (embed_tokens): Embedding(1000, 64)\n    (layers): ModuleList(\n      (0-1): 2 x LlamaDecoderLayer(\n" \
       b"        (self_attn): LlamaAttention(\n          (q_proj): Linear(in_features=64, out_features=64, bias=False)\n" \
       b"          (k_proj): Linear(in_features=64, out_features=32, bias=False)\n          (v_proj): Linear(in_features=64, out_features=32, bias=False)\n" \
       b"          (o_proj): Linear(in_features=64, out_features=64, bias=False)\n        )\n        (mlp): LlamaMLP(\n" \
       b"          (gate_proj): Linear(in_features=64, out_features=128, bias=False)\n          (up_proj): Linear(in_features=64, out_features=128, bias=False)\n" \
       b"          (down_proj): Linear(in_features=128, out_features=64, bias=False)\n          (act_fn): SiLU()\n        )\n" \
       b"        (input_layernorm): LlamaRMSNorm((64,), eps=1e-06)\n        (post_attention_layernorm): LlamaRMSNorm((64,), eps=1e-06)\n      )\n    )\n" \
       b"    (norm): LlamaRMSNorm((64,), eps=1e-06)\n    (rotary_emb): LlamaRotaryEmbedding()\n  )\n" \
       b"  (lm_head): Linear(in_features=64, out_features=1000, bias=False)\n)\n"
ref = ctypes.byref


def test_models_of_the_caches(lm, tmp_path, monkeypatch):
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models").mkdir()
    for name in ("b.gguf", "a.gguf"):
        (tmp_path / "models" / name).write_bytes(b"12345")
    seen = []
    each = dict(zip(("each", "arg", "e"), lm.headers.functions["lm_model_cached"][1]))["each"]
    kind = each[0] if isinstance(each, tuple) else each
    tell = kind(lambda arg, m: bool(seen.append((m.contents.name, m.contents.cache, m.contents.bytes)) or True))
    lm.lm_model_cached(tell, None)
    assert seen == [(b"a.gguf", b"lamina", 5), (b"b.gguf", b"lamina", 5)]


def listed(function):
    """Return function(0), function(1) … up to NULL."""
    found = []
    while function(len(found)):
        found.append(function(len(found)))
    return found


def test_errors_and_texts(lm, tmp_path):
    assert lm.lm_version() == lm.version
    assert lm.lm_status_word(lm.LM_BAD_MODEL) == b"bad_model"
    e = lm.lm_error()
    assert lm.lm_error_set(ref(e), lm.LM_LIMIT, b"here", 7, b"100 %s\n") == lm.LM_LIMIT and e.message == b"100 %s\\x0a" and e.offset == 7
    assert lm.lm_fail(ref(e), lm.LM_IO, b"there", -1, b"%s", b"gone") == lm.LM_IO and e.message == b"gone"
    assert lm.lm_fail_in(ref(e), b"file") == lm.LM_IO and lm.lm_fail_hint(ref(e), b"look") == lm.LM_IO and e.hint == b"look"
    line = ctypes.create_string_buffer(64)
    assert lm.lm_error_text(ref(e), ctypes.cast(line, ctypes.c_char_p), 64) == b"there: file: gone"
    ctypes.set_errno(0)
    assert lm.lm_fail_errno(ref(e), b"p", b"cannot be opened") in (lm.LM_IO, lm.LM_NOT_FOUND) and e.file == b"p"
    assert lm.lm_fail_memory(ref(e), b"x", 10) == lm.LM_NO_MEMORY
    lm.lm_escape(ctypes.cast(line, ctypes.c_char_p), 64, b"a\tb")
    assert line.value == b"a\\x09b"

    t = lm.lm_text()
    lm.lm_text_add(ref(t), b"ab", 2)
    lm.lm_text_add_str(ref(t), b"c")
    lm.lm_text_add_char(ref(t), b"d")
    lm.lm_text_add_utf8(ref(t), b"\xff", 1)
    lm.lm_text_add_json(ref(t), b'"\x01', 2)
    lm.lm_text_printf(ref(t), b"%d", 7)
    assert t.data == 'abcd\ufffd"\\"\\u0001"7'.encode() and t.size == len(t.data) and not t.failed
    path = str(tmp_path / "t").encode()
    lm.lm_text_save(ref(t), path)
    lm.lm_text_load(ref(t), path, 1 << 20)
    half = t.data[:len(t.data) // 2]
    assert t.data == half * 2
    with pytest.raises(LaminaError, match="no such file or folder"):
        lm.lm_text_load(ref(t), path + b".no", 10)
    assert t.data == half * 2
    lm.lm_text_clear(ref(t))
    assert t.size == 0
    lm.lm_text_free(ref(t))
    assert not t.data


def test_languages_and_names(lm):
    assert lm.new("lm_language_find", b"zh_TW.UTF-8").value == lm.LM_TRADITIONAL_CHINESE
    assert lm.lm_language_tag(lm.LM_BURMESE) == b"my" and lm.lm_language_name(lm.LM_ENGLISH) == b"English"
    assert lm.lm_language_negotiate(None, None, None, b"my_MM") == lm.LM_BURMESE
    assert lm.lm_language_text(lm.LM_ENGLISH, b"nothing of ours") == b"nothing of ours"
    assert lm.lm_unit_name(lm.LM_UNIT_BYTES) == b"bytes" and lm.lm_origin_name(lm.LM_FROM_PLAN) == b"plan"
    assert lm.lm_claim_word(lm.LM_CLAIM_CONFIRMED) == b"confirmed" and lm.lm_stop_word(lm.LM_STOP_EOS) == b"eos"
    summary = ctypes.c_char_p()
    for list_of in (lm.lm_view_at, lm.lm_compare_view, lm.lm_topic_at, lm.lm_diagram_at):
        assert list_of(0, ref(summary)) and summary.value and list_of(0, None) and list_of(10 ** 6, None) is None
    assert lm.lm_topic_example(b"no such topic") is None and lm.lm_compare_milestone(0) and lm.lm_compare_milestone(10 ** 6) is None
    assert lm.lm_synth_type(0) and lm.lm_synth_type(10 ** 6) is None
    form = lm.lm_form()
    assert lm.lm_report_form(b"x.md", ref(form)) and form.value == lm.LM_FORM_MARKDOWN and not lm.lm_report_form(b"x.doc", ref(form))


def test_other_containers(lm, folder, gguf):
    made = lm.new("lm_convert", gguf, folder + b"/folder-of-it", ref(lm.lm_convert_options(type=b"bf16", overwrite=True)))
    assert made.family and made.files == 1 and made.n_tensors > 3 and made.tensors[0].to == b"bf16"
    lm.lm_convert_free(ref(made))
    assert not made.tensors
    r = lm.new("lm_convert", folder + b"/folder-of-it", folder + b"/again.gguf", ref(lm.lm_convert_options(name=b"Named", part_tensors=4, overwrite=True)))
    assert r.files > 1 and r.path.startswith(folder + b"/again-00001-of-") and r.bytes == sum(r.tensors[i].bytes for i in range(r.n_tensors))
    with pytest.raises(LaminaError, match="already exists"):
        lm.new("lm_convert", gguf, folder + b"/folder-of-it", None)


def test_quantised_weights(lm, folder, gguf):
    keep = (ctypes.c_char_p * 1)(b"ffn_up=q8_0")
    options = lm.lm_quantize_options(keep=keep, n_keep=1, overwrite=True, measure=True)
    r = lm.new("lm_quantize", gguf, folder + b"/packed.gguf", b"q4_0", ref(options))
    got = {r.tensors[i].name: r.tensors[i] for i in range(r.n_tensors)}
    assert r.type == b"q4_0" and r.bytes < r.was and got[b"blk.0.ffn_up.weight"].to == b"q8_0" and got[b"blk.0.ffn_down.weight"].rmse > 0
    lm.lm_quantize_free(ref(r))
    assert not r.tensors
    with pytest.raises(LaminaError, match="already exists"):
        lm.new("lm_quantize", gguf, folder + b"/packed.gguf", b"q4_0", None)


def test_catalogues_and_machine(lm):
    assert lm.lm_preset_at(0).contents.name and not lm.lm_preset_at(10 ** 6)
    assert lm.new("lm_preset_find", b"GPT-2").contents.name == b"gpt2"
    assert lm.lm_device_at(0).contents.memory and not lm.lm_device_at(10 ** 6)
    assert lm.new("lm_device_find", b"RTX 4090").contents.peak.f16 > 1e14
    source = ctypes.c_char_p()
    assert lm.lm_device_reserve(lm.new("lm_device_find", b"RTX 4090"), ref(source)) == 512 << 20 and b"CUDA" in source.value
    assert lm.lm_device_reserve(None, None) == 0
    machine = lm.new("lm_machine_describe")
    assert machine.cores >= 1 and machine.usable
    version = ctypes.c_char_p()
    assert lm.lm_machine_library(0, ref(version)) == b"glibc" and version.value and lm.lm_machine_library(99, ref(version)) is None
    o = lm.lm_measure_defaults()
    o.kept_only = True
    assert lm.lm_limits_mark(ref(lm.lm_limits(below=0.5))) == b"below the best known"
    assert lm.lm_limits_usable(ref(lm.lm_limits(busy=0.05))) and not lm.lm_limits_usable(ref(lm.lm_limits(busy=0.5)))
    assert lm.lm_limits_usable(ref(lm.lm_limits(busy=0.5, below=0.2))) and not lm.lm_limits_usable(None)
    with pytest.raises(LaminaError):                     # the cache folder of the tests is not a folder
        lm.new("lm_machine_measure", ref(o))
    with pytest.raises(LaminaError):
        lm.text("lm_cache_folder") and lm.text("lm_model_locate", b"no such model anywhere")


def test_options_are_all_zero_by_default(lm):
    """Defaults are all zero, or numbers that say so (`literal`): what these mean is compared with zeros where they are used."""
    literal = set()
    for name in lm.headers.functions:
        if name.endswith("_defaults"):
            o = getattr(lm, name)()
            if getattr(o, "literal", False):
                literal.add(name)
            else:
                assert bytes(o) == bytes(ctypes.sizeof(o)), name
    assert literal == {"lm_sampler_defaults", "lm_train_defaults"}
    assert lm.lm_sampler_defaults().top_k == 40 and lm.lm_train_defaults().rank == 16


def test_a_sampler_of_zeros_is_the_default(lm):
    """Zeros, the defaults as numbers and NULL draw the same tokens; a number that is set to 0 in the defaults is 0."""
    logits = (ctypes.c_float * 60)(*[math.sin(i * 1.7) * 3 for i in range(60)])

    def draw(options):
        sampler = lm.new("lm_sampler_new", options and ref(options), 60, None)
        ids = [lm.new("lm_sampler_pick", sampler, logits, 0, i).value for i in range(200)]
        lm.lm_sampler_free(sampler)
        return ids

    usual = draw(None)
    assert draw(lm.lm_sampler_options()) == draw(lm.lm_sampler_defaults()) == usual and len(set(usual)) > 2
    best = max(range(60), key=lambda i: logits[i])
    for change in ({"temperature": 0}, {"greedy": True}, {"top_k": 1}):
        o = lm.lm_sampler_defaults()
        for name, value in change.items():
            setattr(o, name, value)
        lm.lm_sampler_check(ref(o))
        assert draw(o) == [best] * 200
    assert draw(lm.lm_sampler_options(greedy=True)) == [best] * 200
    with pytest.raises(LaminaError, match="top_p"):
        lm.lm_sampler_check(ref(lm.lm_sampler_options(top_p=2)))


def test_a_model_has_sampling_settings(lm, tmp_path):
    """Settings of generation_config.json are set, others are unchanged."""
    shutil.copytree(SMALL, tmp_path / "model")
    (tmp_path / "model/generation_config.json").write_text('{"temperature": 0.25, "top_k": 7}')
    model = lm.new("lm_model_open", str(tmp_path / "model").encode(), None)
    o = lm.lm_sampler_options(top_p=0.5)
    assert lm.lm_model_sampling(model, ref(o)) == 2
    assert (o.temperature, o.top_k, o.top_p) == (0.25, 7, 0.5)
    lm.lm_model_close(model)


def test_fields_of_a_later_version_are_rejected(lm, model):
    o = lm.lm_engine_defaults()
    o.reserved[0] = 1
    with pytest.raises(LaminaError, match="reserved"):
        lm.new("lm_engine_predict", model, ref(o))


def test_model(lm, model, folder, config, gguf):
    info = lm.lm_model_info()
    lm.lm_model_describe(model, ref(info))
    assert info.family == b"llama" and info.n_layers == 2 and info.container == b"gguf"
    assert lm.lm_model_warning(model, 10 ** 6) is None and lm.lm_model_chat_template(model, b"none") is None
    assert not lm.lm_model_is_end(model, 10 ** 6)
    digest = (ctypes.c_char * 65)()
    lm.lm_model_fingerprint(model, digest)
    assert len(digest.value) == 64
    assert lm.text("lm_model_locate", folder) == folder
    assert json.loads(lm.text("lm_model_report", model, lm.LM_REPORT_TENSORS))
    assert b"embed" in lm.text("lm_model_program_text", model)
    data = open(gguf, "rb").read()
    in_memory = lm.new("lm_model_open_memory", data, len(data), b"mine", None)
    with open(gguf, "rb") as file:
        by_descriptor = lm.new("lm_model_open_fd", file.fileno(), None, None)
    for opened in (in_memory, by_descriptor):
        lm.lm_model_describe(opened, ref(info))
        assert info.n_layers == 2
        lm.lm_model_close(opened)
    other = lm.new("lm_model_open_config", config, len(config), b"small")
    lm.lm_draft_fits(other, other)
    lm.lm_model_close(other)
    known = lm.lm_sizes_defaults()
    known.heads = 4
    text, notes, parameters = lm.lm_text(), lm.lm_text(), ctypes.c_uint64()
    lm.lm_describe_tree(TREE, len(TREE), ref(known), ref(text), ref(notes), ref(parameters))
    assert json.loads(text.data)["hidden_size"] == 64 and notes.size and parameters.value == 1000 * 64 * 2 + 2 * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 128 * 3 + 128) + 64
    assert lm.lm_model_options is type(lm.lm_model_defaults())


def test_tokenizer(lm, model, gguf):
    t = lm.new("lm_tokenizer_open", gguf, None)
    text = "Grüße, 世界".encode()
    ids = lm.new("lm_tokenize", t, text, len(text), lm.LM_NO_PARSE_SPECIAL)
    n = ids.n
    lm.lm_tokenize(t, text, len(text), lm.LM_NO_PARSE_SPECIAL, ref(ids))
    assert ids.n == 2 * n and ids.ids[:n] == ids.ids[n:2 * n]
    assert lm.text("lm_detokenize", t, ids.ids, n, 0).strip() == text
    assert b"".join(lm.text("lm_token_bytes", t, ids.ids[i]) for i in range(n)).strip() == text
    lm.lm_tokens_add(ref(ids), 1)
    lm.lm_tokens_append(ref(ids), (lm.lm_token * 2)(2, 3), 2)
    assert ids.n == 2 * n + 3 and ids.ids[2 * n:ids.n] == [1, 2, 3]
    stream = lm.new("lm_stream_new", t, 0, False)
    shown = lm.lm_text()
    for i in range(n):
        lm.lm_stream_push(stream, ids.ids[i], ref(shown))
    lm.lm_stream_end(stream, ref(shown))
    assert shown.data.strip() == text
    lm.lm_stream_free(stream)
    half = lm.new("lm_stream_new", t, 0, False)
    for i in range(n - 1):
        lm.lm_stream_push(half, ids.ids[i], ref(shown))
    with pytest.raises(LaminaError, match="vocabulary"):
        lm.lm_stream_push(half, 10 ** 6, ref(shown))
    lm.lm_text_clear(ref(shown))
    lm.lm_stream_end(half, ref(shown))
    assert shown.data == "\ufffd".encode()
    lm.lm_stream_free(half)
    lm.lm_text_free(ref(shown))
    size = ctypes.c_size_t()
    piece = lm.lm_tokenizer_piece(t, 5, ref(size))
    assert size.value == len(piece) and lm.lm_tokenizer_piece(t, -1, None) is None and lm.lm_tokenizer_find(t, piece) == 5
    assert lm.lm_tokenizer_size(t) > 256 and lm.lm_tokenizer_summary(t) and lm.lm_tokenizer_warning(t, 99) is None
    end = lm.lm_tokenizer_eos(t)
    assert lm.lm_tokenizer_bos(t) >= -1 and (end < 0 or lm.lm_tokenizer_is_special(t, end) and lm.lm_tokenizer_is_end(t, end))
    assert not lm.lm_tokenizer_is_end(t, -1)
    assert [lm.lm_tokenizer_middle(t, i) for i in (0, 4, 5, -1)] == [-1] * 4
    source, variables = b"{{ bos_token }}{{ messages[0].content }}", b'{"bos_token": "<s>", "messages": [{"role": "user", "content": "hi"}]}'
    template = lm.new("lm_template_new", source, len(source), b"mine")
    assert lm.lm_template_uses(template, b"messages") and not lm.lm_template_uses(template, b"content")
    rendering = lm.new("lm_template_render", template, variables, len(variables))
    assert rendering.text.data == b"<s>hi" and rendering.n_content == 1 and rendering.content[0].to == 5
    assert lm.new("lm_tokenize_rendering", t, ref(rendering), False).n
    lm.lm_rendering_free(ref(rendering))
    lm.lm_template_free(template)
    warnings, call = lm.lm_text(), b'"tool_calls": [{"function": {"name": "clock", "arguments": "["}}]'
    given = b'[{"role": "function", "content": [{"type": "text", "text": "noon"}], %s}]' % call
    read = lm.text("lm_messages_read", given, len(given), ref(warnings))
    assert json.loads(read) == [{"role": "tool", "content": "noon", "tool_calls": [{"function": {"name": "clock", "arguments": {}}}]}]
    assert warnings.data == b"messages: the arguments of clock in message 0 are not a JSON object and are left out\n"
    with pytest.raises(LaminaError, match="message 0 is not in the prompt"):
        lm.lm_messages_rendered(read, len(read), ref(warnings))
    lm.lm_text_free(ref(warnings))
    lm.lm_tokens_free(ref(ids))
    assert not ids.ids and lm.lm_model_tokenizer(model)
    lm.lm_tokenizer_free(t)


def test_engine(lm, model, engine, tmp_path):
    o = lm.lm_engine_options(context=64, threads=1)
    memory = lm.new("lm_engine_predict", model, ref(o))
    assert memory.total == memory.weights + memory.kv + memory.scratch
    assert b"attention" in lm.text("lm_engine_plan_text", model, ref(o))
    lm.lm_engine_allocated(engine, ref(memory))
    assert memory.total
    assert lm.lm_engine_cpu(engine) and lm.lm_engine_context(engine) == 64 and lm.lm_engine_sequences(engine) == 3
    assert lm.lm_engine_threads(engine) == lm.lm_engine_threads_batch(engine) == 1
    assert lm.lm_engine_max_rows(engine) == 16 and lm.lm_engine_max_logits(engine) == 4
    assert ctypes.addressof(lm.lm_engine_model(engine).contents) == ctypes.addressof(model.contents)
    work = lm.lm_work()
    lm.lm_engine_work(engine, ref(work))
    assert work.weight_bytes
    lm.lm_engine_profile_start(engine)
    rows = (lm.lm_row * 3)(*(lm.lm_row(0, 5 + i, i, i == 2) for i in range(3)))
    lm.lm_engine_check(engine, rows, 3)
    lm.lm_engine_step(engine, rows, 3)
    profile = lm.lm_profile()
    lm.lm_engine_profile_stop(engine, ref(profile))
    assert profile.steps == 1 and profile.n_kinds
    logits = lm.lm_engine_logits(engine, 2)
    assert all(map(math.isfinite, logits[:8])) and not lm.lm_engine_logits(engine, 1)
    width = ctypes.c_uint32()
    assert lm.lm_engine_probe(engine, b"model.norm", 2, ref(width)) and width.value
    assert lm.lm_engine_length(engine, 0) == 3 and lm.lm_engine_ahead(engine, 0) >= 1
    lm.lm_engine_share(engine, 0, 1, 2)
    ids, path = (lm.lm_token * 3)(5, 6, 7), str(tmp_path / "sequence").encode()
    lm.lm_engine_save(engine, 0, ids, 3, path)
    tokens = lm.new("lm_engine_restore", engine, 2, path)
    assert tokens.ids[:tokens.n] == [5, 6, 7] and lm.lm_engine_length(engine, 2) == 3
    lm.lm_engine_truncate(engine, 2, 0)
    lm.lm_engine_restore(engine, 2, path, ref(tokens))
    assert tokens.ids[:tokens.n] == [5, 6, 7] * 2
    kept, used, total = ctypes.c_uint32(), ctypes.c_uint64(), ctypes.c_uint64()
    lm.lm_engine_pages(engine, ref(used), ref(total))
    assert 0 < used.value <= total.value
    lm.lm_engine_keep(engine, 1, 1, ref(kept))
    assert kept.value == 1
    for sequence in range(3):
        lm.lm_engine_truncate(engine, sequence, 0)
    assert lm.lm_engine_hidden_width(engine) and not lm.lm_engine_hidden(engine, 10 ** 6)
    vector = (ctypes.c_float * lm.lm_engine_hidden_width(engine))()
    lm.lm_embed(engine, ids, 3, None, vector)
    assert abs(sum(x * x for x in vector) - 1) < 1e-3
    width, pooled = len(vector), (ctypes.c_float * len(vector))()
    pooler = lm.new("lm_pooler_new", width, 2, ref(lm.lm_embed_options(pooling=lm.LM_POOLING_MEAN)))
    for position, value in enumerate((1, 3)):
        lm.lm_pooler_row(pooler, position, None, (ctypes.c_float * width)(*[value] * width))
    lm.lm_pooler_vector(pooler, pooled)
    assert list(pooled) == pytest.approx([width ** -0.5] * width)
    lm.lm_pooler_free(pooler)
    lm.lm_engine_cancel(engine)
    assert lm.lm_engine_cancelled(engine) and not lm.lm_engine_cancelled(engine)
    assert lm.new("lm_engine_forecast", engine, 0, 1, 0).seconds > 0


def test_evaluation(lm, engine, model, folder):
    ids = (ctypes.c_int32 * 64)(*(i * 7 % 50 for i in range(64)))
    received, heard = [], []
    fields = dict(lm.lm_eval_text_options._fields_)
    options = lm.lm_eval_text_options(context=16, progress=fields["progress"](lambda arg, n, of, perplexity: bool(received.append((n, of)) or True)),
                                      token=fields["token"](lambda arg, t: heard.append((t.contents.chunk, t.contents.position, t.contents.logprob))),
                                      save_logits=folder + b"/logits")
    whole = lm.new("lm_eval_perplexity", engine, ids, 64, ref(options))
    assert (whole.tokens, whole.chunks, whole.context) == (28, 4, 16) and received[-1] == (4, 4) and len(heard) == 28 and heard[0][:2] == (0, 9)
    assert abs(whole.nll + sum(t[2] for t in heard) / 28) < 1e-12
    n = [ctypes.c_uint32() for _ in range(3)]
    lm.lm_eval_logits_describe(folder + b"/logits", *map(ref, n))
    assert (n[0].value, n[1].value) == (16, 4)
    kl = lm.new("lm_eval_kl", engine, None, folder + b"/logits", None, 0, None)
    assert abs(kl.mean_kl) < 1e-3 and kl.model.tokens == 28 and kl.same_top == 1
    options = lm.lm_eval_text_defaults()
    options.rule, options.context, options.stride, options.state = lm.LM_EVAL_SLIDING, 16, 5, folder + b"/state"
    first = lm.new("lm_eval_perplexity", engine, ids, 64, ref(options))
    assert first.tokens == 63 and lm.new("lm_eval_perplexity", engine, ids, 64, ref(options)).nll == first.nll
    choices = (lm.lm_eval_choice * 2)(*(lm.lm_eval_choice(ids, 9, (ctypes.c_int32 * 3)(*ids[at:at + 3]), 3, 5, 5) for at in (9, 20)))
    items, seen = (lm.lm_eval_item * 1)(lm.lm_eval_item(choices, 2, 0)), []
    options = lm.lm_eval_choices_defaults()
    options.item = dict(lm.lm_eval_choices_options._fields_)["item"](lambda arg, i, item, r: seen.append(r.contents.logprobs[0]))
    got = lm.new("lm_eval_choices", engine, items, 1, ref(options))
    score = lm.new("lm_score_text", engine, ids, 12, None).logprob - lm.new("lm_score_text", engine, ids, 9, None).logprob
    assert got.n == 1 and got.accuracy.share in (0, 1) and abs(seen[0] - score) < 1e-4
    question = lm.lm_eval_question()
    line = b'{"context": "a", "choices": ["b", "c"], "answer": 1}'
    lm.lm_eval_question_read(line, len(line), lm.LM_EVAL_FORM_ANY, ref(question))
    assert question.n == 2 and question.answer == 1 and lm.lm_eval_form_word(question.form) == b"plain"
    pair, context = lm.lm_tokens(), ctypes.c_size_t()
    lm.lm_eval_pair(model, question.contexts[0], question.continuations[0], False, ref(pair), ref(context))
    assert 0 < context.value < pair.n
    lm.lm_tokens_free(ref(pair))
    lm.lm_eval_question_free(ref(question))
    found, needles = (ctypes.c_uint32 * 1)(), lm.lm_needle_defaults()
    needles.lengths, needles.n_lengths = (ctypes.c_uint32 * 1)(10 ** 6), 1
    with pytest.raises(LaminaError):
        lm.lm_eval_needle(engine, ref(needles), found)


def test_training(lm, gguf, tmp_path):
    """Training on rows of ids lowers the loss and allocates what was planned."""
    opened = lm.new("lm_model_open", gguf, ref(lm.lm_model_options(adaptable=True)))
    rows = [[i * 7 % 50 for i in range(16)], [i * 5 % 50 for i in range(16)]]
    data = b"".join(struct.pack("<16q", *row) for row in rows + [[-100] + row[1:] for row in rows])
    header = json.dumps({name: {"dtype": "I64", "shape": [2, 16], "data_offsets": [i * 256, (i + 1) * 256]} for i, name in enumerate(("input_ids", "labels"))}).encode()
    (tmp_path / "rows").write_bytes(struct.pack("<Q", len(header)) + header + data)
    o, seen = lm.lm_train_defaults(), []
    rows = str(tmp_path / "rows").encode()
    o.ids_file, o.steps, o.rate, o.rank, o.threads = rows, 3, 1e-2, 4, 1
    o.step = dict(lm.lm_train_options._fields_)["step"](lambda arg, s: bool(seen.append(s.contents.loss) or True))
    watch, lm.watch = lm.watch, None                     # the watch's call with a NULL error would train first
    done = lm.new("lm_train", opened, None, str(tmp_path / "run").encode(), ref(o))
    lm.watch = watch
    assert done.done == 3 and len(seen) == 3 and done.loss_last < done.loss_first == seen[0] and done.memory_used == done.memory_total
    assert (tmp_path / "run/adapter_model.safetensors").stat().st_size > 1000
    with pytest.raises(LaminaError):                     # the folder contains a run
        lm.new("lm_train", opened, None, str(tmp_path / "run").encode(), ref(o))
    assert b"cross_entropy" in lm.text("lm_train_program_text", opened, ref(o))

    rates = []                                           # zeros train as the defaults do, and a final rate of 0 has to be literal
    step = dict(lm.lm_train_options._fields_)["step"](lambda arg, s: bool(rates.append(s.contents.rate) or True))
    few = dict(ids_file=rows, steps=4, threads=1, step=step, schedule=lm.LM_TRAIN_LINEAR)
    runs = {"zeros": lm.lm_train_options(**few), "defaults": lm.lm_train_defaults(), "to_zero": lm.lm_train_defaults()}
    runs["to_zero"].rate_end = 0
    for name, options in runs.items():
        for field, value in few.items():
            setattr(options, field, value)
        lm.watch = None
        lm.new("lm_train", opened, None, str(tmp_path / name).encode(), ref(options))
        lm.watch = watch
    zeros, defaults, to_zero = ((tmp_path / name / "adapter_model.safetensors").read_bytes() for name in runs)
    assert zeros == defaults != to_zero and rates[0:4] == rates[4:8] and rates[0] == 2e-4 and rates[11] < rates[7] < rates[0]
    lm.lm_model_close(opened)


def test_importance(lm, engine, folder, gguf):
    m, other = lm.new("lm_imatrix_new"), lm.new("lm_imatrix_new")
    ids = (ctypes.c_int32 * 64)(*(i % 50 for i in range(64)))
    received = []
    done = dict(lm.lm_imatrix_options._fields_)["progress"](lambda arg, n, of, perplexity: bool(received.append((n, of)) or True))
    options = lm.lm_imatrix_options(chunk=16, chunks=3, dataset=b"fifty", progress=done)
    for matrix in (m, other):
        r = lm.lm_imatrix_result()
        lm.lm_imatrix_collect(matrix, engine, ids, 64, ref(options), ref(r))
    assert received[-1] == (3, 3) and r.chunks == 3 and r.entries and r.perplexity > 1
    entry = lm.lm_imatrix_entry()
    assert lm.lm_imatrix_at(m, 0, ref(entry)) and entry.matrices == 1 and entry.rows[0] == 48 and not lm.lm_imatrix_at(m, 10 ** 6, ref(entry))
    sums = entry.sums[0]
    lm.lm_imatrix_merge(m, other)
    assert lm.lm_imatrix_at(m, 0, ref(entry)) and entry.sums[0] == 2 * sums and lm.lm_imatrix_chunks(m) == 6
    for older in (False, True):
        lm.lm_imatrix_save(m, folder + b"/importance", older)
        read = lm.new("lm_imatrix_open", folder + b"/importance")
        assert lm.lm_imatrix_chunks(read) == 6 and lm.lm_imatrix_dataset(read, 0) == b"fifty" and lm.lm_imatrix_dataset(read, 1) is None
        assert lm.lm_imatrix_chunk_size(read) == (512 if older else 16)
        lm.lm_imatrix_free(read)
    lm.new("lm_quantize", gguf, folder + b"/weighted.gguf", b"q4_0", ref(lm.lm_quantize_options(imatrix=folder + b"/importance")))
    lm.lm_imatrix_free(m)
    lm.lm_imatrix_free(other)


def test_types_for_a_size(lm, gguf):
    m = lm.new("lm_model_open", gguf, None)
    ids = (ctypes.c_int32 * 64)(*(3 + i * 7 % 100 for i in range(64)))
    o = lm.lm_allot_defaults()
    o.ids, o.n, o.chunk, o.bits_per_weight = ids, 64, 32, 12
    a = lm.new("lm_allot", m, ref(o))
    assert 0 < a.bits_per_weight <= 12 and a.n_keep == a.tried and b"$=q" in a.keep[0] and a.steps[0].tensor is None and a.steps[0].estimate > 0
    lm.lm_allot_free(ref(a))
    assert not a.steps
    o.bits_per_weight = 1
    with pytest.raises(LaminaError, match="smallest types"):
        lm.new("lm_allot", m, ref(o))
    lm.lm_model_close(m)


def test_differences(lm, folder, gguf):
    packed = folder + b"/differs.gguf"
    lm.new("lm_quantize", gguf, packed, b"q4_0", ref(lm.lm_quantize_options(overwrite=True)))
    a, b = lm.new("lm_model_open", gguf, None), lm.new("lm_model_open", packed, None)
    ids, delivered = (ctypes.c_int32 * 64)(*(3 + i * 7 % 100 for i in range(64))), []
    o = lm.lm_diff_defaults()
    o.ids, o.n, o.chunk, o.chunks, o.candidates = ids, 64, 32, 2, 2
    o.progress = dict(lm.lm_diff_options._fields_)["progress"](lambda arg, fraction, what: delivered.append(fraction) or True)
    r = lm.new("lm_diff", a, b, ref(o))
    got = {r.tensors[i].name: r.tensors[i] for i in range(r.n_tensors)}
    assert got[b"blk.0.ffn_up.weight"].b == b"q4_0" and 15 < got[b"blk.0.ffn_up.weight"].snr_db < 30 and got[b"blk.0.attn_norm.weight"].max_abs == 0
    assert r.tokens == 64 and r.n_layers == 3 and r.mean_kl > 0 and delivered and 0 <= min(delivered) <= max(delivered) <= 1 and r.b_bytes < r.a_bytes
    for i in range(r.n_advice):
        assert r.advice[i].kl < r.advice[i].kl_before and r.advice[i].bytes > 0 and r.advice[i].n <= 2
    lm.lm_diff_free(ref(r))
    assert not r.tensors
    o.progress = dict(lm.lm_diff_options._fields_)["progress"](lambda arg, fraction, what: False)
    with pytest.raises(LaminaError, match="interrupted"):
        lm.new("lm_diff", a, b, ref(o))
    lm.lm_model_close(a)
    lm.lm_model_close(b)


def test_traces(lm, engine, folder, tmp_path):
    m, path = lm.lm_engine_model(engine), str(tmp_path / "t").encode()
    ids, heads = (ctypes.c_int32 * 6)(5, 6, 7, 8, 9, 10), (ctypes.c_uint32 * 2)(1, 2)
    strings = (ctypes.c_char_p * 2)(b"layers.0.mlp", None)
    o = lm.lm_trace_options(top=3, lens=2, attribution=True, norms=True, experts=True, times=True, heads=heads, n_heads=1, values=strings)
    o.engine.context = 32
    t = lm.new("lm_tracer_new", m, ref(o))
    with pytest.raises(LaminaError, match="no file"):
        lm.lm_tracer_saved(t)
    lm.lm_tracer_look(t, 3)
    lm.lm_tracer_save(t, path, 6)
    lm.lm_tracer_read(t, ids, 6)
    lm.lm_tracer_saved(t)
    assert os.path.getsize(path) > 100 and lm.lm_engine_length(lm.lm_tracer_engine(t), 0) == 6
    n, token = ctypes.c_size_t(), lm.lm_trace_token()
    assert lm.lm_tracer_ids(t, ref(n))[:6] == [5, 6, 7, 8, 9, 10] and n.value == 6
    assert lm.lm_tracer_token(t, 4, ref(token)) and token.id == 9 and token.surprise > 0 and token.n_top == 3
    row = lm.lm_trace_row()
    lm.lm_tracer_row(t, 3, ref(row))
    assert row.token == 9 and row.n_lens == 3 and abs(sum(row.attribution[i].value for i in range(row.n_attribution)) - row.logit) < 1e-4
    assert row.attention[2].n_weights == 4 and lm.lm_trace_part_word(row.attribution[0].part) == b"embedding"
    with pytest.raises(LaminaError, match="not looked into"):
        lm.lm_tracer_row(t, 2, ref(row))
    load, spent = lm.lm_trace_load(), lm.lm_trace_time()
    assert not lm.lm_tracer_load(t, 0, ref(load)) and lm.lm_tracer_time(t, 0, ref(spent)) and not lm.lm_tracer_time(t, 10 ** 6, ref(spent))
    assert b'"lens"' in lm.new("lm_tracer_json", t).data
    lm.lm_tracer_write(t, 2)
    assert b'"token"' in lm.new("lm_tracer_event", t, 5, 10).data
    with pytest.raises(LaminaError, match="not predicted"):          # the event has freed the prediction
        lm.new("lm_tracer_event", t, 5, 10)
    memory = lm.lm_memory()
    lm.lm_tracer_allocated(t, ref(memory))
    assert memory.total == memory.weights + memory.kv + memory.scratch and memory.scratch > 0 and memory.kv > 0
    assert b"model.layers.0.mlp" in lm.new("lm_trace_paths", m).data
    changed = (ctypes.c_char_p * 2)(b"layers.0.mlp=0", None)
    other = lm.new("lm_tracer_new", m, ref(lm.lm_trace_options(norms=True, interventions=changed, weights=lm.lm_tracer_engine(t))))
    c = lm.new("lm_trace_compare", t, other, ids, 6)
    difference, layer = lm.lm_trace_difference(), lm.lm_trace_layer_difference()
    assert lm.lm_trace_comparison_row(c, 5, ref(difference)) and difference.kl > 0 and not lm.lm_trace_comparison_row(c, 6, ref(difference))
    assert lm.lm_trace_comparison_layer(c, 1, ref(layer)) and layer.relative > 0
    lm.lm_trace_comparison_free(c)
    lm.lm_tracer_free(other)
    lm.lm_tracer_restart(t)
    assert lm.lm_engine_length(lm.lm_tracer_engine(t), 0) == 0
    lm.lm_tracer_free(t)
    texts = (lm.lm_tokens * 2)(lm.lm_tokens(ids=ids, n=2, capacity=2), lm.lm_tokens(ids=ids, n=3, capacity=3))
    lm.lm_trace_vector(m, None, texts, 1, path)
    assert os.path.getsize(path) > 100 and lm.lm_trace_defaults().top == 0


def test_conversations(lm, engine, gguf):
    """A chat renders its messages, streams replies and takes them back; the same conversation gives the same reply."""
    form = b"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    o = lm.lm_chat_options(chat_template=form, sampler=lm.lm_sampler_options(seed=3), sequence=1)
    assert bytes(lm.lm_chat_defaults()) == bytes(ctypes.sizeof(o))
    chat = lm.new("lm_chat_new", engine, ref(o))
    assert ctypes.cast(lm.lm_chat_engine(chat), ctypes.c_void_p).value == ctypes.cast(engine, ctypes.c_void_p).value
    lm.lm_chat_add(chat, lm.LM_ROLE_SYSTEM, b"Be brief.")
    lm.lm_chat_add(chat, lm.LM_ROLE_USER, "Ünï".encode())
    ids = lm.new("lm_chat_tokens", chat)
    expected, text = lm.lm_tokens(), "system: Be brief.\nuser: Ünï\nassistant:".encode()
    lm.lm_tokenize(lm.lm_model_tokenizer(lm.lm_engine_model(engine)), text, len(text), lm.LM_ADD_SPECIAL, ref(expected))
    assert ids.ids[:ids.n] == expected.ids[expected.n - ids.n:expected.n] and ids.n >= expected.n - 1
    pieces = []
    how = lm.lm_generate_options(sequence=lm.lm_sequence_options(max_tokens=5, ignore_eos=True))
    how.text = dict(how._fields_)["text"](lambda arg, piece, size: bool(pieces.append(ctypes.string_at(piece, size)) or True))
    reply = lm.new("lm_chat_reply", chat, ref(how))
    role, size = lm.lm_role(), ctypes.c_size_t()
    said = lm.lm_chat_message(chat, 2, ref(role), ref(size))
    assert lm.lm_chat_length(chat) == 3 and role.value == lm.LM_ROLE_ASSISTANT and said == b"".join(pieces)[:size.value] and reply.ids.n == 5
    lm.lm_chat_truncate(chat, 2)
    again = lm.new("lm_chat_reply", chat, ref(how))
    assert again.ids.ids[:5] == reply.ids.ids[:5] and again.n_reused > 0
    for made in (reply, again):
        lm.lm_generation_free(ref(made))
    lm.lm_chat_free(chat)
    cache = lm.new("lm_chat_cache_new", engine, 1)
    info = lm.lm_model_info()
    lm.lm_model_describe(lm.lm_engine_model(engine), ref(info))
    sampler = lm.new("lm_sampler_new", ref(o.sampler), info.n_vocab, None)
    one = lm.new("lm_chat_cache_generate", cache, sampler, ids.ids, ids.n, ref(how))
    two = lm.new("lm_chat_cache_generate", cache, sampler, ids.ids, ids.n, ref(how))
    assert one.n_reused == 0 and two.n_reused == ids.n - 1 and one.ids.ids[:5] == two.ids.ids[:5]
    for made in (one, two):
        lm.lm_generation_free(ref(made))
    lm.lm_sampler_free(sampler)
    lm.lm_chat_cache_free(cache)
    with pytest.raises(LaminaError, match="nowhere"):
        lm.new("lm_chat_open", b"/nowhere.gguf", None)
    opened = lm.lm_chat_options(chat_template=form, engine=lm.lm_engine_options(context=64, threads=1))
    chat = lm.new("lm_chat_open", gguf, ref(opened))
    assert lm.lm_engine_context(lm.lm_chat_engine(chat)) == 64
    lm.lm_chat_free(chat)


def test_sequences_are_generated(lm, engine, tmp_path):
    info = lm.lm_model_info()
    lm.lm_model_describe(lm.lm_engine_model(engine), ref(info))
    n = info.n_vocab
    sampler = lm.new("lm_sampler_new", ref(lm.lm_sampler_options(greedy=True)), n, None)
    assert lm.lm_sampler_vocabulary(sampler) == n
    prompt = (lm.lm_token * 4)(5, 6, 7, 8)
    o = lm.lm_generate_defaults()
    o.sequence.max_tokens, o.sequence.ignore_eos = 6, True
    out = lm.new("lm_generate", engine, sampler, prompt, 4, 0, ref(o))
    first = out.ids.ids[:out.ids.n]
    assert out.stop == lm.LM_STOP_LENGTH and len(first) == 6
    lm.lm_generation_free(ref(out))
    assert lm.new("lm_score_text", engine, prompt, 4, None).perplexity > 1
    model = lm.lm_engine_model(engine)
    twin = lm.new("lm_engine_new", model, None)
    assert lm.lm_same_vocabulary(model, model) == 0
    assert lm.new("lm_diverge_text", twin, engine, prompt, 4, None).mean_kl == 0
    lm.lm_engine_free(twin)

    lm.lm_engine_truncate(engine, 0, 0)
    text = lm.new("lm_sequence_new", engine, sampler, ref(o.sequence))
    lm.lm_sequence_prompt(text, prompt, 4, 0)
    rows = (lm.lm_row * 16)()
    batch, event, info = lm.lm_batch(rows=rows, max_rows=16, max_logits=4), lm.lm_event(), lm.lm_sequence_info()
    assert lm.lm_sequence_rows(text, ref(batch)) == 4
    lm.lm_engine_step(engine, rows, batch.n)
    lm.lm_sequence_ran(text)
    mine = []
    while not mine or event.kind != lm.LM_EVENT_END:
        while lm.lm_sequence_event(text, ref(event)):
            if event.kind == lm.LM_EVENT_TOKEN:
                mine.append(event.id)
        if event.kind != lm.LM_EVENT_END:
            lm.lm_sequences_step(engine, (ctypes.POINTER(lm.lm_sequence) * 1)(text), 1, ref(batch))
            lm.lm_sequence_ran(text)
    assert mine == first
    lm.lm_sequence_describe(text, ref(info))
    count = ctypes.c_size_t()
    assert info.n_tokens == 6 and lm.lm_sequence_ids(text, ref(count))[:4] == [5, 6, 7, 8] and count.value == 10
    path = str(tmp_path / "text").encode()
    lm.lm_sequence_save(text, path)
    again = lm.new("lm_sequence_new", engine, sampler, ref(lm.lm_sequence_options(sequence=1)))
    lm.lm_engine_truncate(engine, 1, 0)
    lm.lm_sequence_restore(again, path)
    assert lm.lm_sequence_ids(again, ref(count))[:10] == [5, 6, 7, 8, *first] and lm.lm_engine_length(engine, 1) == 9
    lm.lm_sequence_free(again)
    lm.lm_engine_truncate(engine, 1, 0)
    lm.lm_sequence_append(text, prompt, 1)
    lm.lm_sequence_cancel(text)
    lm.lm_sequence_end(text, lm.LM_STOP_CANCELLED, None)
    with pytest.raises(LaminaError):
        lm.lm_sequence_choose(text, 1)
    lm.lm_sequence_free(text)
    lm.lm_engine_truncate(engine, 0, 0)

    logits = (ctypes.c_float * n)(*(float(i == 9) for i in range(n)))
    lm.lm_sampler_reset(sampler)
    lm.lm_sampler_accept(sampler, 3)
    assert lm.new("lm_sampler_pick", sampler, logits, 0, 0).value == 9
    top = (lm.lm_logprob * 2)()
    assert lm.lm_logprobs(logits, n, 9, top, 2) == top[0].logprob and top[0].id == 9
    lm.lm_sampler_free(sampler)


def test_models_of_an_ensemble(lm, model):
    """A mixture of a model with itself is that model: both give each token the probability of the mixture."""
    with pytest.raises(LaminaError, match="above 0"):
        lm.lm_mixture_prepare(ref(lm.lm_mixture(n=2)))
    mixture = lm.lm_mixture(rule=lm.LM_MIXTURE_LOGMEAN, n=2, weights=(3.0, 1.0))
    lm.lm_mixture_prepare(ref(mixture))
    assert list(mixture.weights)[:2] == [0.75, 0.25] and lm.lm_mixture_word(lm.LM_MIXTURE_CONTRAST) == b"contrast"
    rows = [(ctypes.c_float * 3)(0.0, 1.0, 2.0), (ctypes.c_float * 3)(2.0, 1.0, 0.0)]
    mixed, received = (ctypes.c_double * 3)(), lm.lm_mixed()
    pointers = (ctypes.POINTER(ctypes.c_float) * 2)(*(ctypes.cast(r, ctypes.POINTER(ctypes.c_float)) for r in rows))
    lm.lm_mixture_mix(ref(mixture), pointers, (ctypes.c_uint32 * 2)(3, 3), 3, mixed, ref(received))
    norm = math.log(sum(math.exp(x) for x in (0, 1, 2)))
    assert list(received.norms)[:2] == pytest.approx([norm, norm])
    assert math.fsum(map(math.exp, mixed)) == pytest.approx(1) and mixed[2] - mixed[0] == pytest.approx(0.75 * 2 - 0.25 * 2)
    o = lm.lm_engine_options(context=64, sequences=2, max_rows=32, max_logits=4, threads=1)
    engines = [lm.new("lm_engine_new", model, ref(o)) for _ in range(2)]
    handles = (type(engines[1]) * 1)(engines[1])
    others, so = lm.lm_schedule_others(mixture=mixture), lm.lm_schedule_defaults()
    others.engines = ctypes.cast(handles, type(others.engines))
    so.others = ctypes.pointer(others)
    schedule = lm.new("lm_schedule_new", engines[0], ref(so))
    prompt = (lm.lm_token * 9)(*range(5, 14))
    request = lm.lm_request(prompt=prompt, n_prompt=9, sequence=lm.lm_sequence_options(max_tokens=4, ignore_eos=True, logprobs=1), contributions=True)
    reply, event, delivered = lm.new("lm_schedule_submit", schedule, ref(request)), lm.lm_reply_event(), []
    while lm.lm_reply_wait(reply, -1.0, ref(event)):
        if event.event.kind == lm.LM_EVENT_TOKEN:
            each = (ctypes.c_double * 3)()
            lm.lm_reply_contribution(reply, len(delivered), each)
            delivered.append(event.event.id)
            assert list(each) == pytest.approx([event.event.logprob] * 3, abs=1e-4)
    assert len(delivered) == 4
    with pytest.raises(LaminaError, match="token 4 of 4"):
        lm.lm_reply_contribution(reply, 4, (ctypes.c_double * 3)())
    lm.lm_reply_free(reply)
    lm.lm_schedule_free(schedule)
    for engine in engines:
        lm.lm_engine_free(engine)


def test_many_sequences(lm, model, tmp_path):
    """Each reply is the same as before to the same request, whatever else is in the batch."""
    o = lm.lm_engine_options(context=320, sequences=3, max_rows=32, max_logits=4, threads=1)
    engine = lm.new("lm_engine_new", model, ref(o))
    so = lm.lm_schedule_defaults()
    so.prefix_store = str(tmp_path / "prefixes").encode()
    schedule = lm.new("lm_schedule_new", engine, ref(so))
    assert lm.lm_schedule_fingerprint(schedule).startswith(b"fp_") and lm.lm_schedule_slots(schedule) == 3
    prompt = (lm.lm_token * 150)(*(5 + i % 40 for i in range(150)))
    hooked, chosen = [], []

    def hook(arg, logits, n_vocab, ids, n, error):
        hooked.append(ids[n - 1])
        return lm.LM_OK

    def submit(n, **more):
        request = lm.lm_request(prompt=prompt, n_prompt=n, sequence=lm.lm_sequence_options(max_tokens=6, ignore_eos=True), progress=True, **more)
        request.sequence.logits = type(request.sequence.logits)(hook)
        request.token = type(request.token)(lambda arg, token: chosen.append(token))
        kept.append(request)
        return lm.new("lm_schedule_submit", schedule, ref(request))

    def read(reply):
        ids, event = [], lm.lm_reply_event()
        while lm.lm_reply_wait(reply, -1.0, ref(event)):
            if event.event.kind == lm.LM_EVENT_TOKEN:
                ids.append(event.event.id)
            if event.event.kind == lm.LM_EVENT_END:
                assert event.event.stop == lm.LM_STOP_LENGTH
                return ids, event.usage.contents
        raise AssertionError("no end")

    kept = []
    replies = [submit(n) for n in (150, 40, 9)]
    assert lm.lm_reply_fd(replies[0]) >= 0
    first = [read(r)[0] for r in replies]
    assert all(len(ids) == 6 for ids in first) and len(hooked) == 18
    assert sorted(chosen) == sorted(sum(first, []))
    again = [submit(n, explain_cache=True, key=b"me", salt=b"") for n in (150, 40, 9)]
    found = [read(r) for r in again]
    assert [ids for ids, _ in found] == first and [usage.n_cached for _, usage in found] == [128, 0, 0]
    difference, texts = lm.lm_cache_difference(), [lm.lm_text() for _ in range(3)]
    prompt[100] = 3
    again.append(submit(150, explain_cache=True))
    assert read(again[3])[1].n_cached == 64
    lm.lm_reply_explain(again[3], model, ref(difference), *map(ref, texts))
    assert difference.cached == 64 and difference.same == 100 and difference.known and all(t.size for t in texts)
    read_so_far = ctypes.c_size_t()
    assert lm.lm_reply_status(again[0], ref(read_so_far)) == lm.LM_REPLY_ENDED and read_so_far.value == 150
    assert not lm.lm_reply_next(again[0], ref(lm.lm_reply_event()))
    lm.lm_reply_cancel(again[0])
    slot = next(i for i in range(3) if lm.new("lm_schedule_slot", schedule, i).n_held == 155)
    path = str(tmp_path / "slot").encode()
    assert lm.new("lm_schedule_slot_save", schedule, slot, path).value == 155
    assert lm.new("lm_schedule_slot_erase", schedule, slot).value == 155
    assert lm.new("lm_schedule_slot_restore", schedule, slot, path, b"").value == 155
    assert lm.new("lm_schedule_slot", schedule, slot).n_held == 155
    done, fields, received = threading.Event(), dict(lm.lm_slot_task._fields_), []
    task = lm.lm_slot_task(action=lm.LM_SLOT_SAVE, slot=slot, path=path, salt=b"another",
                           done=fields["done"](lambda arg, status, n, error: received.append((status, n))), release=fields["release"](lambda arg: done.set()))
    lm.lm_schedule_slot_start(schedule, ref(task))
    assert done.wait(600) and received == [(lm.LM_NOT_FOUND, 0)]
    assert lm.lm_schedule_slot_owned(schedule, slot, b"") and not lm.lm_schedule_slot_owned(schedule, slot, b"another")
    seen = []
    call = dict(lm.headers.functions)["lm_schedule_call"][1][1][0](lambda arg, g, slot, error: seen.append(lm.lm_engine_length(g, slot)) or lm.LM_OK)
    lm.lm_schedule_call(schedule, call, None)
    assert seen[0] == 0
    lm.lm_schedule_check(schedule, 320)
    with pytest.raises(LaminaError, match="context size is 320"):
        lm.lm_schedule_check(schedule, 321)
    with pytest.raises(LaminaError, match="context size is 320"):
        lm.new("lm_schedule_submit", schedule, ref(lm.lm_request(prompt=prompt, n_prompt=321)))
    statistics = lm.lm_schedule_statistics()
    lm.lm_schedule_describe(schedule, ref(statistics))
    assert sum(statistics.whole.counts) == 7 and sum(statistics.between.counts) == 35 and statistics.whole.seconds > statistics.first.seconds / 2
    bounds = [lm.lm_histogram_bound(i) for i in range(len(statistics.whole.counts))]
    assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf")
    assert statistics.tokens == 42 and statistics.cached_tokens == 192 and statistics.ended[lm.LM_STOP_LENGTH] == 7
    assert lm.lm_schedule_drain(schedule, 10.0)
    for reply in replies + again:
        lm.lm_reply_free(reply)
    for text in texts:
        lm.lm_text_free(ref(text))
    lm.lm_schedule_free(schedule)
    assert list((tmp_path / "prefixes").glob("*.prefix"))
    lm.lm_engine_free(engine)


def test_grammars(lm, model):
    options = lm.lm_grammar_defaults()
    tokenizer = lm.lm_model_tokenizer(model)
    vocabulary = lm.new("lm_vocabulary_new", tokenizer, 0, None, 0)
    n = lm.lm_vocabulary_size(vocabulary)
    assert n == lm.lm_tokenizer_size(tokenizer)
    words = (ctypes.c_char_p * 2)(b"yes", b"no")
    schema, regex, gbnf = b'{"type":"integer","minimum":7}', b"[0-9]{2}", b'root ::= "a" [0-9]+'
    made = [lm.new("lm_grammar_json_schema", schema, len(schema), ref(options)), lm.new("lm_grammar_regex", regex, len(regex), None),
            lm.new("lm_grammar_gbnf", gbnf, len(gbnf), None), lm.new("lm_grammar_choice", words, 2, None), lm.new("lm_grammar_json", None)]
    whole, fits = ctypes.c_bool(), ctypes.c_size_t()
    for grammar, good, bad in zip(made, [b"12", b"34", b"a5", b"no", b"{}"], [b"6", b"3", b"a", b"maybe", b"[]"]):
        for text, expected in ((good, True), (bad, False)):
            assert lm.lm_grammar_matches(grammar, text, len(text), ref(whole), ref(fits)) == lm.LM_OK and whole.value == expected
    pattern = lm.lm_text()
    lm.lm_grammar_lark_regex(b'start: "a" | LF', ref(pattern))
    assert ctypes.string_at(pattern.data, pattern.size) == rb"(?:(?:a)|(?:\n))"
    lm.lm_text_free(ref(pattern))
    trigger = lm.lm_trigger(word=b"a")
    lazy = lm.new("lm_grammar_after", made[2], ref(trigger), 1, False)
    assert lm.lm_grammar_matches(lazy, b"hello", 5, ref(whole), ref(fits)) == lm.LM_OK and whole.value
    constraint = lm.new("lm_constraint_new", made[3], vocabulary)
    for grammar in [*made, lazy]:
        lm.lm_grammar_free(grammar)
    mask = (ctypes.c_uint64 * ((n + 63) // 64))()
    lm.lm_constraint_mask(constraint, mask)
    allowed = [i for i in range(n) if mask[i // 64] >> (i % 64) & 1]
    assert allowed and not lm.lm_constraint_complete(constraint) and not lm.lm_constraint_ended(constraint)
    twin = lm.new("lm_constraint_clone", constraint)
    lm.lm_constraint_accept(constraint, allowed[0])
    lm.lm_constraint_rollback(constraint, 1)
    with pytest.raises(LaminaError, match="taken back"):
        lm.lm_constraint_rollback(constraint, 1)
    lm.lm_constraint_reset(constraint)
    logits = (ctypes.c_float * n)()
    assert lm.lm_constraint_logits(constraint, logits, n, None, 0) == lm.LM_OK
    assert [i for i in range(n) if logits[i] == 0] == allowed
    processor = lm.new("lm_logits_new", ref(lm.lm_logits_options(constraint=twin)))      # takes ownership of it
    sequence, ids = lm.lm_sequence_options(), (lm.lm_token * 1)(5)
    lm.lm_logits_into(processor, ref(sequence))
    assert sequence.logits and sequence.logits_release and sequence.logits_arg
    logits = (ctypes.c_float * n)()
    assert lm.lm_logits_process(processor, logits, n, ids, 1) == lm.LM_OK
    assert [i for i in range(n) if logits[i] == 0] == allowed
    lm.lm_logits_free(processor)
    lm.lm_constraint_free(constraint)
    lm.lm_vocabulary_free(vocabulary)
    own = lm.new("lm_model_vocabulary", model)
    assert lm.lm_vocabulary_size(own) >= n
    lm.lm_vocabulary_free(own)
    with pytest.raises(LaminaError, match="uniqueItems"):
        lm.lm_grammar_json_schema(b'{"uniqueItems":true}', 20, None, ctypes.byref(ctypes.POINTER(lm.lm_grammar)()))


def test_answers(lm):
    style = lm.lm_answer_style()
    lm.lm_answer_style_of(b'<tool_call>{"name": ...}</tool_call> <think>', ref(style))
    assert lm.lm_answer_style_name(ref(style)) == b"hermes"
    assert lm.lm_answer_mark(ref(style), 0) == b"<think>"
    assert lm.lm_answer_family_name(0) == b"ministral"
    assert lm.lm_answer_in_reasoning(ref(style), b"user <think>\n", 13)
    tools = (lm.headers.types["lm_answer_tool"] * 1)()
    tools[0].name = b"f"
    a = lm.new("lm_answer_new", ref(style), ref(lm.lm_answer_options(tools=tools, n_tools=1)))
    received = []
    calls = lm.new("lm_grammar_calls", ref(style), tools, 1, ref(lm.lm_grammar_calls_options(required=True)))
    whole, fits = ctypes.c_bool(), ctypes.c_size_t()
    for text, good in ((b'<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', True), (b"hello", False)):
        lm.lm_grammar_matches(calls, text, len(text), ref(whole), ref(fits))
        assert whole.value == good
    lm.lm_grammar_free(calls)
    each = lm.headers.functions["lm_answer_feed"][1][3][0](
        lambda arg, event: received.append((event.contents.kind, ctypes.string_at(event.contents.text, event.contents.size))))
    text = b'<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call> so'
    lm.lm_answer_feed(a, text, len(text), each, None)
    lm.lm_answer_end(a, each, None)
    lm.lm_answer_free(a)
    cut = lm.new("lm_answer_new", ref(style), ref(lm.lm_answer_options(tools=tools, n_tools=1)))
    ends = []
    last = lm.headers.functions["lm_answer_feed"][1][3][0](lambda arg, event: ends.append((event.contents.kind, event.contents.incomplete)))
    lm.lm_answer_feed(cut, text, 40, last, None)
    lm.lm_answer_cut(cut, last, None)
    lm.lm_answer_free(cut)
    assert ends[-1] == (lm.headers.values["LM_ANSWER_CALL_END"], True)
    lm.lm_answer_style_free(ref(style))
    assert lm.lm_answer_style_name(ref(style)) is None
    lm.lm_answer_style_of(b"{{ messages }}", ref(style))
    assert style.unread.startswith(b"its chat template") and not style.family
    values = lm.headers.values
    assert [kind for kind, _ in received] == [values["LM_ANSWER_CALL"], values["LM_ANSWER_ARGUMENTS"], values["LM_ANSWER_CALL_END"],
                                          values["LM_ANSWER_CONTENT"]]
    assert [delivered for _, delivered in received] == [b"f", b'{"a": 1}', b"", b"so"]


def test_statements_of_a_document(lm, facts):
    text = b"# A model\n\n| key | value |\n|---|---|\n| layers | 3 |\n\nAnd 7 of 9.\n"
    names = (ctypes.c_char_p * 1)(b"a-model")
    read = lm.new("lm_audit_read", text, len(text), names, 1)
    delivered, judged = lm.lm_audit_statement_at(read, 0), lm.lm_judgement()
    assert delivered.contents.line == 5 and delivered.contents.claim == b"3" and delivered.contents.model == b"a-model" and not lm.lm_audit_statement_at(read, 1)
    lm.lm_audit_judge(delivered, facts, ref(judged))
    assert judged.verdict == lm.LM_CLAIM_WRONG and judged.truth == b"2" and judged.derivation.startswith(b"program: ")
    assert lm.lm_audit_unread_at(read, 0).contents.line == 7 and not lm.lm_audit_unread_at(read, 1)
    lm.lm_audit_free(read)


def test_facts_and_documents(lm, facts, model):
    assert lm.lm_facts_count(facts, b"architecture.%s", b"layers") == lm.lm_facts_count_at(facts, b"architecture.layers") == 2
    assert lm.lm_facts_number(facts, b"parameters.total") == lm.lm_facts_number_at(facts, b"parameters.total") > 1000
    assert lm.lm_facts_text(facts, b"model.family") == lm.lm_facts_text_at(facts, b"model.family") == b"llama"
    assert lm.lm_facts_has(facts, b"model.name") and lm.lm_facts_has_at(facts, b"model.name") and not lm.lm_facts_has_at(facts, b"100%s")
    assert lm.lm_facts_truth(facts, b"architecture.qk_norm") == lm.lm_facts_truth_at(facts, b"architecture.qk_norm")
    found, info = lm.new("lm_facts_find", facts, b"architecture.layers"), lm.lm_fact_info()
    lm.lm_fact_describe(found, ref(info))
    assert info.name == b"layers" and info.kind == lm.LM_FACT_COUNT and info.count == info.number == 2
    path = lm.lm_text()
    lm.lm_fact_path(found, ref(path))
    assert path.data == b"architecture.layers"
    group = lm.lm_fact_first(lm.lm_facts_root(facts))
    assert group and lm.lm_fact_next(group)
    assert json.loads(lm.text("lm_facts_json", facts, b"architecture"))["layers"] == 2
    assert lm.new("lm_facts_judge", facts, b"num_hidden_layers", b"2").verdict == lm.LM_CLAIM_CONFIRMED
    assert lm.new("lm_facts_judge", facts, b"num_hiden_layers", b"2").nearest == b"num_hidden_layers"
    lm.lm_fact_describe(lm.new("lm_facts_named", facts, b".num_hidden_layers"), ref(info))
    assert info.count == 2
    assert lm.text("lm_facts_view", facts, None)
    both = (ctypes.POINTER(lm.lm_facts) * 2)(facts, facts)
    assert lm.text("lm_compare", both, 2, None)
    assert lm.text("lm_explain", facts, b"rope", None)
    assert b"import torch" in lm.text("lm_listing_write", facts, 0)
    assert b"def rope(" in lm.text("lm_listing_topic", facts, b"rope", 1)
    preset = lm.new("lm_model_open", b"preset:llama-3.2-1b", ref(lm.lm_model_options(weights_optional=True)))
    assert b"ffn" in listed(lambda i: lm.lm_topic_alias_at(i, None))
    assert lm.lm_explain_needs_toy(preset) and not lm.lm_explain_needs_toy(model)
    assert b"softmax" in lm.text("lm_explain_toy", preset, ref(lm.lm_explain_options(text=b"two words")))
    lm.lm_model_close(preset)
    assert b"softmax" in lm.text("lm_explain_forward", model, (ctypes.c_int32 * 3)(3, 4, 5), 3, None)
    assert lm.text("lm_diagram", facts, listed(lambda i: lm.lm_diagram_at(i, None))[0], None)
    assert b"2" in lm.text("lm_report_write", both, 1, None)
    settings = json.loads(lm.text("lm_report_settings", facts, 0))
    assert len(settings["cache"]) == len(settings["kv"]) * len(settings["batches"]) and len(settings["weights"]) == len(settings["precisions"])
    lm.lm_facts_check(facts)
    fit = lm.lm_fit_options(memory=1 << 32, no_speed=True, precision=b"bf16")
    found = lm.new("lm_fit_model", model, ref(fit))
    assert found.n >= 1
    before, fit.precision = bytes(found), b"of nobody"
    with pytest.raises(LaminaError, match="precision"):
        lm.lm_fit_model(model, ref(fit), ref(found))
    assert bytes(found) == before


def test_plan_of_a_cluster(lm, small):
    link, o = lm.new("lm_link_find", b"1gbe"), lm.lm_cluster_plan_options(nodes=2, memory=1 << 40, precision=b"bf16")
    assert link.contents.name == b"1gbe" and lm.lm_link_at(0) and not lm.lm_link_at(99)
    o.link = link
    plan = lm.new("lm_cluster_plan_model", small, ref(o))
    assert [(r.tp, r.pp, r.copies) for r in plan.rows[:plan.n]] == [(1, 1, 2), (2, 1, 1), (1, 2, 1)] and plan.rows[1].sent > 0 == plan.rows[0].sent
    assert plan.best_one == -1 and plan.rows[1].one.rate == 0          # the speed of a node is unknown
    with pytest.raises(LaminaError, match="nodes"):
        lm.new("lm_cluster_plan_model", small, ref(lm.lm_cluster_plan_options(nodes=100000)))
    with pytest.raises(LaminaError, match="none of 25gbe"):
        lm.new("lm_link_find", b"string")


def test_verify(lm, small, golden):
    o = lm.lm_verify_defaults()
    o.engine.threads, o.engine.compute, o.engine.kv = 1, lm.LM_COMPUTE_F32, lm.LM_KV_F32
    assert lm.new("lm_verify", small, golden, ref(o)).agrees


def test_ranks(lm, gguf):
    """Open a part of a model as one rank does; tests/e2e/run/test_cluster.py starts the processes."""
    rank = lm.new("lm_cluster_simulate", ref(lm.lm_cluster_options(split=b"tp=2")), 1)
    assert (lm.lm_cluster_rank(rank), lm.lm_cluster_ranks(rank)) == (1, 2)
    part = lm.new("lm_model_open", gguf, ref(lm.lm_model_options(cluster=rank)))
    text = lm.new("lm_model_program_text", part)
    assert b"sum over 2 ranks" in text.data
    lm.lm_text_free(ref(text))
    with pytest.raises(LaminaError, match="rank 0 leads"):
        lm.lm_cluster_follow(rank, part)
    lm.lm_model_close(part)
    assert not lm.lm_cluster_lost(rank)
    with pytest.raises(LaminaError, match="between ranks"):
        lm.new("lm_cluster_measure", rank)
    lm.lm_cluster_leave(rank)
    for wrong in (b"ep=2", b"tp=0", b"four"):
        with pytest.raises(LaminaError, match="tp=N"):
            lm.new("lm_cluster_join", ref(lm.lm_cluster_options(split=wrong)))
    assert lm.lm_cluster_library() is None or b"." in lm.lm_cluster_library()


def test_adapters(lm):
    golden = pathlib.Path(__file__).resolve().parents[1] / "golden"
    model = lm.new("lm_model_open", bytes(golden / "llama/gqa"), None)
    adapter = lm.new("lm_adapter_open", model, bytes(golden / "adapters/llama"))
    info, module = lm.lm_adapter_info(), lm.lm_adapter_module()
    lm.lm_adapter_describe(adapter, ref(info))
    assert (info.name, info.format, info.n_modules, info.rank, info.alpha) == (b"llama", b"peft", 14, 4, 8)
    assert lm.lm_adapter_module_at(adapter, 0, ref(module)) and module.module == b"model.layers.0.self_attn.q_proj" and module.scale == 2
    assert (module.rank, module.out) == (4, 32) and module.size > 0 and not lm.lm_adapter_module_at(adapter, 14, ref(module))
    assert lm.lm_adapter_warning(adapter, 0) is None
    kind = dict(lm.lm_engine_options._fields_)
    pair = (kind["adapters"]._type_ * 2)(ctypes.cast(adapter, kind["adapters"]._type_), None)
    options = lm.lm_engine_options(context=16, adapters=ctypes.cast(pair, kind["adapters"]), adapter_scales=(ctypes.c_float * 1)(0.5))
    with tempfile.TemporaryDirectory() as folder:
        merged, half = lm.lm_merge_result(), lm.lm_merge_options(scales=(ctypes.c_float * 1)(0.5), overwrite=True)
        lm.lm_merge(model, ctypes.cast(pair, kind["adapters"]), f"{folder}/merged".encode(), ref(half), ref(merged))
        assert merged.n_tensors == 14 and merged.kept == pytest.approx(1) and merged.tensors[0].name.endswith(b"proj.weight")
        lm.lm_merge_free(ref(merged))
    g = lm.new("lm_engine_new", model, ref(options))
    assert lm.lm_engine_n_adapters(g) == 1 and lm.lm_engine_adapters_of(g, 0)[0] == 0.5
    assert ctypes.cast(lm.lm_engine_adapter(g, 0), ctypes.c_void_p).value == ctypes.cast(adapter, ctypes.c_void_p).value
    assert not lm.lm_engine_adapter(g, 1)
    lm.lm_engine_set_adapters(g, 0, (ctypes.c_float * 1)(2))
    assert lm.lm_engine_adapters_of(g, 0)[0] == 2
    with pytest.raises(LaminaError, match="finite"):
        lm.lm_engine_set_adapters(g, 0, (ctypes.c_float * 1)(float("nan")))
    lm.lm_engine_free(g)
    lm.lm_adapter_close(adapter)
    lm.lm_model_close(model)


def test_a_thread_has_a_heap_limit(lm):
    granted = []
    watch, text = lm.lm_heap_watch(), lm.lm_text()
    watch.more = type(watch.more)(lambda arg, n: granted.append(n) or sum(granted) <= 1 << 20)
    lm.lm_heap_begin(ref(watch))
    lm.lm_text_add(ref(text), b"a" * 100_000, 100_000)
    lm.lm_heap_free(lm.lm_heap_alloc(100))
    assert 100_000 < watch.held <= watch.granted == sum(granted) and not watch.wanted
    lm.lm_text_add(ref(text), b"a" * 2_000_000, 2_000_000)
    assert text.failed and text.size == 100_000 and watch.wanted > 1 << 20
    assert lm.lm_heap_end(ref(watch)) == watch.held
    lm.lm_text_clear(ref(text))
    lm.lm_text_add(ref(text), b"a" * 2_000_000, 2_000_000)
    assert text.size == 2_000_000
    lm.lm_text_free(ref(text))


def test_every_output_is_appended(lm):
    """The watch has seen each function with an lm_text or lm_tokens output write something, and has compared it."""
    assert lm.appended == {name for name, places in lm.headers.outputs.items() if places and not name.endswith(("_free", "_clear"))}


def test_every_function_has_been_called(lm):
    """Keep this test last in the file: a new function needs a call above."""
    missing = set(lm.headers.functions) - lm.called - {"lm_engine_free", "lm_facts_free"}        # called when fixtures end
    assert not missing, sorted(missing)
