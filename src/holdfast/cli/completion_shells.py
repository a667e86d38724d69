"""The completion scripts of bash, zsh and fish, from what can be completed after each command.

Bash and zsh share one function in plain sh, which finds out what the word being typed is. Fish has rules instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class CompletedOption(NamedTuple):
    """An option of a command: its spellings, what it does, and what its value is; "" if it takes none."""

    names: tuple[str, ...]
    about: str
    value: str


class CompletedCommand(NamedTuple):
    """A command, its options, and what each of its positional arguments is.

    A value is `run`, `task`, `run-or-task`, `branch`, `file`, `any`, or `=` and its choices with commas between, or `run-or` these.
    """

    name: str
    about: str
    options: tuple[CompletedOption, ...]
    places: tuple[str, ...]


_BRANCHES = "git for-each-ref --format='%(refname:lstrip=2)' refs/heads/ 2>/dev/null | grep -v '^holdfast/'"
"""Prints the branches of the user; those of runs are no place to land in."""
_SHARED = r"""
# Finds out what is being typed. Its arguments are the words after `holdfast`; the last is the one being typed.
_holdfast_place() {
    [ -n "${ZSH_VERSION-}" ] && emulate -L sh
    local command="" pending="" count=0 word="" options="" values="" places=""
    holdfast_options="" holdfast_kind="" holdfast_run=""
    if [ $# -lt 2 ]; then
        holdfast_kind=command
        return
    fi
    command=$1
    shift
    if [ $# -gt 1 ]; then
        case "$command $1" in
            @PAIRS@) command="$command $1"; shift ;;
        esac
    fi
    case "$command" in
@COMMANDS@
        *) return ;;
    esac
    holdfast_options=$options
    while [ $# -gt 1 ]; do
        word=$1
        shift
        if [ -n "$pending" ]; then
            pending=""
            continue
        fi
        case "$word" in
            -*)
                case " $values " in
                    *" $word:"*) pending=$word ;;
                esac
                ;;
            *)
                count=$((count + 1))
                [ "$count" = 1 ] && holdfast_run=$word
                ;;
        esac
    done
    if [ -n "$pending" ]; then
        values=" $values"
        holdfast_kind=${values##*" $pending:"}
        holdfast_kind=${holdfast_kind%% *}
        return
    fi
    case "$1" in
        -*) holdfast_kind=option; return ;;
    esac
    set -- $places
    while [ "$count" -gt 0 ] && [ $# -gt 0 ]; do
        count=$((count - 1))
        shift
    done
    holdfast_kind=${1:-option}
}

# Prints what fits, one per line: a name, a tab, and what it is. Its argument is the word being typed.
_holdfast_words() {
    case "$holdfast_kind" in
        command) printf '%s\n' @NAMES@ ;;
        option) printf '%s\n' "$holdfast_options" | tr ' ' '\n' ;;
        run) holdfast completion --runs "$1" 2>/dev/null ;;
        task) holdfast completion --tasks "$holdfast_run" 2>/dev/null ;;
        branch) @BRANCHES@ ;;
        run-or-task)
            holdfast completion --runs "$1" 2>/dev/null
            holdfast completion --tasks 2>/dev/null
            ;;
        run-or=*)
            holdfast completion --runs "$1" 2>/dev/null
            printf '%s\n' "${holdfast_kind#run-or=}" | tr ',' '\n'
            ;;
        "="*) printf '%s\n' "${holdfast_kind#=}" | tr ',' '\n' ;;
    esac
}
"""

_BASH = r"""
_holdfast() {
    local holdfast_options holdfast_kind holdfast_run line typed=${COMP_WORDS[COMP_CWORD]}
    _holdfast_place "${COMP_WORDS[@]:1:COMP_CWORD}"
    COMPREPLY=()
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        [[ -n $line && $line == "$typed"* ]] && COMPREPLY+=("$line")
    done < <(_holdfast_words "$typed")
    if [[ $holdfast_kind == file ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$typed")
    fi
}
complete -F _holdfast holdfast
"""

_ZSH = r"""
_holdfast() {
    local holdfast_options holdfast_kind holdfast_run line
    local -a described
    _holdfast_place "${(@)words[2,CURRENT]}"
    for line in "${(@f)$(_holdfast_words "$PREFIX")}"; do
        [[ -n $line ]] && described+=("${${line//:/\\:}/$'\t'/:}")
    done
    (( $#described )) && _describe -V holdfast described
    [[ $holdfast_kind == file ]] && _files
    return 0
}
if [ "${funcstack[1]-}" = _holdfast ]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
"""


def bash_script(commands: Sequence[CompletedCommand]) -> str:
    """Return what bash reads: `source <(holdfast completion bash)`."""
    return f"# Completion of holdfast for bash.\n{_shared(commands)}{_BASH}"


def zsh_script(commands: Sequence[CompletedCommand]) -> str:
    """Return what zsh reads: as `_holdfast` in a folder of `fpath`, or `source <(holdfast completion zsh)` after `compinit`."""
    return f"#compdef holdfast\n# Completion of holdfast for zsh.\n{_shared(commands)}{_ZSH}"


def _shared(commands: Sequence[CompletedCommand]) -> str:
    pairs = " | ".join(f'"{one.name}"' for one in commands if " " in one.name)
    names = " ".join(shlex.quote(f"{one.name}\t{one.about}") for one in commands if " " not in one.name)
    cases = "\n".join(line for one in commands for line in _case(one, commands))
    shared = _SHARED.replace("@PAIRS@", pairs).replace("@NAMES@", names).replace("@COMMANDS@", cases)
    return shared.replace("@BRANCHES@", _BRANCHES)


def _case(one: CompletedCommand, commands: Sequence[CompletedCommand]) -> Iterator[str]:
    values = [f"{name}:{option.value}" for option in one.options for name in option.names if option.value]
    below = [other.name.partition(" ")[2] for other in commands if other.name.startswith(f"{one.name} ")]
    places = (f"={','.join(below)}", *one.places[1:]) if below else one.places
    yield f'        "{one.name}")'
    yield f'            options="{" ".join(name for option in one.options for name in option.names)}"'
    yield f'            values="{" ".join(values)}"'
    yield f'            places="{" ".join(places)}" ;;'


def fish_script(commands: Sequence[CompletedCommand]) -> str:
    """Return what fish reads: `holdfast completion fish | source`."""
    valued = {name for one in commands for option in one.options if option.value for name in option.names}
    functions = _FISH_FUNCTIONS.replace("@VALUED@", " ".join(sorted(valued)))
    lines = ["# Completion of holdfast for fish.", "complete -c holdfast -f", *functions.splitlines()]
    for one in commands:
        lines.extend(_fish_command(one, commands))
    return "\n".join(lines) + "\n"


_FISH_FUNCTIONS = r"""
function __holdfast_words
    # The words after `holdfast` that are no options and no values of options, without the one being typed.
    set -l words (commandline -opc)
    set -l before
    for word in $words[2..-1]
        if not contains -- "$before" @VALUED@; and not string match -q -- '-*' $word
            echo $word
        end
        set before $word
    end
end
function __holdfast_at
    # Whether these words, and then so many others, come before the one being typed.
    set -l words holdfast (__holdfast_words)
    set -l wanted holdfast $argv[1..-2]
    set -l length (count $wanted)
    test (count $words) -ge $length; or return 1
    test "$words[1..$length]" = "$wanted"; or return 1
    test $argv[-1] = any; or test (math (count $words) - $length) -eq $argv[-1]
end
"""
_FISH_VALUES = {
    "run": "(holdfast completion --runs (commandline -ct))",
    "task": "(holdfast completion --tasks (__holdfast_words)[2])",
    "run-or-task": "(holdfast completion --runs (commandline -ct); holdfast completion --tasks)",
    "branch": f"({_BRANCHES})",
}


def _fish_command(one: CompletedCommand, commands: Sequence[CompletedCommand]) -> Iterator[str]:
    first, _, second = one.name.partition(" ")
    if second:
        yield f"complete -c holdfast -n '__holdfast_at {first} 0' -a {second} -d {_quoted(one.about)}"
    else:
        yield f"complete -c holdfast -n '__holdfast_at 0' -a {first} -d {_quoted(one.about)}"
    here = f"__holdfast_at {one.name} any"
    for other in commands:
        if other.name.startswith(f"{one.name} "):
            here += f"; and not __holdfast_at {other.name} any"
    yield from (f"complete -c holdfast -n '{here}' {_fish_option(option)}" for option in one.options)
    for number, place in enumerate(one.places):
        at = f"__holdfast_at {one.name} {number}"
        if place != "any":
            yield f"complete -c holdfast -n '{at}' {_fish_value(place)}"


def _fish_option(option: CompletedOption) -> str:
    spelled = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    value = ""
    if option.value:
        value = " -r" if option.value in ("any", "file") else f" -x {_fish_value(option.value)}"
        value += " -F" if option.value == "file" else ""
    return f"{' '.join(spelled)} -d {_quoted(option.about)}{value}"


def _fish_value(value: str) -> str:
    if value == "file":
        return "-F"
    kind, _, choices = value.partition("=")
    words = choices.replace(",", " ")
    if kind == "run-or":
        words = f"{_FISH_VALUES['run']} {words}"
    return f"-a {_quoted(words or _FISH_VALUES[value])}"


def _quoted(text: str) -> str:
    """Return a text in single quotes, as fish reads them."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
