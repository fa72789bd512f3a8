/* request_cases.h - requests of many kinds, the result of each alone, and its result from a schedule. */
#ifndef TESTS_INVARIANTS_REQUEST_CASES_H
#define TESTS_INVARIANTS_REQUEST_CASES_H

#include <stdbool.h>

#include "lamina/lamina.h"
#include "models.h"

enum { TOKENS = 160, TOP = 2, LONGEST = 200, CONTEXT = 250, TEXT_BYTES = 4096 };

/* The events that a request delivered. */
typedef struct delivery {
    lm_token   ids[TOKENS + 1];
    float      logprob[TOKENS + 1];
    lm_logprob top[TOKENS + 1][TOP];
    char       text[TEXT_BYTES];
    size_t     n, size;
    lm_stop    stop;
    lm_error   error;
    lm_usage   usage;
    bool       ended;
} delivery;

/* One request. */
typedef struct test_request {
    lm_request         r;
    lm_sampler_options s;
    lm_token           prompt[LONGEST], stop_id;
    const char        *stops[2];
    uint32_t           n_vocab;
    size_t             hooked, fail_at;      /* calls of its hook; the one that fails, 0: none */
    delivery           alone, got;
    lm_reply          *reply;
} test_request;

uint32_t   vocabulary(const lm_model *m);
lm_engine *start_engine(const lm_model *m, lm_engine_options o);

/* Make request i. Requests share prompt prefixes and have all lengths; they are greedy or sampled, with
 * penalties, stops, hooks, log-probabilities. */
void make_request(test_request *x, unsigned i, const lm_model *m);

/* Run the request alone with lm_generate, into x->alone. */
void run_alone(lm_engine *g, test_request *x);

lm_schedule *start_schedule(lm_engine *g, lm_schedule_options o);
void submit(lm_schedule *s, test_request *x);

/* Record an event in x->got. Returns false once the request has ended. */
bool take_event(test_request *x, const lm_reply_event *e);

/* Read all events until the end, waiting for each. */
void read_reply(test_request *x);

/* Check that x->got equals x->alone, or (check_prefix) a prefix of it that ended with `stop`. */
void check_request(const char *what, const test_request *x);
void check_prefix(const char *what, const test_request *x, lm_stop stop);

void reset_request(test_request *x);               /* clear x->got and free the reply */

/* ---- a schedule and its requests ---- */

enum { MANY = EVERY == 1 ? 48 : 24 };

typedef struct fixture {
    lm_model    *m;
    lm_engine   *alone, *g, *draft;
    lm_schedule *s;
    test_request        x[MANY];
    int64_t      longer;                         /* tokens of each request, if more than usual; set before
                                                    open_fixture */
} fixture;

extern fixture f;

void open_fixture(const char *name, int64_t window, lm_engine_options o, lm_schedule_options so);
void free_replies(void);
void close_fixture(void);                        /* checks that every page is free */
void run_all(const char *name);                  /* all requests concurrently */

lm_schedule_statistics statistics(void);
void wait_until_quiet(void);
uint32_t roll(uint32_t n);

#endif
