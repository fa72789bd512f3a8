/* certificate.h - what a model's files are, and with which references of other programs the engine agrees on them.
 *
 * A reference is a file of logits, as lamina verify reads it, or JSON lines of texts: {"text", "ids"} for the tokenizer, {"messages" and
 * other variables, "rendered"} for the chat template. The document is described in docs/schema/certify.schema.json. */
#ifndef LM_CLI_CERTIFICATE_H
#define LM_CLI_CERTIFICATE_H

#include <jansson.h>

#include "cli/options.h"

typedef struct lm_certifier {
    lm_cli           *cli;
    const lm_model   *model;
    lm_engine_options engine;            /* of logits */
    double            tol;               /* maximum relative error of a row of logits; as in lm_verify_options */
} lm_certifier;

/* List the files that a model was read from: an array of {name, bytes, sha256}, weights first. The caller owns it. */
lm_status lm_certificate_files(const lm_certifier *c, json_t **out, lm_error *e);

/* Compare the model with a reference. `out`: what agreed, as an entry of the certificate, which the caller owns. LM_DIFFERS: something
 * does not agree, and there is no entry. */
lm_status lm_certificate_reference(const lm_certifier *c, const char *path, json_t **out, lm_error *e);

/* Compute the SHA-256 of a file: 64 hexadecimal digits. */
lm_status lm_file_sha256(const char *path, char out[65], uint64_t *bytes, lm_error *e);

/* Check a certificate: the signature if `public_key` is given, the files of the model, and the references in cli->args after the model,
 * which the certificate must name; print the result. LM_DIFFERS: something is not as the certificate states. */
lm_status lm_certificate_verify(lm_cli *cli, lm_model_flags *model, const char *file, const char *public_key,
                                const lm_engine_options *engine, lm_error *e);

#endif
