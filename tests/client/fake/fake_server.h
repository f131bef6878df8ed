// A Luna server without a model: real gRPC on port 0, answers made up from a simple rule, errors on
// order. For tests of clients.
#ifndef LUNA_TESTS_CLIENT_FAKE_FAKE_SERVER_H_
#define LUNA_TESTS_CLIENT_FAKE_FAKE_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "luna/v1/inference.pb.h"

namespace luna::fake {

struct Behaviour {
  uint32_t context_length = 512;
  bool chat = false;  // has a chat template
  uint32_t tokens_per_message = 1;
  uint32_t answer_tokens = 20;  // then an end token, unless max_tokens or the context is less
  bool endless = false;         // writes until cancelled or aborted
  std::vector<grpc::Status> refusals;          // of the next Generate calls, in order
  std::vector<grpc::Status> session_refusals;  // of the next CreateSession calls
  bool ledger_ok = true;
  uint32_t fewer_tokens_each = 0;  // of a continuation than of the one before it
  std::vector<uint32_t> failing;   // continuations that end by an error event after a token
  int save_cut_after = -1;      // chunks, after which the server goes down; -1: never; 0: ends well
  bool save_hangs = false;      // sends the snapshot, and goes on with empty chunks
  bool other_numerics = false;  // than those of whatever is restored
};

// What clients did.
struct Seen {
  std::vector<v1::GenerateRequest> generates;
  std::vector<v1::AbortRequest> aborts;
  int sessions_created = 0;
  int sessions_closed = 0;
  int resets = 0;
  int cancelled_streams = 0;
  int restore_chunks = 0;  // of the last RestoreSession
};

// A status with google.rpc details, as the server sends them.
grpc::Status BadRequest(const std::string& field, const std::string& description);
grpc::Status RetryLater(const std::string& message, absl::Duration delay);

struct State;
class Inference;
class Sessions;
class Monitor;
class Admin;

// A session's prompt counts one token for each started four bytes; an answer is "w1 w2 w3 ...", one
// word a token, with ids 101, 102, 103, ...; prompts and answers add up in the session, and what no
// longer fits the context is refused with OUT_OF_RANGE. Continuation i > 0 writes "i:w1 i:w2 ...",
// one token of each continuation after the other, with the seed i further. Forks share whole blocks
// of cache; a snapshot comes in chunks of 16 bytes. Thread-safe.
class FakeServer {
 public:
  explicit FakeServer(Behaviour behaviour = {});
  ~FakeServer();

  const std::string& address() const { return address_; }
  Seen seen() const;
  int open_sessions() const;
  // Until a SaveSession that goes on (save_hangs) has sent its snapshot.
  void AwaitHangingSave();

 private:
  std::unique_ptr<State> state_;
  std::unique_ptr<Inference> inference_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<Admin> admin_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace luna::fake

#endif  // LUNA_TESTS_CLIENT_FAKE_FAKE_SERVER_H_
