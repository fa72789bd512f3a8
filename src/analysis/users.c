/* users.c - which published models have a component: asked of the program of every preset. */
#include <string.h>

#include "analysis/cards.h"
#include "arch/config.h"
#include "arch/presets.h"
#include "base/alloc.h"

static lm_status program_of(const lm_preset *preset, lm_config *config, lm_program **out, lm_error *e)
{
    const lm_family *family;
    lm_source        s = { .kind = LM_SAFETENSORS };
    lm_meta         *meta;
    lm_buf           warnings = { 0 };

    LM_TRY(lm_meta_from_json(preset->config, strlen(preset->config), preset->name, 32, &meta, e));
    s.meta           = meta;
    lm_status status = lm_describe(&s, &family, config, out, &warnings, e);
    lm_buf_free(&warnings);
    lm_meta_free(meta);
    return status;
}

static lm_status ask(const lm_card *c, const lm_program *p, bool *uses, lm_error *e)
{
    lm_ledger *l;
    lm_traits  t;

    LM_TRY(lm_ledger_new(p, &l, e));
    lm_find_traits(l, &t);
    *uses = !c->used || c->used(p, &t);
    lm_ledger_free(l);
    return LM_OK;
}

lm_status lm_find_users(const lm_card *c, lm_users *out, lm_error *e)
{
    lm_config *config = lm_alloc_zero(1, sizeof *config);
    lm_status  status = config ? LM_OK : lm_fail_memory(e, "presets", sizeof *config);

    for (size_t i = 0; status == LM_OK && i < lm_n_presets; i++) {
        lm_program *p    = NULL;
        bool        uses = false;
        memset(config, 0, sizeof *config);
        status = program_of(&lm_preset_table[i], config, &p, e);
        if (status == LM_UNSUPPORTED) {      /* published, but of a family that has no program here */
            status = LM_OK;
            continue;
        }
        if (status == LM_OK)
            status = ask(c, p, &uses, e);
        lm_program_free(p);
        out->of++;
        if (!uses)
            continue;
        if (out->n < LM_USERS_SHOWN)
            lm_buf_printf(&out->names, "%s%s", out->n ? ", " : "", lm_preset_table[i].title);
        out->n++;
    }
    if (out->n > LM_USERS_SHOWN) {
        lm_buf all = { 0 };
        lm_buf_printf(&all, _("%s and %u others"), out->names.data ? out->names.data : "", out->n - LM_USERS_SHOWN);
        lm_buf_free(&out->names);
        out->names = all;
    }
    lm_free(config);
    return status == LM_OK && out->names.failed ? lm_fail_memory(e, "presets", 0) : status;
}
