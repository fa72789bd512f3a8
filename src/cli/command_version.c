/* lamina version - print the version, the build and the libraries. */
#include "cli/base/output.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

json_t *lm_libraries_json(void)
{
    json_t *all = json_object();
    const char *name, *found;

    for (uint32_t i = 0; (name = lm_machine_library(i, &found)); i++)
        json_object_set_new(all, name, json_string(found));
    json_object_set_new(all, "libedit", json_string(LM_LIBEDIT_VERSION));
    if (lm_cluster_library())
        json_object_set_new(all, "MPI", json_string(lm_cluster_library()));
    return all;
}

void lm_libraries_text(lm_text *out)
{
    const char *name, *found;

    for (uint32_t i = 0; (name = lm_machine_library(i, &found)); i++)
        lm_text_printf(out, "%s %s, ", name, found);
    lm_text_printf(out, "libedit %s", LM_LIBEDIT_VERSION);
    if (lm_cluster_library())
        lm_text_printf(out, ", %s", lm_cluster_library());
}

static lm_status version(lm_cli *cli, void *options, lm_error *e)
{
    lm_text out = { 0 };
    lm_status status;

    (void)options;
    if (cli->json)
        return lm_out_json(cli, json_pack("{s:s, s:{s:s, s:s, s:s, s:s}, s:o}", "version", LAMINA_VERSION,
                                          "build", "type", LM_BUILD_TYPE, "compiler", COMPILER,
                                          "machine", LM_BUILD_MACHINE, "sanitizers", LM_BUILD_SANITIZERS,
                                          "libraries", lm_libraries_json()), e);
    lm_text_add_str(&out, "lamina " LAMINA_VERSION "\n" LM_BUILD_TYPE " build for " LM_BUILD_MACHINE
                          ", " COMPILER ", sanitizers: " LM_BUILD_SANITIZERS "\n");
    lm_libraries_text(&out);
    lm_text_add_char(&out, '\n');
    status = lm_out_buf(&out, e);
    lm_text_free(&out);
    return status;
}

const lm_command lm_command_version = {
    .name = "version",
    .usage = "",
    .summary = "print the version and the libraries it was built with",
    .run = version,
};
