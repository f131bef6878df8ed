#!/bin/sh
# Writes tests/proto/luna_v1.textproto, the luna.v1 that clients were promised, from proto/.
# Needs protoc. After a change that only adds; see contract_test.cc.
set -eu
cd "$(dirname "$0")/../.."
protos=$(cd proto && ls luna/v1/*.proto)
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
# shellcheck disable=SC2086  # one argument a file
protoc -I proto --descriptor_set_out="$binary" $protos
protoc --decode=google.protobuf.FileDescriptorSet google/protobuf/descriptor.proto \
  <"$binary" >tests/proto/luna_v1.textproto
