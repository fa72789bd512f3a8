/* links.c - network types by name. Rates are those that programs achieve, not the nominal ones. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "lamina/study/clusterplan.h"

#define LINK(name_, title_, latency_, rate_, source_) \
    { .name = name_, .title = title_, .latency = latency_, .bytes_per_second = rate_, .source = source_ }

static const lm_link links[] = {
    LINK("25gbe", "25 Gbit/s Ethernet, TCP", 20e-6, 2.8e9, "assumed: nine tenths of the line, the latency of kernel TCP"),
    LINK("1gbe", "1 Gbit/s Ethernet, TCP", 30e-6, 118e6, "118 MB/s is the line without headers; 23 to 35 µs of TCP have been published"),
    LINK("10gbe", "10 Gbit/s Ethernet, TCP", 25e-6, 1.15e9, "assumed: nine tenths of the line, the latency of kernel TCP"),
    LINK("100gbe", "100 Gbit/s Ethernet, RDMA (RoCE)", 4e-6, 11.5e9, "assumed: nine tenths of the line, twice the latency of InfiniBand"),
    LINK("ib400", "400 Gbit/s InfiniBand", 2e-6, 45e9, "assumed: nine tenths of the line; 1.6 µs have been published of older cards"),
};

const lm_link *lm_link_at(size_t i)
{
    return i < sizeof links / sizeof *links ? &links[i] : NULL;
}

lm_status lm_link_find(const char *name, const lm_link **out, lm_error *e)
{
    LM_REQUIRE(e, name && out);
    char   list[128] = "";
    size_t n         = 0;

    for (size_t i = 0; lm_link_at(i); i++) {
        if (strcmp(links[i].name, name) == 0) {
            *out = &links[i];
            return LM_OK;
        }
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", links[i].name);
    }
    return lm_fail(e, LM_USAGE, "link", LM_NO_OFFSET, "\"%s\" is none of %s", name, list);
}
