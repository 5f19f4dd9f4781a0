#!/usr/bin/env bash
# The examples of docs/extending.md are added to a copy of the sources, which is built without optimization; then the
# page's commands print what it shows.
. "$SOURCE/tests/tools/lib.sh"
need_python numpy
command -v cmake >/dev/null && command -v ninja >/dev/null || skip "no cmake or no ninja"

tree=$work/tree
mkdir "$tree" "$work/bin"
cp -r "$SOURCE"/{CMakeLists.txt,README.md,src} "$tree/"
mkdir -p "$tree/tests"
cp -r "$SOURCE"/tests/{unit,tests.cmake,fuzz,bench,golden,mpi,e2e,fault,slurm,tools,lint} "$tree/tests/"
ln -s "$SOURCE/tests/fixtures" "$tree/tests/fixtures"
ln -s "$SOURCE/configs" "$tree/configs"
cd "$tree" || exit 2
"$python" "$SOURCE/tests/tools/apply_page.py" "$SOURCE/docs/extending.md" . >"$work/out" 2>&1 || fail "$(cat "$work/out")"
{ cmake -G Ninja -S . -B build -DCMAKE_C_FLAGS="-O0 -Wall -Wextra -Werror" && cmake --build build --parallel 2 --target qtraj quant_test_bits quant_test_contract; } >"$work/out" 2>&1 ||
    { fail "the build: $(tail -n 60 "$work/out")"; finish; }
build/quant_test_bits >"$work/out" 2>&1 || fail "quant_test_bits: $(cat "$work/out")"
build/quant_test_contract dither >"$work/out" 2>&1 || fail "quant_test_contract: $(cat "$work/out")"
ln -s "$tree/build/qtraj" "$work/bin/qtraj"
ln -s "$(command -v "$python")" "$work/bin/python3"
PATH=$work/bin:$PATH "$python" "$SOURCE/tests/tools/run_blocks.py" "$SOURCE/docs/extending.md" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
grep -qx '5 blocks' "$work/out" || fail "blocks that ran: $(tail -n 1 "$work/out")"
finish
