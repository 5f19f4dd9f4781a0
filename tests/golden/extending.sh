#!/usr/bin/env bash
# The examples of docs/extending.md are added to a copy of the sources, which is built without optimization; then
# the page's commands print what it shows.
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
# Objects that read no file of the page are those of the build under test: built is in place of the compiler for them.
diff -rq "$SOURCE/src" src | sed -n 's/^Files .* and src\/\(.*\) differ$/\1/p' >"$work/changed"
[ -s "$work/changed" ] || fail "no file of src was changed"
ninja -C "$(dirname "$QTRAJ")" -t deps | awk -v changed="$work/changed" '
    BEGIN { while ((getline file <changed) > 0) other[file] }
    /^[^ ]/ { object = $1; sub(/:$/, "", object); same[object] = 1 }
    /^ / {
        sub(/.*\/src\//, "", $1) # also of a relative path
        if ($1 in other) delete same[object]
    }
    END { for (object in same) print object }' >"$work/same"
cat >"$work/built" <<END
#!/bin/bash
for ((i = 1; i < \$#; i++)); do
    [ "\${!i}" != -o ] || { j=\$((i + 1)) && object=\${!j}; }
done
grep -qxF -- "\${object:-}" "$work/same" || exec "\$@"
echo "\$object:" >"\$object.d" && exec cp "$(dirname "$QTRAJ")/\$object" "\$object"
END
chmod +x "$work/built"
{ cmake -G Ninja -S . -B build -DCMAKE_C_FLAGS="-O0 -Wall -Wextra -Werror" -DCMAKE_C_COMPILER_LAUNCHER="$work/built" && cmake --build build --parallel 2 --target qtraj quant_test_bits quant_test_contract; } >"$work/out" 2>&1 ||
    { fail "the build: $(tail -n 60 "$work/out")"; finish; }
build/quant_test_bits >"$work/out" 2>&1 || fail "quant_test_bits: $(cat "$work/out")"
build/quant_test_contract dither >"$work/out" 2>&1 || fail "quant_test_contract: $(cat "$work/out")"
ln -s "$tree/build/qtraj" "$work/bin/qtraj"
ln -s "$(command -v "$python")" "$work/bin/python3"
PATH=$work/bin:$PATH "$python" "$SOURCE/tests/tools/run_blocks.py" "$SOURCE/docs/extending.md" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
grep -qx '5 blocks' "$work/out" || fail "blocks that ran: $(tail -n 1 "$work/out")"
echo "$(wc -l <"$work/same") objects are those of the build"; finish
