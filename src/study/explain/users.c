/* users.c - find the published models that have a component, from the program of every preset. */
#include <string.h>

#include "study/explain/cards.h"
#include "arch/config.h"
#include "arch/presets.h"
#include "base/alloc.h"
#include "base/language.h"

/* Add one preset to the users of all cards. */
static lm_status ask_all(const lm_program *p, const char *title, const lm_card *const *cards, size_t n,
                         lm_users *out, lm_error *e)
{
    lm_ledger *l;
    lm_traits  t;

    LM_TRY(lm_ledger_new(p, &l, e));
    lm_find_traits(l, &t);
    for (size_t i = 0; i < n; i++) {
        out[i].of++;
        if (cards[i]->used && !cards[i]->used(&t))
            continue;
        if (out[i].n < LM_USERS_SHOWN)
            lm_text_printf(&out[i].names, "%s%s", out[i].n ? ", " : "", title);
        out[i].n++;
    }
    lm_ledger_free(l);
    return LM_OK;
}

lm_status lm_find_users(const lm_card *const *cards, size_t n, lm_users *out, lm_error *e)
{
    lm_config *config = lm_alloc_zero(1, sizeof *config);
    lm_status  status = config ? LM_OK : lm_fail_memory(e, "presets", sizeof *config);

    for (size_t i = 0; status == LM_OK && i < lm_n_presets; i++) {
        const lm_family *family;
        lm_program      *p = NULL;
        memset(config, 0, sizeof *config);
        status = lm_preset_program(&lm_preset_table[i], &family, config, &p, e);
        if (status == LM_UNSUPPORTED) {      /* published, but its family is not implemented here */
            status = LM_OK;
            continue;
        }
        if (status == LM_OK)
            status = ask_all(p, lm_preset_table[i].title, cards, n, out, e);
        lm_program_free(p);
    }
    for (size_t i = 0; i < n; i++) {
        if (out[i].n > LM_USERS_SHOWN)
            lm_text_printf(&out[i].names, _(" and %u others"), out[i].n - LM_USERS_SHOWN);
        if (status == LM_OK && out[i].names.failed)
            status = lm_fail_memory(e, "presets", 0);
    }
    lm_free(config);
    return status;
}
