// luna-server as a program.
#ifndef LUNA_TESTS_INTEGRATION_PROCESS_H_
#define LUNA_TESTS_INTEGRATION_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace luna::integration {

// A child process, killed at the end if it still runs.
class Process {
 public:
  explicit Process(std::vector<std::string> flags);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The next line of standard output, without its end; empty at the end.
  std::string ReadLine();
  std::string ReadRest();
  std::string ReadErrors();
  void Signal(int signal);
  // The exit status; -signal if a signal ended it.
  int Wait();
  // The address in the line it prints when it is ready.
  std::string WaitUntilReady();

  // What it has in memory now, and the most since ForgetPeak (or since it began).
  int64_t ResidentBytes() const { return StatusBytes("VmRSS:"); }
  int64_t PeakResidentBytes() const { return StatusBytes("VmHWM:"); }
  // False where the kernel does not offer it.
  bool ForgetPeak() const;

 private:
  int64_t StatusBytes(const std::string& field) const;

  pid_t pid_ = 0;
  FILE* out_ = nullptr;
  FILE* err_ = nullptr;
};

}  // namespace luna::integration

#endif  // LUNA_TESTS_INTEGRATION_PROCESS_H_
