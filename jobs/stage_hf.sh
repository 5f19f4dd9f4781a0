#!/usr/bin/env bash
# Fetches one revision of a Hugging Face repository into a folder, for `stage` in a sweep file.
#
#     jobs/stage_hf.sh OWNER/NAME REVISION FOLDER [PATTERN...]
#     stage: [../jobs/stage_hf.sh, HuggingFaceTB/SmolLM3-3B-checkpoints, "{revision}", "{path}"]
#
# Only what qtraj reads is fetched: weights in safetensors, configuration, tokenizer. A revision that has its weights as
# pytorch_model*.bin alone needs the pattern '*.bin'; PATTERNs are added to these. A folder that holds a part of the
# revision is completed. The command `hf` is part of the Python package huggingface_hub; $HF_TOKEN and $HF_ENDPOINT
# work as with `hf`. Its cache is not used.
#
# Exit code: that of `hf download`; 2: bad arguments, or no `hf`.
set -u
case "${1-}" in
-h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
if [ $# -lt 3 ]; then
    echo "usage: $0 OWNER/NAME REVISION FOLDER [PATTERN...]; --help says more" >&2
    exit 2
fi
repo=$1 revision=$2 folder=$3
shift 3
if ! command -v hf >/dev/null; then
    echo "error: no command hf on PATH: pip install huggingface_hub" >&2
    exit 2
fi
include=()
for pattern in '*.safetensors' '*.safetensors.index.json' config.json generation_config.json 'tokenizer*' '*token*.json' "$@"; do
    include+=(--include "$pattern")
done
hf download "$repo" --revision "$revision" --local-dir "$folder" "${include[@]}" || exit
rm -rf "$folder/.cache" # what hf notes there is of use only for a download that goes on
