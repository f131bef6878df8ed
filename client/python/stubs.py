"""Makes the Python stubs of proto/luna/v1 when they are missing or older than the protos.

Needs Debian's protobuf-compiler, protobuf-compiler-grpc, python3-protobuf and python3-grpcio.
"""
import fcntl
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
STUBS = ROOT / "build" / "python-stubs"


def load():
    """Puts the stubs on the import path, so that `from luna.v1 import inference_pb2` works."""
    protos = sorted(PROTO.glob("luna/v1/*.proto"))
    newest = max(path.stat().st_mtime for path in protos)
    made = STUBS / "luna" / "v1" / "inference_pb2_grpc.py"
    STUBS.mkdir(parents=True, exist_ok=True)
    with open(STUBS / "lock", "w") as lock:  # two examples may be started at the same moment
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.stat().st_mtime < newest:
            _generate(protos)
    sys.path.insert(0, str(STUBS))


def _generate(protos):
    plugin = shutil.which("grpc_python_plugin")
    if plugin is None or shutil.which("protoc") is None:
        sys.exit("protoc or grpc_python_plugin is missing: "
                 "apt-get install protobuf-compiler protobuf-compiler-grpc")
    subprocess.run(
        ["protoc", f"-I{PROTO}", f"--python_out={STUBS}", f"--grpc_out={STUBS}",
         f"--plugin=protoc-gen-grpc={plugin}", *map(str, protos)],
        check=True)
