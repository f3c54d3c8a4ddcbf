# SPDX-License-Identifier: MIT
# fish completion for seen. Commands, operands and options are asked of the program itself.

complete -c seen -f
complete -c seen -n __fish_use_subcommand -l help -d 'Show help'
complete -c seen -n __fish_use_subcommand -l version -d 'Tell version and features'
complete -c seen -n __fish_use_subcommand -a help -d 'Tell about a command'

for line in (seen help --commands 2>/dev/null)
    set -l command (string split \t -- $line)
    complete -c seen -n __fish_use_subcommand -a $command[1] -d "$command[3]"
    complete -c seen -n '__fish_seen_subcommand_from help' -a $command[1] -d "$command[3]"
    set -l here "__fish_seen_subcommand_from $command[1]; and not __fish_seen_subcommand_from help"

    # Filters first among the files.
    if string match -q '*FOREIGN -o*' -- $command[2]
        complete -c seen -n $here -F
    else if string match -q '*FILTER*' -- $command[2]
        complete -c seen -n $here -k -a '(__fish_complete_suffix .seen)'
    end

    for line in (seen help --options $command[1] 2>/dev/null)
        # letter, name, argument, "*" if it may be repeated, explanation
        set -l option (string split \t -- $line)
        set -l spec -d "$option[5]"
        test -n "$option[1]"; and set -a spec -s (string sub -s 2 -- $option[1])
        test -n "$option[2]"; and set -a spec -l (string sub -s 3 -- $option[2])
        switch "$option[3]"
            case ''
            case FILTER OUT OTHER
                set -a spec -r -k -a '(__fish_complete_suffix .seen)'
            case FILE SORTED FOREIGN
                set -a spec -r -F
            case SPEC
                set -l more
                test $command[1] = import; and set more auto
                test $command[1] = plan; and set more all
                set -a spec -x -a "$more (seen help --layouts 2>/dev/null)"
            case DIGEST
                set -a spec -x -a 'sha1 sha256 md5 ntlm'
            case DIR
                set -a spec -x -a '(__fish_complete_directories)'
            case '*'
                set -a spec -x
        end
        complete -c seen -n $here $spec
    end
end
