#!/usr/bin/env python3
"""manuals.py QTRAJ FOLDER: writes man pages and completion for bash and zsh into FOLDER, as they belong into share/, from what
`qtraj help --json` and `qtraj options` say."""
import itertools
import json
import os
import subprocess
import sys

EXIT_CODES = (
    "Done.",
    "Done, but cells failed (qtraj status says why); of doctor: there are warnings.",
    "Bad arguments, sweep file, text or checkpoint, or results that are locked by another run.",
    "Stopped by a signal or a full disk; start it again to continue.",
    "Internal error, or out of memory.",
)
qtraj, share = sys.argv[1:]


def ask(*arguments):
    return subprocess.run([qtraj, *arguments], check=True, capture_output=True, text=True).stdout


def write(name, text):
    path = os.path.join(share, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


# --- man pages ---

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(("\\&" if line[:1] in (".", "'") else "") + line for line in text.split("\n"))


def page(name, section, what, *parts):
    tail = ".SH SEE ALSO\n.BR qtraj (1),\n.BR qtraj\\-sweep (5)\n"
    write(f"man/man{section}/{name}.{section}",
          f'.\\" Written by manuals.py.\n.TH "{name.upper()}" {section} "" "{version}" "qtraj"\n'
          f".SH NAME\n{roff(name)} \\- {roff(what)}\n" + "".join(parts) + tail)


def exit_codes():
    return ".SH EXIT STATUS\n" + "".join(f".TP\n.B {i}\n{roff(text)}\n" for i, text in enumerate(EXIT_CODES))


def flag_text(flag):
    heading = f'.SS "{roff(flag["heading"])}"\n' if "heading" in flag else ""
    value = f' \\fI{roff(flag["value"])}\\fR' if "value" in flag else ""
    opposite = f', \\fB{roff(flag["opposite"])}\\fR' if "opposite" in flag else ""
    return f'{heading}.TP\n\\fB{roff(flag["name"])}\\fR{value}{opposite}\n{roff(flag["doc"])}\n'


def command_page(command):
    page("qtraj-" + command["name"], 1, command["doc"],
         f'.SH SYNOPSIS\n.B qtraj {roff(command["name"])}\n{roff(command["arguments"])}\n.SH OPTIONS\n',
         *map(flag_text, command["flags"]), exit_codes())


def overview():
    page("qtraj", 1, "measure what quantization costs a language model along its training run",
         ".SH SYNOPSIS\n.B qtraj\n.I COMMAND\n\\&...\n.SH DESCRIPTION\n",
         roff("qtraj quantizes each checkpoint of a training run with several methods and bit-widths and stores the resulting "
              "losses in one HDF5 file. What it does is said in a sweep file. An interrupted run resumes where it stopped."),
         "\n.SH COMMANDS\n", *(f'.TP\n.BR qtraj\\-{c["name"]} (1)\n{roff(c["doc"])}\n' for c in commands), exit_codes())


def key_text(key):
    default = key["otherwise"] or key["default"]
    default = f"{default:.9g}" if isinstance(default, float) else default if isinstance(default, str) else json.dumps(default)
    unit = f' ({key["unit"]})' if key["unit"] else ""
    rest = "; required" if key["required"] else f"; default: {roff(default)}" if default != "null" else ""
    return f'.TP\n.B {roff(key["key"].split(".")[-1])}\n{roff(key["doc"])}\n.br\n{roff(key["expected"])}{unit}{rest}\n'


def sweep_page():
    sections = {"": []}
    for key in json.loads(ask("options", "--json")):
        sections.setdefault(key["key"].rpartition(".")[0], []).append(key)
    columns = sections.pop("models[].trajectory[]")
    presets = ask("options").partition("\npresets: ")[2]
    page("qtraj-sweep", 5, "sweep file of qtraj: what is quantized and measured", ".SH DESCRIPTION\n",
         roff("A sweep file is YAML. Relative paths are relative to the file; ${VAR} in a path is the environment's. "
              "--set KEY=VALUE overrides a key from the command line."), "\n",
         *(".SH " + (f'"KEYS OF {roff(name.removesuffix("[]"))}"' if name else "KEYS") + "\n" + "".join(map(key_text, keys))
           for name, keys in sections.items()),
         '.SH "COLUMNS OF A TRAJECTORY"\n', *map(key_text, columns),
         ".SH PRESETS\n.nf\n", roff("presets: " + presets.rstrip()), "\n.fi\n")


# --- completion ---

def bash():
    names = " ".join(c["name"] for c in commands)
    flags = [(c["name"], f) for c in commands for f in c["flags"]]
    cases = [f"        {name}:{f['name']}) words='{' '.join(f['choices'])}' ;;\n" for name, f in flags if "choices" in f]
    cases += [f"        {name}:{f['name']}) return ;;\n" for name, f in flags if "value" in f and "choices" not in f]
    words = [f"        {c['name']}) words='"
             + " ".join(itertools.chain.from_iterable((f["name"], *filter(None, [f.get("opposite")])) for f in c["flags"]))
             + "' ;;\n" for c in commands]
    write("bash-completion/completions/qtraj", f"""# Completion of qtraj for bash, written by manuals.py.
_qtraj() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command=${{COMP_WORDS[1]}} words=
    COMPREPLY=()
    # --flag=value is three words here
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    if ((COMP_CWORD == 1)) || [[ $before == help ]]; then
        COMPREPLY=($(compgen -W '{names}' -- "$current"))
        return
    fi
    case $command:$before in
{''.join(cases)}    esac
    [[ $words || $current == -* ]] || return
    [[ $words ]] || case $command in
{''.join(words)}    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _qtraj qtraj
""")


def zsh_text(text):
    for c in "\\[]:":
        text = text.replace(c, "\\" + c)
    return text.replace("'", "'\\''")


def zsh_flag(f):
    # a flag may stand there several times: --set and --only do
    value = f":{f['value']}:" + (f"({' '.join(f['choices'])})" if "choices" in f else "_files") if "value" in f else ""
    text = f" \\\n                '*{f['name']}{'=' if value else ''}[{zsh_text(f['doc'])}]{value}'"
    return text + (f" \\\n                '*{f['opposite']}'" if "opposite" in f else "")


def zsh():
    described = "".join(f"\n        '{c['name']}:{zsh_text(c['doc'])}'" for c in commands)
    cases = "".join(f"        {c['name']})\n            _arguments" + "".join(map(zsh_flag, c["flags"]))
                    + " \\\n                '*:file:_files'\n            ;;\n" for c in commands)
    write("zsh/site-functions/_qtraj", f"""#compdef qtraj
# Completion of qtraj for zsh, written by manuals.py.
_qtraj() {{
    local -a commands=({described}
    )
    if ((CURRENT == 2)) || [[ $words[2] == help ]]; then
        _describe command commands
        return
    fi
    shift words
    ((CURRENT--))
    case $words[1] in
{cases}    esac
}}
_qtraj "$@"
""")


version = ask("version").strip().partition("+")[0]
commands = json.loads(ask("help", "--json"))
overview()
for one in commands:
    command_page(one)
sweep_page()
bash()
zsh()
