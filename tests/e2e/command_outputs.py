"""What the commands in docs/study/report.md and docs/dev/checklist.md must print: text that no other kind of output contains. White space
counts as one space."""
import re

VERIFIED = "tools/oracle/make.py {}, seed {} rows {} relative error"

OUTPUTS = {
    # one model
    "inspect llama-3.2-3b": "→ + ⟧ ×28 → RMSNorm → head (tied) → logits parameters count share embedding = head 394,002,432 12.26 %",
    "inspect llama-3.2-3b --view info": "num_hidden_layers 28 num_attention_heads 24 num_key_value_heads 8 (GQA) head_dim 128",
    "inspect deepseek-v2 --view info": "attention MLA kv_lora_rank 512 q_lora_rank 1,536",
    "inspect llama-3.2-3b --layer 0": "model.layers.0 LlamaDecoderLayer [T, 3072] → [T, 3072] 100,669,440 parameters",
    "inspect llama-3.2-3b --layer 27": "model.layers.27 LlamaDecoderLayer [T, 3072] → [T, 3072] 100,669,440 parameters",
    "inspect deepseek-v2 --view cards": "heads one latent of 576 values per token and layer is cached for 128 heads",
    "inspect llama-3.2-3b --view torchinfo": "Total mult-adds: 12,853,051,392",
    "inspect llama-3.2-3b --view torchinfo --tokens 16": "multiply-adds of all 16 tokens, scores included",
    "inspect llama-3.2-3b --view torchinfo --torchinfo-compat": "Total mult-adds (Units.GIGABYTES): 3.61",
    "inspect llama-3.2-3b --view params": "q_proj 9,437,184 28 264,241,152 8.225 %",
    "inspect qwen2.5-3b --view tree": "(0-35): 36 x Qwen2DecoderLayer(",
    "inspect llama-3.2-3b --view memory": "bf16 6,425,499,648 6.43 GB (5.98 GiB) 16.00",
    "inspect llama-3.2-3b --view flops": "matrix products 6,425,149,440 100.00 %",
    "inspect mistral-7b-v0.1 --view kv": "GQA+SWA: 65,536 elements per token, 131,072 bytes as f16.",
    "inspect llama-3.2-3b --query parameters.shares": '"attention": 21.93270906860378',
    "inspect llama-3.2-3b --query memory": '"kv": 15032385536',
    "inspect llama-3.2-3b --query kv.bytes_at_context --query kv.at[8192].bytes": "15032385536 939524096",
    "inspect llama-3.2-3b --query tuning": '"lora": { "trainable": 24313856',
    "inspect llama-3.2-3b --query tuning.lora.trainable": re.compile("24313856"),
    "inspect llama-3.2-3b --json": '"container": "preset"',
    "inspect llama-3.2-3b --lang zh-Hant": "嵌入 = 輸出頭 394,002,432",
    "inspect tests/golden/qwen2/biases/config.json": "qwen2 · 2 layers · GQA 6:2 · 128 context",
    "inspect MODEL": "llama · 30 layers · GQA 9:3 · 8,192 context gguf,",
    "inspect MODEL --query memory.total": re.compile(r"\d{9}"),              # part of it is per worker
    'inspect "DeepSeek 2.6875"': "DeepSeek LLM 7B llama · 30 layers · MHA 32 · 4,096 context",
    'presets "granite 3b"': "granite-3b-code-base llama 3,482,503,680 32 2560 32 2,048",
    # components
    "explain --diagram flow llama-3.2-3b --md": 'n1["embed_tokens<br/>a row of 128,256 × 3,072"]',
    "explain --diagram end-to-end llama-3.2-1b": "o embedding 128,256 × 2,048 o 16 decoder layers GQA, SwiGLU o final norm",
    "explain --diagram heads llama-3.2-3b": "MHA 24 key/value heads Q1 → KV1 Q2 → KV2 … Q24 → KV24 GQA 8 key/value heads (this model)",
    "explain --diagram mla deepseek-v2": "| o W_DKV, W_KR latent and shared key, 5,120 → 512 + 64 | +-. | o | W_UK keys of every head",
    "explain --diagram mla deepseek-v2 --md": 'subgraph g1["absorbed form (this model as it runs)"]',
    "explain --diagram spectrum llama-3.2-1b": "pair radians scaled positions for a turn 0 1 1 6.3",
    "explain --diagram mlp llama-3.2-1b --md": 'n3["SiLU(gate) ⊙ up<br/>8,192 dimensions"]',
    "explain --diagram moe deepseek-v2 --md": "softmax, best 6 of 160<br/>from the best 3 of 8 groups",
    "explain --diagram moe mixtral-8x7b": "o | | | | softmax, best 2 of 8 weights divided by their sum",
    "explain --diagram norm gpt2": "o 4. multiply by 768 weights o 5. add 768 biases",
    "explain kv llama-3.2-3b --context 8192": "at_context = bytes_per_token · tokens = 114,688 · 8,192 = 939,524,096 bytes",
    "explain kv llama-3.2-3b --md": "# The key/value cache: Llama 3.2 3B",
    "explain kv llama-3.2-3b --lang my": "ဤ model ၏ ကိန်းများဖြင့်",
    'explain kv --prompt "I love AI" --md': 'T->>M: step 2, " love" at position 1',
    'explain kv MODEL --prompt "I love AI"': "[k1 v1] [k2 v2] [k3 v3] 69.1 kB",
    "explain gqa llama-3.2-3b": "Grouped-query attention · Llama 3.2 3B H query heads share G key/value heads",
    "explain attention llama-3.2-3b --md": r"\text{Attention}(\mathbf{Q}, \mathbf{K}, \mathbf{V}) = \text{softmax}",
    "explain flops llama-3.2-3b": "tokens = 131,072 S: tokens of context that it attends to",
    "explain flops llama-3.2-3b --context 4096": "tokens = 4,096 S: tokens of context that it attends to",
    "explain swiglu llama-3.2-1b": "parity = 2 · 4 · hidden / 3 = 2 · 4 · 2,048 / 3",
    "explain residual llama-3.2-1b": "The residual stream · Llama 3.2 1B The hidden state of a token is a running sum.",
    "explain norm gpt2": "Normalisation · GPT-2 RMSNorm divides a row by its root mean square",
    "explain moe deepseek-v2": "visited = top_k · expert = 6 · 23,592,960 = 141,557,760 parameters",
    "explain --code llama-3.2-1b": "for i in range(16): x = layer(x, i)",
    "explain --code deepseek-v2 --in numpy": "import numpy as np",
    "explain --code rope llama-3.2-1b": "llama3's rule: waves shorter than 2048 tokens stay",
    'explain forward MODEL --prompt "The capital of France is"': "softmax(scale · Q Kᵀ + mask) V",
    "explain params mistral-7b-v0.1": "lm_head = hidden · vocab = 4,096 · 32,000 = 131,072,000 parameters",
    "estimate mistral-7b-v0.1": "Estimates and the exact count · Mistral 7B v0.1",
    "estimate --hidden 4096 --layers 32 --heads 32 --kv-heads 8 --ffn 14336 --vocab 32000": "the exact count · a model of these sizes",
    "estimate --from-tree tests/golden/explain/trees/qwen2.5-3b.txt --config": '"intermediate_size": 11008, "num_hidden_layers": 36',
    # several models
    "compare llama-3.2-3b llama-3.1-8b --view specification": "parameters 3,212,749,824 8,030,261,248 ×2.5 +149.9 %",
    "compare llama-3.1-8b llama-3.2-3b": "parameters 8,030,261,248 3,212,749,824 ×0.4 -60.0 %",
    "compare gpt2 llama-3.2-1b --lang zh-Hans": "参数 124,439,808 1,235,814,400 ×9.93 +893.1 %",
    "compare llama-3.2-1b mistral-7b-v0.1 deepseek-v2 --view kv": "bytes per token 32,768 B 131,072 B 69,120 B",
    "compare gpt2 llama-3.2-1b --view embedding": "embedding parameters 39,383,808 262,668,288 ×6.67 +566.9 %",
    "compare gpt2 mistral-7b-v0.1 deepseek-v2 --view attention": "attention type MHA GQA+SWA MLA",
    "compare gpt2 bloom-7b1 llama-3.2-1b --view position": "position method Learned ALiBi RoPE+llama3",
    "compare gpt2 llama-3.2-1b mixtral-8x7b --view mlp": "MLP type GELU SwiGLU SwiGLU+MoE",
    "compare gpt2 llama-3.2-1b --view norm": "norm type LayerNorm RMSNorm norm position Pre Pre",
    "compare openai-gpt gpt2 llama-3.2-1b --view norm --md": "| block | N(x + f(x)) | x + f(N(x)) | x + f(N(x)) |",
    "compare gpt2 mistral-7b-v0.1 deepseek-v2 granite-3b-code-base --view summary":
        "parameters 124,439,808 7,241,732,096 235,741,434,880 3,482,503,680",
    "compare --history": "trends: first of these models with each feature attention 2017 MHA (Transformer) → 2022 MQA (PaLM) → 2023 GQA (Llama 2 70B)",
    "compare --history --view timeline": "2018-06 ● GPT (2018) MHA GELU LayerNorm, Post Learned",
    "compare --history --view trends --md": 'N0_0["2017 MHA<br>Transformer"]',
    # memory and devices
    "fit llama-3.2-3b --device rtx-4090": "Llama 3.2 3B on GeForce RTX 4090, 25.8 GB (24.0 GiB) fits in f16",
    "fit llama-3.2-1b --device all": "the highest precision that fits, maximum speeds",
    "fit llama-3.1-8b --device rtx-4090 --throughput --price 0.4": "sequences cache takes together each a million tokens",
    "fit --fleet llama-3.2-1b qwen2.5-3b gpt2 --ram 32G": "3 models at once on this machine, 32.0 GB (29.8 GiB) free",
    "fit MODEL --ram 1G": "on this machine, 1.00 GB (0.9 GiB) free fits as stored",
    "devices --kind phone": "iphone-15-pro iPhone 15 Pro (A17 Pro) 8 GiB 51.2 GB/s",
    # reports
    "report llama-3.2-3b --format md": "| `model.embed_tokens` | | Embedding | 394,002,432 | 1.58 GB |",
    "report llama-3.2-3b --format md -o -": "# Llama 3.2 3B preset,",
    "report llama-3.2-3b --format html -o -": "<title>Llama 3.2 3B</title>",
    "report llama-3.2-1b --format txt": "weights of the key and value projections 8,388,608 2,097,152",
    "compare llama-3.2-3b deepseek-v2 --view kv": "in a layer, as MLA – 576",
    "report llama-3.2-1b --format md": r"u_\ell &= h_{\ell-1} + \mathrm{Attn}(\mathrm{Norm}_{\ell,1}(h_{\ell-1}))",
    "report mistral-7b-v0.1 --format md": "At 32,768 tokens the cache takes 537 MB, less than the weights as Q4_K_M (4.37 GB).",
    # running
    'tokenize MODEL -p "I love AI"': "57 I 2606 Ġlove 5646 ĠAI",
    'run MODEL --raw -p "The capital of France is" -n 4 --temp 0 --logprobs 3 --json': r'"text": " Paris.\n\n", "stop_reason": "length"',
    'run MODEL --raw -p "The capital of France is" -n 2 --temp 0': "Paris",
    "bench MODEL -p 16 -n 4 -r 1": "| backend | threads | test | t/s |",
    "audit tests/golden/facts/facts.tsv": "716 statements: 362 confirmed, 73 rounded, 75 wrong, 206 not checkable",
    "audit tests/golden/facts/facts.tsv --json": '"not_checkable": 206',
    "verify tests/golden/llama/gqa tests/golden/llama/gqa/golden.safetensors --json": '"bitwise": { "chunked": true, "stepwise": true }',
    **{f"verify tests/golden/{name} tests/golden/{name}/golden.safetensors{flags}": VERIFIED.format(name, seed, rows)
       for name, flags, seed, rows in [
           ("llama/mha-tied", "", 0, 12), ("llama/mqa", "", 1, 12), ("llama/gqa", "", 0, 24), ("llama/rope-yarn", "", 0, 24),
           ("deepseek_v2/groups", "", 0, 24), ("deepseek_v2/groups", " --mla naive", 0, 24), ("mistral/window", "", 0, 24),
           ("bloom/alibi", "", 6, 12), ("openai-gpt/post-norm", "", 14, 12), ("gpt2/plain", "", 24, 12)]},
}


def is_output_of(command, stdout):
    """Return whether `stdout` is output that `lamina COMMAND` must print."""
    text, printed = OUTPUTS[command], " ".join(stdout.split())
    return text.fullmatch(printed) if isinstance(text, re.Pattern) else text in printed
