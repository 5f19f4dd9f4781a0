/* version: what this binary is. */
#pragma once

/* "0.1.0+1a2b3c4": the release and the commit it was built from ("+unknown" outside a checkout,
 * "-dirty" with changes). */
extern const char version_text[];
/* The two parts. */
extern const char version_release[], version_commit[];
