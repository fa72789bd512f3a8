#include "cli/llamacpp.h"

#include <string.h>

#define GPU "computation runs on the CPU only"
#define PLACE "threads are placed by the system; taskset and nice change that"
#define LOG "there is no log; notes go to standard error, -q hides them and -v adds more"
#define DOWNLOAD "-hf ORG/NAME:TYPE or ORG/NAME:FILE.gguf fetches from the hub; a token is in HF_TOKEN"
#define STEERING "control vectors are not available"
#define YARN "YaRN parameters are taken from the model"
#define MEDIA "input is text only"
#define LOAD "files are mapped; --no-mmap reads them, --mlock locks the weights"
#define WRAP "the chat template sets what surrounds a message"
#define SHIFT "a full context ends the answer; -c makes it larger"
#define CACHE "prompts are not saved to files"
#define DRAFT_CACHE "the draft model uses the options of the model"

static const char *const on_off[] = { "on", "off", "auto", "0", "1", "true", "false", "enabled", "disabled", NULL };

const lm_foreign_flag lm_llamacpp_flags[] = {
    /* accepted with a note: no effect on an answer */
    { "-ngl --gpu-layers --n-gpu-layers", 1, NULL, true, GPU },
    { "-dev --device", 1, NULL, true, GPU },
    { "-sm --split-mode", 1, NULL, true, GPU },
    { "-ts --tensor-split", 1, NULL, true, GPU },
    { "-mg --main-gpu", 1, NULL, true, GPU },
    { "-ot --override-tensor", 1, NULL, true, GPU },
    { "-cmoe --cpu-moe", 0, NULL, true, GPU },
    { "-ncmoe --n-cpu-moe", 1, NULL, true, GPU },
    { "-kvo --kv-offload -nkvo --no-kv-offload", 0, NULL, true, GPU },
    { "--op-offload --no-op-offload --no-host", 0, NULL, true, GPU },
    { "-fa --flash-attn", 0, on_off, true, "attention has one form, with the same result" },
    { "-fit --fit", 0, on_off, true, "a model that does not fit is rejected; -c auto chooses the context" },
    { "-fitt --fit-target -fitc --fit-ctx", 1, NULL, true, "-c auto leaves what the system needs" },
    { "--jinja", 0, NULL, true, "chat templates are always Jinja" },
    { "-co --color", 0, on_off, true, "text is not coloured; --no-color also covers messages" },
    { "-st --single-turn", 0, NULL, true, "lamina run answers once and ends" },
    { "--warmup --no-warmup", 0, NULL, true, "there is no warm-up run" },
    { "--perf --no-perf --show-timings --no-show-timings", 0, NULL, true, "timing is one line on standard error; -q leaves it out" },
    { "--keep", 1, NULL, true, "the context is never shifted, so the whole prompt stays in it" },
    { "--no-context-shift", 0, NULL, true, "the context is never shifted" },
    { "--no-display-prompt", 0, NULL, true, "the prompt is never printed" },
    { "--simple-io", 0, NULL, true, "input that is not a terminal is read as it is" },
    { "--repack", 0, NULL, true, "weights are repacked by default" },
    { "--mmap", 0, NULL, true, "files are mapped by default" },
    { "-dio --direct-io -ndio --no-direct-io", 0, NULL, true, LOAD },
    { "--numa", 1, NULL, true, PLACE },
    { "-C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll", 1, NULL, true, PLACE },
    { "-Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch", 1, NULL, true, PLACE },
    { "-dt --defrag-thold", 1, NULL, true, "the cache is paged and needs no defragmentation" },
    { "--swa-full", 0, NULL, true, "the result does not depend on the size of the sliding-window cache" },
    { "-kvu --kv-unified -no-kvu --no-kv-unified", 0, NULL, true, "the cache is shared by all sequences" },
    { "-cram --cache-ram -ctxcp --ctx-checkpoints --swa-checkpoints", 1, NULL, true, "processed tokens stay in the cache while the program runs" },
    { "-np --parallel", 1, NULL, true, "there is one sequence" },
    { "-bs --backend-sampling", 0, NULL, true, GPU },
    { "--offline", 0, NULL, true, "the network is not used" },
    { "--log-disable --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps", 0, NULL, true, LOG },
    { "--log-colors", 0, on_off, true, LOG },
    { "-lv --verbosity --log-verbosity", 1, NULL, true, LOG },
    { "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl -devd --device-draft --spec-draft-device", 1, NULL, true, GPU },
    { "-td --threads-draft -tbd --threads-batch-draft --spec-draft-threads --spec-draft-threads-batch", 1, NULL, true, DRAFT_CACHE },
    { "-ctkd --cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft --spec-draft-type-v", 1, NULL, true, DRAFT_CACHE },
    { "-cd --ctx-size-draft --spec-draft-ctx-size", 1, NULL, true, DRAFT_CACHE },
    { "-cb --cont-batching", 0, NULL, true, "texts are always written together, in steps" },
    { "-sps --slot-prompt-similarity", 1, NULL, true, "each text begins with the longest cached prefix, whatever its slot" },
    { "--cache-reuse", 1, NULL, true, "the longest cached prefix is used again, as far as it is the same" },
    { "--cache-prompt", 0, NULL, true, "prefixes of prompts are cached by default" },
    { "--ui --webui", 0, NULL, true, "lamina serve has a page for browsers at / by default" },
    { "--rerank --reranking", 0, NULL, true, "lamina serve ranks documents whenever the model can" },
    { "--reuse-port", 0, NULL, true, "lamina serve listens alone at its address" },
    { "--prefill-assistant", 0, NULL, true, "an answer continues a final assistant message" },

    /* rejected by name: they would change the answer */
    { "-nocb --no-cont-batching", 0, NULL, false, "texts are always written together, in steps; --parallel 1 writes one at a time" },
    { "--props", 0, NULL, false, "the properties of a server do not change while it runs" },
    { "--path --api-prefix --media-path", 1, NULL, false, "lamina serve serves its own routes only, at their paths" },
    { "--no-prefill-assistant", 0, NULL, false, "requests say how an answer begins: \"continue_final_message\"" },
    { "--models-max", 1, NULL, false, "--mem-limit bounds the models that are loaded" },
    { "--no-jinja", 0, NULL, false, "chat templates are always Jinja; --chat-template-file gives another one" },
    { "--context-shift", 0, NULL, false, SHIFT },
    { "--display-prompt", 0, NULL, false, "the prompt is not printed; --json has it" },
    { "-i --interactive -if --interactive-first", 0, NULL, false, "lamina chat holds a conversation" },
    { "-mli --multiline-input", 0, NULL, false, "lamina chat: \"\"\" begins and ends a message of several lines" },
    { "--in-prefix --in-suffix", 1, NULL, false, WRAP },
    { "--in-prefix-bos", 0, NULL, false, WRAP },
    { "-gan --grp-attn-n -gaw --grp-attn-w", 1, NULL, false, "self-extend is not available; --rope-scaling extends the context" },
    { "--control-vector --control-vector-scaled --control-vector-layer-range", 1, NULL, false, STEERING },
    { "-jf --json-schema-file", 1, NULL, false, "use --json-schema @FILE" },
    { "--override-kv", 1, NULL, false, "metadata cannot be overridden; --rope-..., --sliding-window and --pre change what they name" },
    { "--check-tensors", 0, NULL, false, "values of weights are not checked" },
    { "--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast", 1, NULL, false, YARN },
    { "--adaptive-target --adaptive-decay", 1, NULL, false, "the sampler is not available; --samplers lists those that are" },
    { "--sampler-seq --sampling-seq", 1, NULL, false, "use --samplers, which has them by name" },
    { "-lm --load-mode", 1, NULL, false, LOAD },
    { "-hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo", 1, NULL, false, DOWNLOAD },
    { "-bf --binary-file", 1, NULL, false, "-f reads a file of any bytes" },
    { "--prompt-cache -lcs --lookup-cache-static -lcd --lookup-cache-dynamic", 1, NULL, false, CACHE },
    { "--prompt-cache-all --prompt-cache-ro", 0, NULL, false, CACHE },
    { "--mmproj --mmproj-url --image --audio --video", 1, NULL, false, MEDIA },
    { "--rpc", 1, NULL, false, "there are no remote devices" },
    { "--log-file", 1, NULL, false, "there is no log; 2>FILE stores standard error" },
    { "--reasoning-format -rea --reasoning --reasoning-budget-message", 1, NULL, false,
      "lamina run writes thinking as part of the text, with --chat-template-kwargs for the template; requests say it to lamina serve" },
    { "--spec-type", 1, NULL, false, "use --draft-ngram or --model-draft" },
    { "--draft-min --draft-n-min --spec-draft-n-min --draft-p-min --spec-draft-p-min --draft-p-split --spec-draft-p-split", 1, NULL, false,
      "--draft-max alone limits the proposed tokens" },
    { "--list-devices", 0, NULL, false, "lamina doctor describes this machine" },
    { "-cl --cache-list", 0, NULL, false, "lamina doctor lists the models of the cache" },
    { "--completion-bash", 0, NULL, false, "make install installs completions" },
    { "--version", 0, NULL, false, "use lamina version" },
    { "--usage", 0, NULL, false, "use --help" },
    { 0 },
};

/* Return whether `name` is one of the space-separated words of `list`. */
static bool is_word(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == 0))
            return true;
    return false;
}

const lm_foreign_flag *lm_foreign_find(const lm_foreign_flag *table, const char *name)
{
    for (; table && table->names; table++)
        if (is_word(table->names, name))
            return table;
    return NULL;
}
