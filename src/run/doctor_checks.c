/* Checks of this process: versions, BLAS, memory, limits, locale. */
#include "math/isa.h"
#include "math/linalg.h"
#include "math/products.h"
#include "records/results.h"
#include "run/doctor.h"
#include "util/version.h"
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void doctor_note(struct doctor *d, const char *name, json_t *value)
{
    json_t *section = json_object_get(d->findings, d->heading);
    if (!section) {
        section = json_object();
        json_object_set_new(d->findings, d->heading, section);
    }
    json_object_set_new(section, name, value);
}

void doctor_warn(struct doctor *d, const char *remedy, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    json_array_append_new(d->warnings, json_pack("{s:s, s:s, s:s}", "about", d->heading, "text",
                                                 text, "remedy", remedy));
}

void doctor_check_versions(struct doctor *d)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    int n, provided;
    d->heading = "versions";
    MPI_Get_library_version(mpi, &n);
    mpi[strcspn(mpi, "\n")] = '\0';
    MPI_Query_thread(&provided);
    doctor_note(d, "qtraj", json_string(version_text));
    doctor_note(d, "mpi", json_string(mpi));
    doctor_note(d, "hdf5", json_string(results_hdf5_version()));
    doctor_note(d, "jansson", json_string(JANSSON_VERSION));
    doctor_note(d, "compiler", json_string(__VERSION__));
    doctor_note(d, "kernels", json_string(isa_name(isa_active())));
    if (provided < MPI_THREAD_FUNNELED)
        doctor_warn(d, "use an MPI library built with threads",
                    "MPI gives no thread support: OpenMP beside it may fail");
#if !defined(__OPTIMIZE__)
    doctor_warn(d, "cmake --preset release", "this binary was compiled without optimisation");
#endif
#if defined(__SANITIZE_ADDRESS__)
    doctor_warn(d, "cmake --preset release", "this binary has sanitizers: only for tests");
#endif
    enum isa widest = ISA_PLAIN;
    for (int i = 0; i < ISA_N; i++)
        if (isa_runs((enum isa)i)) widest = (enum isa)i;
    if (isa_active() != widest)
        doctor_warn(d, "unset QTRAJ_KERNELS",
                    "the %s kernels are in use on a CPU that has %s: slower",
                    isa_name(isa_active()), isa_name(widest));
}

static bool is_avx512(const char *blas)
{
    return strcasestr(blas, "skylakex") || strcasestr(blas, "cooperlake") ||
           strcasestr(blas, "sapphirerapids");
}

enum status doctor_check_blas(struct doctor *d, const struct doctor_ranks *r, struct err *e)
{
    const double giga = 1e9;
    struct linalg_fortran f;
    d->heading = "blas";
    PASS(linalg_fortran_measure(0.1, &f, e));
    doctor_note(d, "library", json_string(linalg_blas_name()));
    doctor_note(d, "sgemm_gflops", json_real(r->rates.sgemm / giga));
    doctor_note(d, "dgemm_gflops", json_real(r->rates.dgemm / giga));
    doctor_note(d, "dgemm_gflops_a_thread", json_real(f.cblas / giga));
    doctor_note(d, "scalapack_calls", json_string(f.library));
    doctor_note(d, "scalapack_dgemm_gflops_a_thread", json_real(f.dgemm / giga));
    /* Minimum rate of an optimised kernel on one core: with AVX2 eight operations per cycle at 2
     * GHz; a reference BLAS reaches a third of that. */
    if (f.cblas < (isa_runs(ISA_AVX2) ? 10e9 : 2e9))
        doctor_warn(d, "install an optimised OpenBLAS for this CPU (its pthread or serial build)",
                    "dgemm reaches %.2g GFLOP/s a thread: a reference BLAS, or a busy machine",
                    f.cblas / giga);
    if (f.dgemm < 0.5 * f.cblas)
        doctor_warn(d,
                    "choose OpenBLAS as libblas.so.3 and liblapack.so.3 "
                    "(update-alternatives --config libblas.so.3-$(uname -m)-linux-gnu)",
                    "ScaLAPACK calls %s, which reaches %.2g GFLOP/s beside %.2g", f.library,
                    f.dgemm / giga, f.cblas / giga);
    const char *forced = getenv("OPENBLAS_CORETYPE"), *blas = linalg_blas_name();
    if (forced && forced[0] && isa_runs(ISA_AVX512) && !is_avx512(blas))
        doctor_warn(d, "unset OPENBLAS_CORETYPE, unless results must not change",
                    "OPENBLAS_CORETYPE=%s, and %s on a CPU with AVX-512: slower products", forced,
                    blas);
    else if (linalg_blas_is_generic() && forced && forced[0])
        doctor_warn(d, "unset OPENBLAS_CORETYPE, unless results must not change",
                    "OPENBLAS_CORETYPE=%s, and %s: kernels for an old CPU", forced, blas);
    else if (linalg_blas_is_generic())
        doctor_warn(d, "a CPU with AVX2", "%s: kernels for an old CPU", blas);
    return OK;
}

/* What run.products can choose from. On a CPU without instructions for bf16 nothing is wrong. */
void doctor_check_products(struct doctor *d, const struct doctor_ranks *r)
{
    d->heading = "products";
    doctor_note(d, "f32_gflops", json_real(1e-9 * r->rates.sgemm));
    doctor_note(d, "f32_by", json_string(products_unit(PRODUCTS_F32)));
    doctor_note(d, "bf16_gflops", json_real(1e-9 * r->rates.bf16));
    doctor_note(d, "bf16_by", json_string(products_unit(PRODUCTS_BF16)));
    if (!products_native()) doctor_note(d, "because", json_string(products_why_not()));
    doctor_note(d, "integers_by", json_string(integers_unit()));
    doctor_note(d, "bf16_workers", json_integer(r->bf16_workers));
    if (r->auto_workers > 0 && r->auto_workers < r->workers)
        doctor_note(d, "auto_takes",
                    json_sprintf("bf16x3 on %d of %d workers, f32 in groups with others",
                                 (int)r->auto_workers, (int)r->workers));
    else
        doctor_note(d, "auto_takes", json_string(r->auto_workers ? "bf16x3" : "f32"));
    if (products_remedy())
        doctor_warn(d, products_remedy(),
                    "this CPU has instructions for bf16, but %s: run.products bf16 is no faster "
                    "than f32",
                    products_why_not());
}

void doctor_check_memory(struct doctor *d, const struct doctor_ranks *r)
{
    const int64_t gib = INT64_C(1) << 30;
    const struct limits *l = &r->limits;
    d->heading = "memory";
    doctor_note(d, "machine_bytes", json_integer(l->machine_memory));
    doctor_note(d, "limit_bytes", json_integer(l->memory));
    doctor_note(d, "limit_from", json_string(l->memory_from));
    doctor_note(d, "available_bytes", json_integer(l->available));
    doctor_note(d, "rank_bytes", json_integer(r->memory_least));
    if (r->memory_least < 2 * gib)
        doctor_warn(d, "fewer ranks a node, or ask the batch system for more memory",
                    "a rank has %.1f GiB (%s): enough for models below 1B only",
                    (double)r->memory_least / (double)gib, l->memory_from);
    if (l->available < l->memory / 2)
        doctor_warn(d, "wait for others' jobs, or set run.memory_per_rank to what is free",
                    "%.1f GiB of %.1f GiB are free: other processes hold the rest",
                    (double)l->available / (double)gib, (double)l->memory / (double)gib);
}

static void check_limit(struct doctor *d, const char *name, int which, rlim_t least,
                        const char *remedy)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0) return;
    bool none = limit.rlim_cur == RLIM_INFINITY;
    doctor_note(d, name,
                none ? json_string("unlimited") : json_integer((json_int_t)limit.rlim_cur));
    if (!none && limit.rlim_cur < least)
        doctor_warn(d, remedy, "%s is limited to %llu", name, (unsigned long long)limit.rlim_cur);
}

void doctor_check_limits(struct doctor *d)
{
    d->heading = "limits";
    check_limit(d, "open_files", RLIMIT_NOFILE, 512,
                "ulimit -n 4096: shards and scratch are open "
                "at the same time");
    check_limit(d, "file_size", RLIMIT_FSIZE, RLIM_INFINITY,
                "ulimit -f unlimited: scratch and "
                "journals may be large");
    check_limit(d, "address_space", RLIMIT_AS, RLIM_INFINITY,
                "ulimit -v unlimited: mapped files count as well");
    check_limit(d, "stack", RLIMIT_STACK, 1 << 20, "ulimit -s 8192");
    check_limit(d, "core_dump", RLIMIT_CORE, 0, "");
}

void doctor_check_locale(struct doctor *d)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL;
    d->heading = "locale";
    for (int i = 0; i < 3 && !(value && value[0]); i++) value = getenv(names[i]);
    if (!value || !value[0]) value = "C";
    doctor_note(d, "locale", json_string(value));
    doctor_note(d, "decimal_point", json_string(localeconv()->decimal_point));
    if (strcmp(localeconv()->decimal_point, ".") != 0)
        doctor_warn(d, "LC_NUMERIC=C", "numbers are written with \"%s\" for a point",
                    localeconv()->decimal_point);
    if (!strcasestr(value, "utf-8") && !strcasestr(value, "utf8") && strcmp(value, "C") != 0 &&
        strcmp(value, "POSIX") != 0)
        doctor_warn(d, "LC_ALL=C.UTF-8", "%s is no UTF-8 locale: labels may be unreadable", value);
}
