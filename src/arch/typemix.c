/* typemix.c - the architectures that llama.cpp's quantizer treats apart. */
#include "arch/typemix.h"

#include <string.h>

#include "arch/config.h"

bool lm_mixture_is_coarse(const char *arch)
{
    for (size_t i = 0; lm_family_at(i); i++)
        for (const char *const *name = lm_family_at(i)->gguf_archs; name && *name; name++)
            if (lm_family_at(i)->coarse_mixture && strcmp(*name, arch) == 0)
                return true;
    return false;
}

bool lm_mixture_is_big(const char *arch, uint32_t n_layers, uint32_t n_heads, uint32_t n_kv_heads)
{
    static const char *const eighty[] = { "qwen2", "deci", "olmo" };

    if (strcmp(arch, "llama") == 0)
        return n_layers == 80 && n_heads != n_kv_heads;
    for (size_t i = 0; i < sizeof eighty / sizeof *eighty; i++)
        if (strcmp(arch, eighty[i]) == 0)
            return n_layers == 80;
    return strcmp(arch, "jais2") == 0 && n_layers == 68;
}
