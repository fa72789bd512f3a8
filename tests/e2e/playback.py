"""A model that plays answers back: an ordinary GGUF file with the demo model's tokenizer, whose weights contain a list of texts.

Each text is cut into pieces, each piece is a token of its own, and the embedding of a token is the code of its successor's state: attention and
MLP are zero, so that the last token alone determines the next one, at any temperature. The chat template ends the prompt with the token that
begins the answer, by the number of earlier assistant messages. A conversation without tools (a title), or whose last question is for a summary,
has its own list of answers; after "A summary: " the last answer follows.
The server computes such an answer as it computes any other: prompt, cache, constraints, calls, stop."""
import array
import functools
import struct

from conftest import MODEL
from ggufs import keys_and_tensors

WIDTH = 64
PIECE = 8                                               # characters of a token: markers and arguments cross its borders
SURE = 4.0                                              # a state's own logit is twice this times sqrt(32), 45, one that shares half of its code has half
CONTEXT = 262144
ENDLESS = "and so on, and on, "                        # repeated until something stops it
TEMPLATE = """\
{%- if tools %}<|im_start|>system
You may call these functions:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
Call them with <tool_call>{"name": ..., "arguments": ...}</tool_call>.<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% set turn = messages | selectattr("role", "equalto", "assistant") | list | length %}
{%- set asked = messages | selectattr("role", "equalto", "user") | list | last | default("") | tojson | lower %}
{%- set shortened = "A summary: " in messages | tojson %}
{%- set answers = $TOOLS if tools and (shortened or "summar" not in asked) else $PLAIN %}
{%- if shortened %}{% set turn = answers | length %}{% endif %}<|answer_{{ answers[[turn, answers | length - 1] | min] }}|>
{%- endif %}"""


@functools.cache
def tokenizer():
    keys, _, _ = keys_and_tensors(MODEL.read_bytes())
    return {k: v for k, v in keys.items() if k.startswith("tokenizer.ggml.")}


def letters(text):
    """Return the text with each byte as the letter that byte-level vocabularies have for it."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return "".join(chr(b) if b in plain else chr(256 + other.index(b)) for b in text.encode())


def key(name, value):
    """Return a key of a GGUF file with its value."""
    def text(t):
        return struct.pack("<Q", len(t.encode())) + t.encode()
    def plain(v):
        return (bytes([v]) if isinstance(v, bool) else struct.pack("<I", v) if isinstance(v, int) else struct.pack("<f", v) if isinstance(v, float) else text(v))
    def kind(v):
        return 7 if isinstance(v, bool) else 4 if isinstance(v, int) else 6 if isinstance(v, float) else 8
    if isinstance(value, list):
        return text(name) + struct.pack("<IIQ", 9, kind(value[0]), len(value)) + b"".join(plain(v) for v in value)
    return text(name) + struct.pack("<I", kind(value)) + plain(value)


def code(state):
    """Return the two positions that are 1 in the code of a state."""
    return state // (WIDTH // 2), WIDTH // 2 + state % (WIDTH // 2)


def pieces(text, used):
    """Cut a text into pieces that no text has yet: a token has one successor."""
    cut, at = [], 0
    while at < len(text):
        n = PIECE
        while letters(text[at:at + n]) in used and at + n < len(text):
            n += 1
        cut.append(letters(text[at:at + n]))
        used.add(cut[-1])
        at += n
    while len(cut) > 1 and cut.count(cut[-1]) > 1:
        cut[-2:] = ["".join(cut[-2:])]
    assert len(set(cut)) == len(cut), text
    return cut


def write(path, with_tools, without_tools):
    """Write the model that answers with the texts of `with_tools`, one after another, where the request has tools, and with those of
    `without_tools` otherwise."""
    texts = list(dict.fromkeys([*with_tools, *without_tools]))
    vocabulary = tokenizer()
    tokens, kinds = list(vocabulary["tokenizer.ggml.tokens"]), list(vocabulary["tokenizer.ggml.token_type"])
    ids, used = {t: i for i, t in enumerate(tokens)}, set()
    leads, head = {}, [(vocabulary["tokenizer.ggml.eos_token_id"], 0)]      # token → state after it; token, state before it
    states = 1                                          # state 0: the end follows
    for i, text in enumerate(texts):
        last, begin = len(tokens), states
        tokens.append(f"<|answer_{i}|>")
        kinds.append(3)
        for piece in pieces(text, used):
            leads[last] = states
            if piece not in ids:
                ids[piece] = len(tokens)
                tokens.append(piece)
                kinds.append(1)
            last = ids[piece]
            head.append((last, states))
            states += 1
        leads[last] = begin if text == ENDLESS else 0
    assert states <= (WIDTH // 2) ** 2, states
    rows, scores = array.array("f", bytes(4 * WIDTH * len(tokens))), array.array("f", bytes(4 * WIDTH * len(tokens)))
    for token in range(len(tokens)):
        for at in code(leads.get(token, 0)):
            rows[token * WIDTH + at] = 1.0
    for token, state in head:
        for at in code(state):
            scores[token * WIDTH + at] = SURE
    zero = bytes(4 * WIDTH * WIDTH)
    ones = array.array("f", [1.0] * WIDTH).tobytes()
    tensors = {"token_embd.weight": ([WIDTH, len(tokens)], rows.tobytes()), "output.weight": ([WIDTH, len(tokens)], scores.tobytes()),
               "output_norm.weight": ([WIDTH], ones), "blk.0.attn_norm.weight": ([WIDTH], ones), "blk.0.ffn_norm.weight": ([WIDTH], ones)}
    tensors |= {f"blk.0.{name}.weight": ([WIDTH, WIDTH], zero) for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}
    template = TEMPLATE.replace("$TOOLS", str([texts.index(t) for t in with_tools])).replace("$PLAIN", str([texts.index(t) for t in without_tools]))
    keys = {"general.architecture": "llama", "general.name": "playback", "llama.block_count": 1, "llama.context_length": CONTEXT, "llama.embedding_length": WIDTH,
            "llama.feed_forward_length": WIDTH, "llama.attention.head_count": 1, "llama.attention.head_count_kv": 1,
            "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": len(tokens), "llama.rope.dimension_count": WIDTH,
            **vocabulary, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds, "tokenizer.chat_template": template}
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
        f.write(b"".join(key(name, value) for name, value in keys.items()))
        at = 0
        for name, (dims, data) in tensors.items():
            f.write(struct.pack("<Q", len(name)) + name.encode() + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, at))
            at += (len(data) + 31) // 32 * 32
        for _, data in tensors.values():
            f.write(bytes(-f.tell() % 32) + data)
    return path
