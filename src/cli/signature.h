/* signature.h - Ed25519 signatures (RFC 8032, libsodium) with keys in PEM files (RFC 7468, 8410), as openssl writes and reads them. */
#ifndef LM_CLI_SIGNATURE_H
#define LM_CLI_SIGNATURE_H

#include "lamina/buffer.h"

enum { LM_SIGNATURE_BYTES = 64 };

/* Append the signature of `data` with the private key of a PEM file: LM_SIGNATURE_BYTES. LM_USAGE: the file has no such key. */
lm_status lm_sign(const lm_text *data, const char *key_file, lm_text *signature, lm_error *e);

/* LM_DIFFERS: `signature` is not a signature of `data` with the key whose public half is in a PEM file. LM_USAGE: the file has none. */
lm_status lm_check_signature(const lm_text *data, const lm_text *signature, const char *public_key_file, lm_error *e);

#endif
