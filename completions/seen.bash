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

# _seen_value ARGUMENT WORD: the value of an option whose argument --help calls so.
_seen_value()
{
    case $1 in
        FILTER | OUT | OTHER) _seen_filters "$2" ;;
        FILE | SORTED) _seen_files "$2" ;;
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

    # bash takes `--name=value` for three words.
    for ((i = 2; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == '=' && -n $expects ]]; then
            continue
        elif [[ -n $expects ]]; then
            expects=''
        elif [[ -z $ended && $word == -- ]]; then
            ended=yes
        elif [[ -z $ended && $word == -?* ]]; then
            expects=${takes[$word]-}
        else
            operands=$((operands + 1))
        fi
    done

    if [[ -n $expects ]]; then
        [[ $cur == '=' ]] && cur=''
        _seen_value "$expects" "$cur"
    elif [[ -z $ended && $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${options[*]}" -- "$cur")
    elif [[ $synopsis == *FILTER...* || ($synopsis == *FILTER* && $operands -eq 0) ]]; then
        _seen_filters "$cur"
    elif [[ $synopsis == *KEYFILE* ]]; then
        _seen_files "$cur"
    fi
}

complete -F _seen seen
