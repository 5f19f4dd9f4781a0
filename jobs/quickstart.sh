#!/usr/bin/env bash
# From a fresh clone to a report: installs missing packages, builds, runs the sweep of configs/quickstart, prints the
# results and writes a page with figures. Started again, it skips what is finished. Exits with the sweep's exit code.
set -u
. "$(dirname "$0")/lib.sh"

sweep=configs/quickstart/quickstart.yaml
results=results/quickstart.h5
figures=results/quickstart
page=$figures/report.html
faq=/usr/share/doc/debian/FAQ/debian-faq.en.txt.gz
qtraj=build/release/qtraj

install() {
    install_packages build products text analysis
    python_find
    text_find
}

# Finds the Debian FAQ; if it is not available, uses this project's documentation. Container images often skip the
# documentation of packages; then the package is downloaded and unpacked. Sets $overrides.
text_find() {
    local unpacked=$figures/text
    overrides=()
    [ ! -r $faq ] || return 0
    mkdir -p $unpacked
    if [ ! -r $unpacked$faq ] && command -v apt-get >/dev/null; then
        (cd $unpacked && apt-get -q download debian-faq && dpkg-deb -x debian-faq_*.deb .) >>build/install.log 2>&1
    fi
    if [ -r $unpacked$faq ]; then
        text=$unpacked$faq
    else
        text=$unpacked/pages.txt
        find README.md docs configs src -name '*.md' -o -name '*.h' | LC_ALL=C sort | xargs cat >$text
        say "install: the Debian FAQ cannot be had here; this project's own pages are quantized on instead, so the" \
            "numbers differ from those of the README"
    fi
    overrides=(--set "calibration.text=$PWD/$text" --set "evaluation[0].text=$PWD/$text")
}

# One worker per core, at most one per checkpoint (thirteen with the averages), and the master, which needs no core.
run_sweep() {
    local workers
    workers=$(cores)
    [ "$workers" -le 13 ] || workers=13
    mpirun -n $((workers + 1)) $qtraj run $sweep "${overrides[@]}" </dev/null
}

report_fresh() {
    local newest
    newest=$(ls -t $results analysis/*.py analysis/qtraj/*.py analysis/qtraj/*/*.py analysis/qtraj/*/*.html $page 2>/dev/null | head -n 1)
    [ "$newest" = $page ]
}

# Most added losses at 8 bits are not told from zero, so no law is fitted to them.
write_report() {
    if report_fresh; then
        say "report: $page is up to date"
        return
    fi
    "$python" analysis/report.py $results --out $figures --fit-bits 2,3,4 >/dev/null 2>build/report.log || {
        tail -n 5 build/report.log >&2
        return 1
    }
    say "report: $page"
}

mpi_environment
timed installing install || exit
timed building build_preset release || exit
timed "the sweep" run_sweep
status=$?
# exit code 1: some cells failed; show the others
if [ $status -le 1 ]; then
    $qtraj show $results
    timed "the report" write_report || say "error: no report was made"
fi
say "results: $results"
printf '%s' "$times" >&2
exit $status
