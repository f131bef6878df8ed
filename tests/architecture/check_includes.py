#!/usr/bin/env python3
"""Refuses an #include that runs against the direction of the architecture.

    check_includes.py SOURCE_ROOT BUILD/architecture.json

The architecture is what the build files say: every directory is a library, its DEPS are what it may
include, and nothing else. A library in a directory below another library that it depends on may
also include what that one may. The configure step writes those DEPS to architecture.json. The graph
itself must be free of cycles, keep to the few rules in `check_graph`, and equal the table between
`<!-- layers -->` and `<!-- /layers -->` in docs/architecture.md.
"""

import dataclasses
import json
import pathlib
import re
import sys

TREES = ("core", "server", "client")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
# What core must never know of, by how the include begins.
WIRE_HEADERS = ("grpc/", "grpc++/", "grpcpp/", "google/", "httplib.h", "luna/")
GENERATED_DIRECTORY = "proto"  # "luna/v1/x.pb.h" is made there


@dataclasses.dataclass(frozen=True)
class Target:
    kind: str  # library, binary
    name: str
    directory: str  # from the source root
    deps: tuple[str, ...]
    sources: tuple[str, ...]  # of a binary, from its directory


def read_targets(path: pathlib.Path) -> list[Target]:
    targets = [
        Target(t["kind"], t["name"], t["directory"], tuple(t["deps"]), tuple(t["sources"]))
        for t in json.loads(path.read_text(encoding="utf-8"))
        if t["directory"].startswith(TREES)  # tests may use what they like
    ]
    targets.append(Target("library", "proto", GENERATED_DIRECTORY, (), ()))
    return targets


def tree_of(target: Target) -> str:
    return target.directory.split("/")[0]


class Architecture:
    def __init__(self, targets: list[Target]):
        self.libraries = {t.name: t for t in targets if t.kind == "library"}
        self.by_directory = {t.directory: t for t in self.libraries.values()}
        self.binaries = [t for t in targets if t.kind == "binary"]

    def owner(self, path: str) -> Target | None:
        """The library whose directory holds `path`, the innermost."""
        for parent in pathlib.PurePosixPath(path).parents:
            if str(parent) in self.by_directory:
                return self.by_directory[str(parent)]
        return None

    def may_include(self, target: Target) -> set[str]:
        """Names of the libraries whose headers `target` may include."""
        names = set(target.deps)
        if target.kind == "library":
            names.add(target.name)
        for name in target.deps:
            library = self.libraries.get(name)
            if library and target.directory.startswith(library.directory + "/"):
                names |= self.may_include(library)
        return names

    def allowed_for_file(self, path: str) -> set[str] | None:
        for binary in self.binaries:
            if path in {f"{binary.directory}/{source}" for source in binary.sources}:
                return self.may_include(binary)
        owner = self.owner(path)
        return self.may_include(owner) if owner else None


def check_graph(architecture: Architecture) -> list[str]:
    errors = []
    for target in [*architecture.libraries.values(), *architecture.binaries]:
        for name in target.deps:
            dep = architecture.libraries.get(name)
            if dep is None:
                errors.append(f"{target.name}: its DEPS name {name}, which is no library")
            elif tree_of(target) == "core" and tree_of(dep) != "core":
                errors.append(f"{target.name}: core depends on core alone, not on {name}")
            elif tree_of(target) == "client" and tree_of(dep) != "client" and (
                name not in ("base", "proto")
            ):
                errors.append(f"{target.name}: a client depends on proto and base, not on {name}")
            elif tree_of(target) == "server" and tree_of(dep) == "client":
                errors.append(f"{target.name}: the server does not depend on the client ({name})")
    return errors + [f"cycle: {' -> '.join(cycle)}" for cycle in find_cycles(architecture)]


def find_cycles(architecture: Architecture) -> list[list[str]]:
    cycles, done, path = [], set(), []

    def visit(name: str) -> None:
        if name in path:
            cycles.append(path[path.index(name):] + [name])
        elif name not in done and name in architecture.libraries:
            path.append(name)
            for dep in architecture.libraries[name].deps:
                visit(dep)
            path.pop()
            done.add(name)

    for name in sorted(architecture.libraries):
        visit(name)
    return cycles


def check_file(architecture: Architecture, path: str, text: str) -> list[str]:
    errors = []
    allowed = architecture.allowed_for_file(path)
    if allowed is None:
        return [f"{path}: no library's directory holds it"]
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        place = f"{path}:{number}"
        if path.startswith("core/") and header.startswith(WIRE_HEADERS):
            errors.append(f"{place}: core knows nothing of gRPC, protobuf or HTTP ({header})")
            continue
        if header.startswith("luna/"):
            owner = architecture.libraries["proto"]
        elif header.split("/")[0] in TREES:
            owner = architecture.owner(header)
        elif quote == '"' and "/" not in header:
            errors.append(f"{place}: include {header} by its full path")
            continue
        else:
            continue  # from outside
        if owner is None:
            errors.append(f"{place}: {header} lies in no library's directory")
        elif owner.name not in allowed:
            errors.append(
                f"{place}: includes {header} of {owner.name}; may use {', '.join(sorted(allowed))}"
            )
    return errors


def check_sources(root: pathlib.Path, architecture: Architecture) -> list[str]:
    errors = []
    for tree in TREES:
        for path in sorted((root / tree).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu", ".cuh", ".inc"):
                name = path.relative_to(root).as_posix()
                errors += check_file(architecture, name, path.read_text(encoding="utf-8"))
    return errors


def documented_layers(text: str) -> dict[str, set[str]] | None:
    """Rows "| `name` | `dep` `dep` | ..." of the marked table; None without one."""
    match = re.search(r"<!-- layers -->(.*?)<!-- /layers -->", text, re.DOTALL)
    if not match:
        return None
    layers = {}
    for line in match.group(1).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        names = re.findall(r"`([a-z0-9_]+)`", cells[0])
        if len(cells) >= 2 and len(names) == 1:
            layers[names[0]] = set(re.findall(r"`([a-z0-9_]+)`", cells[1]))
    return layers


def check_docs(architecture: Architecture, text: str) -> list[str]:
    layers = documented_layers(text)
    if layers is None:
        return ["docs/architecture.md: has no table between <!-- layers --> and <!-- /layers -->"]
    errors = []
    built = {name: set(library.deps) for name, library in architecture.libraries.items()}
    for name in sorted(layers.keys() | built.keys()):
        if name not in built:
            errors.append(f"docs/architecture.md: {name} is no library")
        elif name not in layers:
            errors.append(
                f"docs/architecture.md: lacks {name} ({', '.join(sorted(built[name])) or 'no deps'})"
            )
        elif layers[name] != built[name]:
            errors.append(
                f"docs/architecture.md: {name} uses {', '.join(sorted(layers[name])) or 'nothing'}; "
                f"the build says {', '.join(sorted(built[name])) or 'nothing'}"
            )
    return errors


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(sys.argv[1])
    architecture = Architecture(read_targets(pathlib.Path(sys.argv[2])))
    errors = check_graph(architecture) + check_sources(root, architecture)
    docs = root / "docs" / "architecture.md"
    errors += check_docs(architecture, docs.read_text(encoding="utf-8") if docs.exists() else "")
    for error in errors:
        print(error, file=sys.stderr)
    print(f"{len(architecture.libraries)} libraries, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
