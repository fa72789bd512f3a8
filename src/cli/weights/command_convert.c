/* lamina convert - convert a model from one container format to another. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/base/interrupt.h"
#include "cli/base/options.h"
#include "cli/base/output.h"
#include "lamina/convert.h"

#define O(field) offsetof(lm_convert_options, field)

static const lm_flag convert_flag_table[] = {
    { "--type", "--outtype", LM_FLAG_TEXT, O(type), "TYPE",
     "type of the matrices: f32, f16, bf16, q8_0 (GGUF only) or auto, as they are stored "
      "(default auto)", 0, 0, NULL },
    { "--split-max-size", NULL, LM_FLAG_SIZE, O(part_bytes), "SIZE",
      "maximum size of the tensors in one part (2G; of a folder: 5 GB)", 0, 0, NULL },
    { "--split-max-tensors", NULL, LM_FLAG_COUNT, O(part_tensors), "N",
      "maximum number of tensors in one part of a GGUF file", 0, 65535, NULL },
    { "--name", "--model-name", LM_FLAG_TEXT, O(name), "TEXT",
      "name of the model inside the file", 0, 0, NULL },
    { "--clamp", NULL, LM_FLAG_SWITCH, O(clamp), NULL,
      "limit values that do not fit the type of their tensor (default: an error if you "
      "named the type, otherwise bf16 or f32)", 0, 0, NULL },
    { "--dry-run", NULL, LM_FLAG_SWITCH, O(dry_run), NULL,
      "read, check and print sizes; write nothing", 0, 0, NULL },
    { "--threads", "-t", LM_FLAG_COUNT, O(threads), "N", "threads (default: physical cores)", 0, 1024, NULL },
    { "--force", "-f", LM_FLAG_SWITCH, O(overwrite), NULL, "replace OUT if it exists", 0, 0, NULL },
    { 0 },
};

static const lm_flag_group convert_groups[] = {
    { "conversion", convert_flag_table, 0 },
    { 0 },
};

static json_t *tensors_of(const lm_convert_result *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->n_tensors; i++) {
        const lm_converted_tensor *t = &r->tensors[i];
        json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:I, s:i}",
                                              "name", lm_json_of(t->name, strlen(t->name)), "from", t->from,
                                              "to", t->to, "bytes", (json_int_t)t->bytes,
                                              "part", (int)t->part));
    }
    return list;
}

static lm_status print_json(lm_cli *cli, const lm_convert_result *r, bool dry, lm_error *e)
{
    json_t *notes = json_array(), *path = dry ? json_null() : lm_json_of(r->path, strlen(r->path));

    for (size_t i = 0; i < r->n_notes; i++)
        json_array_append_new(notes, lm_json_of(r->notes[i], strlen(r->notes[i])));
    return lm_out_json(cli, json_pack("{s:o, s:s?, s:I, s:i, s:f, s:o, s:o}", "path", path,
                                      "family", r->family, "bytes", (json_int_t)r->bytes,
                                      "files", (int)r->files, "seconds", r->seconds, "warnings", notes,
                                      "tensors", tensors_of(r)), e);
}

/* Format the number of tensors per type: "120 bf16, 41 f32". */
static void types_of(const lm_convert_result *r, char *out, size_t size)
{
    size_t at = 0;

    for (size_t i = 0; i < r->n_tensors && at < size; i++) {
        size_t n = 0, before = 0;
        for (size_t k = 0; k < r->n_tensors; k++) {
            bool same = strcmp(r->tensors[k].to, r->tensors[i].to) == 0;
            n += same;
            before += same && k < i;
        }
        if (!before)
            at += (size_t)snprintf(out + at, size - at, "%s%zu %s", at ? ", " : "", n, r->tensors[i].to);
    }
}

static lm_status report(lm_cli *cli, const lm_convert_result *r, bool dry, lm_error *e)
{
    char bytes[LM_FORMATTED], time[LM_FORMATTED], types[256] = "";

    for (size_t i = 0; i < r->n_notes; i++)
        lm_warn("%s", r->notes[i]);
    if (cli->json)
        return print_json(cli, r, dry, e);
    types_of(r, types, sizeof types);
    lm_note("%s: %s in %u file%s, %zu tensor%s (%s); %s", dry ? "dry run" : r->path,
            lm_format_bytes(bytes, r->bytes), r->files, r->files == 1 ? "" : "s", r->n_tensors,
            r->n_tensors == 1 ? "" : "s", types, lm_format_time(time, r->seconds));
    return LM_OK;
}

static bool is_quantised(const char *type)
{
    static const char *const whole[] = { "f32", "f16", "bf16", "f64" };

    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(type, whole[i]) == 0)
            return false;
    return true;
}

/* Print the size first if quantised weights become larger: the disk may be meant for the smaller file. */
static lm_status announce(const char *path, const char *out, const lm_convert_options *o, lm_error *e)
{
    lm_convert_options dry    = *o;
    lm_convert_result  r      = { 0 };
    char               bytes[LM_FORMATTED];
    size_t             widened = 0;
    struct stat        in;

    if (stat(path, &in) == 0 && S_ISDIR(in.st_mode))
        return LM_OK;
    dry.dry_run  = true;
    LM_TRY(lm_convert(path, out, &dry, &r, e));
    for (size_t i = 0; i < r.n_tensors; i++)
        widened += is_quantised(r.tensors[i].from) && !is_quantised(r.tensors[i].to);
    if (widened)
        lm_warn("%zu of %zu tensors are quantised and get larger types, which adds no precision: the output "
                "has %s",
                widened, r.n_tensors, lm_format_bytes(bytes, r.bytes));
    lm_convert_free(&r);
    return LM_OK;
}

static lm_status convert(lm_cli *cli, void *options, lm_error *e)
{
    lm_convert_options *o      = options;
    lm_model_flags      model  = { .model = cli->args[0] };
    lm_convert_result   result = { 0 };
    const char         *path;

    LM_TRY(lm_find_weights(cli, &model, NULL, &path, e));
    LM_TRY(announce(path, cli->args[1], o, e));
    lm_progress bar = lm_progress_start("converting");
    o->progress     = lm_interrupt_progress;
    o->progress_arg = &bar;
    lm_interrupt_watch(NULL);
    lm_status status = lm_convert(path, cli->args[1], o, &result, e);
    lm_progress_end(&bar);
    LM_TRY(status);
    status = report(cli, &result, o->dry_run, e);
    lm_convert_free(&result);
    return status;
}

const lm_command lm_command_convert = {
    .name = "convert",
    .usage = "IN OUT [--type TYPE] [--split-max-size SIZE] [--dry-run]",
    .summary = "convert between Hugging Face folders and GGUF files",
    .about = "  IN is a Hugging Face folder or a GGUF file; any part of a split one will do. OUT ends in "
             ".gguf, or is the folder to\n"
             "  create. GGUF to GGUF splits a file, joins its parts or changes its type. A warning lists "
             "what OUT cannot store.\n",
    .groups = convert_groups,
    .min_args = 2,
    .max_args = 2,
    .options_size = sizeof(lm_convert_options),
    .run = convert,
};
