/* derive_rope.c - rotary frequencies and each scaling rule, step by step (src/program/rope.c is what
 * runs). */
#include <inttypes.h>
#include <math.h>

#include "study/derive/topics.h"

static const lm_rope_spec *main_rope(const lm_derivation *d)
{
    return &d->f->s.program->ropes[lm_main_rope(d->f->s.program)].spec;
}

/* ---- quantities of a scaling rule ---- */

static void let_llama3(lm_derivation *d, const lm_rope_spec *s)
{
    lm_let_fact(d, "factor", NULL, _("factor by which the context is longer"), "rope.factor");
    lm_let_count(d, "trained", "N_0", _("positions trained before scaling"), s->original_context);
    lm_let_number(d, "low_freq", "l_f", _("low_freq_factor of the configuration"), s->low_freq_factor);
    lm_let_number(d, "high_freq", "h_f", _("high_freq_factor of the configuration"), s->high_freq_factor);
    lm_derive(d, "short_wave", _("wavelengths below this are unchanged"), LM_UNIT_TOKENS, NULL,
              "trained / high_freq");
    lm_derive(d, "long_wave", _("wavelengths above this are divided"), LM_UNIT_TOKENS, NULL,
              "trained / low_freq");
}

static void let_yarn(lm_derivation *d, const lm_rope_spec *s)
{
    const char *lane = "rotated * ln(trained / (%s * 2 * pi)) / (2 * ln(base))";

    lm_let_fact(d, "factor", NULL, _("factor by which the context is longer"), "rope.factor");
    lm_let_count(d, "trained", "N_0", _("positions trained before scaling"), s->original_context);
    lm_let_number(d, "beta_fast", "\\beta_f", _("beta_fast of the configuration: turns"), s->beta_fast);
    lm_let_number(d, "beta_slow", "\\beta_s", _("beta_slow of the configuration: turns"), s->beta_slow);
    const char *fast = lm_derive_text(d, lane, "beta_fast"), *slow = lm_derive_text(d, lane, "beta_slow");
    lm_derivef(d, "low",
               _("pair that makes beta_fast turns over the trained positions: pairs below it are unchanged"),
               LM_UNIT_NONE, NULL, s->truncate ? "max(floor(%s), 0)" : "max(%s, 0)", fast);
    lm_derivef(d, "high", _("pair that makes beta_slow turns: pairs above it are divided"), LM_UNIT_NONE,
               NULL, s->truncate ? "min(ceil(%s), rotated - 1)" : "min(%s, rotated - 1)", slow);
}

static void let_dynamic(lm_derivation *d, const lm_rope_spec *s)
{
    lm_let_fact(d, "factor", NULL, _("factor by which the context is longer"), "rope.factor");
    lm_let_fact(d, "tokens", "S", _("tokens of context"), "kv.context");
    lm_let_count(d, "trained", "N_0", _("positions trained before scaling"), s->max_context);
    if (d->f->s.context > s->max_context)
        lm_derive(d, "new_base", _("the base for a sequence of this length"), LM_UNIT_NONE, NULL,
                  "base * (factor * tokens / trained - (factor - 1))^(rotated / (rotated - 2))");
    else
        lm_derive(d, "new_base", _("up to the trained length, the base is unchanged"), LM_UNIT_NONE, NULL, "base");
}

static void let_longrope(lm_derivation *d, const lm_rope_spec *s)
{
    lm_let_count(d, "trained", "N_0", _("positions trained before scaling"), s->original_context);
    if (s->factor > 1)
        lm_let_fact(d, "factor", NULL, _("factor by which the context is longer"), "rope.factor");
}

static void let_proportional(lm_derivation *d, const lm_rope_spec *s)
{
    lm_let_number(d, "share", "p", _("partial_rotary_factor of the configuration"), s->share);
    lm_derive(d, "turning", _("pairs that rotate; the others keep their values"), LM_UNIT_NONE, NULL,
              "floor(share * rotated / 2)");
    if (s->factor != 1)
        lm_let_fact(d, "factor", NULL, _("factor by which the context is longer"), "rope.factor");
}

static void let_rule(lm_derivation *d, const lm_rope_spec *s)
{
    switch (s->type) {
    case LM_ROPE_LLAMA3:
        let_llama3(d, s);
        break;
    case LM_ROPE_YARN:
        let_yarn(d, s);
        break;
    case LM_ROPE_DYNAMIC:
        let_dynamic(d, s);
        break;
    case LM_ROPE_LONGROPE:
        let_longrope(d, s);
        break;
    case LM_ROPE_PROPORTIONAL:
        let_proportional(d, s);
        break;
    case LM_ROPE_LINEAR:
        lm_let_fact(d, "factor", NULL, _("factor by which the context is longer"), "rope.factor");
        break;
    case LM_ROPE_DEFAULT:
        break;
    }
}

/* ---- one pair under a scaling rule ---- */

typedef struct pair { const char *theta, *run, *wave; uint64_t i; const char *path; } pair;

static void run_llama3(lm_derivation *d, const pair *x)
{
    double wave = lm_derived(d, x->wave).x;

    if (wave < lm_derived(d, "short_wave").x) {
        lm_derive(d, x->run, _("a short wavelength: unchanged"), LM_UNIT_RADIANS, x->path, x->theta);
        return;
    }
    if (wave > lm_derived(d, "long_wave").x) {
        lm_derivef(d, x->run, _("a long wavelength: divided by the factor"), LM_UNIT_RADIANS, x->path,
                   "%s / factor", x->theta);
        return;
    }
    const char *blend = lm_derive_text(d, "smooth_%" PRIu64, x->i);
    lm_derivef(d, blend, _("between them: the share that is unchanged"), LM_UNIT_NONE, NULL,
               "(trained / %s - low_freq) / (high_freq - low_freq)", x->wave);
    lm_derivef(d, x->run, _("the angle in use"), LM_UNIT_RADIANS, x->path, "(1 - %s) * %s / factor + %s * %s",
               blend, x->theta, blend, x->theta);
}

static void run_yarn(lm_derivation *d, const pair *x)
{
    const char *ramp = lm_derive_text(d, "ramp_%" PRIu64, x->i);
    bool        flat = lm_derived(d, "low").x == lm_derived(d, "high").x;

    lm_derivef(d, ramp, _("the share that is divided: 0 below the first pair, 1 above the second"),
               LM_UNIT_NONE,
               NULL, "min(max((%" PRIu64 " - low) / (high - low%s), 0), 1)", x->i, flat ? " + 0.001" : "");
    lm_derivef(d, x->run, _("the angle in use"), LM_UNIT_RADIANS, x->path, "%s / factor * %s + %s * (1 - %s)",
               x->theta, ramp, x->theta, ramp);
}

static void run_longrope(lm_derivation *d, const pair *x, const lm_rope_spec *s)
{
    const float *each = lm_rope_is_long(s, (uint32_t)d->f->s.context) ? s->long_factors : s->short_factors;
    const char  *name = lm_derive_text(d, "divisor_%" PRIu64, x->i);

    if (!each)
        return;
    lm_let_number(d, name, NULL,
                  lm_derive_text(d, _("factor of pair %" PRIu64 " in the list for this context"), x->i),
                  lm_decimal(each[x->i]));
    lm_derivef(d, x->run, _("the angle in use"), LM_UNIT_RADIANS, x->path, "%s / %s", x->theta, name);
}

static void run_rule(lm_derivation *d, const pair *x, const lm_rope_spec *s)
{
    switch (s->type) {
    case LM_ROPE_LLAMA3:
        run_llama3(d, x);
        break;
    case LM_ROPE_YARN:
        run_yarn(d, x);
        break;
    case LM_ROPE_DYNAMIC:
        lm_derivef(d, x->run, _("the angle in use"), LM_UNIT_RADIANS, x->path,
                   "new_base^-(2 * %" PRIu64 " / rotated)", x->i);
        break;
    case LM_ROPE_LONGROPE:
        run_longrope(d, x, s);
        break;
    case LM_ROPE_PROPORTIONAL:
        if (x->i >= lm_rope_pairs(s))
            lm_derive(d, x->run, _("a pair past those that rotate: no angle"), LM_UNIT_RADIANS, x->path, "0");
        else
            lm_derivef(d, x->run, _("the angle in use"), LM_UNIT_RADIANS, x->path,
                       s->factor != 1 ? "%s / factor" : "%s", x->theta);
        break;
    case LM_ROPE_LINEAR:
        lm_derivef(d, x->run, _("the angle in use"), LM_UNIT_RADIANS, x->path, "%s / factor", x->theta);
        break;
    case LM_ROPE_DEFAULT:
        break;
    }
}

/* Divisors stored in the file: given, not derived. */
static void run_stored(lm_derivation *d, const pair *x)
{
    lm_let_fact(d, x->run, NULL, lm_derive_text(d, _("angle of pair %" PRIu64 " after %s scaling"), x->i,
                                                lm_facts_text(d->f, "rope.scaling")), x->path);
}

static void derive_pair(lm_derivation *d, uint64_t i)
{
    const lm_rope_spec *s = main_rope(d);
    pair x = { lm_derive_text(d, "theta_%" PRIu64, i), lm_derive_text(d, "theta_run_%" PRIu64, i),
               lm_derive_text(d, "wavelength_%" PRIu64, i), i,
               lm_derive_text(d, "rope.theta_scaled[%" PRIu64 "]", i) };

    if (lm_has_symbol(d, x.theta))
        return;
    lm_derivef(d, x.theta, lm_derive_text(d, _("pair %" PRIu64 ": angle per position"), i),
               LM_UNIT_RADIANS, lm_derive_text(d, "rope.theta[%" PRIu64 "]", i),
               "base^-(2 * %" PRIu64 " / rotated)", i);
    lm_derivef(d, x.wave, _("positions per full rotation"), LM_UNIT_TOKENS, NULL, "2 * pi / %s", x.theta);
    if (!lm_facts_has(d->f, "rope.theta_scaled[%" PRIu64 "]", i) || !lm_is_scaled(s))
        return;
    if (lm_is_stored(s))
        run_stored(d, &x);
    else
        run_rule(d, &x, s);
    /* not where scaling changes nothing, or there is no rotation */
    bool slower = s->type != LM_ROPE_PROPORTIONAL || (s->factor != 1 && i < lm_rope_pairs(s));
    if (lm_has_symbol(d, x.run) && slower)
        lm_derivef(d, lm_derive_text(d, "slower_%" PRIu64, i),
                   _("factor by which scaling slows the rotation"),
                   LM_UNIT_RATIO, NULL, "%s / %s", x.theta, x.run);
}

/* Return the pair in the middle; for a rule that blends, the pair in the middle of the blend, which shows
 * most. */
static uint64_t middle_pair(const lm_derivation *d, uint64_t pairs)
{
    const lm_rope_spec *s = main_rope(d);

    if (s->type == LM_ROPE_YARN && lm_has_symbol(d, "low")) {
        double i = floor((lm_derived(d, "low").x + lm_derived(d, "high").x) / 2);
        return i < 1 ? 1 : i >= (double)pairs ? pairs - 1 : (uint64_t)i;
    }
    if (s->type == LM_ROPE_LLAMA3 && lm_has_symbol(d, "short_wave")) {
        double wave = sqrt(lm_derived(d, "short_wave").x * lm_derived(d, "long_wave").x);
        double i    = floor(log(wave / (2 * acos(-1))) / log(s->base) * s->dim / 2 + 0.5);
        return i < 1 ? 1 : i >= (double)pairs ? pairs - 1 : (uint64_t)i;
    }
    return pairs / 2 - 1;
}

/* ---- proof with numbers, and magnitude ---- */

static void derive_distance(lm_derivation *d, const char *theta)
{
    lm_derive_heading(
        d, _("The score depends only on the distance: positions 3 and 7 of the first pair, then their "
             "difference 4"));
    lm_derivef(d, "both", _("cosines and sines of the two positions"), LM_UNIT_NONE, NULL,
               "cos(3 * %s) * cos(7 * %s) + sin(3 * %s) * sin(7 * %s)",
               theta, theta, theta, theta);
    lm_derivef(d, "distance", _("cosine of the distance"), LM_UNIT_NONE, NULL, "cos((7 - 3) * %s)", theta);
}

static void derive_magnitude(lm_derivation *d, const lm_rope_spec *s)
{
    if (s->type == LM_ROPE_YARN && s->attention_factor <= 0 && s->mscale == 0 && s->factor > 1)
        lm_derive(d, "magnitude", _("YaRN multiplies queries and keys by"), LM_UNIT_NONE, NULL,
                  "0.1 * ln(factor) + 1");
    if (s->type == LM_ROPE_LONGROPE && s->attention_factor <= 0 && s->factor > 1)
        lm_derive(d, "magnitude", _("LongRoPE multiplies queries and keys by"), LM_UNIT_NONE, NULL,
                  "sqrt(1 + ln(factor) / ln(trained))");
}

/* Derive the factor of the last query of the context, in models that scale queries by position. */
static void derive_temperature(lm_derivation *d)
{
    const lm_program *p = d->f->s.program;

    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const lm_temperature_spec *t = &p->nodes[i].temperature.spec;
        if (p->nodes[i].code != LM_OP_TEMPERATURE)
            continue;
        lm_derive_heading(d, _("Queries are multiplied by a factor that grows with their position (temperature)"));
        lm_let_number(d, "beta", NULL, _("growth of the factor"), lm_decimal(t->beta));
        lm_let_number(d, "length", NULL, _("positions between two steps of the factor"), t->length);
        lm_let_number(d, "last", NULL, _("position of the last query of the context"),
                      (double)(d->f->s.context ? d->f->s.context - 1 : 0) + t->offset);
        lm_derive(d, "temperature", _("factor of this query"), LM_UNIT_NONE, NULL,
                  "beta * ln(floor(last / length) + 1) + 1");
        return;
    }
}

void lm_derive_rope(lm_derivation *d)
{
    uint64_t pairs;

    if (!lm_facts_has(d->f, "rope.base"))
        return;
    lm_let_fact(d, "base", NULL, _("base of the frequencies (rope_theta)"), "rope.base");
    lm_let_fact(d, "rotated", "K_R", _("dimensions of a head that are rotated"), "rope.dim");
    lm_let_number(d, "pi", "\\pi", _("the ratio of a circle's circumference to its diameter"), acos(-1));
    lm_derive(d, "pairs", _("pairs of dimensions, each with its own angle"), LM_UNIT_NONE, "rope.pairs",
              "rotated / 2");
    pairs = lm_facts_count(d->f, "rope.pairs");
    if (lm_is_stored(main_rope(d)) && !lm_facts_has(d->f, "rope.theta[0]"))
        return;
    if (lm_is_scaled(main_rope(d)) && !lm_is_stored(main_rope(d)))
        let_rule(d, main_rope(d));
    derive_pair(d, 0);
    if (pairs > 2)
        derive_pair(d, middle_pair(d, pairs));
    if (pairs > 1)
        derive_pair(d, pairs - 1);
    derive_magnitude(d, main_rope(d));
    derive_distance(d, "theta_0");
    derive_temperature(d);
}
