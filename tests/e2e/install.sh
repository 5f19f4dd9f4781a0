#!/usr/bin/env bash
# cmake --install into a prefix and under DESTDIR: the binary runs from there, every command has a man page without a
# warning of roff, and completion for bash and zsh works.
. "$SOURCE/tests/tools/lib.sh"
build=$(dirname "$QTRAJ")
command -v cmake >/dev/null || skip "no cmake"
[ -f "$build/cmake_install.cmake" ] || skip "$build is no build folder"
command -v python3 >/dev/null || skip "no python3"

cmake --install "$build" --prefix "$work/usr" >"$work/log" 2>&1 || fail "install: $(cat "$work/log")"
DESTDIR=$work/root cmake --install "$build" --prefix /opt/qtraj >"$work/log" 2>&1 || fail "DESTDIR: $(cat "$work/log")"
(cd "$work/usr" && find . -type f | sort) >"$work/files"
(cd "$work/root/opt/qtraj" && find . -type f | sort) | diff "$work/files" - || fail "DESTDIR installs other files"

# the binary, from its new place
installed=$work/usr/bin/qtraj
[ "$("$installed" --version)" = "$("$QTRAJ" version)" ] || fail "the installed binary: $("$installed" --version)"
"$installed" inspect "$SOURCE/configs/quickstart/trajectory/step001200" >"$work/out" || fail "inspect from the prefix"
grep -q "^  4 layers" "$work/out" || fail "inspect from the prefix: $(cat "$work/out")"

# The scripts of `qtraj slurm` and the report that it ends with: the commands of analysis/ start again in a Python that has the modules.
scripts=$work/usr/share/qtraj
if python=$("$scripts/slurm/python.sh" 2>"$work/err"); then
    if "$python" -m venv --without-pip "$work/bare"; then # a python3 without modules
        PATH=$work/bare/bin:$PATH python3 "$scripts/analysis/report.py" --help >"$work/out" 2>"$work/err" || fail "report.py: $(cat "$work/err")"
        grep -q '^usage: report.py' "$work/out" || fail "report.py: $(cat "$work/out")"
        [ ! -s "$work/err" ] || fail "report.py speaks of its Python: $(cat "$work/err")"
    fi
else
    grep -q 'pip. install h5py' "$work/err" || fail "python.sh: $(cat "$work/err")"
fi

# man pages
commands=$("$QTRAJ" help | sed -n 's/^  \([a-z]\{1,\}\)  .*/\1/p')
[ "$(wc -w <<<"$commands")" -ge 17 ] || fail "commands: $commands"
for command in $commands; do
    [ -s "$work/usr/share/man/man1/qtraj-$command.1" ] || fail "no man page of $command"
done
for page in "$work"/usr/share/man/man?/*; do
    if command -v groff >/dev/null; then
        groff -ww -man -Tutf8 "$page" >"$work/text" 2>"$work/warnings" || fail "$page: groff"
        [ ! -s "$work/warnings" ] || fail "$page: $(cat "$work/warnings")"
        [ -s "$work/text" ] || fail "$page is empty"
    fi
    ! command -v mandoc >/dev/null || mandoc -T lint -W error "$page" >"$work/warnings" || fail "$page: $(cat "$work/warnings")"
done
grep -q '^an integer >= 1 or \\-1 (columns); default: 128$' "$work/usr/share/man/man5/qtraj-sweep.5" || fail "qtraj-sweep(5): default of group_size"
grep -q '^\.B group_size$' "$work/usr/share/man/man5/qtraj-sweep.5" || fail "qtraj-sweep(5) has no group_size"
grep -q 'fB\\-\\-only' "$work/usr/share/man/man1/qtraj-run.1" || fail "qtraj-run(1) has no --only"

# complete WORD...: what bash offers for the last word.
complete() {
    bash --norc -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _qtraj; echo "${COMPREPLY[@]}"' \
        bash "$work/usr/share/bash-completion/completions/qtraj" "$@"
}
# offers "WORDS" WORD...: bash offers exactly these.
offers() {
    local got
    got=$(complete "${@:2}")
    [ "$got" = "$1" ] || fail "completion of ${*:2}: $got, not $1"
}
offers "quantize" qtraj qu
offers "show" qtraj help sho
[ "$(complete qtraj '' | wc -w)" = "$(wc -w <<<"$commands")" ] || fail "commands that are completed: $(complete qtraj '')"
offers "--calibration-text --calibration-tokens" qtraj quantize x --calibration-t
offers "--asymmetric" qtraj quantize --asym
offers "none activation group" qtraj quantize --order ''
offers "gptq gptaq" qtraj quantize x --method g
offers "gptq gptaq" qtraj quantize x --method = g
offers "gptqmodel-4 gptqmodel-5" qtraj quantize --preset=gptqmodel-4 --preset = gptqm
offers "" qtraj eval --text ''
offers "" qtraj run x
if command -v zsh >/dev/null; then
    zsh -n "$work/usr/share/zsh/site-functions/_qtraj" || fail "the completion of zsh has a wrong syntax"
fi
finish
