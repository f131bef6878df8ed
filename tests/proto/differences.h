// What a contract promised and another no longer keeps.
#ifndef LUNA_TESTS_PROTO_DIFFERENCES_H_
#define LUNA_TESTS_PROTO_DIFFERENCES_H_

#include <google/protobuf/descriptor.pb.h>

#include <string>
#include <vector>

namespace luna::proto {

// One line for everything that `promised` has and `now` has not, or has otherwise: a message, field
// (by number: name, type, label, presence, oneof), enum value, service, method. What `now` has
// besides is no difference.
std::vector<std::string> BrokenPromises(const google::protobuf::FileDescriptorSet& promised,
                                        const google::protobuf::FileDescriptorSet& now);

// The full names of enums whose value 0 does not end with _UNSPECIFIED, or is not there.
std::vector<std::string> EnumsWithoutUnspecified(const google::protobuf::FileDescriptorSet& files);

}  // namespace luna::proto

#endif  // LUNA_TESTS_PROTO_DIFFERENCES_H_
