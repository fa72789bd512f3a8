/* foreign.c - the flags of llama.cpp and ollama, each with the reason why lamina lacks it.
 *
 * The names are those of their --help. docs/guide/coming-from.md is generated from these tables. */
#include "cli/base/foreign.h"

#define GPU "computation runs on the CPU only"
#define PLACE "threads are placed by the system; taskset and nice change that"
#define LOG "there is no log; notes go to standard error, -q hides them and -v adds more"
#define DOWNLOAD "-hf ORG/NAME:TYPE or ORG/NAME:FILE.gguf fetches from the hub; a token is in HF_TOKEN"
#define STEERING "lamina trace --add applies a control vector"
#define YARN "YaRN parameters are taken from the model"
#define MEDIA "input is text only"
#define LOAD "files are mapped; --no-mmap reads them, --mlock locks the weights"
#define WRAP "the chat template sets what surrounds a message"
#define SHIFT "a full context ends the answer; -c makes it larger"
#define CACHE "prompts are not saved to files"
#define DRAFT_CACHE "the draft model uses the options of the model"
#define DRAFTS "lamina run proposes tokens with --draft-ngram or --model-draft"
#define CLIENT "tools run in clients; requests name them"
#define ORIGINS "--cors-origins allows web pages of an origin, with every method and header of the API"
#define THINK \
    "lamina run --chat-template-kwargs '{\"enable_thinking\": false}' does without it; " \
    "lamina serve has --reasoning"
#define REQUESTED \
    "lamina run has --chat-template-kwargs; " \
    "requests to lamina serve have \"reasoning_effort\" and \"chat_template_kwargs\""
#define ARITHMETIC \
    "--compute chooses the arithmetic, -ctk and -ctv the type of the KV cache; " \
    "weights keep the type of the file"
#define QUANTIZE "lamina quantize writes a smaller file"

static const char *const on_off[] = {
    "on", "off", "auto", "0", "1", "true", "false", "enabled", "disabled", NULL,
};

static const lm_foreign_flag llamacpp[] = {
    /* accepted with a note: no effect on an answer */
    { "-ngl --gpu-layers --n-gpu-layers", 1, NULL, true, GPU },
    { "-dev --device", 1, NULL, true, GPU },
    { "-sm --split-mode", 1, NULL, true, GPU },
    { "-ts --tensor-split", 1, NULL, true, GPU },
    { "-mg --main-gpu", 1, NULL, true, GPU },
    { "-ot --override-tensor", 1, NULL, true, GPU },
    { "-cmoe --cpu-moe", 0, NULL, true, GPU },
    { "-ncmoe --n-cpu-moe -ncffn --n-cpu-ffn", 1, NULL, true, GPU },
    { "-kvo --kv-offload -nkvo --no-kv-offload", 0, NULL, true, GPU },
    { "--op-offload --no-op-offload --no-host", 0, NULL, true, GPU },
    { "-fa --flash-attn", 0, on_off, true, "attention has one form, with the same result" },
    { "-fit --fit", 0, on_off, true, "a model that does not fit is rejected; -c auto chooses the context" },
    { "-fitt --fit-target -fitc --fit-ctx", 1, NULL, true, "-c auto leaves what the system needs" },
    { "--jinja", 0, NULL, true, "chat templates are always Jinja" },
    { "-co --color", 0, on_off, true, "text is not coloured; --no-color also covers messages" },
    { "-st --single-turn", 0, NULL, true, "lamina run answers once and ends" },
    { "--warmup --no-warmup", 0, NULL, true, "there is no warm-up run" },
    { "--perf --no-perf --show-timings --no-show-timings", 0, NULL, true,
      "timing is one line on standard error; -q leaves it out" },
    { "--keep", 1, NULL, true, "the context is never shifted, so the whole prompt stays in it" },
    { "--no-context-shift", 0, NULL, true, "the context is never shifted" },
    { "--no-display-prompt", 0, NULL, true, "the prompt is never printed" },
    { "--simple-io", 0, NULL, true, "input that is not a terminal is read as it is" },
    { "--repack", 0, NULL, true, "weights are repacked by default" },
    { "--mmap", 0, NULL, true, "files are mapped by default" },
    { "-dio --direct-io -ndio --no-direct-io", 0, NULL, true, LOAD },
    { "--numa", 1, NULL, true, PLACE },
    { "-C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll", 1, NULL, true, PLACE },
    { "-Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch",
      1, NULL, true, PLACE },
    { "-dt --defrag-thold", 1, NULL, true, "the cache is paged and needs no defragmentation" },
    { "--swa-full", 0, NULL, true, "the result does not depend on the size of the sliding-window cache" },
    { "-kvu --kv-unified -no-kvu --no-kv-unified", 0, NULL, true, "the cache is shared by all sequences" },
    { "-cram --cache-ram -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step",
      1, NULL, true,
      "processed tokens stay in the cache while the program runs" },
    { "-np --parallel", 1, NULL, true, "there is one sequence" },
    { "-bs --backend-sampling", 0, NULL, true, GPU },
    { "--cache-idle-slots --no-cache-idle-slots", 0, NULL, true,
      "processed tokens stay in the cache while the program runs" },
    { "-lzm --lazy-mode", 1, NULL, true, LOAD },
    { "-ptc --print-token-count", 1, NULL, true, "the line of timing has the number of tokens" },
    { "--mmproj-auto --no-mmproj --no-mmproj-auto --mmproj-offload --no-mmproj-offload",
      0, NULL, true, MEDIA },
    { "--image-min-tokens --image-max-tokens --mtmd-batch-max-tokens", 1, NULL, true, MEDIA },
    { "--video-fps --video-timestamp-interval --video-ffmpeg-dir", 1, NULL, true, MEDIA },
    { "--no-agent -no-ag --no-ui-mcp-proxy --no-webui-mcp-proxy", 0, NULL, true, CLIENT },
    { "--models-autoload", 0, NULL, true, "lamina serve loads several models when requests name them" },
    { "--log-disable --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps --no-log-jsonl",
      0, NULL, true, LOG },
    { "--log-colors", 0, on_off, true, LOG },
    { "-lv --verbosity --log-verbosity", 1, NULL, true, LOG },
    { "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl -devd --device-draft "
      "--spec-draft-device",
      1, NULL, true, GPU },
    { "-otd --override-tensor-draft --spec-draft-override-tensor", 1, NULL, true, GPU },
    { "-ncmoed --n-cpu-moe-draft --spec-draft-n-cpu-moe --spec-draft-ncmoe", 1, NULL, true, GPU },
    { "-cmoed --cpu-moe-draft --spec-draft-cpu-moe --spec-draft-backend-sampling "
      "--no-spec-draft-backend-sampling",
      0, NULL, true, GPU },
    { "-Cd --cpu-mask-draft --spec-draft-cpu-mask -Crd --cpu-range-draft --spec-draft-cpu-range",
      1, NULL, true, PLACE },
    { "--cpu-strict-draft --spec-draft-cpu-strict --prio-draft --spec-draft-prio --poll-draft "
      "--spec-draft-poll",
      1, NULL, true, PLACE },
    { "-Cbd --cpu-mask-batch-draft --spec-draft-cpu-mask-batch", 1, NULL, true, PLACE },
    { "-Crbd --cpu-range-batch-draft --spec-draft-cpu-range-batch", 1, NULL, true, PLACE },
    { "--cpu-strict-batch-draft --spec-draft-cpu-strict-batch --prio-batch-draft --spec-draft-prio-batch",
      1, NULL, true, PLACE },
    { "--poll-batch-draft --spec-draft-poll-batch", 1, NULL, true, PLACE },
    { "-td --threads-draft -tbd --threads-batch-draft --spec-draft-threads --spec-draft-threads-batch",
      1, NULL, true, DRAFT_CACHE },
    { "-ctkd --cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft --spec-draft-type-v",
      1, NULL, true, DRAFT_CACHE },
    { "-cd --ctx-size-draft --spec-draft-ctx-size", 1, NULL, true, DRAFT_CACHE },
    { "-cb --cont-batching", 0, NULL, true, "sequences are always generated together" },
    { "-sps --slot-prompt-similarity", 1, NULL, true,
      "each request starts from the longest cached prefix, whatever its slot" },
    { "--cache-reuse", 1, NULL, true, "the longest cached prefix is used again, as far as it is the same" },
    { "--cache-prompt", 0, NULL, true, "prefixes of prompts are cached by default" },
    { "--ui --webui", 0, NULL, true, "lamina serve has a page for browsers at / by default" },
    { "--rerank --reranking", 0, NULL, true, "lamina serve ranks documents whenever the model can" },
    { "--reuse-port", 0, NULL, true, "lamina serve listens alone at its address" },
    { "--prefill-assistant", 0, NULL, true, "an answer continues a final assistant message" },

    /* rejected by name: they would change the answer */
    { "--offline", 0, NULL, false,
      "HF_HUB_OFFLINE=1 in the environment forbids downloads; only -hf and lamina pull make them" },
    { "-sysf --system-prompt-file", 1, NULL, false, "use -sys \"$(cat FILE)\"" },
    { "-o --output --output-file", 1, NULL, false, "the text goes to standard output; >FILE stores it" },
    { "--server-base", 1, NULL, false,
      "models run in this program; lamina serve is for clients of its HTTP routes" },
    { "--kv-unified-per-slot", 1, NULL, false, "lamina serve: -c is the context of each request" },
    { "-ag --agent --ui-mcp-proxy --webui-mcp-proxy", 0, NULL, false, CLIENT },
    { "--tools --tools-runtime --mcp-servers-config --mcp-servers-json", 1, NULL, false, CLIENT },
    { "--cors-methods --cors-headers", 1, NULL, false, ORIGINS },
    { "--cors-credentials --no-cors-credentials", 0, NULL, false, ORIGINS },
    { "--ui-config --webui-config --ui-config-file --webui-config-file", 1, NULL, false,
      "the web page has no settings in files" },
    { "--models-preset", 1, NULL, false,
      "lamina serve: --models-dir DIR offers its models; flags are those of all models" },
    { "--no-models-autoload", 0, NULL, false, "lamina serve loads several models when requests name them" },
    { "--sleep-idle-seconds", 1, NULL, false, "lamina serve: --keep-alive SECONDS unloads an idle model" },
    { "--spm-infill", 0, NULL, false, "POST /infill of lamina serve writes prefix, suffix, middle" },
    { "--embd-normalize", 1, NULL, false,
      "lamina embed has --normalize and --no-normalize; requests to lamina serve have \"embd_normalize\"" },
    { "--reasoning-effort", 1, NULL, false, REQUESTED },
    { "--reasoning-preserve --no-reasoning-preserve", 0, NULL, false, REQUESTED },
    { "--skip-chat-parsing --no-skip-chat-parsing", 0, NULL, false,
      "lamina run never parses an answer; lamina serve returns plain text from POST /completion" },
    { "--log-jsonl", 0, NULL, false, LOG },
    { "--log-prompts-dir", 1, NULL, false, LOG },
    { "-hfd -hfrd --hf-repo-draft --spec-draft-hf", 1, NULL, false,
      "lamina run -md ORG/NAME takes a model of the cache; lamina pull downloads it" },
    { "--spec-default", 0, NULL, false, DRAFTS },
    { "--spec-synth-len --spec-synth-rates --spec-ngram-size-m --spec-ngram-min-hits",
      1, NULL, false, DRAFTS },
    { "--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match", 1, NULL, false, DRAFTS },
    { "--spec-ngram-simple-size-n --spec-ngram-simple-size-m --spec-ngram-simple-min-hits",
      1, NULL, false, DRAFTS },
    { "--spec-ngram-map-k-size-n --spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits",
      1, NULL, false, DRAFTS },
    { "--spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits",
      1, NULL, false, DRAFTS },
    { "--embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default "
      "--fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default",
      0, NULL, false, DOWNLOAD },
    { "--gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default",
      0, NULL, false, DOWNLOAD },
    { "-nocb --no-cont-batching", 0, NULL, false,
      "sequences are always generated together; --parallel 1 generates one at a time" },
    { "--props", 0, NULL, false, "the properties of a server do not change while it runs" },
    { "--path --media-path", 1, NULL, false,
      "lamina serve serves its own routes only, at their paths" },
    { "--no-prefill-assistant", 0, NULL, false,
      "requests say how an answer begins: \"continue_final_message\"" },
    { "--models-max", 1, NULL, false, "--mem-limit bounds the models that are loaded" },
    { "--no-jinja", 0, NULL, false,
      "chat templates are always Jinja; --chat-template-file gives another one" },
    { "--context-shift", 0, NULL, false, SHIFT },
    { "--display-prompt", 0, NULL, false, "the prompt is not printed; --json has it" },
    { "-i --interactive -if --interactive-first", 0, NULL, false, "lamina chat holds a conversation" },
    { "-mli --multiline-input", 0, NULL, false,
      "lamina chat: \"\"\" begins and ends a message of several lines" },
    { "--in-prefix --in-suffix", 1, NULL, false, WRAP },
    { "--in-prefix-bos", 0, NULL, false, WRAP },
    { "-gan --grp-attn-n -gaw --grp-attn-w", 1, NULL, false,
      "self-extend is not available; --rope-scaling extends the context" },
    { "--control-vector --control-vector-scaled --control-vector-layer-range", 1, NULL, false, STEERING },
    { "-jf --json-schema-file", 1, NULL, false,
      "lamina run has --json-schema @FILE; requests to lamina serve have \"response_format\"" },
    { "--override-kv", 1, NULL, false,
      "metadata cannot be overridden; --rope-..., --sliding-window and --pre change what they name" },
    { "--check-tensors", 0, NULL, false, "values of weights are not checked" },
    { "--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast", 1, NULL, false, YARN },
    { "--adaptive-target --adaptive-decay", 1, NULL, false,
      "the sampler is not available; --samplers lists those that are" },
    { "--sampler-seq --sampling-seq", 1, NULL, false, "use --samplers, which has them by name" },
    { "-lm --load-mode", 1, NULL, false, LOAD },
    { "-hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo", 1, NULL, false, DOWNLOAD },
    { "-bf --binary-file", 1, NULL, false, "lamina run -f reads a file of any bytes" },
    { "--prompt-cache -lcs --lookup-cache-static -lcd --lookup-cache-dynamic", 1, NULL, false, CACHE },
    { "--prompt-cache-all --prompt-cache-ro", 0, NULL, false, CACHE },
    { "--mmproj --mmproj-url --image --audio --video", 1, NULL, false, MEDIA },
    { "--rpc", 1, NULL, false, "lamina cluster plans and runs a model on several machines" },
    { "--log-file", 1, NULL, false, "there is no log; 2>FILE stores standard error" },
    { "--reasoning-format -rea --reasoning --reasoning-budget-message", 1, NULL, false,
      "lamina run writes thinking as part of the text, with --chat-template-kwargs for the template; "
      "requests say it to lamina serve" },
    { "--spec-type", 1, NULL, false, DRAFTS },
    { "--draft-min --draft-n-min --spec-draft-n-min --draft-p-min --spec-draft-p-min --draft-p-split "
      "--spec-draft-p-split",
      1, NULL, false,
      "lamina run: --draft-max alone limits the proposed tokens" },
    { "--list-devices", 0, NULL, false, "lamina doctor describes this machine" },
    { "-cl --cache-list", 0, NULL, false, "lamina doctor lists the models of the cache" },
    { "--completion-bash", 0, NULL, false, "make install installs completions" },
    { "--version", 0, NULL, false, "use lamina version" },
    { "--usage", 0, NULL, false, "use --help" },
    { 0 },
};

static const lm_foreign_flag ollama[] = {
    { "--keepalive", 1, NULL, true, "lamina run ends with its answer; lamina serve has --keep-alive" },
    { "--nowordwrap", 0, NULL, true, "text is not wrapped" },

    { "--format", 1, NULL, false,
      "lamina run --json-schema '{}' answers with JSON; requests to lamina serve have \"format\"" },
    { "--think --hidethinking", 0, NULL, false, THINK },
    { "--insecure", 0, NULL, false,
      "downloads use HTTPS; HF_ENDPOINT=http://ADDRESS names a hub without it" },
    { "--dimensions", 1, NULL, false, "lamina embed writes whole vectors" },
    { "--truncate", 0, NULL, false,
      "a text longer than the context is an error; -c makes the context larger" },
    { "--num-ctx", 1, NULL, false, "use -c" },
    { "--num-predict", 1, NULL, false, "use -n" },
    { "--num-thread", 1, NULL, false, "use -t" },
    { "--num-gpu", 1, NULL, false, GPU },
    { 0 },
};

static const lm_foreign_flag transformers[] = {
    { "--trust-remote-code --use-cache --use-fast", 0, NULL, true,
      "no code of a model is run, and the KV cache is always used" },
    { "--attn-implementation", 1, NULL, true, "attention has one form, with the same result" },
    { "--device-map", 1, NULL, true, GPU },

    { "--max-new-tokens --max-length --max-tokens", 1, NULL, false, "use -n" },
    { "--do-sample", 0, NULL, false, "--temp above 0 samples; --temp 0 is greedy" },
    { "--num-beams", 1, NULL, false, "beam search is not available; --temp 0 is greedy" },
    { "--repetition-penalty", 1, NULL, false, "use --repeat-penalty" },
    { "--no-repeat-ngram-size", 1, NULL, false, "lamina run --dry-multiplier 1 avoids repeated sequences" },
    { "--stop-strings", 1, NULL, false, "use -r" },
    { "--model-name-or-path --model-name --model-id", 1, NULL, false, "use -m" },
    { "--dtype --torch-dtype --bnb-4bit-quant-type", 1, NULL, false, ARITHMETIC },
    { "--load-in-4bit --load-in-8bit", 0, NULL, false, QUANTIZE },
    { "--model-revision", 1, NULL, false, "use -hf ORG/NAME@REVISION" },
    { 0 },
};

const lm_foreign_program lm_foreign_programs[] = {
    { "llama.cpp", llamacpp }, { "ollama", ollama }, { "transformers", transformers }, { NULL, NULL },
};

const lm_foreign_flag *lm_foreign_find(const char *name, const char **program)
{
    for (const lm_foreign_program *p = lm_foreign_programs; p->name; p++)
        for (const lm_foreign_flag *f = p->flags; f->names; f++)
            if (lm_flag_listed(f->names, name)) {
                if (program)
                    *program = p->name;
                return f;
            }
    return NULL;
}
