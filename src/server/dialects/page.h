/* page.h - the page for browsers, which scripts/embed-page embeds into the program from web/dist. */
#ifndef LM_SERVER_PAGE_H
#define LM_SERVER_PAGE_H

#include <stddef.h>

extern const unsigned char lm_page_plain[], lm_page_gzip[];      /* one self-contained document */
extern const size_t        lm_page_plain_size, lm_page_gzip_size;
extern const char          lm_page_etag[];                       /* quoted */
/* Content-Security-Policy: the page's own script and style, by their hashes. */
extern const char          lm_page_policy[];

#endif
