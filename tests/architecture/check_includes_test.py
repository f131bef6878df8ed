#!/usr/bin/env python3
"""The check itself: each kind of violation is seen, and what is allowed is not."""

import unittest

import check_includes
from check_includes import Architecture, Target


def library(directory: str, *deps: str, name: str = "") -> Target:
    return Target("library", name or directory.split("/")[-1], directory, deps, ())


HOUSE = Architecture([
    library("core/base"),
    library("core/kv", "base"),
    library("core/backend", "base", "kv"),
    library("core/backend/cpu", "backend", name="backend_cpu"),
    library("core/engine", "base", "backend"),
    library("server", "engine", "proto"),
    library("client", "base", "proto"),
    library("proto"),
    Target("binary", "luna-server", "server", ("server", "backend_cpu"), ("server_main.cc",)),
])


def errors(path: str, *lines: str) -> list[str]:
    return check_includes.check_file(HOUSE, path, "\n".join(lines))


class IncludeTest(unittest.TestCase):
    def test_what_deps_allow_passes(self):
        self.assertEqual(errors(
            "core/kv/pool.cc", '#include "core/kv/pool.h"', "#include <vector>",
            '#include "absl/status/status.h"', '#  include "core/base/ids.h"'), [])

    def test_an_include_against_the_direction_is_refused(self):
        found = errors("core/base/ids.h", "", '#include "core/kv/pool.h"')
        self.assertEqual(len(found), 1)
        self.assertIn("core/base/ids.h:2: includes core/kv/pool.h of kv", found[0])

    def test_deps_are_not_inherited(self):
        # engine uses backend and backend uses kv; engine does not use kv.
        self.assertEqual(len(errors("core/engine/engine.h", '#include "core/kv/pool.h"')), 1)

    def test_a_directory_below_its_dependency_uses_what_that_uses(self):
        self.assertEqual(errors("core/backend/cpu/attention.cc", '#include "core/kv/pool.h"'), [])

    def test_the_layer_does_not_use_the_directory_below(self):
        self.assertEqual(
            len(errors("core/backend/checks.cc", '#include "core/backend/cpu/attention.h"')), 1)

    def test_core_knows_no_wire(self):
        for header in ("<grpcpp/grpcpp.h>", '"google/protobuf/message.h"', "<httplib.h>",
                       '"luna/v1/session.pb.h"', "<grpc/support/time.h>"):
            self.assertEqual(len(errors("core/kv/pool.cc", f"#include {header}")), 1, header)

    def test_proto_needs_to_be_among_the_deps(self):
        self.assertEqual(errors("server/rpc.cc", '#include "luna/v1/session.pb.h"'), [])
        self.assertEqual(errors("client/client.cc", '#include "luna/v1/session.pb.h"'), [])

    def test_a_binary_has_deps_of_its_own(self):
        self.assertEqual(errors("server/server_main.cc", '#include "core/backend/cpu/x.h"'), [])
        self.assertEqual(len(errors("server/rpc.cc", '#include "core/backend/cpu/x.h"')), 1)

    def test_a_relative_include_is_refused(self):
        self.assertEqual(len(errors("core/kv/pool.cc", '#include "pool.h"')), 1)

    def test_a_file_outside_every_library_is_refused(self):
        self.assertEqual(len(errors("core/stray/pool.cc", "#include <vector>")), 1)
        self.assertEqual(len(errors("server/rpc.cc", '#include "core/stray/pool.h"')), 1)


class GraphTest(unittest.TestCase):
    def test_the_house_is_in_order(self):
        self.assertEqual(check_includes.check_graph(HOUSE), [])

    def test_cycles_are_found(self):
        found = check_includes.check_graph(Architecture(
            [library("core/a", "b"), library("core/b", "c"), library("core/c", "b")]))
        self.assertEqual(found, ["cycle: b -> c -> b"])

    def test_trees_keep_to_their_side(self):
        found = check_includes.check_graph(Architecture([
            library("core/base", "proto"), library("proto"), library("core/kv"),
            library("client", "kv"), library("server", "client"), library("core/x", "nothing")]))
        self.assertEqual(len(found), 4)


class DocsTest(unittest.TestCase):
    HOUSE = Architecture([library("core/base"), library("core/kv", "base")])
    TABLE = "<!-- layers -->\n| library | uses | is |\n|---|---|---|\n{}<!-- /layers -->"

    def check(self, rows: str) -> list[str]:
        return check_includes.check_docs(self.HOUSE, self.TABLE.format(rows))

    def test_the_same_graph_passes(self):
        self.assertEqual(self.check("| `base` | | x |\n| `kv` | `base` | the `pool` |\n"), [])

    def test_differences_are_found(self):
        self.assertEqual(len(self.check("| `base` | | |\n")), 1)
        self.assertEqual(len(self.check("| `base` | `kv` | |\n| `kv` | `base` | |\n")), 1)
        self.assertEqual(
            len(self.check("| `base` | | |\n| `kv` | `base` | |\n| `gone` | | |\n")), 1)

    def test_no_table_is_an_error(self):
        self.assertEqual(len(check_includes.check_docs(self.HOUSE, "prose")), 1)


if __name__ == "__main__":
    unittest.main()
