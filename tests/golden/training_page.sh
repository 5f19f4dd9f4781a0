#!/usr/bin/env bash
# From a text to figures by the lines of docs/training.md, of which one trains, one sweeps and one reports. The runs file there is made smaller.
. "$SOURCE/tests/tools/lib.sh"
need_python h5py numpy matplotlib xarray h5netcdf
mkdir -p "$work/here/data" "$work/bin" && cd "$work/here" || exit 2
ln -s "$SOURCE/analysis" .
ln -s "$QTRAJ" "$work/bin/qtraj"
ln -s "$(command -v "$python")" "$work/bin/python3"
PATH=$work/bin:$PATH
page=$SOURCE/docs/training.md
for i in $(seq 300); do echo "{\"text\": \"Document $i says $((i * i % 97)) and $((i * 7 % 31)), in words as plain as these.\"}"; done >data/train.jsonl
cat "$SOURCE"/docs/math/*.md >data/test.txt
cp "$SOURCE/tests/fixtures/tokenizers/gpt2/tokenizer.json" data/
sed -n '/^```yaml/,/^```$/{/^```$/q;/^```/d;p}' "$page" >runs.yaml # the first
sed -i -e 's/hidden: [0-9]*, layers: [0-9]*, heads: [0-9]*/hidden: 16, layers: 1, heads: 2/' -e 's/eos/<|endoftext|>/; s/validation: [0-9]*/validation: 300/' \
    -e 's/sequences: [0-9]*, length: [0-9]*/sequences: 4, length: 32/' -e 's/^steps: .*/steps: 20/; s/every: [0-9]*/every: 5/' \
    -e 's/from: .*\], steps: [0-9]*/from: [5, 10], steps: 4/' -e 's/seed: \[1.*\]/seed: [1, 2]/' runs.yaml
grep -E '^(mpirun .*|qtraj) train runs.yaml +#|^qtraj init|^python3 analysis/report' "$page" | grep -v -e --plan -e --only >lines
[ "$(wc -l <lines)" = 3 ] || fail "lines of the page: $(cat lines)"
while read -r line; do bash -c "$line" </dev/null >out 2>&1 || fail "$line: $(tail -n 20 out)"; done <lines
[ -s report/report.html ] && [ -s report/relative_error.png ] || fail "report: $(ls report)"
[ "$(grep -c branch_of: sweep.yaml)" = 8 ] || fail "branches: $(cat sweep.yaml)"
finish
