# jobs/stage_hf.sh and jobs/stage_rsync.sh with stand-ins for hf and rsync on PATH: what they ask for, resuming, failures, --help.
. "$SOURCE/tests/tools/lib.sh"
jobs=$SOURCE/jobs
mkdir "$work/bin" "$work/to"
cat >"$work/bin/hf" <<'HF'
#!/bin/bash
printf '%s\n' "$*" >>"$ASKED"
[ "$4" != absent ] || { echo "Revision Not Found" >&2; exit 1; }
while [ "$1" != --local-dir ]; do shift; done
mkdir -p "$2/.cache/huggingface" && echo "$REVISION" >"$2/config.json"
HF
cat >"$work/bin/rsync" <<'RSYNC'
#!/bin/bash
printf '%s|' "$RSYNC_RSH" "$@" >>"$ASKED"
exit "${RSYNC_CODE:-0}"
RSYNC
chmod +x "$work"/bin/*
export ASKED=$work/asked REVISION=r PATH=$work/bin:$PATH

"$jobs/stage_hf.sh" owner/name step-10 "$work/to" '*.bin' || fail "hf: $?"
grep -q "^download owner/name --revision step-10 --local-dir $work/to .*--include \*.safetensors .*--include config.json .*--include \*.bin$" "$ASKED" ||
    fail "hf was asked: $(cat "$ASKED")"
[ -f "$work/to/config.json" ] && [ ! -e "$work/to/.cache" ] || fail "hf left $(ls -A "$work/to")"
"$jobs/stage_hf.sh" owner/name absent "$work/to" 2>"$work/err" && fail "a revision that does not exist"
grep -q "Revision Not Found" "$work/err" || fail "hf's message is lost"

: >"$ASKED"
"$jobs/stage_rsync.sh" archive:/store/step10/ "$work/to" --exclude='optimizer*' || fail "rsync: $?"
[ "$(cat "$ASKED")" = "ssh -o BatchMode=yes|--recursive|--copy-links|--times|--partial|--exclude=optimizer*|--|archive:/store/step10/|$work/to/|" ] ||
    fail "rsync was asked: $(cat "$ASKED")"
RSYNC_CODE=23 "$jobs/stage_rsync.sh" a "$work/to"
[ $? = 23 ] || fail "rsync's exit code is lost"

for job in stage_hf stage_rsync; do
    "$jobs/$job.sh" --help | grep -q "jobs/$job.sh" || fail "$job --help"
    "$jobs/$job.sh" one 2>"$work/err"
    [ $? = 2 ] && grep -q usage "$work/err" || fail "$job with one argument: $(cat "$work/err")"
    PATH=/nowhere /bin/bash "$jobs/$job.sh" a b c 2>"$work/err"
    [ $? = 2 ] && grep -q "on PATH" "$work/err" || fail "$job without its command: $(cat "$work/err")"
done
finish
