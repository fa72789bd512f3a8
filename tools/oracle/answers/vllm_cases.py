"""Answers of models from vLLM's own tests: which template, which raw text, what it means.

  vllm_cases.py SOURCES TEMPLATES.json > tests/golden/answers/vllm.jsonl      SOURCES: vllm-0.33.0, unpacked

Each file that has a ToolParserTestConfig gives its texts; what they mean is in the configuration and in tests/tool_parsers/common_tests.py.
The values of each @pytest.mark.parametrize that has a model's output are cases too. `arguments` null: the test compares names only."""
import ast
import json
import pathlib
import sys

from vllm_modules import collect

# The template of each parser; a text of marks where the sources have no template of the model.
TEMPLATES = {"deepseekv3": "tool_chat_template_deepseekv3.jinja", "granite_20b_fc": "tool_chat_template_granite_20b_fc.jinja",
             "granite": "tool_chat_template_granite.jinja", "internlm2": "tool_chat_template_internlm2_tool.jinja",
             "phi4mini": "tool_chat_template_phi4_mini.jinja", "longcat": None, "step3": None}
MARKS = {"longcat": "<longcat_tool_call>", "step3": "<｜tool_calls_begin｜> steptml"}
# The same for files with parametrized tests; a name of llama.templates.json where llama.cpp has the model's template.
LLAMA = {"gigachat3": "GigaChat3-10B-A1.8B", "kimi_k2": "moonshotai-Kimi-K2", "lfm2": "LFM2-8B-A1B", "step3p5": "StepFun3.5-Flash"}
MORE = {"hunyuan_a13b": "tool_chat_template_hunyuan_a13b.jinja", "llama4_pythonic": "tool_chat_template_llama4_pythonic.jinja",
        "pythonic": "tool_chat_template_llama3.2_pythonic.jinja", "qwen3coder": "tool_chat_template_qwen3coder.jinja", "xlam": "tool_chat_template_xlam_llama.jinja"}
MARKS |= {"ernie45_moe": "<tool_call> <response> <think>", "jamba": "<tool_calls></tool_calls>", "olmo3": "<function_calls></functions>"}
TYPES = {"string_field": "string", "int_field": "integer", "float_field": "number", "bool_field": "boolean", "null_field": "null", "array_field": "array",
         "object_field": "object", "empty_array": "array", "empty_object": "object"}


def schema(properties):
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}


# Tools of the texts of one parser that the common tests do not name.
OTHERS = [{"name": n, "parameters": {"type": "object"}} for n in ("search_hotels", "get_current_time", "send_message")]
TOOLS = OTHERS + [{"name": "get_weather", "parameters": schema({"city": "string"})}, {"name": "get_time", "parameters": schema({"timezone": "string"})},
         {"name": "test_function", "parameters": schema(TYPES)}, {"name": "refresh", "parameters": schema({})}]
DATA = {"string_field": "hello", "int_field": 42, "float_field": 3.14, "bool_field": True, "null_field": None, "array_field": ["a", "b", "c"],
        "object_field": {"nested": "value"}, "empty_array": [], "empty_object": {}}


def configurations(tree):
    """The keyword arguments of each ToolParserTestConfig that are constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ToolParserTestConfig":
            found = {}
            for k in node.keywords:
                try:
                    found[k.arg] = ast.literal_eval(k.value)
                except ValueError:                   # not a constant: not one of the texts
                    pass
            yield found


def named(text, otherwise):
    """The tool that a text calls, if it is one of the others."""
    return next((t["name"] for t in OTHERS if text and t["name"] in text), otherwise)


def cases(config, parser):
    """The texts of a configuration with the calls that they mean."""
    city = config.get("single_tool_call_expected_args", {"city": "Tokyo"})
    name = config.get("single_tool_call_expected_name", "get_weather")
    single = [(name, city)]
    yield "no_tool_calls_output", [], None
    yield "single_tool_call_output", single, config.get("single_tool_call_expected_content")
    yield "parallel_tool_calls_output", [(n, None) for n in config.get("parallel_tool_calls_names", ["get_weather", "get_time"])], None
    yield "various_data_types_output", [("test_function", {k: v for k, v in DATA.items() if k in (config.get("various_data_types_output") or "")})], None
    yield "empty_arguments_output", [(named(config.get("empty_arguments_output"), "refresh"), {})], None
    yield "surrounding_text_output", [(name, None if parser == "deepseekv3" else city)], False       # it calls for Paris
    yield "escaped_strings_output", [(named(config.get("escaped_strings_output"), "test_function"), None)], None


PYTHON = {"lfm2", "llama4_pythonic", "olmo3", "pythonic"}


def is_python(text):
    """Whether the calls of a text are an expression of Python."""
    try:
        ast.parse(text[text.index("["):text.rindex("]") + 1] if "[" in text else text)
    except (SyntaxError, ValueError):
        return False
    return True


def type_of(value):
    """The type that a tool's schema has for an argument with this value."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return {"type": names[type(value)]} if value is not None else {}


def tools_of(cases):
    """A tool for each name that is called in a file, with the types of all its arguments."""
    found = {}
    for _, calls, _ in cases:
        for name, arguments in calls:
            properties = found.setdefault(name, {})
            for key, value in (json.loads(arguments) if arguments else {}).items():
                properties.setdefault(key, type_of(value))
    return [{"name": n, "parameters": {"type": "object", "properties": p}} for n, p in found.items()]


def parametrized(path):
    """The outputs of a file's parametrized tests, each once: text, calls, content (False: not tested)."""
    for names, values in collect(path):
        if "model_output" not in names or len(names) < 3:
            continue
        for value in values:
            given = dict(zip(names, value))
            calls = [getattr(c, "function", None) if "function" in vars(c) else c for c in given.get("expected_tool_calls", [])]
            calls = [(c.name, c.arguments) for c in calls] or [(n, json.dumps(a)) for n, a in zip(given.get("expected_names", []), given.get("expected_args_list", []))]
            yield given["model_output"], calls, given.get("expected_content", False)


def main():
    sources, templates = pathlib.Path(sys.argv[1]), {}
    for parser, file in TEMPLATES.items():
        templates[parser] = (sources / "examples" / file).read_text() if file else MARKS[parser]
        tree = ast.parse((sources / f"tests/tool_parsers/test_{parser}_tool_parser.py").read_text())
        for config in configurations(tree):
            for member, calls, content in cases(config, parser):
                text = config.get(member)
                if not text:
                    continue
                content = text if not calls else content
                wanted = [{"name": n, "arguments": a if a is None else json.dumps(a, ensure_ascii=False)} for n, a in calls]
                out = {"template": parser, "text": text, "tools": TOOLS, "content": content or "", "reasoning": "", "calls": wanted}
                out |= {"around": True} if content is False else {}
                print(json.dumps(out, ensure_ascii=False))
    for parser in [*LLAMA, *MORE, "ernie45_moe", "jamba", "olmo3"]:
        name = LLAMA.get(parser, parser)
        if parser not in LLAMA:
            templates[parser] = (sources / "examples" / MORE[parser]).read_text() if parser in MORE else MARKS[parser]
        other = {"pythonic": ["toolace", "gemma3_pythonic"]}.get(parser, [])           # the same notation
        templates |= {o: (sources / f"examples/tool_chat_template_{o}.jinja").read_text() for o in other}
        found = list({case[0]: case for case in parametrized(sources / f"tests/tool_parsers/test_{parser}_tool_parser.py")}.values())
        for text, calls, content in found:
            named = ["GigaChat3.1-10B-A1.8B"] if "<|function_call|>" in text else [name, *other]
            out = {"template": "", "text": text, "tools": tools_of(found), "content": content or "", "reasoning": "",
                   "calls": [{"name": n, "arguments": a} for n, a in calls]}
            out |= {"around": True} if content is False else {}
            out |= {"end": "</s>"} if text.endswith("</s>") else {}
            also = [{"content": text, "reasoning": "", "calls": [], "why": "it is not Python, so not a call"}] if parser in PYTHON and calls and not is_python(text) else []
            if not content and text.endswith("</tool_calls>\nThank you!"):
                also = [{"content": "Thank you!", "reasoning": "", "calls": out["calls"], "why": "text after calls is kept, as by llama.cpp"}]
            if parser == "xlam" and text.startswith("<think>"):
                also = [{"content": text, "reasoning": "", "calls": [], "why": "the template has no reasoning: an answer that begins with text is text"}]
            out |= {"also": also} if also else {}
            for name_of in named:
                print(json.dumps(out | {"template": name_of}, ensure_ascii=False))
    pathlib.Path(sys.argv[2]).write_text(json.dumps(templates, ensure_ascii=False, indent=0) + "\n")


main()
