/* model_fixtures: the models of tests/fixtures/models with reference outputs, one or more per
 * family. */
#pragma once

static const char *const model_fixtures[] = {
    "llama",
    "llama_rope_llama3",
    "llama_rope_yarn",
    "smollm3",
    "olmo2",
    "olmo3",
    "olmo3_yarn",
    "olmo",
    "apertus",
    "gpt_neox_parallel",
    "gpt_neox_sequential",
    "qwen2",
    "qwen3",
    "opensci",
};
enum { FIXTURES_N = sizeof model_fixtures / sizeof *model_fixtures };

/* BitNet b1.58: as it is, which has derivatives; and with ternary linears, from weights that become
 * so, from packed bytes, floats with a scale, and bytes of class bitlinear. */
static const char *const bitnet_fixtures[] = {"bitnet", "bitnet_online", "bitnet_packed",
                                              "bitnet_offline", "bitnet_bitlinear"};
enum { BITNETS_N = sizeof bitnet_fixtures / sizeof *bitnet_fixtures };

/* A sanitizer looks at memory, not at numbers: where families differ in numbers alone, tests under
 * it take every third model, among which are a plain one, one with layers without positions, one
 * with windows, a parallel one and one with norms of queries and keys. */
#ifdef __SANITIZE_ADDRESS__
enum { FIXTURES_STEP = 3 };
#else
enum { FIXTURES_STEP = 1 };
#endif
