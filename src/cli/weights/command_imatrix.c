/* lamina imatrix - measure over a text which inputs of a model's matrices matter, for `lamina quantize`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "cli/base/prompt.h"
#include "lamina/imatrix.h"

typedef struct imatrix_options {
    lm_model_flags model;
    lm_run_flags   run;
    const char    *file, *output;
    lm_flag_list   merged;
    int            form;
    uint32_t       first, chunks, frequency;
    bool           head, parse_special, statistics, resume, force;
} imatrix_options;

#define O(field) offsetof(imatrix_options, field)

enum { FEW_ROWS = 64, LOGIT_ROWS = 128 };        /* a row of logits is as wide as the vocabulary */

static const char *const form_words[] = { "gguf", "dat", NULL };

static const lm_flag imatrix_flag_table[] = {
    { "--file", "-f", LM_FLAG_TEXT, O(file), "FILE", "text to read; -: standard input", 0, 0, NULL },
    { "--output", "-o --output-file", LM_FLAG_OUTPUT, O(output), "FILE",
      "importance matrix to write", 0, 0, NULL },
    { "--force", NULL, LM_FLAG_SWITCH, O(force), NULL, "replace FILE if it exists", 0, 0, NULL },
    { "--resume", NULL, LM_FLAG_SWITCH, O(resume), NULL,
      "continue after the chunks already in the output file", 0, 0, NULL },
    { "--output-format", NULL, LM_FLAG_WORD, O(form), "gguf|dat",
      "file format (gguf); dat: the format before GGUF", 0, 0, form_words },
    { "--output-frequency", "-ofreq", LM_FLAG_COUNT, O(frequency), "N",
      "save every N chunks (10)", 1, UINT32_MAX, NULL },
    { "--in-file", NULL, LM_FLAG_LIST, O(merged), "FILE",
      "importance matrix to add; may be repeated. Without MODEL only these are merged", 0, 0, NULL },
    { "--chunks", NULL, LM_FLAG_COUNT, O(chunks), "N",
      "number of chunks to process (all); --context sets the tokens per chunk (512)", 1, UINT32_MAX, NULL },
    { "--chunk", "--from-chunk", LM_FLAG_COUNT, O(first), "N",
      "first chunk to process (0)", 0, UINT32_MAX, NULL },
    { "--process-output", NULL, LM_FLAG_SWITCH, O(head), NULL, "collect for output.weight too", 0, 0, NULL },
    { "--parse-special", NULL, LM_FLAG_SWITCH, O(parse_special), NULL,
      "treat special tokens in the text as special", 0, 0, NULL },
    { "--show-statistics", "--statistics", LM_FLAG_SWITCH, O(statistics), NULL,
      "print a table of the tensors", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group imatrix_groups[] = {
    { "importance", imatrix_flag_table, 0 },
    { "model", lm_model_flag_table, O(model) },
    { "engine", lm_run_flag_table, O(run) },
    { "KV cache", lm_cache_flag_table, O(run.cache) },
    { 0 },
};

static void imatrix_defaults(void *options)
{
    imatrix_options *o = options;

    o->frequency = 10;
    lm_run_defaults(&o->run);
}

typedef struct gathering {
    lm_cli                *cli;
    imatrix_options       *o;
    lm_imatrix            *m;
    lm_imatrix_result      result;
    lm_progress            bar;
    lm_status              saved;        /* status of the last intermediate save */
    lm_error              *e;
} gathering;

/* ---- collection ---- */

static bool on_chunk(void *arg, uint32_t done, uint32_t of, double perplexity)
{
    gathering *g = arg;

    (void)perplexity;
    if (g->o->output && done % g->o->frequency == 0 && done < of)
        g->saved = lm_imatrix_save(g->m, g->o->output, g->o->form == 1, g->e);
    return lm_interrupt_progress(&g->bar, (double)done / (double)of) && g->saved == LM_OK;
}

static lm_status run_engine(gathering *g, const lm_model *model, const lm_tokens *ids, lm_error *e)
{
    lm_engine_options  engine;
    lm_imatrix_options o = {
        .chunks = g->o->chunks, .head = g->o->head, .progress = on_chunk, .progress_arg = g
    };
    lm_engine         *run = NULL;

    LM_TRY(lm_engine_flags(&g->o->run, model, 512, &engine, e));
    if (g->o->run.context < 0)
        engine.context = 512;
    o.dataset         = lm_input_name(g->o->file);
    o.chunk           = engine.context;
    o.first           = g->o->resume ? lm_imatrix_chunks(g->m) : g->o->first;
    engine.max_rows       = engine.max_rows < LOGIT_ROWS ? engine.max_rows : LOGIT_ROWS;
    engine.max_logits = engine.max_rows;
    /* If the tokenizer adds BOS before a text, it is the first token of each chunk. */
    LM_TRY(lm_added_bos(lm_model_tokenizer(model), &o.replace_first, &o.bos, e));
    LM_TRY(lm_start_engine(model, &engine, &run, e));
    lm_interrupt_watch(run);
    g->bar           = lm_progress_start("collecting");
    lm_status status = lm_imatrix_collect(g->m, run, ids->ids, ids->n, &o, &g->result, e);
    lm_progress_end(&g->bar);
    lm_interrupt_watch(NULL);
    lm_engine_free(run);
    return g->saved == LM_OK ? status : g->saved;
}

static lm_status collect(gathering *g, lm_error *e)
{
    imatrix_options *o     = g->o;
    unsigned         flags = LM_ADD_SPECIAL | (o->parse_special ? 0u : LM_NO_PARSE_SPECIAL);
    lm_tokens        ids   = { 0 };
    lm_model        *model;

    if (!o->file)
        return lm_fail(e, LM_USAGE, g->cli->command->name, LM_NO_OFFSET, "requires --file, the text to read");
    LM_TRY(lm_open_model(g->cli, &o->model, g->cli->args[0], &model, e));
    lm_status status = lm_model_tokenizer(model)
                           ? LM_OK
                           : lm_fail(e, LM_USAGE, "--file", LM_NO_OFFSET, "the model has no tokenizer");
    if (status == LM_OK)
        status = lm_read_tokens(o->file, lm_model_tokenizer(model), flags, &ids, e);
    if (status == LM_OK)
        status = run_engine(g, model, &ids, e);
    lm_tokens_free(&ids);
    lm_model_close(model);
    return status;
}

/* ---- output ---- */

/* Return a JSON number, or null if it is not finite. */
static json_t *entries_json(const lm_imatrix *m)
{
    json_t          *list = json_array();
    lm_imatrix_entry t;

    for (size_t i = 0; lm_imatrix_at(m, i, &t); i++) {
        json_t *rows = json_array();
        for (uint32_t k = 0; k < t.matrices; k++)
            json_array_append_new(rows, json_integer((json_int_t)t.rows[k]));
        json_t *one = json_pack("{s:o, s:I, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}",
                                "name", lm_json_of(t.name, strlen(t.name)), "cols", (json_int_t)t.cols,
                                "rows", rows, "sum", t.sum, "min", t.min, "max", t.max, "mean", t.mean,
                                "deviation", t.deviation, "active", t.active, "entropy", t.entropy,
                                "outliers", t.outliers, "cosine", lm_json_finite(t.cosine));
        json_array_append_new(list, one);
    }
    return list;
}

static lm_status print_json(const gathering *g, lm_error *e)
{
    json_t     *sets = json_array();
    const char *set;

    for (size_t i = 0; (set = lm_imatrix_dataset(g->m, i)) != NULL; i++)
        json_array_append_new(sets, lm_json_of(set, strlen(set)));
    json_t *path = g->o->output ? lm_json_of(g->o->output, strlen(g->o->output)) : json_null();
    bool    read = g->result.chunks;
    return lm_out_json(g->cli,
                       json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "path", path, "chunks",
                                 (json_int_t)lm_imatrix_chunks(g->m), "chunk_size",
                                 (json_int_t)lm_imatrix_chunk_size(g->m), "datasets", sets, "perplexity",
                                 read ? lm_json_finite(g->result.perplexity) : json_null(),
                                 "perplexity_error",
                                 read ? lm_json_finite(g->result.perplexity_error) : json_null(), "tensors",
                                 entries_json(g->m)),
                       e);
}

static lm_status print_table(const lm_imatrix *m, lm_error *e)
{
    lm_text          out  = { 0 };
    lm_imatrix_entry t;
    int              wide = 6;

    for (size_t i = 0; lm_imatrix_at(m, i, &t); i++)
        wide = (int)strlen(t.name) > wide ? (int)strlen(t.name) : wide;
    lm_text_printf(&out, "%-*s %9s %10s %10s %10s %10s %8s %8s %9s %7s\n", wide, "tensor", "inputs", "mean",
                   "deviation", "min", "max", "active", "entropy", "outliers", "cosine");
    for (size_t i = 0; lm_imatrix_at(m, i, &t); i++) {
        double bits = log2((double)t.matrices * (double)t.cols);
        lm_text_printf(&out, "%-*s %9llu %10.4g %10.4g %10.4g %10.4g %7.1f%% %7.1f%% %8.2f%%", wide, t.name,
                       (unsigned long long)t.matrices * t.cols, t.mean, t.deviation, t.min, t.max,
                       100 * t.active, bits > 0 ? 100 * t.entropy / bits : 100.0, 100 * t.outliers);
        if (isnan(t.cosine))
            lm_text_printf(&out, " %7s\n", "-");
        else
            lm_text_printf(&out, " %7.4f\n", t.cosine);
    }
    lm_status status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

static void warn(const lm_imatrix *m)
{
    lm_imatrix_entry t;
    uint64_t         few = 0, all = 0;

    for (size_t i = 0; lm_imatrix_at(m, i, &t); i++)
        for (uint32_t k = 0; t.matrices > 1 && k < t.matrices; k++, all++)
            few += t.rows[k] < FEW_ROWS;
    if (few)
        lm_warn("%llu of %llu experts' matrices were read by fewer than %d tokens; use a longer text",
                (unsigned long long)few, (unsigned long long)all, FEW_ROWS);
}

static lm_status report(const gathering *g, lm_error *e)
{
    lm_imatrix_entry t;
    size_t           n = 0;

    warn(g->m);
    if (g->cli->json)
        return print_json(g, e);
    if (g->o->statistics)
        LM_TRY(print_table(g->m, e));
    while (lm_imatrix_at(g->m, n, &t))
        n++;
    lm_note("%s%s%zu tensor%s, %u chunk%s of %u tokens", g->o->output ? g->o->output : "",
            g->o->output ? ": " : "", n, n == 1 ? "" : "s", lm_imatrix_chunks(g->m),
            lm_imatrix_chunks(g->m) == 1 ? "" : "s", lm_imatrix_chunk_size(g->m));
    if (g->result.chunks)
        lm_note("perplexity of the second halves: %.4f ± %.4f", g->result.perplexity,
                g->result.perplexity_error);
    return LM_OK;
}

/* ---- the command ---- */

static lm_status merge(lm_imatrix *into, const char *path, lm_error *e)
{
    lm_imatrix *m;

    LM_TRY(lm_imatrix_open(path, &m, e));
    lm_status status = lm_imatrix_merge(into, m, e);
    lm_imatrix_free(m);
    return status == LM_OK ? LM_OK : lm_fail_in(e, path);
}

static lm_status gather(gathering *g, lm_error *e)
{
    const imatrix_options *o = g->o;
    bool                   model = g->cli->n_args || o->model.model;

    for (size_t i = 0; i < o->merged.n; i++)
        LM_TRY(merge(g->m, o->merged.items[i], e));
    if (o->resume)
        LM_TRY(merge(g->m, o->output, e));
    if (model)
        LM_TRY(collect(g, e));
    if (o->output)
        LM_TRY(lm_imatrix_save(g->m, o->output, o->form == 1, e));
    return report(g, e);
}

static lm_status check(const lm_cli *cli, const imatrix_options *o, lm_error *e)
{
    bool model = cli->n_args || o->model.model;

    if (!model && !o->merged.n)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "requires a model and --file, or --in-file");
    if (!model && o->file)
        return lm_fail(e, LM_USAGE, "--file", LM_NO_OFFSET, "requires a model");
    if (!o->output && !o->statistics && !cli->json)
        return lm_fail(e, LM_USAGE, cli->command->name, LM_NO_OFFSET,
                       "requires --output or --show-statistics");
    if (o->resume && (!model || o->merged.n || o->first || o->force))
        return lm_fail(e, LM_USAGE, "--resume", LM_NO_OFFSET,
                       "requires a model, and excludes --in-file, --chunk and --force");
    return LM_OK;
}

static lm_status imatrix(lm_cli *cli, void *options, lm_error *e)
{
    imatrix_options *o = options;
    gathering        g = { .cli = cli, .o = o, .e = e };

    LM_TRY(check(cli, o, e));
    LM_TRY(lm_imatrix_new(&g.m, e));
    lm_status status = gather(&g, e);
    lm_imatrix_free(g.m);
    return status;
}

const lm_command lm_command_imatrix = {
    .name = "imatrix",
    .usage = "[MODEL -f TEXT] [--in-file FILE] [-o FILE] [flags]",
    .summary = "measure which weights matter over a text, for quantize",
    .about = "  Reads the text in chunks and sums the squared activations of every input of every matrix. "
             "Rules, names and files\n"
             "  are those of llama-imatrix. Then: lamina quantize IN OUT TYPE --imatrix FILE. Use a few "
             "hundred chunks of mixed\n"
             "  prose, code and conversation, and measure the result on another text.\n",
    .groups = imatrix_groups,
    .foreign = true,
    .max_args = 1,
    .options_size = sizeof(imatrix_options),
    .defaults = imatrix_defaults,
    .run = imatrix,
};
