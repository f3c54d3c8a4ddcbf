#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""unnoticed.py FILE...: finds commands in bats files whose failure would not fail the test.

    and         `a && b` as a statement: set -e does not end the test where a fails
    not         `! a` as a statement: set -e does not end the test where a succeeds
    run         `run a` without -STATUS or !, and no look at $status, $output or the like behind it
    pipe        a pipe where pipefail is not set: the left side's failure is lost
    equal       [ "$(a)" = "$(b)" ], cmp <(a) <(b), [ -z "$(seen ...)" ]: true where they fail and
                print nothing (the helpers equal and alike know that)
    wait        `wait` without a process: 0 whatever the processes returned; `run wait`: in a subshell, which
                knows the status only of a process that had ended before
    early       `a | grep -q`, `seen ... | head`: ends by SIGPIPE or not, by chance (under pipefail)
    again       `await PROCESS a <(b)`, eventually, until_...: <(b) can be read once, and no try after the first succeeds
    suppressed  a check in the middle of a function that is called where set -e is off

The last part of `a && b` may be break, continue, return, exit, skip or an assignment; `a && b || c`
says what happens. A line with `# unnoticed: RULE` behind it is excused.

--self-test FILE: each line with `# finds: RULE...` is found, and no other.
"""
import re
import sys

OPERATORS = ("&&", "||", ";;&", ";;", ";&", "|&", "|", "&", ";", "\n", "(", ")")
OPENING = {"if", "while", "until", "for", "case", "{", "(", "[[", "(("}
MOVES = {"break", "continue", "return", "exit", "skip"}
CHECKS = {"[", "[[", "((", "cmp", "grep", "diff", "test", "run"}
LOOK = re.compile(r"\$\{?#?(status|output|stderr|lines|stderr_lines)\b|\bcheck_|\btry\b")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")


class Token:
    def __init__(self, text, line, operator=False):
        self.text, self.line, self.operator = text, line, operator

    def is_operator(self, *texts):
        return self.operator and self.text in texts


class Lexer:
    """Words and operators of bash. What stands in $(...), in quotes and in here-documents is part of a word."""

    def __init__(self, text):
        self.text, self.at, self.line, self.heredocs = text, 0, 1, []

    def step(self, n=1):
        skipped = self.text[self.at:self.at + n]
        self.line += skipped.count("\n")
        self.at += n

    def closing(self, end):
        """Skips to behind `end`, over quotes and what is nested."""
        while self.at < len(self.text):
            if self.text.startswith(end, self.at):
                self.step(len(end))
                return
            self.element(end)
        raise SyntaxError(f"line {self.line}: no {end!r}")

    def element(self, inside=""):
        """Skips a character, or what it opens."""
        text, at = self.text, self.at
        c = text[at]
        if c == "\\":
            self.step(2)
        elif c == "'" and inside != '"':
            self.step(text.index("'", at + 1) + 1 - at)
        elif c == '"' and inside != '"':
            self.step()
            self.closing('"')
        elif text.startswith("$'", at) and inside != '"':
            self.step(2)
            while text[self.at] != "'":
                self.step(2 if text[self.at] == "\\" else 1)
            self.step()
        elif text.startswith("$((", at):
            self.step(3)
            self.closing("))")
        elif text.startswith("$(", at) or text.startswith("<(", at) or text.startswith(">(", at):
            if inside == '"' and c != "$":
                self.step()
                return
            self.step(2)
            self.closing(")")
        elif text.startswith("${", at):
            self.step(2)
            self.closing("}")
        elif c == "`":
            self.step()
            self.closing("`")
        elif c == "(" and inside == ")":
            self.step()
            self.closing(")")
        elif c == "(" and inside == "))":
            self.step()
            self.closing(")")
        elif c == "#" and inside == ")" and text[at - 1] in " \n":
            self.step(text.index("\n", at) - at)
        else:
            self.step()

    def documents(self):
        """Behind the line with <<END: skips the documents."""
        for end, tabs in self.heredocs:
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.at:stop]
                self.step(stop + 1 - self.at)
                if (line.lstrip("\t") if tabs else line) == end:
                    break
        self.heredocs = []

    def tokens(self):
        text = self.text
        while self.at < len(text):
            c, line = text[self.at], self.line
            if c in " \t":
                self.step()
            elif text.startswith("\\\n", self.at):
                self.step(2)
            elif c == "#":
                self.step(text.index("\n", self.at) - self.at)
            elif text.startswith("[[ ", self.at):
                start = self.at
                self.step(3)
                self.closing(" ]]")
                yield Token(text[start:self.at], line)
            elif text.startswith("((", self.at):
                start = self.at
                self.step(2)
                self.closing("))")
                yield Token(text[start:self.at], line)
            elif c in "<>" or (c == "&" and text[self.at + 1] == ">"):
                # A redirection is a word of the command; process substitution and here-documents too.
                start = self.at
                if text[self.at:self.at + 2] in ("<(", ">("):
                    self.element()
                elif match := re.compile(r"<<(-?)(?!<)\s*(?:'([^']+)'|(\w+))").match(text, self.at):
                    self.heredocs.append((match[2] or match[3], match[1]))
                    self.step(match.end() - self.at)
                else:
                    match = re.compile(r"<<<|&?[<>]{1,2}[&|]?-?").match(text, self.at)
                    self.step(match.end() - self.at)
                yield Token(text[start:self.at], line)
            else:
                for operator in OPERATORS:
                    if text.startswith(operator, self.at):
                        self.step(len(operator))
                        yield Token(operator, line, True)
                        if operator == "\n" and self.heredocs:
                            self.documents()
                        break
                else:
                    start = self.at
                    while self.at < len(text) and text[self.at] not in " \t\n;&|<>()":
                        self.element()
                        if text.startswith("(", self.at) and text[self.at - 1] == "=":
                            self.step()
                            self.closing(")")
                    yield Token(text[start:self.at], line)
        yield Token("\n", self.line, True)


class Command:
    """kind: simple, if, loop, case, group, subshell, function, test. parts: lists of statements."""

    def __init__(self, kind, line, words=(), conditions=(), bodies=(), name=""):
        self.kind, self.line, self.words = kind, line, list(words)
        self.conditions, self.bodies, self.name = list(conditions), list(bodies), name


class Statement:
    """Pipelines, joined by && and ||. A pipeline is (negated, commands)."""

    def __init__(self, line):
        self.line, self.pipelines, self.joints, self.background = line, [], [], False


class Parser:
    def __init__(self, text):
        self.tokens, self.at = list(Lexer(text).tokens()), 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, text=None):
        token = self.peek()
        if token is None or (text is not None and token.text != text):
            raise SyntaxError(f"line {self.tokens[min(self.at, len(self.tokens) - 1)].line}: "
                              f"{text!r} wanted, {token and token.text!r} found")
        self.at += 1
        return token

    def blank(self):
        while self.peek() and self.peek().is_operator("\n", ";", "&"):
            self.at += 1

    def list(self, *ends):
        statements = []
        while True:
            self.blank()
            token = self.peek()
            if token is None or token.text in ends:
                return statements
            statements.append(self.statement())

    def statement(self):
        statement = Statement(self.peek().line)
        while True:
            statement.pipelines.append(self.pipeline())
            if not (self.peek() and self.peek().is_operator("&&", "||")):
                statement.background = self.peek() is not None and self.peek().is_operator("&")
                return statement
            statement.joints.append(self.take().text)
            while self.peek().is_operator("\n"):
                self.at += 1

    def pipeline(self):
        negated = False
        while not self.peek().operator and self.peek().text in ("!", "time"):
            negated |= self.take().text == "!"
        commands = [self.command()]
        while self.peek() and self.peek().is_operator("|", "|&"):
            self.take()
            while self.peek().is_operator("\n"):
                self.at += 1
            commands.append(self.command())
        return negated, commands

    def redirections(self):
        while self.peek() and not self.peek().operator:
            self.take()

    def command(self):
        token = self.peek()
        line, text = token.line, token.text
        if token.operator:
            self.take("(")
            body = self.list(")")
            self.take(")")
            done = Command("subshell", line, bodies=[body])
        elif text == "{":
            self.take()
            done = Command("group", line, bodies=[self.list("}")])
            self.take("}")
        elif text == "if":
            done = Command("if", line)
            while self.peek().text in ("if", "elif"):
                self.take()
                done.conditions.append(self.list("then"))
                self.take("then")
                done.bodies.append(self.list("elif", "else", "fi"))
            if self.peek().text == "else":
                self.take()
                done.bodies.append(self.list("fi"))
            self.take("fi")
        elif text in ("while", "until"):
            self.take()
            condition = self.list("do")
            self.take("do")
            done = Command("loop", line, conditions=[condition], bodies=[self.list("done")])
            self.take("done")
        elif text in ("for", "select"):
            self.take()
            while self.peek().text != "do":
                self.take()
            self.take("do")
            done = Command("loop", line, bodies=[self.list("done")])
            self.take("done")
        elif text == "case":
            self.take()
            while self.peek().text != "in":
                self.take()
            self.take("in")
            done = Command("case", line)
            self.blank()
            while self.peek().text != "esac":
                while self.peek().text != ")":
                    self.take()
                self.take(")")
                done.bodies.append(self.list(";;", "esac"))
                if self.peek().text == ";;":
                    self.take()
                self.blank()
            self.take("esac")
        elif text == "@test":
            self.take()
            name = self.take().text
            self.take("{")
            done = Command("test", line, name=name, bodies=[self.list("}")])
            self.take("}")
        else:
            if (self.at + 2 < len(self.tokens) and self.tokens[self.at + 1].text == "("
                    and self.tokens[self.at + 2].text == ")"):
                name = self.take().text
                self.take("(")
                self.take(")")
                self.blank()
                body = self.command()
                return Command("function", line, name=name, bodies=[[_single(body)]])
            done = Command("simple", line)
            while self.peek() and not self.peek().operator:
                done.words.append(self.take())
            return done
        self.redirections()
        return done


def _single(command):
    statement = Statement(command.line)
    statement.pipelines.append((False, [command]))
    return statement


def first(command):
    """The words without assignments before them and redirections."""
    words = [w.text for w in command.words]
    while words and (ASSIGNMENT.match(words[0])):
        words.pop(0)
    return words


class Finder:
    def __init__(self):
        self.found, self.suppressed, self.functions, self.pipefail = [], set(), [], False

    def find(self, line, rule):
        self.found.append((line, rule))

    def only_moves(self, command):
        if command.kind == "simple":
            words = first(command)
            return not words or words[0] in MOVES
        if command.kind == "group":
            last = command.bodies[0][-1]
            return len(last.pipelines) == 1 and self.only_moves(last.pipelines[-1][1][-1])
        return False

    def calls(self, commands):
        for command in commands:
            words = first(command)
            if words:
                self.suppressed.add(words[0])
                if words[0] == "run" and len(words) > 1:
                    rest = [w for w in words[1:] if not w.startswith("-") and w != "!"]
                    self.suppressed.add(rest[0] if rest else "")

    def walk(self, statements, on, last):
        """on: set -e is. last: the last statement's status is that of the function or subshell."""
        for i, statement in enumerate(statements):
            final = last and i == len(statements) - 1
            joints = statement.joints
            heeded = on and not statement.background
            if heeded and joints and "||" not in joints and not final:
                if not self.only_moves(statement.pipelines[-1][1][-1]):
                    self.find(statement.line, "and")
            for j, (negated, commands) in enumerate(statement.pipelines):
                end = j == len(statement.pipelines) - 1
                if heeded and negated and end and not final and not joints:
                    self.find(commands[0].line, "not")
                if not heeded or negated or not end:
                    self.calls(commands)
                self.pipeline(commands, heeded and end and not negated, final and end and not negated)

    def pipeline(self, commands, heeded, final):
        if len(commands) > 1:
            if heeded and not self.pipefail:
                self.find(commands[0].line, "pipe")
            final = True
            words = first(commands[-1]) if commands[-1].kind == "simple" else [""]
            early = words and (words[0] == "head" or
                               (words[0] == "grep" and any(re.match(r"-\w*q", w) for w in words)))
            if early and (words[0] == "grep" or first(commands[-2])[:1] in (["seen"], ['"$SEEN"'])):
                self.find(commands[-2].line, "early")
        for command in commands:
            if command.kind == "simple":
                self.simple(command, heeded)
            elif command.kind in ("function", "test"):
                body = command.bodies[0]
                if command.kind == "function":
                    inner = body[0].pipelines[0][1][0]
                    body = inner.bodies[0] if inner.kind in ("group", "subshell") else body
                    self.functions.append((command.name, body))
                self.walk(body, True, command.kind == "function")
                self.runs(body)
            else:
                for condition in command.conditions:
                    self.walk(condition, False, False)
                for body in command.bodies:
                    inherits = final and command.kind in ("if", "case", "group")
                    self.walk(body, heeded, inherits or command.kind == "subshell")

    def simple(self, command, heeded):
        words = first(command)
        if not words:
            return
        if words[0] == "set" and words[-1] == "pipefail":
            self.pipefail = words[1] == "-o"
        if words[0] == "load":
            self.pipefail = True
        if words == ["wait"] or words[:1] == ["run"] and "wait" in words:
            self.find(command.line, "wait")
        if words[0] == "run":
            self.calls([command])
        if re.fullmatch("await|eventually|until_\\w+", words[0]) and any(word.startswith("<(") for word in words):
            self.find(command.line, "again")
        text = " ".join(words)
        if re.fullmatch(r'\[\[? "?\$\((?!\().*\)"? ==? "?\$\((?!\().*\)"? \]\]?', text, re.S):
            self.find(command.line, "equal")
        elif re.fullmatch(r'\[\[? -z "?\$\(seen .*\)"? \]\]?', text, re.S):
            self.find(command.line, "equal")
        elif words[0] in ("cmp", "diff") and sum(word.startswith("<(") for word in words) == 2:
            self.find(command.line, "equal")

    def flat(self, statements):
        """All simple commands, in the order of the text."""
        for statement in statements:
            for _, commands in statement.pipelines:
                for command in commands:
                    if command.kind == "simple":
                        yield command
                    elif command.kind not in ("function", "test"):
                        for condition in command.conditions:
                            yield from self.flat(condition)
                        for body in command.bodies:
                            yield from self.flat(body)

    def runs(self, body):
        waiting = None
        for command in self.flat(body):
            text = " ".join(w.text for w in command.words)
            if waiting is not None and LOOK.search(text):
                waiting = None
            words = first(command)
            if words[:1] == ["run"]:
                if waiting is not None:
                    self.find(waiting, "run")
                told = any(re.fullmatch(r"!|-\d+", w) for w in words[1:3])
                waiting = None if told else command.line
        if waiting is not None:
            self.find(waiting, "run")

    def finish(self, names):
        for name, body in self.functions:
            if name not in names:
                continue
            for statement in body[:-1]:
                negated, commands = statement.pipelines[-1]
                words = first(commands[-1]) if commands[-1].kind == "simple" else []
                if words and not statement.joints and words[0].split()[0] in CHECKS:
                    self.find(statement.line, "suppressed")


def findings(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    finder = Finder()
    finder.pipefail = path.endswith(".bash")  # which a bats file loads behind the helpers
    statements = Parser(text).list()
    finder.walk(statements, True, False)
    finder.finish(finder.suppressed)
    return finder, text.split("\n")


def excused(finder, lines):
    return {(number, rule) for number, rule in finder.found if f"# unnoticed: {rule}" not in lines[number - 1]}


def main():
    if sys.argv[1] == "--self-test":
        finder, lines = findings(sys.argv[2])
        wanted = set()
        for number, line in enumerate(lines, 1):
            if "# finds: " in line:
                wanted |= {(number, rule) for rule in line.split("# finds: ")[1].split()}
        found = excused(finder, lines)
        for number, rule in sorted(wanted - found):
            print(f"{sys.argv[2]}:{number}: {rule} is not found")
        for number, rule in sorted(found - wanted):
            print(f"{sys.argv[2]}:{number}: {rule} is found")
        rules = set(re.findall(r"^    ([a-z]+)  ", __doc__, re.M))
        for rule in sorted(rules - {rule for _, rule in wanted}):
            print(f"{sys.argv[2]}: {rule} has no example")
        return
    for path in sys.argv[1:]:
        finder, lines = findings(path)
        for number, rule in sorted(excused(finder, lines)):
            print(f"{path}:{number}: {rule}: {lines[number - 1].strip()}")


main()
