#!/usr/bin/env python3
"""Every rule of source.py finds what breaks it and leaves alone what does not."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import source  # noqa: E402

PARALLEL = "void f(void)\n{\n#pragma omp parallel for\n    for (int i = 0; i < n; i++)%s\n    TRY(g(e));\n}\n"

# rule, path, text, lines that it names
SAMPLES = [
    ("openmp", "src/a/b.c", PARALLEL % "\n        TRY(g(i, e));", [5]),
    ("openmp", "src/a/b.c", PARALLEL % " {\n        if (i) goto done;\n    }", [5]),
    ("openmp", "src/a/b.c", PARALLEL % "\n        for (;;)\n            if (i)\n                h();\n            else\n"
     "                ENSURE(i, ERR_IO, \"\");", [9]),
    ("openmp", "src/a/b.c", PARALLEL % " {\n        h(\"} TRY(\"); /* TRY(x) */\n    }", []),
    ("openmp", "src/a/b.c", PARALLEL % "\n        h();", []),
    ("openmp", "src/a/b.c", "#pragma omp parallel \\\n    private(i)\n#pragma omp single\n{\n    FAIL(ERR_IO, \"\");\n}\n", [5, 5]),
    ("forms", "src/a/b.c", "int f(void)\n{\n    PASS(g(e));\n    TRY(h(e));\ndone:\n    return st;\n}\n", [3]),
    ("forms", "src/a/b.c", "int f(void)\n{\n    NEED(a, ERR_IO, \"TRY(\");\n    RAISE(ERR_IO, \"\");\n}\n", []),
    ("forms", "src/a/b.c", "int f(void)\n{\n    AUTO_FREE char *a = NULL;\n    TRY(h(&a, e));\ndone:\n    return st;\n}\n", [3]),
    ("forms", "src/a/b.c", "int f(void)\n{\n    json_auto_t *a = g(1, 2), *b;\n    CLEANUP(c_free)\n    struct c c;\n}\n", [3, 4]),
    ("forms", "src/a/b.c", "int f(void)\n{\n    CLEANUP(c_free) struct c c = {.a = {0}, .b = g(1, \";\")}, *d = NULL;\n}\n", []),
    ("functions", "src/a/b.c", "/* a */\nstatic int f(int a,\n             int b)\n{\n%s}\n" % (46 * "    a++;\n"), []),
    ("functions", "src/a/b.c", "/* a */\nstatic int f(int a,\n             int b)\n{\n%s}\n" % (47 * "    a++;\n"), [2]),
    ("contracts", "src/a/b.h", "#pragma once\n", [1]),
    ("contracts", "src/a/b.h", "/* b */\n\nint f(void);\n", [3]),
    ("contracts", "src/a/b.h", "/* b */\n\nstatic inline int f(int i)\n{\n    return g(i);\n}\n", [3]),
    ("contracts", "src/a/b.h", "/* b */\n\n/* Does it. */\nint f(int i);\nMUST_USE int g(int i,\n               int j);\n", []),
    ("contracts", "src/a/b.h", "/* b */\n\n/* Does it. */\nint f(int i);\n\nint g(int i);\n", [6]),
    ("contracts", "src/a/b.h", "/* b */\n\nstruct s {\n    int (*f)(int i);\n};\ntypedef int t(int i);\n", []),
    ("contracts", "src/a/b.c", "int f(void);\n", []),
    ("openings", "src/a/b.c", "#include <math.h>\n", [1]),
    ("openings", "src/a/b.c", "/* b */\n", []),
    ("openings", "src/util/err.c", "#include <math.h>\n", []),
    ("layers", "src/util/b.c", "#include \"cli/cli.h\"\n", [1]),
    ("layers", "src/cli/b.c", "#include \"util/err.h\"\n", []),
    ("layers", "src/engine/b.c", "\n    PASS(tokenizer_open(path, &t, e));\n", [2]),
    ("layers", "src/engine/inputs.c", "    PASS(tokenizer_open(path, &t, e));\n", []),
    ("layers", "src/plan/b.c", "\n    TRY(mem_format(&t, e, \"%s.%ld\", path,\n                   (long)getpid()));\n", [2]),
    ("layers", "src/plan/b.c", "    TRY(mem_format(&t, e, \"%s\", path));\n    kill(getpid(), 9);\n", []),
    ("layers", "src/cli/b.c", "\nMPI_Barrier(MPI_COMM_WORLD);\n", [2]),
]
NAMES = ["src/a/b.c", "src/a/b.h", "src/c/b.h"]
B, C = '#include "a/b.h"\n', '#include "a/c.h"\n'
# files, those that the rule circles names
CIRCLES = [
    ({"src/a/b.c": B + C, "src/a/b.h": "", "src/a/c.h": "", "src/a/c.c": C + '#include "a/d.h"\n', "src/a/d.h": B}, ["src/a/b.h"]),
    ({"src/a/b.c": '#include "a/b_internal.h"\n', "src/a/b_internal.h": B, "src/a/b.h": C, "src/a/d.h": B + C}, []),
]

SIZES = [
    ({"src/a/b.c": 450 * "\n", "src/c/b.c": 451 * "\n"}, ["src/c/b.c"]),
    ({f"src/{'ac'[i == 0]}/b{i}.c": 433 * "\n" for i in range(16)}, []),
    ({f"src/a/b{i}.c": 407 * "\n" for i in range(16)}, ["src/a"]),
]

os.chdir(sys.argv[1])
wrong = 0
for rule, path, text, expected in SAMPLES:
    found = [line for line, _ in source.RULES[rule](path, text)]
    if found != expected:
        wrong += 1
        print(f"{rule} names the lines {found}, not {expected}, of\n{text}")
found = [path for path, _, _ in source.names(NAMES)]
if found != NAMES[2:]:
    wrong += 1
    print(f"names: {found}")
for rule, samples in ((source.circles, CIRCLES), (source.sizes, SIZES)):
    for files, expected in samples:
        found = [path for path, _, _ in rule(files)]
        if found != expected:
            wrong += 1
            print(f"{rule.__name__} names {found}, not {expected}, of {files}")
sys.exit(wrong != 0)
