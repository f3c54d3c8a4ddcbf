# SPDX-License-Identifier: MIT
# bash completion for seen. Commands, operands and options are asked of the program itself.

_seen_files()
{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# Files named as filters usually are, and directories; any file if there is no such filter.
_seen_filters()
{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -X '!*.seen' -- "$1")
    if [[ ${#COMPREPLY[@]} -gt 0 ]]; then
        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$1")
    else
        _seen_files "$1"
    fi
}

# _seen_layouts PROGRAM COMMAND SPEC: bash replaces only what follows the last colon or equals sign.
_seen_layouts()
{
    local spec more=()
    case $2 in
        import) more=(auto) ;;
        plan) more=(all) ;;
    esac
    compopt -o nospace 2>/dev/null
    while read -r spec; do
        [[ $spec == "$3"* ]] && COMPREPLY+=("${spec#"${3%"${3##*[:=]}"}"}")
    done < <(printf '%s\n' "${more[@]}"; "$1" help --layouts 2>/dev/null | cut -f 1)
}

# _seen_value ARGUMENT WORD: the value of an option whose argument --help calls so.
_seen_value()
{
    case $1 in
        FILTER | OUT | OTHER) _seen_filters "$2" ;;
        FILE | SORTED | FOREIGN) _seen_files "$2" ;;
        DIGEST) mapfile -t COMPREPLY < <(compgen -W 'sha1 sha256 md5 ntlm' -- "$2") ;;
        DIR)
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -d -- "$2")
            ;;
    esac
}

# _seen PROGRAM WORD: called by bash.
_seen()
{
    local program=$1 cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]-}
    local letter name argument rest line synopsis='' i word expects='' operands=0 ended=''
    local spec=''
    local -A takes=()
    local -a commands=() options=()
    COMPREPLY=()

    while IFS=$'\t' read -r name line rest; do
        commands+=("$name")
        [[ $name == "$command" ]] && synopsis=$line
    done < <("$program" help --commands 2>/dev/null)
    if [[ $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${commands[*]} help --help --version" -- "$cur")
        return
    fi
    if [[ $command == help ]]; then
        [[ $COMP_CWORD -eq 2 ]] && mapfile -t COMPREPLY < <(compgen -W "${commands[*]}" -- "$cur")
        return
    fi
    [[ -n $synopsis ]] || return

    # A tab is white space to `read`, which would skip empty fields.
    while IFS='|' read -r letter name argument rest; do
        for word in "$letter" "$name"; do
            [[ -n $word ]] || continue
            options+=("$word")
            takes[$word]=$argument
        done
    done < <("$program" help --options "$command" 2>/dev/null | tr '\t' '|')

    # bash takes `--name=value` for three words, and so a spec `name:param=value`.
    for ((i = 2; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == '=' && -n $expects ]]; then
            continue
        elif [[ -n $spec && ($word == [:=] || $spec == *[:=]) ]]; then
            spec+=$word
            continue
        fi
        spec=''
        if [[ $expects == SPEC ]]; then
            spec=$word
            expects=''
        elif [[ -n $expects ]]; then
            expects=''
        elif [[ -z $ended && $word == -- ]]; then
            ended=yes
        elif [[ -z $ended && $word == -?* ]]; then
            expects=${takes[$word]-}
            # Instead of a FILTER.
            [[ $word == --list* ]] && operands=1
        else
            operands=$((operands + 1))
        fi
    done

    if [[ -n $spec && ($cur == [:=] || $spec == *[:=]) ]]; then
        _seen_layouts "$program" "$command" "$spec$cur"
    elif [[ -n $expects ]]; then
        [[ $cur == '=' ]] && cur=''
        if [[ $expects == SPEC ]]; then
            _seen_layouts "$program" "$command" "$cur"
        else
            _seen_value "$expects" "$cur"
        fi
    elif [[ -z $ended && $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${options[*]}" -- "$cur")
    elif [[ $synopsis == *'FOREIGN -o'* ]]; then
        [[ $operands -gt 0 ]] || _seen_files "$cur"
    elif [[ $synopsis == *FILTER...* || ($synopsis == *FILTER* && $operands -eq 0) ]]; then
        _seen_filters "$cur"
    elif [[ $synopsis == *KEYFILE* ]]; then
        _seen_files "$cur"
    fi
}

complete -F _seen seen
