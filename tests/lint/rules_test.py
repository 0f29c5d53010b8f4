# SPDX-License-Identifier: Apache-2.0
"""The lints find what they are there to find."""

import unittest
from pathlib import Path

import contract
import floors
import pages
import path_length
import size
import tidy
import words


class Contract(unittest.TestCase):
    SCENARIOS = ["zero_length", "lookup_waits"]
    TESTS = {
        "c": "static const struct CMUnitTest tests[] = {\n    TEST(%s), cmocka_unit_test(%s),\n};\n",
        "python": "def test_%s() -> None:\n    pass\n\n\nasync def test_%s(pair):\n    pass\n",
        "go": '\t{"%s", zeroLength},\n\t{"%s", lookupWaits},\n',
        "rust": "#[test]\nfn %s() {}\n#[tokio::test]\n#[ignore]\nasync fn %s() {}\n",
    }

    def faults(self, language, *names):
        return list(contract.faults(language, self.SCENARIOS, [self.TESTS[language] % names]))

    def test_all_are_there(self):
        for language in contract.LANGUAGES:
            self.assertEqual(self.faults(language, "zero_length", "lookup_waits"), [])

    def test_one_is_missing(self):
        for language in contract.LANGUAGES:
            told = self.faults(language, "zero_length", "zero_length")
            self.assertEqual(told, [f"{language}: no test of lookup_waits"])

    def test_one_has_another_name(self):
        for language, its in contract.LANGUAGES.items():
            told = self.faults(language, "zero_length", "lookup_wait")
            self.assertEqual(len(told), 2 if its.alone else 1, told)

    def test_names_come_from_the_table(self):
        self.assertEqual(contract.SCENARIO.findall("| scenario | sees |\n|---|---|\n| `a_b` | x `c` |\n"), ["a_b"])


class Tidy(unittest.TestCase):
    def test_a_line_is_told_of_where_it_is(self):
        _, places = tidy.join([(Path("lib/a.cc"), "1\n2\n"), (Path("lib/b.cc"), "1\n")])
        joined = Path("/tmp/x/joined_0.cc")
        told = tidy.in_place("/tmp/x/joined_0.cc:2:5: error: a\njoined_0.cc:3:1: note: b\n", joined, places)
        self.assertEqual(told, "lib/a.cc:2:5: error: a\nlib/b.cc:1:1: note: b\n")

    def test_batches_have_the_same_arguments(self):
        entries = [
            {"file": f"/r/lib/{name}.cc", "command": f"g++ {flag} -o {name}.o -c /r/lib/{name}.cc"}
            for name, flag in [*((f"{n:02}", "-O2") for n in range(tidy.JOINED + 1)), ("other", "-DX")]
        ]
        entries.append({"file": "/r/tests/a.cc", "command": "g++ -O2 -c /r/tests/a.cc"})
        found = tidy.commands(entries, Path("/r/lib"))
        self.assertEqual(
            sorted((arguments, len(files)) for arguments, files in tidy.batches(found)),
            [(["-DX"], 1), (["-O2"], 1), (["-O2"], tidy.JOINED)],
        )


class Floors(unittest.TestCase):
    def faults(self, here, line):
        return list(floors.check(Path("lib") / here, line))

    def test_down_and_sideways_is_allowed(self):
        for here, there in [
            ("api/engine.cc", "core/engine/engine.h"),
            ("core/engine/engine.cc", "transport/transport.h"),
            ("core/engine/engine.cc", "core/peer/peer.h"),
            ("transport/tcp/lane.cc", "transport/tcp/lane.h"),
            ("transport/tcp/lane.cc", "transport/transport.h"),
            ("transport/tcp/lane.cc", "wire/frame.h"),
            ("transport/builtin.cc", "transport/tcp/tcp.h"),
            ("transport/tcp/tcp.cc", "transport/stream/socket.h"),
            ("util/status.h", "xfer/xfer.h"),
        ]:
            self.assertEqual(self.faults(here, f'#include "{there}"'), [])

    def test_up_is_not(self):
        for here, there in [
            ("core/engine/engine.cc", "api/guard.h"),
            ("transport/tcp/lane.cc", "core/peer/peer.h"),
            ("transport/transport.h", "core/engine/engine.h"),
            ("util/status.cc", "wire/frame.h"),
            ("wire/frame.cc", "loop/loop.h"),
        ]:
            self.assertEqual(len(self.faults(here, f'#include "{there}"')), 1, (here, there))
            self.assertEqual(len(self.faults(here, f"# include <{there}>")), 1, (here, there))

    def test_rooms_of_core_know_their_own_and_lower_ones(self):
        for here, there in [
            ("core/engine/shard.h", "core/base/shard_core.h"),
            ("core/peer/session.h", "core/message/message_receiver.h"),
            ("core/message/send.h", "core/transfer/operation.h"),
            ("core/transfer/transfer.cc", "core/connection/connection.h"),
        ]:
            self.assertEqual(self.faults(here, f'#include "{there}"'), [])
            self.assertEqual(len(self.faults(there, f'#include "{here}"')), 1, (there, here))
        self.assertEqual(len(self.faults("core/peer/peer.h", '#include "core/attic/peer.h"')), 1)

    def test_concrete_transports_are_known_to_one_file(self):
        for here in ["core/engine/engine.cc", "transport/transport.h", "transport/stream/channel.cc", "api/engine.cc"]:
            self.assertEqual(len(self.faults(here, '#include "transport/tcp/tcp.h"')), 1, here)

    def test_other_ways_to_write_a_path_are_not_allowed(self):
        for there in ["peer.h", "../core/peer/peer.h"]:
            self.assertEqual(len(self.faults("core/engine/engine.cc", f'#include "{there}"')), 1, there)


class Size(unittest.TestCase):
    def lengths(self, text):
        return [count for _, count in size.functions(text)]

    def test_bodies_are_measured(self):
        self.assertEqual(self.lengths("int f(int a) {\n  return a;\n}\n"), [3])
        self.assertEqual(self.lengths("A::A(int a)\n    : a_(a), b_(2) {\n}\n"), [2])
        self.assertEqual(self.lengths("A::A(int a) : a_{a} {\n}\n"), [2])
        self.assertEqual(self.lengths("void f() {\n  g([&](int a) {\n  });\n}\n"), [2, 4])
        self.assertEqual(self.lengths("auto f() const noexcept -> int {\n\n\n}\n"), [4])
        self.assertEqual(self.lengths("namespace a {\nstruct B {\n  void f() override {\n  }\n};\n}\n"), [2])

    def test_other_braces_are_not(self):
        self.assertEqual(self.lengths("void f() {\n  if (a) {\n  }\n  for (;;) {\n  }\n}\n"), [6])
        self.assertEqual(self.lengths("int a[] = {\n1,\n2};\nenum { x };\nnamespace a { }\n"), [])

    def test_comments_and_literals_do_not_count(self):
        self.assertEqual(self.lengths("void f() {\n  // }\n  g(\"}\", '}', 1'000); /* } */\n}\n"), [4])

    def test_limits(self):
        path = Path("lib/util/a.cc")
        body = "void f() {\n" + "  a();\n" * 69 + "}\n"
        self.assertEqual(len(list(size.check(path, body))), 1)
        self.assertEqual(list(size.check(path, body.replace("  a();\n", "", 1))), [])
        self.assertEqual(len(list(size.check(path, "//\n" * 451))), 1)
        self.assertEqual(list(size.check(path, "//\n" * 450)), [])


class Words(unittest.TestCase):
    def count(self, text, name="lib/util/a.cc"):
        return len(list(words.check(Path(name), text)))

    def test_a_licence_line_is_wanted(self):
        self.assertEqual(self.count("int a;\n"), 1)
        self.assertEqual(self.count(f"// {words.LICENCE}\nint a;\n"), 0)
        self.assertEqual(self.count("prose\n", "README.md"), 0)

    def test_words(self):
        start = f"// {words.LICENCE}\n"
        self.assertEqual(self.count(start + "// TO" + "DO: later\n"), 1)
        self.assertEqual(self.count(start + "open(\"/ro" + "ot/x\");\n"), 1)
        self.assertEqual(self.count(start + "open(\"/usr/lib/x\");\n"), 0)
        for name in ["LaneManager", "Helper", "UtilThings", "TransportBase"]:
            self.assertEqual(self.count(start + f"class {name} {{\n"), 1, name)
        for name in ["Lane", "Database", "Utility", "PageBases"]:
            self.assertEqual(self.count(start + f"struct {name};\n"), 0, name)
        self.assertEqual(self.count(start + "int a; \n"), 1)
        self.assertEqual(self.count(start + "int a;"), 1)


class Pages(unittest.TestCase):
    HEADER = "enum {\n    XFER_OK = 0,\n    XFER_EONE = -1, /* one thing */\n    XFER_ETWO = -2 /* two */\n};\n"
    ROWS = ["| `XFER_OK` | done | go on |", "| `XFER_EONE` | one thing | a |", "| `XFER_ETWO` | two | b |"]

    def statuses(self, rows):
        return len(list(pages.status_faults("\n".join(rows), self.HEADER)))

    def test_statuses_are_those_of_the_header(self):
        self.assertEqual(self.statuses(self.ROWS), 0)
        self.assertEqual(self.statuses(self.ROWS[:2]), 1)
        self.assertEqual(self.statuses([self.ROWS[0], self.ROWS[2], self.ROWS[1]]), 1)
        self.assertEqual(self.statuses([*self.ROWS[:2], "| `XFER_ETWO` | three | b |"]), 1)
        self.assertEqual(self.statuses([*self.ROWS[:2], "| `XFER_ETWO` | two |  |"]), 1)

    def test_limits_are_the_constants(self):
        constants = pages.constants_of(
            "constexpr uint32_t kA = 1'024, kB = 16;\n", "constexpr uint64_t kC = 64u << 20;\nconstexpr int kD = kB * 2;\n"
        )
        self.assertEqual(constants, {"kA": 1024, "kB": 16, "kC": 64 << 20, "kD": 32})
        for cell, faults in [
            ("1,024 by default, 16 at most <!-- kA kB -->", 0),
            ("64 MiB <!-- kC -->", 0),
            ("1,025 <!-- kA -->", 1),
            ("1,024 <!-- kA kB -->", 1),
            ("64 KiB <!-- kC -->", 1),
            ("7 <!-- kGone -->", 1),
        ]:
            self.assertEqual(len(list(pages.limit_faults(f"| what | {cell} | past it |\n", constants))), faults, cell)
        self.assertEqual(len(list(pages.limit_faults("no table\n", constants))), 1)

    def test_links_lead_somewhere(self):
        here = Path(__file__)
        for target, faults in [("words.py", 0), ("words.py#a", 0), ("gone.py", 1), ("https://example.org", 0), ("#a", 0)]:
            text = f"see [it]({target})\n```\n[x](gone.py)\n```\n"
            self.assertEqual(len(list(pages.link_faults(here.parent, Path("a.md"), text))), faults, target)


class PathLength(unittest.TestCase):
    def test_runs_are_told_apart(self):
        self.assertEqual(list(path_length.runs("put 2\n0x10\n0x12\nopen 1\n0x20\n")),
                         [("put", [0x10, 0x12]), ("open", [0x20])])

    def test_an_address_has_its_function(self):
        functions = path_length.symbols("0020 0008 t b(int) [clone .cold]\n0010 0004 T a()\n0030 0004 W inline\n")
        self.assertEqual(functions, [(0x10, 0x14, "a()"), (0x20, 0x28, "b(int) [clone .cold]")])
        self.assertEqual(path_length.entered([0x10, 0x13, 0x14, 0x1F, 0x30], functions), {functions[0]})

    def test_what_is_inlined_belongs_to_who_calls_it(self):
        told = "0x0000000000000010\n/x/lib/util/list.h:3\n/x/lib/util/uri.cc:9 (discriminator 2)\n0x20\n??:?\n"
        self.assertEqual(path_length.outermost(told), {0x10: "/x/lib/util/uri.cc", 0x20: "??"})

    def test_files_are_those_of_the_library(self):
        files = {1: "/x/build/gcc/../../lib/util/uri.cc", 2: "/usr/lib/gcc/other.cc", 3: "??"}
        held = [(1, 2, "parse"), (2, 3, "other"), (3, 4, "none")]
        self.assertEqual(path_length.sources(held, files, {"lib/util/uri.cc"}), {"lib/util/uri.cc": {"parse"}})


if __name__ == "__main__":
    unittest.main()
