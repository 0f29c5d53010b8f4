#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults put into peer_state.cc one at a time, each of which the walk of two_peers or the unit test must see.

  mutants.py check SOURCE          each fault still has its place, and README.md its line
  mutants.py run SOURCE [NAME...]  builds each out of tree with $CXX, runs both tests, compares with README.md
  mutants.py renew SOURCE          runs them all and writes what they say into README.md
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MACHINE = "lib/core/peer/peer_state.cc"
BEGIN, END = "<!-- mutants:begin -->\n", "<!-- mutants:end -->\n"
SECONDS = 900  # a generous limit against hanging

# What is broken; the text that stands once in the machine; what takes its place.
MUTANTS = [
    ("what the peer dialed replaces ours that is connecting",
     "    state_.attempts.push_back(proven);\n    if (!live)",
     "    state_.attempts.push_back(proven);\n"
     "    if (!live) close_all(kDuplicate, [](const Attempt &own) { return own.side == Side::ours; });\n    if (!live)"),
    ("both prefer their own", "(state_.ours_smaller || other.incarnation", "(true || other.incarnation"),
    ("both prefer the other's", "(state_.ours_smaller || other.incarnation", "(false || other.incarnation"),
    ("the larger id wins, on both sides",
     "(state_.ours_smaller || other.incarnation", "(!state_.ours_smaller || other.incarnation"),
    ("a proof beats a connection that is ready",
     "    if (same && !is_over(*live, input)) return out(Output::close, number, kDuplicate);\n"
     "    state_.attempts.push_back(proven);\n    if (!live) return promote();\n    live->over |= same;\n    out(live->over ? Output::supersede : Output::probe, live->number);",
     "    (void)live;\n    state_.attempts.push_back(proven);\n    admit(*find(number));"),
    ("a proof of the ready one's incarnation closes the ready one",
     "    if (same && !is_over(*live, input)) return out(Output::close, number, kDuplicate);\n",
     "    if (live && live->incarnation == proven.incarnation) close(live->number, kDuplicate), live = nullptr;\n"),
    ("a reply goes on beside a connection that is ready",
     "    if (live && live->incarnation == contact.incarnation) return close(contact.number, kDuplicate);\n"
     "    if (live) {",
     "    if (live && live->incarnation != contact.incarnation) {"),
    ("ready does not look for another that is ready",
     "    if (Attempt *live = in_phase(Phase::ready)) {", "    if (Attempt *live = nullptr) {"),
    ("ready closes another that is not over",
     "        if (live->incarnation != incarnation || !is_over(*live, input.statement))\n"
     "            return close(number, kDuplicate);\n", ""),
    ("ready spares another that is over", " || !is_over(*live, input.statement))\n            return", " || true)\n            return"),
    ("ready ends another that is over before its goodbye",
     "        live->over = true;\n        find(number)->phase = Phase::welcomed;\n"
     "        return out(Output::supersede, live->number);", "        close(live->number, XFER_EPEERLOST);"),
    ("whom the peer has taken waits for ever",
     "    if (Attempt *welcomed = in_phase(Phase::welcomed)) {", "    if (Attempt *welcomed = nullptr) {"),
    ("what the peer has taken and ended again still waits",
     " ||\n           contact.phase == Phase::welcomed;", ";"),
    ("promotes though one is ready", "    if (in_phase(Phase::ready)) return;\n", ""),
    ("a stale reply is accepted", "    if (contact.phase != Phase::hello_sent) return;\n", ""),
    ("the reply of an attempt that the peer was told is over is accepted",
     "    if (contact.sequence <= state_.abandoned) return close(contact.number, kDuplicate);\n", ""),
    ("what the peer was told to be abandoned is forgotten",
     "    state_.abandoned = statement.abandoned;\n", ""),
    ("who was told to be over is let in later",
     "    if (input.sequence <= state_.told_seen) return out(Output::close, number, kDuplicate);\n", ""),
    ("who was told to be over waits on",
     "other.incarnation == state_.seen_incarnation &&\n               other.sequence < statement.held;", "false;"),
    ("one of another incarnation goes with those who were told to be over",
     "other.phase == Phase::parked && other.incarnation == state_.seen_incarnation &&",
     "other.phase == Phase::parked &&"),
    ("a doubled proof is heard", "    if (find(number)) return;\n", ""),
    ("ready is heard before the proof", "    if (welcomed.phase != Phase::proving) return;\n", ""),
    ("the loser is closed when the winner begins",
     "        if (contact.phase == Phase::parked && !loses_tie_break(contact)) return admit(contact);",
     "        if (contact.phase == Phase::parked)\n"
     "            return loses_tie_break(contact) ? close(contact.number, kDuplicate) : admit(contact);"),
    ("ours that is proving is closed when theirs is ready",
     "        return other.phase == Phase::dialing || other.phase == Phase::hello_sent ||",
     "        return other.phase == Phase::dialing || other.phase == Phase::hello_sent || other.phase == Phase::proving ||"),
    ("nobody is promoted when the winner fails", "give_up_older(ended);\n    }\n    promote();", "give_up_older(ended);\n    }"),
    ("one that never comes up outlives one that was dialed later",
     "        if (ended.side == Side::ours && is_proved(ended)) give_up_older(ended);\n", ""),
    ("the end of one that has proved nothing ends the older ones", " && is_proved(ended)", ""),
    ("an end ends those that were dialed later", " && other.sequence < ended.sequence", ""),
    ("one held back is not promoted",
     "    held->phase = Phase::proving;\n    out(Output::send_proof, held->number);", "    (void)held;"),
    ("one held back is promoted beside another that proves itself",
     "    if (!held || in_phase(Phase::proving)) return;", "    if (!held) return;"),
    ("one that waits outlives the winner",
     "    out(Output::live, number);\n    close_all(kDuplicate, [&](const Attempt &other) {\n        return waits(other) && ",
     "    out(Output::live, number);\n    close_all(kDuplicate, [&](const Attempt &other) {\n        return false && "),
    ("ours that proved nothing stay when theirs is ready",
     "        return other.phase == Phase::dialing || other.phase == Phase::hello_sent ||\n"
     "               other.phase == Phase::held;",
     "        return other.phase == Phase::held;"),
    ("one that waits resets who is ready",
     "    if (!live) return promote();", "    if (live) close(live->number, XFER_EPEERLOST);\n    return promote();"),
    ("a newcomer's proof is refused unasked",
     "    if (!live) return promote();", "    if (live) return close(number, XFER_EIDENTITY);\n    return promote();"),
    ("a newcomer's reply takes over unasked",
     "    if (live) {\n        contact.phase = Phase::held;\n        return out(Output::probe, live->number);\n    }\n",
     ""),
    ("a newcomer's proof asks for no probe",
     "    if (!live) return promote();", "    return promote();"),
    ("a newcomer that supersedes asks for a probe alone", "live->over ? Output::supersede : Output::probe", "Output::probe"),
    ("all newcomers supersede", "    live->over |= same;", "    live->over = true;"),
    ("another newcomer brings back one that is over", "    live->over |= same;", "    live->over = same;"),
    ("a newcomer's reply asks for no probe",
     "        return out(Output::probe, live->number);\n    }", "        return;\n    }"),
    ("an answered probe spares the newcomer", "    if (!live.over) return close_all(XFER_EIDENTITY, waits);",
     "    if (!live.over) return;"),
    ("an answered probe ends one of whom nothing is known", "    if (!live.over) return close_all(XFER_EIDENTITY, waits);",
     "    if (!live.over)\n"
     "        return close_all(XFER_EIDENTITY, [](const Attempt &other) { return other.phase != Phase::ready; });"),
    ("a connection that is over stays when its time is",
     "    close(live.number, XFER_EPEERLOST);  // it had its time for a goodbye\n    promote();\n", ""),
    ("an answer ends a connection that is not over", "    if (!live.over) return close_all(XFER_EIDENTITY, waits);\n", ""),
    ("an answer on one that is not ready ends who waits",
     "    if (live.phase != Phase::ready) return;\n    if (!live.over)", "    if (!live.over)"),
    ("ready forgets the others who wait",
     "    find(number)->phase = Phase::ready;\n    settle(number, incarnation);",
     "    find(number)->phase = Phase::ready;\n    out(Output::live, number);"),
    ("who is promoted forgets the others who wait",
     "    out(Output::send_ready, number);\n    settle(number, incarnation);",
     "    (void)incarnation;\n    out(Output::send_ready, number);\n    out(Output::live, number);"),
    ("nobody asks for a probe for who waits",
     "    if (std::any_of(state_.attempts.begin(), state_.attempts.end(), waits))\n        out(Output::probe, number);\n",
     ""),
    ("one that waits may be heard beside ours to another incarnation",
     "(state_.ours_smaller || other.incarnation != theirs.incarnation)", "state_.ours_smaller"),
    ("the old incarnation is taken for the new one",
     "    if (same && !is_over(*live, input)) return out(Output::close, number, kDuplicate);\n",
     "    if (live) return out(Output::close, number, kDuplicate);\n"),
    ("another incarnation's statement is believed",
     "other.number != self && other.incarnation == incarnation &&", "other.number != self &&"),
    ("a statement is believed of its own connection",
     "        return other.number != self && other", "        (void)self;\n        return other"),
    ("a statement ends a connection that is ready",
     "               other.phase != Phase::ready && is_over(other, statement);", "               is_over(other, statement);"),
    ("one that is ready and over refuses the newcomer",
     "if (same && !is_over(*live, input)) return", "if (same) return"),
    ("who has forgotten a connection is refused for its sake",
     "    return forgotten || is_over(live, proof.statement);", "    (void)forgotten;\n    return is_over(live, proof.statement);"),
    ("whoever proves itself has forgotten", "proof.after_ready && live.side", "live.side"),
    ("what the peer has dialed is forgotten", "proof.after_ready && live.side == Side::ours &&", "proof.after_ready &&"),
    ("what the peer says that it holds is forgotten",
     " && live.sequence != proof.statement.held;", ";"),
    ("a second attempt is taken before the end of the first was heard",
     "    if (input.statement.abandoned < state_.ended) return out(Output::close, number, kDuplicate);\n", ""),
    ("what was never ready counts as ended", "contact.phase == Phase::ready &&\n            contact.incarnation", "contact.incarnation"),
    ("rule 1 is not applied at proof",
     "    believe(proven, input.statement);", ""),
    ("rule 1 is not applied at ready",
     "    believe(Attempt(welcomed), input.statement);", ""),
    ("what the peer holds is taken for dead",
     "contact.sequence <= statement.seen &&\n           contact.sequence != statement.held;",
     "contact.sequence <= statement.seen;"),
    ("what the peer has not seen is taken for dead",
     "is_proved(contact) && contact.sequence <= statement.seen &&\n           contact", "is_proved(contact) && contact"),
    ("what has proved nothing is taken for seen",
     "return is_proved(contact) && contact.sequence <= statement.seen", "return contact.sequence <= statement.seen"),
    ("what its initiator gave up is taken for alive",
     "    if (contact.side == Side::theirs) return contact.sequence <= statement.abandoned;",
     "    if (contact.side == Side::theirs) return false;"),
    ("what was seen outlives the incarnation that it counts",
     "        state_.seen = state_.told_seen = state_.given_up = state_.ended = 0;",
     "        state_.told_seen = state_.given_up = state_.ended = 0;"),
    ("what was told as seen outlives the incarnation that it counts",
     "        state_.seen = state_.told_seen = state_.given_up = state_.ended = 0;",
     "        state_.seen = state_.given_up = state_.ended = 0;"),
    ("what has ended outlives the incarnation that it counts",
     "        state_.seen = state_.told_seen = state_.given_up = state_.ended = 0;",
     "        state_.seen = state_.told_seen = state_.given_up = 0;"),
    ("a restarted peer is told of the attempts of its predecessor",
     "            statement.seen = statement.held = 0;", "            continue;"),
    ("what is under way is told to be abandoned",
     "            statement.abandoned = std::min(statement.abandoned, contact.sequence - 1);", "            continue;"),
    ("dials beside one that is ready",
     "    return state.attempts.empty();",
     "    return std::none_of(state.attempts.begin(), state.attempts.end(),\n"
     "                        [](const Attempt &contact) { return contact.side == Side::ours; });"),
    ("what the peer has told to be given up is forgotten",
     "    if (input.sequence <= state_.given_up) return out(Output::close, number, XFER_EPEERLOST);\n", ""),
]


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, **more)


def compile_to(out, source, tree):
    flags = ["-std=c++20", "-O2", f"-I{tree}/lib", f"-I{tree}/include", f"-I{tree}/tests/sim"]
    command = [os.environ.get("CXX", "c++"), *flags, f'-DXFER_SOURCE_DIR="{tree}"', "-c", str(source), "-o", str(out)]
    subprocess.run(command, check=True)
    return out


def said_by_walk(program):
    try:
        ended = run([program], timeout=SECONDS, env={**os.environ, "XFER_TEST_QUICK": "1"})
    except subprocess.TimeoutExpired:
        return "it does not end"
    if ended.returncode < 0:
        return "the machine breaks an invariant of its own"
    fault = re.search(r"REQUIRE\( (.*?):\n", ended.stdout)
    return fault[1] if fault else ""


def seen_by_unit(program):
    try:
        return run([program], timeout=SECONDS).returncode != 0
    except subprocess.TimeoutExpired:
        return True


class Bench:
    """Everything but the machine is compiled once."""

    def __init__(self, tree, folder):
        self.tree, self.folder = tree, folder
        both = [tree / "lib/api/status.cc", tree / "tests/doctest_main.cc"]
        walk = [*sorted((tree / "tests/sim").glob("two_peers*.cc")), *both]
        unit = [tree / "tests/unit/peer_state_test.cc", *both]
        self.walk = [compile_to(folder / f"walk{i}.o", file, tree) for i, file in enumerate(walk)]
        self.unit = [compile_to(folder / f"unit{i}.o", file, tree) for i, file in enumerate(unit)]

    def verdict(self, text):
        machine = self.folder / "machine.cc"
        machine.write_text(text)
        made = compile_to(self.folder / "machine.o", machine, self.tree)
        programs = []
        for name, objects in (("walk", self.walk), ("unit", self.unit)):
            program = self.folder / name
            subprocess.run([os.environ.get("CXX", "c++"), "-o", program, *objects, made], check=True)
            programs.append(program)
        return said_by_walk(programs[0]), seen_by_unit(programs[1])


def line_of(name, walk, unit):
    return f"| {name} | {walk or 'nothing'} | {'fails' if unit else 'passes'} |\n"


def faults(tree):
    """What is wrong with the list itself."""
    text = (tree / MACHINE).read_text()
    readme = (tree / "tests/sim/README.md").read_text()
    table = readme[readme.index(BEGIN) : readme.index(END)]
    listed = re.findall(r"^\| (.*?) \|", table, re.M)[1:]
    for name, old, new in MUTANTS:
        if text.count(old) != 1:
            yield f"{name}: its place is there {text.count(old)} times"
        if old == new:
            yield f"{name}: changes nothing"
    if listed != [name for name, _, _ in MUTANTS]:
        yield "README.md lists others: mutants.py renew"


def main(mode, source, *names):
    tree = Path(source).resolve()
    if mode == "check":
        return "\n".join(faults(tree))
    text = (tree / MACHINE).read_text()
    chosen = [mutant for mutant in MUTANTS if not names or mutant[0] in names]
    lines, alive = [], []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(tree, Path(folder))
        walk, unit = bench.verdict(text)
        if walk or unit:
            return f"without a fault the walk says '{walk}', the unit test {'fails' if unit else 'passes'}"
        for name, old, new in chosen:
            walk, unit = bench.verdict(text.replace(old, new))
            lines.append(line_of(name, walk, unit))
            print(lines[-1], end="", flush=True)
            if not walk and not unit:
                alive.append(f"{name}: nobody sees it")
    path = tree / "tests/sim/README.md"
    readme = path.read_text()
    if mode == "renew":
        head = "| fault | the walk says | the unit test |\n|---|---|---|\n"
        begin, end = readme.index(BEGIN) + len(BEGIN), readme.index(END)
        path.write_text(readme[:begin] + head + "".join(lines) + readme[end:])
    else:
        alive += [f"README.md says otherwise than: {line.strip()}" for line in lines if line not in readme]
    return "\n".join(alive)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) or 0)
