"""Answers of models from llama.cpp's own tests: which template, which raw text, what it means.

  llama_cases.py SOURCES > tests/golden/answers/llama.jsonl      SOURCES: llama_cpp_python-0.3.36/vendor/llama.cpp, unpacked

The cases are C++: they are compiled with peer_chat.h, which prints each of them instead of running it."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ENDS = "<|role_end|>", "<|eot|>", "<|END_OF_TURN_TOKEN|>"       # end tokens, which are removed before an answer is read
HERE = pathlib.Path(__file__).parent


def functions(text):
    """The tools, the messages and the functions that hold cases, without what needs the library."""
    begin = text.index("static common_chat_tool special_function_tool{")
    end = text.index("// Use for PEG parser implementations")
    cases = [text[text.index(head):text.index("\n}\n", text.index(head)) + 3]
             for head in ("static void test_lfm2_parser(", "static void test_template_output_peg_parsers(")]
    return text[begin:end] + "\n".join(cases)


def keep_cases(text):
    """Drop blocks that use the library: they check grammars and prompts, not answers."""
    return re.sub(r"^    \{\n(?:(?!^    \}\n).*\n)*?(?:.*(?:make_peg_parser|common_chat_templates_ptr|read_templates).*\n)(?:(?!^    \}\n).*\n)*^    \}\n", "",
                  text, flags=re.M)


def rendered_ends(template, case):
    """Whether the generation prompt ends inside reasoning is a fact of the template and its variables: its last 200 characters."""
    import jinja2.sandbox
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                               extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do"])
    environment.filters["tojson"] = lambda x, **k: json.dumps(x if isinstance(x, (dict, str, int, float, bool, type(None))) else list(x), ensure_ascii=False, **{a: b for a, b in k.items() if a in ("indent", "sort_keys")})

    def fail(message):
        raise jinja2.TemplateError(message)
    environment.globals |= {"raise_exception": fail, "strftime_now": lambda f: "2026-01-01"}
    tools = [{"type": "function", "function": t | {"description": "a tool"}} for t in case["tools"]]
    variables = dict(messages=[{"role": "user", "content": "Hey there!"}], add_generation_prompt=bool(case["begins"]), enable_thinking=bool(case["thinking"]),
                     bos_token="<s>", eos_token="</s>", functions="[]", thinking=bool(case["thinking"]))
    if tools:
        variables["tools"] = tools
    try:
        template = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", template)      # transformers' own tag
        return environment.from_string(template).render(**variables)[-200:]
    except Exception as why:
        print(case["path"], why, file=sys.stderr)
        return ""


def also(case):
    """Other readings of a case that are as good, with a reason for each."""
    readings = []

    def reading(why, **members):
        readings.append({k: case[k] for k in ("content", "reasoning", "calls")} | members | {"why": why})
    for member in ("content", "reasoning"):
        for mark in ("<|START_THINKING|>", "<think>\n", "Here are my reasoning steps:\n"):
            if case["prompt"].endswith(mark) and case[member].startswith(mark):
                reading("what the prompt holds is no part of the answer", **{member: case[member][len(mark):]})
    for tool, body in (("container.exec", "python3 -c 'print(\"hello\")'"), ("python", 'print("hello")')):
        if f" to={tool}" in case["text"] and case["text"].endswith(body):
            reading("vLLM: a call of a built-in tool is reasoning", reasoning=case["reasoning"] + "\n" + body)
    if case["text"].startswith("<|CHATBOT_TOKEN|>"):
        reading("the start of the turn belongs to the prompt", content="<|CHATBOT_TOKEN|>" + case["content"])
    if "<label>]<]minimax[>[<text>hi" in case["text"]:
        reading("vLLM: an element with children is an object", calls=[{"name": "union_args", "arguments": '{"label": {"text": "hi"}}', "id": ""}])
    return {"also": readings} if readings else {}


def main():
    sources = pathlib.Path(sys.argv[1])
    code = '#include "peer_chat.h"\n' + keep_cases(functions((sources / "tests/test-chat.cpp").read_text()))
    code += "int main() { test_template_output_peg_parsers(false); }\n"
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "cases.cpp"
        file.write_text(code)
        subprocess.run(["g++", "-std=c++17", "-O0", f"-I{HERE}", file, "-o", file.with_suffix("")], check=True)
        cases = subprocess.run([file.with_suffix("")], check=True, stdout=subprocess.PIPE).stdout.split(b"\0")
    templates = {}
    for line in cases[:-1]:
        c = json.loads(line)
        if c["continues"] or c["schema"]:      # the start of the answer is in the request; what is read is no call
            continue
        name = pathlib.Path(c["path"]).stem
        template = templates.setdefault(name, (sources / c["path"]).read_text())
        out = {"template": name, "text": c["text"], "tools": c["tools"], "content": c["content"], "reasoning": c["reasoning"], "calls": c["calls"],
               "prompt": rendered_ends(template, c)}
        out |= {k: True for k in ("partial",) if c[k]}
        out |= {"end": e for e in ENDS if c["text"].endswith(e)}
        out |= {"format": "none"} if c["format"] == 0 else {}
        print(json.dumps(out | also(out), ensure_ascii=False))
    for path in sorted((sources / "models/templates").glob("*.jinja")):       # those without cases show their calls too
        templates.setdefault(path.stem, path.read_text())
    if len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text(json.dumps(templates, ensure_ascii=False, indent=0) + "\n")


main()
