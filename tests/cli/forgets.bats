#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Passwords that a filter was asked about are not left in memory.
# tags: seeded

load ../lib/helpers

# watched <<PYTHON: a script that uses tests/lib/terminal.py, with random numbers of a seed.
watched()
{
    local seed=${SEED:-1}
    echo "seed $seed"
    { printf '%s\n' 'from terminal import *' 'import random' "random.seed($seed)"; cat; } >script.py
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SOURCE/tests/lib timeout "$PATIENCE" python3 script.py
}

# Makes sha1.seen and ntlm.seen, of digests.
digest_filters()
{
    seen create -p 1e-9 --digest sha1 sha1.seen -k word &&
        seen create -p 1e-9 --digest ntlm -i ntlm.seen -k word
}

# The sanitizers' memory has copies of what they watch.
needs_memory()
{
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer keeps memory that was freed'
}

@test "the process leaves no core dump, and others cannot read it" {
    [ -z "${SANITIZER-}" ] || skip 'a sanitizer does not go with strace'
    digest_filters || skip 'no libmd'
    strace -o calls -e trace=prctl,setrlimit,prlimit64 seen query -q sha1.seen <<<word
    cat calls
    grep -q 'PR_SET_DUMPABLE, SUID_DUMP_DISABLE' calls
    grep -q 'RLIMIT_CORE, {rlim_cur=0, rlim_max=0}' calls
}

# That the search finds what is there is checked too: at some system call it must have found it.
# What is printed is read by us, not by the process.
@test "a filter of digests forgets what it was asked on standard input" {
    needs_memory
    digest_filters || skip 'no libmd'
    watched <<'END'
import itertools
letters = b"0123456789abcdefGHIJKLMNOPQRSTUVWXYZ"
for how, options, filter in itertools.product(
        ("pipe", "file"), (["-q", "-j1"], ["--annotate", "-n", "-j3"]), ("sha1.seen", "ntlm.seen")):
    secret = bytes(random.choice(letters) for _ in range(random.choice((20, 70))))
    data = b"".join(b"%d\n" % i for i in range(3000)) + secret + b"\nend\n"
    if how == "pipe":
        stdin, end = os.pipe()
        os.write(end, data)
        os.close(end)
    else:
        with open("passwords", "wb") as f:
            f.write(data)
        stdin = os.open("passwords", os.O_RDONLY)
    with open("answers", "wb") as f:
        status = searched(["seen", "query", *options, filter], secret, stdin=stdin,
                          stdout=f.fileno())
    os.close(stdin)
    assert status == 1, status
    with open("answers", "rb") as f:
        assert (secret in f.read()) == ("-q" not in options)
END
}

@test "so does a coprocess, before the next question" {
    needs_memory
    digest_filters || skip 'no libmd'
    printf '%s\n' word | seen create -p 1e-9 --secret s --new-secret secret.seen
    watched <<'END'
digested = ["--input-digests", "--skip-bad", "sha1.seen"]
for options, lengths in ((["-j1", "sha1.seen"], (16, 1500, 30)), (["-n", "-j3", "ntlm.seen"], (16, 1500, 30)),
                         (digested, (40, 40)), (["--secret", "s", "secret.seen"], (16, 1500))):
    stdin, questions = os.pipe()
    answers, stdout = os.pipe()
    t = Terminal(["seen", "query", "--annotate", *options], secret=b"", stdin=stdin, stdout=stdout)
    os.close(stdin)
    os.close(stdout)

    def answered(question):
        t.until(lambda: select.select([answers], [], [], 0)[0], "answer")
        return question in os.read(answers, 65536)

    for length in lengths:
        t.memory.secret = secret = b"%0*x" % (length, random.getrandbits(4 * length))
        os.write(questions, b"before\n" + secret)
        assert answered(b"before")
        t.until(t.memory.search, "secret in memory")
        os.write(questions, b"\n")
        assert answered(secret)
        t.until(lambda: not t.memory.search(), "memory without the secret")
    os.close(questions)
    os.close(answers)
    assert t.end() == 1 and not t.memory.left
END
}
