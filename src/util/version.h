/* version: what this binary is. */
#pragma once

/* "0.1.0+1a2b3c4": the release and the commit it was built from ("+unknown" outside a checkout,
 * "-dirty" with changes). */
const char *version_text(void);
/* The two parts. */
const char *version_release(void);
const char *version_commit(void);
