/* lamina cluster run - run a job of several ranks and restart it when it fails. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "cli/run/splitting.h"
#include "cli/run/cluster.h"

/* seconds; after STEADY the next pause is the shortest again */
enum { LONGEST_PAUSE = 30, STEADY = 60 };

typedef struct watched {
    sigset_t signals, before;
    uint32_t grace;
    char     lost[4096];                 /* the file that a rank creates when it has lost another rank */
    bool     stop_requested;             /* a termination signal was received */
} watched;

static lm_status start(lm_cli *cli, const watched *w, pid_t *out, lm_error *e)
{
    *out = fork();
    if (*out < 0)
        return lm_fail_errno(e, cli->args[1], "cannot be started");
    if (*out)
        return LM_OK;
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &w->before, NULL);
    /* POSIX declares the strings without const, and does not change them. */
    execvp(cli->args[1], (char *const *)(void *)&cli->args[1]);
    _exit(errno == ENOENT ? 127 : 126);
}

/* Wait for the job and forward termination signals to it, then kill the remaining processes of its group.
 * Return its exit status, or 128 + the signal that ended it. */
static int wait_for(watched *w, pid_t pid)
{
    int    status = 0, number;
    double end = 0;

    while (waitpid(pid, &status, WNOHANG) != pid) {
        double          left = end - lm_clock_seconds();
        struct timespec t = { 0 };
        if (left > 0)
            t = (struct timespec){ (time_t)left, (long)(1e9 * (left - (double)(time_t)left)) };
        number = w->stop_requested ? sigtimedwait(&w->signals, NULL, &t) : sigwaitinfo(&w->signals, NULL);
        if (number > 0 && number != SIGCHLD) {
            end = w->stop_requested ? end : lm_clock_seconds() + w->grace;
            w->stop_requested = true;
            kill(pid, number);
        } else if (number < 0 && errno == EAGAIN) {
            lm_print_line("the job has not ended %u s after the signal: killed", w->grace);
            kill(-pid, SIGKILL);
            end = lm_clock_seconds() + w->grace;
        }
    }
    kill(-pid, SIGKILL);                 /* leave no process of the job on this machine */
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Return whether another start may succeed. It cannot after a usage error or a failed comparison, with a
 * damaged or unsupported model, with a model that does not fit, or when the command cannot be executed. */
static bool gets_better(int code)
{
    return code != 2 && code != 3 && code != 4 && code != 5 && code != 126 && code != 127;
}

static void pause_for(watched *w, uint32_t seconds)
{
    double until = lm_clock_seconds() + seconds;

    for (double left; !w->stop_requested && (left = until - lm_clock_seconds()) > 0;) {
        struct timespec t = { (time_t)left, (long)(1e9 * (left - (double)(time_t)left)) };
        int             number = sigtimedwait(&w->signals, NULL, &t);
        w->stop_requested |= number > 0 && number != SIGCHLD;
    }
}

static lm_status run_again_and_again(lm_cli *cli, watched *w, lm_error *e)
{
    uint32_t pause = 1;
    pid_t    pid;

    for (;;) {
        double began = lm_clock_seconds();
        LM_TRY(start(cli, w, &pid, e));
        int  code = wait_for(w, pid);
        bool lost = unlink(w->lost) == 0;
        if (w->stop_requested)
            return LM_OK;
        if (code == 0 && !lost)
            return LM_OK;
        if (!lost && !gets_better(code))
            return lm_fail(e, LM_FAILED, cli->args[1], LM_NO_OFFSET,
                           code == 127 ? "not found"
                                       : "ended with status %d, which another start"
                                         " would not change",
                           code);
        pause = lm_clock_seconds() - began > STEADY ? 1 : pause;
        if (lost)
            lm_print_line("%s: a rank was lost; started again in %u s", cli->args[1], pause);
        else
            lm_print_line("%s: ended with status %d; started again in %u s", cli->args[1], code, pause);
        pause_for(w, pause);
        if (w->stop_requested)
            return LM_OK;
        pause = 2 * pause < LONGEST_PAUSE ? 2 * pause : LONGEST_PAUSE;
    }
}

/* Choose a file that nobody can have planted: in a folder of our own, under TMPDIR. */
static lm_status name_mark(watched *w, lm_error *e)
{
    const char *temporary = getenv("TMPDIR");
    char        folder[4000];

    snprintf(folder, sizeof folder, "%.3900s/lamina-lost-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder))
        return lm_fail_errno(e, folder, "cannot be made");
    snprintf(w->lost, sizeof w->lost, "%s/lost", folder);
    return LM_OK;
}

lm_status lm_cluster_keep_running(lm_cli *cli, const lm_cluster_flags *f, lm_error *e)
{
    watched w = { .grace = f->grace };

    if (cli->n_args < 2)
        return lm_fail(e, LM_USAGE, "run", LM_NO_OFFSET,
                       "requires a job: lamina cluster run -- mpirun -n 4 lamina serve MODEL --split tp=4");
    if (cli->json)
        return lm_fail(e, LM_USAGE, "--json", LM_NO_OFFSET, "flags of the job must follow --");
    LM_TRY(name_mark(&w, e));
    setenv(LM_LOST_MARK, w.lost, 1);
    sigemptyset(&w.signals);
    sigaddset(&w.signals, SIGTERM);
    sigaddset(&w.signals, SIGINT);
    sigaddset(&w.signals, SIGHUP);
    sigaddset(&w.signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &w.signals, &w.before);
    lm_status status = run_again_and_again(cli, &w, e);
    *strrchr(w.lost, '/') = '\0';
    rmdir(w.lost);
    return status;
}
