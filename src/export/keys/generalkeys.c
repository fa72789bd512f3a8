/* generalkeys.c - write the origin of a model as GGUF keys. */
#include "export/keys/generalkeys.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "export/keys/modelcard.h"
#include "formats/samplingkeys.h"
#include "text/json_members.h"

enum { MAX_TEXT = 512, MAX_LIST = 256 };

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void add_text(lm_gguf_writer *w, const char *key, const char *text)
{
    if (text && *text)
        lm_gguf_add_string(w, key, lm_view_of(text));
}

/* ---- names ---- */

static bool is_version(const char *word)
{
    const char *w = *word == 'v' ? word + 1 : word;

    return isdigit((unsigned char)*w) && (w == word || strspn(w, "0123456789.") == strlen(w));
}

static bool is_lower(const char *word)
{
    bool letters = false;

    for (; *word; word++) {
        if (isupper((unsigned char)*word))
            return false;
        letters |= islower((unsigned char)*word);
    }
    return letters;
}

/* Capitalise words: "smollm2-135m instruct" becomes "Smollm2 135m Instruct". Words with capitals and versions
 * are not changed. */
static void title(const char *id, size_t n, char out[MAX_TEXT])
{
    char   copy[MAX_TEXT], *rest = NULL;
    size_t at = 0;

    snprintf(copy, sizeof copy, "%.*s", (int)(n < MAX_TEXT ? n : MAX_TEXT - 1), id);
    for (char *c = copy; *c; c++)
        *c = *c == '-' ? ' ' : *c;
    out[0] = '\0';
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        bool change = is_lower(word) && !is_version(word), inside = false;
        for (char *c = word; change && *c; c++) {
            if (islower((unsigned char)*c) && !inside)
                *c = (char)toupper((unsigned char)*c);
            inside = isalpha((unsigned char)*c);
        }
        at += (size_t)snprintf(out + at, MAX_TEXT - at, "%s%s", at ? " " : "", word);
        if (at >= MAX_TEXT)
            return;
    }
}

/* Return the model's name or "org/name"; NULL for the path of a file. */
static const char *hub_name(const json_t *config)
{
    const char *given = text_of(config, "_name_or_path");
    const char *slash = given ? strchr(given, '/') : NULL;

    return given && *given && !(slash && strchr(slash + 1, '/')) ? given : NULL;
}

static void add_names(lm_gguf_writer *w, const json_t *card, const json_t *config, const char *path,
                      const char *name)
{
    char        made[MAX_TEXT] = "";
    const char *id = hub_name(config), *own = name                    ? name
                                              : text_of(card, "name") ? text_of(card, "name")
                                                                      : text_of(card, "model_name");
    size_t      n  = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *last = path + n;
    while (last > path && last[-1] != '/')
        last--;
    if (!own) {
        const char *word = id && strchr(id, '/') ? strchr(id, '/') + 1 : id;
        title(word ? word : last, word ? strlen(word) : (size_t)(path + n - last), made);
        own = made;
    }
    add_text(w, "general.name", *own ? own : "model");
    add_text(w, "general.author",
             text_of(card, "author") ? text_of(card, "author") : text_of(card, "model_creator"));
    add_text(w, "general.description", text_of(card, "description"));
    if (text_of(card, "organization")) {
        add_text(w, "general.organization", text_of(card, "organization"));
    } else if (id && strchr(id, '/') && id[0] != '.') {
        title(id, (size_t)(strchr(id, '/') - id), made);
        add_text(w, "general.organization", made);
    }
}

/* ---- size ---- */

static void rounded(double n, char out[32])
{
    static const struct {
        double above, unit;
        char letter;
    } units[] = { { 1e12, 1e-12, 'T' }, { 1e9, 1e-9, 'B' }, { 1e6, 1e-6, 'M' }, { 0, 1e-3, 'K' } };
    size_t i = 0;

    while (n <= units[i].above && units[i].above > 0)
        i++;
    double scaled = n * units[i].unit, whole = nearbyint(scaled);
    int    digits = whole >= 10 ? 2 : whole >= 1 ? 1 : 0;
    lm_print(out, 32, "%.*f%c", 2 - digits, scaled, units[i].letter);
}

static void add_size(lm_gguf_writer *w, const json_t *card, uint64_t parameters, uint32_t n_experts,
                     const lm_program *p)
{
    char     label[64], size[32];
    uint64_t experts = 0;

    for (uint32_t i = 0; i < p->n_weights; i++)
        experts += p->weights[i].kind == LM_EXPERTS ? p->weights[i].elements : 0;
    rounded(n_experts ? (double)(parameters - experts + experts / n_experts) : (double)parameters, size);
    snprintf(label, sizeof label, n_experts ? "%ux%s" : "%.0u%s", n_experts, size);
    add_text(w, "general.size_label", text_of(card, "size_label") ? text_of(card, "size_label") : label);
}

/* ---- lists of the model card ---- */

static size_t collect(const json_t *card, const char *key, lm_view *list, size_t n)
{
    const json_t *given = json_object_get(card, key), *one;
    size_t        i;

    if (json_is_string(given) && n < MAX_LIST)
        list[n++] = lm_view_of(json_string_value(given));
    json_array_foreach(given, i, one)
        if (json_is_string(one) && n < MAX_LIST)
            list[n++] = lm_view_of(json_string_value(one));
    return n;
}

static void add_list(lm_gguf_writer *w, const char *key, const json_t *card, const char *first,
                     const char *second)
{
    lm_view list[MAX_LIST];
    size_t  n = collect(card, second, list, collect(card, first, list, 0));

    if (n)
        lm_gguf_add_strings(w, key, list, n);
}

/* Add the base models: general.base_model.count, general.base_model.0.name … */
static void add_origins(lm_gguf_writer *w, const char *kind, const json_t *card, const char *one,
                        const char *many)
{
    lm_view list[MAX_LIST];
    size_t  n = collect(card, json_object_get(card, one) ? one : many, list, 0);
    char    key[96], made[MAX_TEXT];

    if (!n)
        return;
    snprintf(key, sizeof key, "general.%s.count", kind);
    lm_gguf_add_u32(w, key, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        const char *id = list[i].data, *slash = strchr(id, '/');
        bool        url = strstr(id, "://") != NULL;
        if (!url) {
            title(slash ? slash + 1 : id, strlen(slash ? slash + 1 : id), made);
            snprintf(key, sizeof key, "general.%s.%zu.name", kind, i);
            add_text(w, key, made);
        }
        if (!url && slash) {
            title(id, (size_t)(slash - id), made);
            snprintf(key, sizeof key, "general.%s.%zu.organization", kind, i);
            add_text(w, key, made);
        }
        snprintf(key, sizeof key, "general.%s.%zu.repo_url", kind, i);
        snprintf(made, sizeof made, "%s%s", url ? "" : "https://huggingface.co/", id);
        if (url || slash)
            add_text(w, key, made);
    }
}

static void add_licence(lm_gguf_writer *w, const json_t *card)
{
    lm_view list[MAX_LIST];
    size_t  n   = collect(card, "license", list, 0);
    lm_text all = { 0 };

    for (size_t i = 0; i < n; i++)
        lm_text_printf(&all, "%s%s", i ? "," : "", list[i].data);
    if (n && !all.failed)
        lm_gguf_add_string(w, "general.license", lm_text_view(&all));
    lm_text_free(&all);
    add_text(w, "general.license.name", text_of(card, "license_name"));
    add_text(w, "general.license.link", text_of(card, "license_link"));
}

/* ---- sampling parameters ---- */

static void add_sampling(lm_gguf_writer *w, const json_t *generation)
{
    for (size_t i = 0; i < LM_SAMPLING_KEYS; i++) {
        const lm_sampling_key *k = &lm_sampling_keys[i];
        const json_t          *v = json_object_get(generation, k->member);
        double                 x = json_number_value(v);

        if (!json_is_number(v) || !(x >= k->min && x <= k->max))
            continue;
        if (k->whole)
            lm_gguf_add_i32(w, k->key, (int32_t)x);
        else
            lm_gguf_add_f32(w, k->key, (float)x);
    }
}

static lm_status parsed(lm_container *folder, const char *name, json_t **out, lm_error *e)
{
    lm_view text;

    LM_TRY(lm_container_text(folder, name, &text, e));
    return text.data ? lm_document_parse(text, name, out, e) : LM_OK;
}

lm_status lm_add_general_keys(lm_gguf_writer *w, lm_container *folder, const char *name, uint64_t parameters,
                              uint32_t n_experts, const lm_program *p, lm_text *notes, lm_error *e)
{
    json_t *config = NULL, *generation = NULL;
    lm_view readme;

    LM_TRY(lm_container_text(folder, "README.md", &readme, e));
    LM_TRY(parsed(folder, "config.json", &config, e));
    lm_status status = parsed(folder, "generation_config.json", &generation, e);
    json_t   *card   = status == LM_OK ? lm_model_card(readme) : NULL;
    if (card) {
        lm_gguf_add_string(w, "general.type", LM_VIEW("model"));
        add_sampling(w, generation);
        add_names(w, card, config, lm_container_path(folder), name);
        add_size(w, card, parameters, n_experts, p);
        add_licence(w, card);
        add_origins(w, "base_model", card, "base_model", "base_models");
        add_origins(w, "dataset", card, "datasets", "dataset");
        add_list(w, "general.tags", card, "tags", "pipeline_tag");
        add_list(w, "general.languages", card, "languages", "language");
        if (json_object_get(config, "quantization_config") &&
            !json_object_get(json_object_get(config, "quantization_config"), "modules_to_not_convert"))
            lm_text_add_str(notes, "config.json's quantization_config has no place in GGUF: not carried\n");
    } else if (status == LM_OK) {
        status = lm_fail_memory(e, "README.md", readme.size);
    }
    json_decref(card);
    json_decref(config);
    json_decref(generation);
    return status;
}
