// Runs a class against a server: every student on one thread, each over a connection of their own.
#ifndef LUNA_CLIENT_CLASSROOM_CLASSROOM_H_
#define LUNA_CLIENT_CLASSROOM_CLASSROOM_H_

#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/classroom/frame.h"
#include "client/classroom/options.h"
#include "client/classroom/prompts.h"
#include "client/classroom/report.h"
#include "core/base/clock.h"

namespace luna::classroom {

// What watches a class. Called on the thread that is in Classroom::Run.
class Viewer {
 public:
  virtual ~Viewer() = default;
  // Every `interval`, and once at the end.
  virtual void Show(const Frame& frame) = 0;
  // Something happened that a teacher may want to know.
  virtual void Note(absl::Duration elapsed, std::string_view text) = 0;
};

class Classroom {
 public:
  // Options, prompts, viewer and clock are borrowed for the life of the classroom.
  Classroom(const Options& options, const Prompts& prompts, Viewer& viewer, const Clock& clock);
  ~Classroom();

  // Until the last student has left. An error where the server cannot be asked what it serves; what
  // goes wrong for single students is in the record.
  absl::StatusOr<ClassRecord> Run(absl::Duration show_interval);

  // Ends the class early: answers are cancelled, sessions closed. Thread-safe, and nothing when it
  // is over.
  void Stop();

 private:
  class Room;
  const Options& options_;
  const Prompts& prompts_;
  Viewer& viewer_;
  const Clock& clock_;
  std::unique_ptr<Room> room_;
};

}  // namespace luna::classroom

#endif  // LUNA_CLIENT_CLASSROOM_CLASSROOM_H_
