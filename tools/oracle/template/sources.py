"""Small templates of this project, one per construct and pitfall of chat templates.

A leading newline of a source is removed; nothing else is changed."""

SOURCES = {
    # ---- chat formats ----
    "chatml": """
{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
""",
    "chatml-lines": """
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {{- '<|system|>\\n' + message.content | trim }}
    {%- elif message.role in ['user', 'developer'] %}
        {{- '<|user|>\\n' ~ message.content }}
    {%- else %}
        {{- '<|other|>\\n' ~ message.content | string | length }}
    {%- endif %}
    {{- eos_token }}
{%- endfor %}
{%- if add_generation_prompt -%}
    <|assistant|>
{% endif %}
""",
    "header-blocks": """
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\nToday: " + strftime_now("%d %b %Y") + "\\n\\n" + system_message + "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one tool call at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}" }}
    {%- elif message.content is mapping or message.content is iterable %}
        {{- "<|start|>ipython<|end|>\\n\\n" }}{{- message.content | tojson }}{{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
""",
    "instructions": """
{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}
""",
    "last-user-index": """
{%- set ns = namespace(last=-1, multi=false, n=0) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.last < 0 and message.role == "user" and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.last = index %}
    {%- endif %}
    {%- set ns.n = ns.n + 1 %}
{%- endfor %}
{{ ns.last }}/{{ ns.n }}/{{ ns.multi }}
""",
    "reasoning": """
{%- for message in messages if message.role == 'assistant' %}
    {%- set content = message.content if message.content is string else '' %}
    {%- set reasoning = '' %}
    {%- if message.reasoning_content is string %}
        {%- set reasoning = message.reasoning_content %}
    {%- elif '</think>' in content %}
        {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if loop.last or (not loop.last and reasoning) %}
        {{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
    {%- else %}
        {{- content }}
    {%- endif %}
{%- endfor %}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
""",
    "tools-list": """
{%- if tools %}
{{- '# Tools\\n<tools>' }}
{%- for tool in tools %}
    {{- "\\n" }}
    {{- tool | tojson }}
{%- endfor %}
{{- "\\n</tools>" }}
{%- endif %}
{{ tools is defined }} {{ tools is none }} {{ tools is iterable }} {{ documents is defined }}
""",
    "tools-indented": "{% for tool in tools or [] %}{{ tool.function | tojson(indent=4) }}\n{{ tool | tojson(indent=2, separators=(',', ': '), ensure_ascii=True) }}{% endfor %}",
    "tool-calls": """
{%- for message in messages %}
{%- if message.tool_calls %}
    {%- for tool_call in message.tool_calls %}
        {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
        {{- '\\n<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
        {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
        {{- '}\\n</tool_call>' }}
    {%- endfor %}
{%- elif message.role == "tool" %}
    {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
    {{- '\\n<tool_response>\\n' }}{{- message.content }}{{- '\\n</tool_response>' }}
    {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- endif %}
{%- endfor %}
""",
    "parts": """
{%- for message in messages %}
{{ message.role }}:
{%- if message.content is string %}[{{ message.content }}]
{%- elif message.content is none %}(none)
{%- else %}
    {%- for part in message.content %}
        {%- if part.type == 'text' %}{{ part['text'] | trim }}
        {%- elif 'image' in part or part.type == 'image_url' %}<image>
        {%- endif %}
    {%- endfor %}
{%- endif %}
{%- endfor %}
""",
    "parts-macro": """
{%- macro render(content, count=true) -%}
    {%- if content is string -%}{{ content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for item in content -%}
            {%- if item.text is defined -%}{{ item.text }}{%- elif count -%}<img {{ loop.index }}/{{ loop.length }}>{%- endif -%}
        {%- endfor -%}
    {%- elif content is none or content is undefined -%}
    {%- else -%}{{ raise_exception('Unexpected content') }}
    {%- endif -%}
{%- endmacro -%}
{%- for m in messages -%}{{ render(m.content) }}|{{ render(m.content, false) | trim }}|{{ render(count=false, content=m['content'])|length }};{%- endfor -%}
""",
    "schema-macro": """
{%- macro type_of(spec) -%}
    {%- if spec.type == 'array' -%}{{ type_of(spec['items']) if spec['items'] else 'any' }}[]
    {%- elif spec.anyOf -%}{%- for v in spec.anyOf -%}{{ type_of(v) }}{{ ' | ' if not loop.last }}{%- endfor -%}
    {%- elif spec.type == 'object' -%}{ {%- for k, v in (spec.properties or {}).items() -%}{{ k }}{{ '' if k in (spec.required or []) else '?' }}: {{ type_of(v) }}{{ ', ' if not loop.last }}{%- endfor -%} }
    {%- elif spec.type is iterable and spec.type is not string -%}{{ spec.type | join(' | ') }}
    {%- elif spec.enum -%}"{{ spec.enum | join('" | "') }}"
    {%- else -%}{{ spec.type }}
    {%- endif -%}
    {%- if spec.default is defined %} = {{ spec.default }}{% endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}
type {{ tool.function.name }} = ({{ type_of(tool.function.parameters) }}) => {{ type_of(tool.function['return']) if tool.function['return'] else 'any' }};
{%- endfor %}
""",
    "channels": """
{%- macro system() -%}
{{ "Knowledge cutoff: 2024-06\\n" }}{{ "Current date: " + strftime_now("%Y-%m-%d") + "\\n\\n" }}
{%- if reasoning_effort is not defined %}{%- set reasoning_effort = "medium" %}{%- endif %}
{{- "Reasoning: " + reasoning_effort }}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}{{- system() }}{{- "<|end|>" }}
{%- set last_tool = namespace(name=none) %}
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "tool_calls" in message %}{%- set last_tool.name = message.tool_calls[0].function.name %}{{- "<|channel|>commentary to=" + last_tool.name }}
        {%- elif loop.last and not add_generation_prompt %}{{- "<|channel|>final" ~ (message.thinking or '') ~ message.content }}
        {%- else %}{{- message.content }}{%- endif %}
    {%- elif message.role == 'tool' %}
        {%- if last_tool.name is none %}{{- raise_exception("no tool call before") }}{%- endif %}
        {{- "functions." + last_tool.name + message.content|tojson }}
    {%- else %}{{- message.role ~ message.content }}{%- endif %}
{%- endfor %}
""",
    "documents": """
{% if documents %}{% for doc in documents %}{{ "\\nDocument " }}{{ doc.doc_id if doc.doc_id is defined else loop.index0 }}
{% for key, val in doc.items() if key != 'doc_id' %}{{ key | title }}: {{ val|indent(2) }}
{% endfor %}{% endfor %}{% endif %}
""",
    # ---- statements ----
    "for-else": "{% for m in messages if m.role == 'tool' %}{{ m.content }}{% else %}none{% endfor %}{% for x in [] %}{% else %}e{% endfor %}{% for x in nothing %}{% else %}u{% endfor %}",
    "for-targets": "{% for k, v in {'a': 1, 'b': (2, 3)}.items() %}{{ k }}={{ v }};{% endfor %}{% for (a, b), c in [((1, 2), 3), ('xy', 4)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "for-target-comma": "{% for a, in [[1]] %}{{ a }}{% endfor %}",
    "for-unpack-error": "{% for a, b in [(1, 2), (3,)] %}{{ a }}{% endfor %}",
    "for-over-none": "{% for m in none %}{% endfor %}",
    "for-over-text": "{% for c in messages[0].role %}{{ c }}.{% endfor %}{% for k in {'x': 1, 'y': 2} %}{{ k }}{% endfor %}",
    "loop-variables": "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem.role if loop.previtem is defined }}>{{ loop.nextitem.role if loop.nextitem is defined }}|{{ loop.cycle('a', 'b', 'c') }}{{ loop.changed(m.role) }}\n{% endfor %}",
    "loop-previtem": "{% for m in messages %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% if loop.previtem and loop.previtem.role == m.role %}same{% endif %}{% endfor %}",
    "loop-of-generator": "{% for m in messages|selectattr('role', 'ne', 'system') %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{% endfor %}{% for m in messages if m.role != 'user' %}{{ loop.index }}:{{ loop.revindex }}{% endfor %}",
    "loop-nested": "{% for a in [1, 2] %}{% set outer = loop %}{% for b in 'xy' %}{{ outer.index }}{{ loop.index }}{{ b }}{% endfor %}{{ loop.index }}{% endfor %}",
    "loop-filter-sees-namespace": "{% set ns = namespace(n=0) %}{% for i in range(10) if ns.n < 3 %}{% set ns.n = ns.n + 1 %}{{ i }}{% endfor %}",
    "loop-filter-repacks": "{% for a, b in [[1, 2], [3, 4], [5, 6]] if a != 3 %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop }}{% endfor %}",
    "loop-recursive": "{% for item in [{'n': 1, 'c': [{'n': 2, 'c': [{'n': 3}]}, {'n': 4}]}] recursive %}{{ loop.depth }}:{{ item.n }}({% if item.c %}{{ loop(item.c) }}{% endif %}){% endfor %}",
    "loop-not-recursive": "{% for i in [1] %}{{ loop([2]) }}{% endfor %}",
    "break-continue": "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}{% for m in messages %}{% if m.role == 'assistant' %}{% break %}{% endif %}{{ m.role }}{% else %}E{% endfor %}",
    "for-else-after-break": "{% for i in [1, 2] %}{{ i }}{% break %}{% else %}first broke{% endfor %}{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}second{% endfor %}{% for i in 'ab' %}{% continue %}{% else %}all skipped{% endfor %}",
    "hidden-until-set": "{% macro show() %}{{ date_string }}{{ bos_token }}{% endmacro %}{{ show() }}{% set date_string = 'set' %}{{ show() }}{% if true %}{% set bos_token = 'b' %}{% endif %}{{ show() }}{% for i in [1, 2] %}{% macro q() %}{{ eos_token }}{% endmacro %}{{ q() }}{% set eos_token = i %}{{ q() }}{% endfor %}{{ eos_token }}",
    "break-outside": "{% if true %}{% break %}{% endif %}",
    "set-scopes": "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }};{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% set y = 8 %}{% endif %}{{ x }}{{ y }}",
    "set-tuple": "{% set a, b = 1, (2, 3) %}{{ a }}{{ b }}{% set c = 1, %}{{ c }}{% set ns = namespace() %}{% set ns.p, d = 5, 6 %}{{ ns.p }}{{ d }}",
    "set-block": "{% set text %}  <{{ messages|length }}>\n{% endset %}[{{ text }}]{% set up | upper | replace('A', '4') %}abc{{ 'a' }}{% endset %}{{ up }}{{ text is string }}",
    "set-on-dict": "{% set d = {} %}{% set d.x = 1 %}{{ d }}",
    "namespace": "{% set ns = namespace(a=1, b=[]) %}{% for i in range(3) %}{% set ns.a = ns.a * 2 %}{% set ns.b = ns.b + [i] %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns }}{{ ns['a'] }}",
    "namespace-underscore": "{% set ns = namespace() %}{% set ns._x = 1 %}{{ ns._x }}",
    "macro-arguments": "{% macro f(a, b='x', c=a ~ b) %}[{{ a }}|{{ b }}|{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, c=3) }}{{ f(b=2, a=1) }}{{ f() }}{{ f.name }}{{ f.arguments }}{{ f is callable }}",
    "macro-varargs": "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, x=4) }}{{ f(*[1, 2], **{'y': 5}) }}{% macro g() %}g{% endmacro %}{{ g() ~ g() }}",
    "macro-keeps-caller": "{% macro outer() %}{% macro inner(caller=1) %}{{ caller }}{% endmacro %}{{ inner() }}{{ kwargs|length }}{% endmacro %}{% call outer() %}x{% endcall %}",
    "macro-too-many": "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "macro-unknown-keyword": "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, b=2) }}",
    "macro-scope": "{% set g = 'global' %}{% macro show() %}{{ g }}{{ local is defined }}{{ messages|length }}{% endmacro %}{% for local in [1] %}{% set g = 'inner' %}{{ show() }}{% endfor %}{% set g = 'later' %}{{ show() }}",
    "macro-recursive": "{% macro count(n) %}{{ n }}{% if n > 0 %},{{ count(n - 1) }}{% endif %}{% endmacro %}{{ count(12) }}",
    "macro-in-loop": "{% for m in messages %}{% macro shout() %}{{ m.role | upper }}{% endmacro %}{{ shout() }}{% endfor %}",
    "macro-whitespace": "{%- macro f() %}\n  a\n  {%- if true %}\n  b\n  {%- endif %}\n{% endmacro -%}\n\n[{{ f() }}]",
    "call-block": "{% macro wrap(tag) %}<{{ tag }}>{{ caller() }}</{{ tag }}>{% endmacro %}{% call wrap('p') %}{{ messages|length }}{% endcall %}{% macro each(items) %}{% for i in items %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(item, n=0) each(['x', 'y']) %}{{ n }}{{ item }};{% endcall %}",
    "call-block-refused": "{% macro plain() %}p{% endmacro %}{% call plain() %}body{% endcall %}",
    "filter-block": "{% filter upper %}abc {{ messages[0].role }}{% endfilter %}{% filter replace('a', 'b') | trim | indent(2, true) %} xa\nya {% endfilter %}",
    "with-block": "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% with a = 5, c = a %}{{ a }}{{ c }}{% endwith %}{{ a }}{% endwith %}{{ a is defined }}",
    "raw-block": "{% raw %}{{ not }} {% this %}{# nor #}{% endraw %}\n  {%- raw -%}  x  {%- endraw %}\n{% raw %}\n a{% endraw +%}\nz",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% set inside = 1 %}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}{{ inside is defined }}",
    "generation-lines": "{%- for m in messages %}\n    {%- generation %}\n    {{- m.role }}\n    {%- endgeneration %}\n{%- endfor %}",
    "comments": "a{# one #}b\n  {# two\nlines #}\nc{#- three -#}  d {#+ four +#}\ne",
    "print-statement": "{% print 1, 'a' %}{{ 1, 'a' }}{{ () }}",
    "block-statement": "{% block body %}{{ messages|length }}{% endblock %}{% block other %}x{% endblock other %}",
    "include": "{% if false %}{% include 'x' %}{% endif %}ok{% if messages %}{% include 'x' %}{% endif %}",
    "import": "{% import 'x' as y %}",
    "extends": "{% extends 'x' %}",
    "do-is-unknown": "{% do [].append(1) %}",
    "elif-chain": "{% for m in messages %}{% if m.role == 'system' %}s{% elif m.role == 'user' %}u{% elif m.role == 'assistant' %}a{% else %}?{% endif %}{% endfor %}",
    # ---- white space ----
    "trim-blocks": "a\n{% if true %}\nb\n{% endif %}\nc\n{{ 'd' }}\n{# e #}\nf\n",
    "lstrip-blocks": "  {% if true %}\n   x {% set y = 1 %} z\n\t{{ y }}\n  \t{% endif %}  \n  {{ 1 }}{% if true %}q{% endif %}",
    "strip-signs": "a  \n {%- if true -%} \n b {%- endif +%}\n c {{- ' d ' -}} \n e {%+ if true %}\nf{% endif %}\n  {%+ set z = 1 +%}\nend",
    "trailing-newline": "text\n\n",
    "carriage-returns": "a\r\n{% if true %}\r\nb\r{% endif %}\rc{{ 'x\r\ny' }}",
    "unicode-space": "a\u00a0{%- if true -%}\u3000b\u2003{%- endif -%}\u2028c",
    "minus-after-brace": "{{-1}}{{ -1 }}{{+1}}|{{ 3 -}}  x",
    # ---- expressions ----
    "operators": "{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** 3 ** 2 }} {{ 1 / 2 }} {{ 4 / 2 }} {{ 7.0 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ +3 }}",
    "comparisons": "{{ 1 < 2 < 3 }}{{ 1 < 3 > 2 == 2 }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ 1 == 1.0 == true }}{{ 'x' != none }}{{ 'a' in 'abc' }}{{ 'z' not in ['a'] }}{{ 'role' in (messages[0] if messages else {}) }}{{ not 'a' in 'b' }}",
    "and-or": "{{ 0 or 'x' }}{{ '' and 1 }}|{{ none or [] }}{{ 1 and 2 and 3 }}{{ missing or 'd' }}{{ not 0 and not '' }}{{ (messages and messages[0].role) or 'nobody' }}",
    "inline-if": "{{ 'a' if messages else 'b' }}{{ 'c' if false }}{{ ('x' if false) is defined }}{{ 1 if 0 else 2 if 0 else 3 }}{{ 'yes' if tools is not none and tools else 'no' }}",
    "concatenation": "{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] }}{{ 'a' 'b' \"c\" }}{{ 'x' * 3 }}{{ [1] * 2 + [3] }}{{ (1,) + (2,) }}{{ 1 ~ 2 * 3 }}",
    "string-plus-number": "{{ 'a' + 1 }}",
    "string-plus-list": "{{ 'a' + ['b'] }}",
    "string-plus-none": "{{ 'a' + none }}",
    "string-plus-undefined": "{{ 'a' + missing }}",
    "string-plus-content": "{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}",
    "undefined": "{{ missing }}[{{ missing is defined }}{{ missing|default('d') }}{{ missing|length }}{{ missing|string }}{{ missing|list }}{{ missing == other }}{{ missing ~ 'x' }}{{ missing is iterable }}{{ missing is sequence }}{% for x in missing %}x{% endfor %}{{ not missing }}{{ 1 in missing }}]",
    "undefined-attribute": "{{ missing.attr }}",
    "undefined-item": "{{ messages[0].nothing.more }}",
    "undefined-call": "{{ messages[0].nothing() }}",
    "undefined-function": "{{ nothing() }}",
    "undefined-key": "[{{ {}.a }}{{ {}['a'] }}{{ [][0] }}{{ 'abc'[9] }}{{ none.a }}{{ (1).a }}]{{ {'a': none}.a is none }}",
    "undefined-compare": "{{ missing < 1 }}",
    "access": "{{ {'a': {'b': [1, {'c': 2}]}}.a.b[1]['c'] }}{{ [[1, 2]].0.1 }}{{ 'abc'[-1] }}{{ (1, 2)[0] }}{{ {1: 'x'}[1] }}{{ {'a-b': 3}['a-b'] }}{{ {true: 't'}[1] }}",
    "methods-before-keys": "{{ custom['items'] if custom }}{% if custom %}{% for k, v in custom.items() %}{{ k }}={{ v }};{% endfor %}{% endif %}{{ {'keys': 1}.keys() }}{{ {'get': 5}['get'] }}{{ {'values': 7}.values()|list }}",
    "slices": "{{ messages[1:]|length }}{{ messages[:-1]|length }}{{ 'abcdef'[::-1] }}{{ 'abcdef'[1:5:2] }}{{ [1, 2, 3][-2:] }}{{ [1, 2, 3][5:] }}{{ (1, 2, 3)[:2] }}{{ 'añ日😀b'[1:4] }}{{ 'abc'[none:none] }}{{ [1, 2, 3][::-1][0] }}",
    "slices-of-ranges": "{{ range(9)[1:] }}{{ range(9)[::-2] }}{{ range(2, 9, 3)[1:5]|list }}",
    "subscript-empty": "{{ {(): 'e'}[] }}{{ [1][] is defined }}{{ {(1, 2): 't'}[1, 2] }}",
    "slice-of-undefined": "{{ missing[1:] }}",
    "slice-of-mapping": "{% set d = messages[0] %}{{ d[1:] }}",
    "literals": "{{ [1, 'a', none, true, 2.5, (1,), {}] }}{{ {'k': [1], 2: 'two', none: 0} }}{{ 1_000 }}{{ 0x1f }}{{ 0b11 }}{{ 1e3 }}{{ 1.5e-7 }}{{ True }}{{ None }}{{ 'q\"' }}{{ \"q'\" }}{{ [\"it's\", 'say \"x\"', '\\'\"'] }}{{ [1, 2,] }}",
    "escapes": "{{ 'a\\nb\\tc\\\\d\\'e\\x41\\u00e9\\U0001f600\\101\\q\\d' }}{{ ['\\n', '\\x00', '\\u200b', '\\u00e9', '\\xa0', '\\\\'] }}",
    "floats": "{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.0001 }} {{ 180.0 }} {{ 0.1 + 0.2 }} {{ 1e22 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ -0.0 }} {{ 100 / 3 }} {{ [1e16, 2.50] }} {{ 1e16 | tojson }} {{ 1e-7|tojson }}",
    "numbers-from-json": "{% for m in messages %}{{ m.weight }}{{ m.ids }}{{ m.ids | tojson if m.ids }}{% endfor %}",
    "division-by-zero": "{{ messages|length / 0 }}",
    "percent": "{{ '%s-%d-%5.2f-%x-%r-%%' % ('a', 5, 3.14159, 255, 'q') }}{{ '%s' % 'x' }}{{ '%(k)s' % {'k': 1} }}{{ '%05d|%-5s|' % (42, 'ab') }}",
    "format-specifiers": "{{ '{:>6}|{:<6}|{:^7}|{:*^7}|{:06.2f}|{:+d}|{:,}|{:x}|{:#b}|{:.1%}|{!r:>5}|{:05}|{:05}'.format('a', 'b', 'c', 'd', 3.14159, 5, 1234567, 255, 5, 0.25, 'q', -42, 's') }}",
    "format-sign-of-text": "{{ '{:+}'.format('a') }}",
    "percent-error": "{{ '%d' % 'a' }}",
    "call-arguments": "{{ dict(a=1, **{'b': 2}) }}{{ range(*[1, 4])|list }}{{ 'a,b,c'.split(',', maxsplit=1) }}",
    "parentheses": "{{ ((1 + 2)) * 3 }}{{ (1) }}{{ (1,) }}{{ ('a') }}{{ ((1, 2), 3) }}",
    # ---- repr ----
    "repr-of-message": "{{ messages[0] if messages }}|{{ messages[-1].content if messages }}|{{ [messages[-1].content] if messages }}",
    "repr-of-custom": "{{ custom }}{{ custom.A if custom }}{{ documents }}{{ date_string }}",
    "repr-of-views": "{{ {'a': 1}.items() }}{{ {'a': 1}.keys() }}{{ {'a': 1}.values() }}{{ range(3) }}{{ range(1, 9, 2) }}",
    "json-of-messages": "{{ messages | tojson }}\n{{ messages | tojson(ensure_ascii=true) }}",
    "json-options": "{{ {'b': [1, {}], 'a': 'é<>&\\'\"/\\u2028'} | tojson(sort_keys=true) }}{{ [1, [2]]|tojson(indent=1) }}{{ [1]|tojson(indent='\\t') }}{{ {'a': 1, 'b': 2}|tojson(separators=(',', ':')) }}{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}{{ (1, 2)|tojson }}{{ 'a'|tojson }}{{ none|tojson }}",
    "json-of-undefined": "{{ missing|tojson }}",
    "json-of-generator": "{{ messages|map(attribute='role')|tojson }}",
    # ---- filters ----
    "filters-text": "{{ ' aXb '|trim }}{{ 'aXb'|lower }}{{ 'aXb'|upper }}{{ 'hello wORLD-foo (bar)'|title }}{{ 'hELLO'|capitalize }}{{ 'a-b-a'|replace('a', 'x', 1) }}{{ 'xxaxx'|trim('x') }}{{ 5|string + 'a' }}",
    "filters-indent": "{{ 'a\\nb\\n\\nc\\n'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent('> ', blank=true) }}|{{ 'a\\nb'|indent(width=1, first=true) }}",
    "filters-of-content": "{% for m in messages %}{{ m.content|trim }}|{{ m.content|upper }}|{{ m.content|length }}|{{ m.content|string|title }}|{{ m.content|e }}\n{% endfor %}",
    "filters-list": "{{ [3, 1, 2]|sort }}{{ ['b', 'A', 'c']|sort|join(',') }}{{ [1, 1, 2]|unique|list }}{{ [1, 2, 3]|first }}{{ [1, 2, 3]|last }}{{ [1, 2, 3]|sum }}{{ [1, 5, 2]|max }}{{ [4, 2]|min }}{{ 'abc'|list }}{{ [1, 2, 3]|reverse|list }}{{ 'abc'|reverse }}{{ []|first }}{{ [1, 2, 3, 4, 5]|batch(2, 0)|list }}{{ [1, 2, 3]|slice(2)|list }}{{ {'b': 1, 'a': 2}|dictsort }}{{ {'b': 1}|items|list }}{{ [[1], [2]]|sum(start=[]) }}",
    "filters-select": "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}{{ messages|selectattr('role', 'eq', 'user')|map(attribute='content')|list }}{{ messages|rejectattr('role', 'in', ['user', 'system'])|map(attribute='role')|join('+') }}{{ messages|selectattr('tool_calls')|list|length }}{{ messages|selectattr('tool_calls', 'defined')|list|length }}{{ messages|map(attribute='name', default='-')|join }}{{ [1, 2, 3, 4]|select('even')|list }}{{ [1, 0, none, 'a']|select|list }}{{ [1, 2]|reject('eq', 2)|list }}",
    "filters-map": "{{ ['a', 'b']|map('upper')|join }}{{ [1, 2]|map('string')|list }}{{ ['a b', 'c']|map('replace', 'a', 'z')|list }}{{ [{'a': {'b': 1}}]|map(attribute='a.b')|first }}{{ messages|map('tojson')|join('\\n') }}",
    "filters-group": "{% for g in messages|groupby('role') %}{{ g.grouper }}:{{ g.list|length }}{{ g[0] }}{% endfor %}{% for role, group in messages|groupby('role') %}{{ role }}{{ group|map(attribute='content')|list }}{% endfor %}",
    "filters-sort": "{{ messages|sort(attribute='role')|map(attribute='role')|list }}{{ messages|sort(attribute='role', reverse=true)|map(attribute='role')|list }}{{ ['b', 'B', 'a']|sort(case_sensitive=true) }}{{ messages|map(attribute='role')|unique|sort|list }}",
    "filters-number": "{{ -5|abs }}{{ 2.5|round }}{{ 3.14159|round(2) }}{{ 3.7|round(0, 'floor') }}{{ 5|round }}{{ '42'|int }}{{ '4.9'|int }}{{ 'x'|int(7) }}{{ '1e3'|float }}{{ 'x'|float }}{{ none|int }}{{ true|int }}{{ '0x1f'|int(base=16) }}",
    "filters-default": "{{ missing|default('a') }}{{ ''|default('b', true) }}{{ none|default('c') }}{{ none|d('e', boolean=true) }}{{ messages[0].name|default('anon') if messages }}{{ missing|d }}",
    "filters-join": "{{ [1, none, 'x', missing, true]|join('|') }}{{ messages|join(', ', attribute='role') }}{{ 'abc'|join('-') }}{{ []|join(',') }}",
    "filters-safe": "{{ '<b>'|safe }}{{ '<b>'|e }}{{ ('<'|safe) + '<' }}{{ ('<'|safe) ~ '<' }}{{ ['a'|safe] }}{{ ('<%s>'|safe) % '&' }}{{ messages[0]|tojson|safe if messages }}",
    "markup-characters": "{{ ('ab'|safe)|list }}{{ ('a b'|safe).split() }}{{ ('ab'|safe)[0] is escaped }}{% for c in 'x'|safe %}{{ c is escaped }}{% endfor %}",
    "filter-of-none": "{{ none|trim }}{{ none|upper }}{{ none|string }}{{ none|replace('N', 'M') }}{{ none|join if false }}",
    "filter-unknown": "{{ 'a'|nonesuch }}",
    "filter-unknown-in-if": "{% if false %}{{ 'a'|nonesuch }}{% endif %}{{ ('a'|nonesuch) if false else 'ok' }}",
    "filter-unknown-in-loop-in-if": "{% if false %}{% for x in [1] %}{{ x|nonesuch }}{% endfor %}{% endif %}",
    "test-unknown": "{{ 'a' is nonesuch }}",
    "generator-is-true": "{% if messages|selectattr('role', 'equalto', 'nobody') %}true{% endif %}{% set g = messages|map(attribute='role') %}{{ g|list }}{{ g|list }}",
    "generator-length": "{{ messages|selectattr('role', 'equalto', 'user')|length }}",
    # ---- tests ----
    "tests": "{{ 1 is number }}{{ 1.0 is float }}{{ true is integer }}{{ 1 is integer }}{{ 'a' is string }}{{ [] is sequence }}{{ {} is mapping }}{{ {} is sequence }}{{ none is none }}{{ 1 is odd }}{{ 2 is even }}{{ 6 is divisibleby 3 }}{{ 'a' is lower }}{{ 'A' is upper }}{{ 1 is in [1] }}{{ 'a' is sameas 'b' }}{{ true is true }}{{ 0 is false }}{{ [] is iterable }}{{ 5 is iterable }}{{ 1 is eq 1 }}{{ 2 is gt 1 }}{{ range is callable }}{{ 'upper' is filter }}{{ 'odd' is test }}{{ true is boolean }}{{ 1 is not none }}{{ x is not defined }}{{ 'a' is escaped }}",
    "tests-of-content": "{% for m in messages %}{{ m.content is string }}{{ m.content is iterable }}{{ m.content is mapping }}{{ m.content is none }}{{ m.content is sequence }}{{ m.content is defined }}{{ m.tool_calls is defined and m.tool_calls is not none }};{% endfor %}",
    # ---- functions and methods ----
    "functions": "{{ range(3)|list }}{{ range(5, 1, -2)|list }}{{ range(2, 4)|list }}{{ dict(a=1, b=none) }}{{ dict([('x', 1)]) }}{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b",
    "range-too-big": "{{ range(100001) }}",
    "raise": "{% if not messages %}{{ raise_exception('no messages') }}{% endif %}{% if messages[0].role != 'user' %}{{ raise_exception('first must be user, not ' ~ messages[0].role) }}{% endif %}fine",
    "strftime": "{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }} {{ strftime_now('%A %B %j %y %I %p %U %w') }} {{ strftime_now('') }}|{{ strftime_now('%-d/%-m %e %%') }} {{ strftime_now is defined }} {{ datetime is defined }}",
    "methods-text": "{{ ' a '.strip() }}{{ 'xax'.strip('x') }}{{ 'xxa'.lstrip('x') }}{{ 'axx'.rstrip('x') }}{{ 'a b  c'.split() }}{{ 'a,b,c'.split(',') }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abab'.replace('a', 'x', 1) }}{{ 'it\\'s a dog'.title() }}{{ 'ab'.upper() }}{{ 'AB'.lower() }}{{ 'ab'.capitalize() }}{{ 'abcb'.find('b') }}{{ 'abcb'.rfind('b') }}{{ 'abcb'.count('b') }}{{ 'abc'.index('c') }}{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ 'a.b.c'.partition('.') }}{{ '-'.join(['a', 'b']) }}{{ 'a\\nb\\r\\nc'.splitlines() }}{{ '7'.zfill(3) }}{{ 'ab'.center(6, '*') }}{{ '{} {x:>3}'.format(1, x='y') }}{{ 'abc'.removeprefix('a') }}",
    "methods-of-content": "{% for m in messages if m.content is string %}{{ m.content.strip() }}|{{ m.content.split('\\n') }}|{{ m.content.split()|length }}|{{ m.content.upper().lower() }}|{{ m.content[:3] }}|{{ m.content.startswith('<') }}\n{% endfor %}",
    "methods-of-mappings": "{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.get('b', 2) }}{% for k, v in {'x': 1, 'y': 2}.items() %}{{ k }}{{ v }}{% endfor %}{{ {'a': 1}.keys()|list }}{{ 'a' in {'a': 1}.keys() }}{{ {'a': 1}.copy() }}{{ [1, 2, 1].count(1) }}{{ [1, 2].index(2) }}{{ messages[0].get('name', 'anon') if messages }}",
    "immutable-append": "{% set l = [] %}{{ l.append(1) }}",
    "immutable-update": "{% set d = {'a': 1} %}{{ d.update({'b': 2}) }}",
    "immutable-pop": "{{ messages.pop() }}",
    "sandbox": "{{ ''.__class__ is defined }}{{ {'__class__': 1}['__class__'] }}{{ messages.__len__ is defined }}",
    "sandbox-refuses": "{{ [].__class__.__mro__ }}",
    "strings-unicode": "{{ 'ΑΣΣ straße'.upper() }}{{ 'ΑΣΣ İ'.lower() }}{{ 'ﬁn ǆ'.title() }}{{ 'ﬁn'|capitalize }}{{ '日本語'|length }}{{ '😀e\\u0301'|list }}{{ '１２'|int }}{{ 'ß'.casefold() }}{{ 'aé日😀'|tojson(ensure_ascii=true) }}",
    # ---- faults ----
    "fault-unclosed-block": "{% for m in messages %}{{ m.role }}",
    "fault-unclosed-print": "{{ messages",
    "fault-unclosed-comment": "a{# b",
    "open-comment-at-the-end": "a{#",
    "fault-unclosed-string": "{{ 'abc }}",
    "fault-wrong-end": "{% if true %}{% endfor %}",
    "fault-bracket": "{{ (1, 2] }}",
    "fault-operator": "{{ 1 + }}",
    "fault-character": "{{ a ? b }}",
    "fault-chained-is": "{{ 1 is number is string }}",
    "fault-assign": "{% set 1 = 2 %}",
    "fault-keyword": "{{ dict(a=1, 2) }}",
    "fault-loop-target": "{% for loop in messages %}{% endfor %}",
    "fault-default-order": "{% macro f(a=1, b) %}{% endmacro %}",
}
SOURCES = {name: text[1:] if text.startswith("\n") else text for name, text in SOURCES.items()}
