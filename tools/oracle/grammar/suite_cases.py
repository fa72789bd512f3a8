#!/usr/bin/env python3
"""The official JSON-Schema-Test-Suite as lines of tests/golden/grammar/suite.jsonl.

`suite_cases.py TESTS OUT LEAST`: TESTS is json/tests of the source package of Python's `jsonschema` (pip download --no-binary jsonschema
jsonschema). Required tests of draft 2020-12 and draft-07. A valid instance must be accepted as json.dumps writes it, compact and by
default; an invalid one must be rejected in each of several spellings. A schema may be rejected. LEAST: minimum number of instances that are
decided as in the suite.
"""
import itertools
import json
import pathlib
import sys

DRAFTS = {"draft2020-12": None, "draft7": "http://json-schema.org/draft-07/schema#"}


def orders(value):
    """Yield the value with the members of its outermost object in every order, if it has at most four members."""
    if isinstance(value, dict) and 1 < len(value) <= 4:
        for names in itertools.permutations(value):
            yield {n: value[n] for n in names}
    else:
        yield value


def spellings(value, many):
    texts = [json.dumps(value, separators=(",", ":"), ensure_ascii=False), json.dumps(value, ensure_ascii=False)]
    if many:
        for v in orders(value):
            texts += [json.dumps(v), json.dumps(v, ensure_ascii=False, separators=(",", ":")), json.dumps(v, indent=2)]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and float(value).is_integer() and abs(value) < 1e15:
            texts += [str(int(value)), str(float(value)), "%de0" % value, "%d.00" % value]
        if isinstance(value, str) and value:
            texts.append('"' + "".join("\\u%04x" % ord(c) if ord(c) < 0x10000 else c for c in value) + '"')
    return list(dict.fromkeys(texts))


def encodable(value):
    try:
        json.dumps(value, ensure_ascii=False).encode()
        return True
    except UnicodeEncodeError:
        return False


def main(tests, out, least):
    lines, total = [], 0
    for draft, dialect in DRAFTS.items():
        for path in sorted((pathlib.Path(tests) / draft).glob("*.json")):
            for group in json.loads(path.read_text()):
                schema = group["schema"]
                if dialect and isinstance(schema, dict) and "$schema" not in schema:
                    schema = {"$schema": dialect, **schema}
                total += len(group["tests"])
                instances = [t for t in group["tests"] if encodable(t["data"])]
                lines.append({"name": f"{draft}/{path.stem}: {group['description']}", "kind": "schema",
                              "text": json.dumps(schema, ensure_ascii=False), "options": {"any_order": True, "open": True}, "refused": "",
                              "maybe": [spellings(t["data"], False) for t in instances if t["valid"]],
                              "reject": [spellings(t["data"], True) for t in instances if not t["valid"]]})
    print(f"{len(lines)} schemas, {total} instances", file=sys.stderr)
    lines.append({"least": int(least)})
    pathlib.Path(out).write_text("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
