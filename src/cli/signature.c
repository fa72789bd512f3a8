#include "cli/signature.h"

#include <sodium.h>
#include <string.h>

enum { MAX_PEM = 64 << 10, MAX_DER = 16 + crypto_sign_ed25519_SEEDBYTES };

/* RFC 8410, section 7 and 4: what precedes the 32 bytes of a key in DER. */
static const unsigned char before_private[] = { 0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20 };
static const unsigned char before_public[] = { 0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0 };

typedef struct key_form { const char *begin, *end, *remedy; const unsigned char *before; size_t n_before; } key_form;

static const key_form private_form = { "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----",
                                       "openssl genpkey -algorithm ed25519 -out FILE makes one", before_private, sizeof before_private };
static const key_form public_form = { "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----",
                                      "openssl pkey -in KEY -pubout -out FILE makes one from a private key",
                                      before_public, sizeof before_public };

/* Decode the key between the two lines of its form. Return whether it is an Ed25519 key. */
static bool decode(const lm_text *pem, const key_form *form, unsigned char key[32])
{
    const char    *begin = pem->data ? strstr(pem->data, form->begin) : NULL, *end = begin ? strstr(begin, form->end) : NULL;
    unsigned char  der[MAX_DER];
    size_t         n = 0;

    if (!end)
        return false;
    begin += strlen(form->begin);
    bool ok = sodium_base642bin(der, sizeof der, begin, (size_t)(end - begin), " \r\n", &n, NULL, sodium_base64_VARIANT_ORIGINAL) == 0 &&
              n == form->n_before + 32 && memcmp(der, form->before, form->n_before) == 0;
    if (ok)
        memcpy(key, der + form->n_before, 32);
    sodium_memzero(der, sizeof der);
    return ok;
}

static lm_status read_key(const char *path, const key_form *form, unsigned char key[32], lm_error *e)
{
    lm_text pem = { 0 };

    if (sodium_init() < 0)
        return lm_fail(e, LM_FAILED, "libsodium", LM_NO_OFFSET, "cannot be initialised");
    LM_TRY(lm_text_load(&pem, path, MAX_PEM, e));
    bool found = decode(&pem, form, key);
    if (pem.data)
        sodium_memzero(pem.data, pem.size);
    lm_text_free(&pem);
    if (found)
        return LM_OK;
    lm_fail(e, LM_USAGE, path, LM_NO_OFFSET, "no Ed25519 %s key in PEM form", form == &private_form ? "private" : "public");
    return lm_fail_hint(e, form->remedy);
}

lm_status lm_sign(const lm_text *data, const char *key_file, lm_text *signature, lm_error *e)
{
    unsigned char seed[crypto_sign_ed25519_SEEDBYTES], secret[crypto_sign_ed25519_SECRETKEYBYTES], bytes[LM_SIGNATURE_BYTES];
    unsigned char public_key[crypto_sign_ed25519_PUBLICKEYBYTES];

    LM_TRY(read_key(key_file, &private_form, seed, e));
    crypto_sign_ed25519_seed_keypair(public_key, secret, seed);
    crypto_sign_ed25519_detached(bytes, NULL, (const unsigned char *)data->data, data->size, secret);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret, sizeof secret);
    lm_text_add(signature, bytes, sizeof bytes);
    return LM_OK;
}

lm_status lm_check_signature(const lm_text *data, const lm_text *signature, const char *public_key_file, lm_error *e)
{
    const unsigned char *bytes = (const unsigned char *)signature->data, *signed_bytes = (const unsigned char *)data->data;
    unsigned char        key[crypto_sign_ed25519_PUBLICKEYBYTES];

    LM_TRY(read_key(public_key_file, &public_form, key, e));
    if (signature->size == LM_SIGNATURE_BYTES && crypto_sign_ed25519_verify_detached(bytes, signed_bytes, data->size, key) == 0)
        return LM_OK;
    return lm_fail(e, LM_DIFFERS, "signature", LM_NO_OFFSET, "not made for this certificate with the key of %s", public_key_file);
}
