# SPDX-License-Identifier: MIT
# Reads what bash's `times` printed, in a file *.times, and one job's TAP. Prints a line about the job with its failures behind it, then a line
# "-TEST" for each skipped test, then "passed failed skipped".
# What the job's exit status and plan say counts too: a program that dies half-way has failed.

function end_of_block() {
    if (failing)
        report = report block
    failing = 0
    block = ""
}

# 1m2.345s, user and system: the second line is for the children.
FILENAME ~ /\.times$/ {
    if (FNR == 2)
        for (i = 1; i <= 2; i++) {
            split($i, part, "m")
            cpu += 60 * part[1] + part[2]
        }
    next
}

/^1\.\.[0-9]+/ { plan = substr($0, 4) + 0; planned = 1; next }

/^(not )?ok / {
    end_of_block()
    count++
    if (/^not ok/) {
        failed++
        failing = 1
        block = "    " $0 "\n"
    } else if (match($0, / # skip ?/)) {
        skipped++
        title = substr($0, 1, RSTART - 1)
        sub(/^ok [0-9]+ (- )?/, "", title)
        reason = substr($0, RSTART + RLENGTH)
        skips = skips "- " name ": " title (reason == "" ? "" : " (" reason ")") "\n"
    } else {
        passed++
    }
    next
}

# Unit tests explain a failure before its "not ok" line, bats behind it.
{ if (failing) block = block "    " $0 "\n"; else other = other "    " $0 "\n" }

END {
    end_of_block()
    if (failed && ENVIRON["FAIL_FAST"] != "")
        broken = ""
    else if (!failed && status + 0 != 0)
        broken = status == 124 ? "did not end in time" : "ended with status " status
    else if (count == 0 && ENVIRON["ONLY"] == "")
        broken = "ran no test"
    else if (planned && plan != count)
        broken = "planned " plan " tests, ran " count
    else if (!planned)
        broken = "ended early"
    if (broken != "") {
        failed++
        report = report "    " broken "\n"
    }
    if (count == 0 && !failed) {
        print "0 0 0"
        exit
    }
    printf "%s  %-28s %4d tests %4d s, CPU %6.1f s\n", failed ? "FAIL" : "ok  ", name, count, seconds, cpu
    if (failed)
        printf "%s%s", other, report
    printf "%s%d %d %d\n", skips, passed, failed, skipped
}
