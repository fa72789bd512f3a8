/* http_front.c - the thread of an address: it accepts connections and lets each continue when its socket is
 * ready, when another thread wakes it, or when its time is over. */
#include "server/front/http_exchange.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/thread.h"
#include "server/front/listen.h"
#include "server/front/memory.h"

enum { TICK_MS = 100, EVENTS = 64, ACCEPTS = 64 };
#define PAUSE_SECONDS 0.1                /* in accepting, when there are too few descriptors */

/* ---- epoll ---- */

static bool watch(lm_front *f, int fd, uint32_t events, void *of)
{
    struct epoll_event e = { .events = events, .data.ptr = of };

    return epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

/* Wait for what the connection needs next. One that is gone waits for its worker alone: the kernel would
 * report the end of the socket again and again. */
static void watch_connection(lm_connection *c)
{
    bool receives = c->phase != LM_PHASE_ANSWER;
    uint32_t events = (receives ? EPOLLIN : 0u) |
                      (c->out.size || (receives && c->tls && lm_tls_sends(c->tls)) ? EPOLLOUT : 0u) |
                      (atomic_load(&c->left) ? 0u : EPOLLRDHUP);
    struct epoll_event e = { .events = events, .data.ptr = c };

    if (c->gone)
        epoll_ctl(c->front->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    else if (events != c->events)
        epoll_ctl(c->front->epoll, EPOLL_CTL_MOD, c->fd, &e);
    c->events = events;
}

static void settle(lm_connection *c, bool stays)
{
    if (stays)
        watch_connection(c);
    else
        lm_connection_free(c);
}

/* ---- accepting ---- */

static void set_address(lm_connection *c, const struct sockaddr_storage *from)
{
    if (from->ss_family == AF_INET) {
        c->address[0] = 4;               /* no address of IPv6 begins so */
        memcpy(c->address + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
    } else if (from->ss_family == AF_INET6) {
        memcpy(c->address, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
    }
}

/* Whether the address may not have another connection. */
static bool has_too_many(const lm_front *f, const lm_connection *new)
{
    static const unsigned char none[16];
    uint32_t max = f->http->o.per_address, n = 0;

    if (!max || !memcmp(new->address, none, 16))
        return false;
    for (const lm_connection *c = f->first; c; c = c->next)
        n += memcmp(c->address, new->address, 16) == 0;
    return n >= max;
}

/* Add a connection; false: the socket is to be closed. */
static bool add(lm_front *f, int fd, const struct sockaddr_storage *from)
{
    lm_connection *c = f->n < f->http->o.connections ? lm_memory_zero(1, sizeof *c) : NULL;
    int yes = 1;

    if (!c)
        return false;
    *c = (lm_connection){ .front = f, .fd = fd, .events = EPOLLIN | EPOLLRDHUP, .next = f->first,
                          .link = &f->first, .number = atomic_fetch_add(&f->http->numbers, 1) + 1 };
    set_address(c, from);
    if (has_too_many(f, c) || (f->http->tls && !(c->tls = lm_tls_open(f->http->tls, fd))) ||
        !watch(f, fd, c->events, c)) {
        lm_tls_close(c->tls);
        lm_heap_free(c);
        return false;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    lm_connection_until(c, f->http->o.header_seconds);
    if (c->next)
        c->next->link = &c->next;
    f->first = c;
    f->n++;
    return true;
}

/* Return a new socket, or -1. */
static int accept_one(lm_front *f, struct sockaddr_storage *from)
{
    socklen_t size = sizeof *from;
    int fd = -1;

    from->ss_family = AF_UNSPEC;
    pthread_mutex_lock(&f->lock);
    if (f->listener >= 0)
        fd = accept4(f->listener, (struct sockaddr *)from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    pthread_mutex_unlock(&f->lock);
    return fd;
}

static void listen_again(lm_front *f, bool listens)
{
    struct epoll_event e = { .events = listens ? EPOLLIN : 0, .data.ptr = f };

    f->accepts_at = listens ? 0 : lm_clock_seconds() + PAUSE_SECONDS;
    pthread_mutex_lock(&f->lock);
    if (f->listener >= 0)
        epoll_ctl(f->epoll, EPOLL_CTL_MOD, f->listener, &e);
    pthread_mutex_unlock(&f->lock);
}

static void accept_some(lm_front *f)
{
    struct sockaddr_storage from;
    int fd;

    for (unsigned i = 0; i < ACCEPTS; i++) {
        if ((fd = accept_one(f, &from)) < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                listen_again(f, false);
            return;
        }
        if (!add(f, fd, &from))
            close(fd);
    }
}

/* ---- the thread ---- */

static void take_event(lm_connection *c, uint32_t events)
{
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        atomic_store(&c->left, true);
    if (events & (EPOLLHUP | EPOLLERR) && c->phase == LM_PHASE_ANSWER)
        c->gone = true;
    settle(c, lm_connection_advance(c));
}

static void take_wakes(lm_front *f)
{
    lm_wake *w;

    lm_wakes_heard(&f->wakes);
    while ((w = lm_wakes_take(&f->wakes)))
        settle((lm_connection *)w, lm_connection_advance((lm_connection *)w));
}

static void take_due(lm_front *f)
{
    double now = lm_clock_seconds();

    if (f->accepts_at > 0 && f->accepts_at <= now)
        listen_again(f, true);
    for (lm_connection *c = f->first, *next; c; c = next) {
        next = c->next;
        if (c->due > 0 && c->due <= now) {
            c->due = 0;
            settle(c, lm_connection_due(c));
        }
    }
}

/* Send what is ready, and close. No worker has an exchange any more. */
static void close_all(lm_front *f)
{
    while (f->first) {
        lm_connection *c = f->first;
        if (c->exchange)
            (void)lm_connection_advance(c);
        lm_connection_free(c);
    }
}

static void *run(void *arg)
{
    lm_front *f = arg;
    struct epoll_event events[EVENTS];
    double last = 0;

    while (atomic_load(&f->runs)) {
        int n = epoll_wait(f->epoll, events, EVENTS, TICK_MS);

        for (int i = 0; i < n; i++)
            if (events[i].data.ptr == f)
                accept_some(f);
            else if (events[i].data.ptr)
                take_event(events[i].data.ptr, events[i].events);
        take_wakes(f);
        if (lm_clock_seconds() - last >= 1e-3 * TICK_MS) {
            take_due(f);
            last = lm_clock_seconds();
        }
    }
    close_all(f);
    return NULL;
}

/* ---- beginning and end ---- */

static lm_status open_front(lm_front *f, const char *host, lm_error *e)
{
    lm_text url = { 0 }, whole = { 0 };

    if ((f->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0 || !lm_wakes_open(&f->wakes) ||
        !watch(f, f->wakes.event, EPOLLIN, NULL))
        return lm_fail_errno(e, "connections", "cannot be awaited");
    LM_TRY(lm_listen(host, f->http->o.port, &f->listener, &url, e));
    if (strncmp(url.data, "unix:", 5))
        lm_text_add_str(&whole, f->http->tls ? "https://" : "http://");
    lm_text_add_str(&whole, url.data);
    lm_text_free(&url);
    f->url = whole.data;
    if (whole.failed)
        return lm_fail_memory(e, "the address", 64);
    if (fcntl(f->listener, F_SETFL, O_NONBLOCK) < 0 || !watch(f, f->listener, EPOLLIN, f))
        return lm_fail_errno(e, f->url, "cannot be served");
    atomic_store(&f->runs, true);
    int why = lm_thread_start(&f->thread, run, f, "lamina-front", 0);
    atomic_store(&f->runs, !why);
    return why ? lm_fail(e, LM_FAILED, "connections", LM_NO_OFFSET, "cannot start a thread: error %d", why)
               : LM_OK;
}

lm_status lm_front_start(lm_http *h, const char *host, lm_front **out, lm_error *e)
{
    lm_front *f = lm_memory_zero(1, sizeof *f);

    if (!f)
        return lm_fail_memory(e, "connections", sizeof *f);
    f->http = h;
    f->epoll = f->listener = f->wakes.event = -1;
    pthread_mutex_init(&f->lock, NULL);
    lm_status status = open_front(f, host, e);
    if (status == LM_OK)
        *out = f;
    else
        lm_front_free(f);
    return status;
}

void lm_front_quiesce(lm_front *f)
{
    pthread_mutex_lock(&f->lock);
    int fd = f->listener;
    f->listener = -1;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && f->url && strncmp(f->url, "unix:", 5) == 0)
        unlink(f->url + 5);
    pthread_mutex_unlock(&f->lock);
}

void lm_front_free(lm_front *f)
{
    lm_front_quiesce(f);
    if (atomic_load(&f->runs)) {
        atomic_store(&f->runs, false);
        lm_wakes_ring(&f->wakes);
        pthread_join(f->thread, NULL);
    }
    lm_wakes_close(&f->wakes);
    if (f->epoll >= 0)
        close(f->epoll);
    pthread_mutex_destroy(&f->lock);
    lm_heap_free(f->url);
    lm_heap_free(f);
}
