// Requests that no client would write, of any message type of the contract.
#ifndef LUNA_TESTS_INTEGRATION_WILD_MESSAGES_H_
#define LUNA_TESTS_INTEGRATION_WILD_MESSAGES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace luna::integration {

// luna.v1 with bytes wherever it has strings, so that messages may hold what is no UTF-8 and are
// written all the same. Same numbers, same wire.
class WildContract {
 public:
  WildContract();

  const google::protobuf::Descriptor* Find(const std::string& message) const {
    return pool_.FindMessageTypeByName(message);
  }

 private:
  void Add(const google::protobuf::FileDescriptor* file);

  google::protobuf::DescriptorPool pool_;
};

// Fills messages at random; the same seed, calls and known ids give the same bytes. One thread.
class WildMessages {
 public:
  // `contract` must outlive it.
  WildMessages(const WildContract* contract, uint32_t seed) : contract_(contract), random_(seed) {}

  // What a field of this name may be beside nonsense: something that is there.
  void Remember(const std::string& field, const std::string& value);
  const std::vector<std::string>& known(const std::string& field) { return known_[field]; }

  // A message of this type, serialized.
  std::string Next(const std::string& message);

 private:
  using Message = google::protobuf::Message;
  using Field = google::protobuf::FieldDescriptor;

  void Fill(Message& message, int depth);
  int CountOf(const Field* field);
  void SetOrAdd(Message& message, const Field* field, int depth);
  uint64_t Whole();
  double Real();
  std::string Bytes(const std::string& field);
  bool Odd() { return OneIn(odds_); }
  bool OneIn(int times) { return random_() % times == 0; }
  template <typename T, size_t n>
  const T& AnyOf(const T (&values)[n]) {
    return values[random_() % n];
  }

  const WildContract* const contract_;
  google::protobuf::DynamicMessageFactory factory_;
  std::mt19937 random_;
  int odds_ = 3;  // one value in so many is odd, in this message
  std::map<std::string, std::vector<std::string>> known_;
};

}  // namespace luna::integration

#endif  // LUNA_TESTS_INTEGRATION_WILD_MESSAGES_H_
