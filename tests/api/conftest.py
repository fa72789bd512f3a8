"""The library, a model with random weights that it writes itself, and watches that repeat calls with NULLs and into non-empty outputs."""
import ctypes
import os
import pathlib
import pickle
import resource
import signal

import lamina
import pytest

BUILD, SOURCE = pathlib.Path(os.environ["LAMINA_BUILD"]), pathlib.Path(os.environ["LAMINA_SOURCE"])
os.environ["LAMINA_CACHE"] = "/dev/null/nothing"
SMALL = SOURCE / "tests/golden/llama/gqa"
seen = {}                                                # function: the parameters that were NULL
appended = set()                                         # functions that have appended to existing content


def is_pointer(t):
    return t in (ctypes.c_char_p, ctypes.c_void_p) or issubclass(t, (ctypes._Pointer, ctypes.Array))


def with_nulls(name, function, arguments):
    """Repeat the call with NULL for each pointer parameter, and for all of them, each time in a separate process."""
    if name in seen:
        return
    pointers = [i for i, t in enumerate(function.argtypes) if is_pointer(t)]
    seen[name] = [[i] for i in pointers] + [pointers] * (len(pointers) > 1)
    types = [ctypes.c_void_p if issubclass(t, ctypes.Array) else t for t in function.argtypes]
    for places in seen[name]:
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(600)
            function.argtypes = types
            function(*(None if i in places else a for i, a in enumerate(arguments)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, f"{name}: NULL for parameters {places} ends with {status}"


def in_a_process(function, *arguments):
    """Call `function` in a copy of this process, where it leaves no trace here, and return its result."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "wb") as out:
            pickle.dump(function(*arguments), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as received:
        result = received.read()
    assert os.waitpid(child, 0)[1] == 0
    return pickle.loads(result)


def begun(lm, t):
    """Return an lm_text or lm_tokens that is not empty."""
    out = t._type_()
    if t._type_ is lm.lm_text:
        lm.library.lm_text_add(ctypes.byref(out), b"be\0fore", 7)
    else:
        lm.library.lm_tokens_append(ctypes.byref(out), (ctypes.c_int32 * 2)(7, 8), 2, None)
    return out


def content(lm, out):
    if isinstance(out, lm.lm_tokens):
        return out.ids[:out.n]
    return ctypes.string_at(ctypes.c_void_p.from_buffer(out, lm.lm_text.data.offset).value, out.size) if out.size else b""


def twice(lm, function, places, arguments, apart):
    """Return what two calls leave in their outputs: a new one per call if `apart`, else the same one, which was not empty."""
    outs, left = [begun(lm, function.argtypes[i]) for i in places], []
    for _ in range(2):
        outs = [function.argtypes[i]._type_() for i in places] if apart else outs
        function(*(ctypes.byref(outs[places.index(i)]) if i in places else a for i, a in enumerate(arguments)))
        left.append([content(lm, out) for out in outs])
    return left


def into_the_same(lm, name, function, arguments):
    """Check that outputs are appended: two calls into a non-empty one leave its content, then what the two calls write separately."""
    places = lm.headers.outputs[name]
    if not places or name in appended or name.endswith(("_free", "_clear")):
        return
    first, second = in_a_process(twice, lm, function, places, arguments, True)
    one, both = in_a_process(twice, lm, function, places, arguments, False)
    before = [content(lm, begun(lm, function.argtypes[i])) for i in places]
    assert one == [b + f for b, f in zip(before, first)] and both == [o + s for o, s in zip(one, second)], name
    if all(first):
        appended.add(name)


@pytest.fixture(scope="session")
def lm():
    lm = lamina.Lamina(BUILD / "src/liblamina.so")
    lm.watch = lambda *call: (with_nulls(*call), into_the_same(lm, *call))
    lm.appended = appended
    lm.version = b"0.2.0"
    return lm


@pytest.fixture(scope="session")
def folder(lm, tmp_path_factory):
    return str(tmp_path_factory.mktemp("models")).encode()


@pytest.fixture(scope="session")
def config(lm):
    return lm.text("lm_describe_sizes", ctypes.byref(lm.lm_sizes(hidden=64, layers=2, vocab=1000, heads=4, kv_heads=2, intermediate=128)))


@pytest.fixture(scope="session")
def gguf(lm, folder, config):
    (pathlib.Path(folder.decode()) / "config.json").write_bytes(config)
    lm.new("lm_synth", folder + b"/config.json", folder + b"/small.gguf", ctypes.byref(lm.lm_synth_options(threads=1, overwrite=True)))
    return folder + b"/small.gguf"


@pytest.fixture(scope="session")
def model(lm, gguf):
    return lm.new("lm_model_open", gguf, None)


@pytest.fixture(scope="session")
def small(lm):
    return lm.new("lm_model_open", str(SMALL).encode(), None)


@pytest.fixture(scope="session")
def golden():
    [path] = SMALL.glob("golden*.safetensors")
    return str(path).encode()


@pytest.fixture(scope="session")
def engine(lm, model):
    probes = (ctypes.c_char_p * 2)(b"model.norm", None)
    o = lm.lm_engine_options(context=64, sequences=3, max_rows=16, max_logits=4, threads=1, hidden=True, probes=probes)
    yield (engine := lm.new("lm_engine_new", model, ctypes.byref(o)))
    lm.lm_engine_free(engine)


@pytest.fixture(scope="session")
def facts(lm, model):
    yield (facts := lm.new("lm_facts_new", model, None))
    lm.lm_facts_free(facts)
