/* host.c - a program with its own threads, signals and faults that uses the installed library:
 * test_install.py builds and runs it.
 *
 *   host MODEL        exit 0: no handler of the host ran on a thread of the library, and a fault of the host
 *                     reached the host */
#include <lamina/lamina.h>

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static atomic_uint alarms, strays;
static atomic_bool over;
static pthread_t listener;
static sigjmp_buf back;

static void on_alarm(int number)
{
    (void)number;
    atomic_fetch_add(pthread_equal(pthread_self(), listener) ? &alarms : &strays, 1);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    siglongjmp(back, 1);
}

/* The only thread that does not block the alarm. */
static void *listen(void *arg)
{
    sigset_t none;

    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    while (!atomic_load(&over))
        usleep(1000);
    return arg;
}

/* Fault past the end of a file that the library has not mapped, on a thread that it has not created. Returns
 * NULL if no handler ran. */
static void *fault(void *arg)
{
    FILE *f = tmpfile();
    volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(f), 0);

    if (sigsetjmp(back, 1) != 0)
        return arg;
    (void)*page;
    return NULL;
}

static lm_status generate(lm_engine *engine, const lm_model *model, lm_error *e)
{
    lm_generate_options how = { .sequence = { .max_tokens = 24 } };
    lm_sampler_options choice = { .greedy = true };
    lm_generation done = { 0 };
    lm_sampler *sampler = NULL;
    lm_tokens prompt = { 0 };
    lm_model_info info;

    lm_model_describe(model, &info);
    lm_status status = lm_tokenize(lm_model_tokenizer(model), "Once upon a time", 16, LM_ADD_SPECIAL, &prompt,
                                   e);
    if (status == LM_OK)
        status = lm_sampler_new(&choice, info.n_vocab, NULL, &sampler, e);
    if (status == LM_OK)
        status = lm_generate(engine, sampler, prompt.ids, prompt.n, 0, &how, &done, e);
    lm_generation_free(&done);
    lm_sampler_free(sampler);
    lm_tokens_free(&prompt);
    return status;
}

int main(int argc, char **argv)
{
    struct sigaction alarm_action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    struct sigaction fault_action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    const struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
    lm_engine_options options = { .context = 128, .threads = 4 };
    lm_model *model = NULL;
    lm_engine *engine = NULL;
    void *heard = NULL;
    pthread_t t;
    sigset_t all;
    lm_error e;

    sigaction(SIGALRM, &alarm_action, NULL);
    sigaction(SIGBUS, &fault_action, NULL);
    if (argc != 2 || lm_model_open(argv[1], NULL, &model, &e) != LM_OK ||
        lm_engine_new(model, &options, &engine, &e) != LM_OK)
        return 2;
    pthread_create(&listener, NULL, listen, NULL);
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    lm_status status = generate(engine, model, &e);
    pthread_create(&t, NULL, fault, &heard);
    pthread_join(t, &heard);
    setitimer(ITIMER_REAL, &never, NULL);
    atomic_store(&over, true);
    pthread_join(listener, NULL);
    lm_engine_free(engine);
    lm_model_close(model);
    printf("%u alarms on the listener, %u elsewhere, fault %s, status %d\n", alarms, strays,
           heard ? "heard" : "lost", status);
    return status != LM_OK || !alarms || strays || !heard;
}
