/* serve_options.h - the flags of `lamina serve`, and the options of the server that they give. */
#ifndef LM_CLI_SERVE_OPTIONS_H
#define LM_CLI_SERVE_OPTIONS_H

#include "cli/base/options.h"
#include "cli/base/sampling.h"
#include "cli/run/adapting.h"
#include "server/start/serve.h"

typedef struct lm_serve_flags {
    lm_model_flags    model;
    lm_run_flags      run;
    lm_sampling_flags sampling;
    lm_lora_flags     loras;
    lm_flag_list      hosts, keys, origins, allowed_hosts, aliases, ensembles;
    const char       *models_folder, *keep_alive;
    uint64_t          memory, request_memory;
    const char       *key_file, *tls_key, *tls_cert, *prefix, *slot_folder, *template_file, *template_name;
    const char       *prefix_store, *store, *tags, *reasoning;
    lm_quota         quota;
    int32_t           port, predict, rule, ping, pooling;
    uint32_t          parallel, cache_tokens, connections, per_address, workers, queue, body_limit;
    double            timeout, drain, itl_target;
    lm_limits         limits;        /* stored limits of the machine, if they have been measured */
    bool              openapi, insecure, sandbox, no_sandbox, metrics, slots, no_slots, embeddings;
    bool              interventions, no_prefixes, no_page, loras_off;
} lm_serve_flags;

/* Set the addresses, the models and the sandbox of a server; `out` is zeroed before. `o` must outlive it.
 * LM_USAGE names the flag; the errors of a model are those of lm_model_open. */
lm_status lm_serve_options(lm_cli *cli, lm_serve_flags *o, lm_server_options *out, lm_error *e);

/* LM_USAGE: not a path like "/llm". NULL: no prefix. */
lm_status lm_serve_check_prefix(const char *prefix, lm_error *e);

#endif
