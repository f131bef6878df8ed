#include "tests/cuda_emulation/emulated_device.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/check.h"
#include "tests/cuda_emulation/undefined.h"

namespace luna::backend::cuda {
namespace {

constexpr int kMostGridRows = 65535;  // y and z

// Counts down to a fault; true where it is to happen.
bool Falls(int& number) { return number > 0 && --number == 0; }

bool Overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto* first = static_cast<const std::byte*>(a);
  const auto* second = static_cast<const std::byte*>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

}  // namespace

// What may not outlive its device.
class EmulatedDevice::Dependent {
 public:
  explicit Dependent(EmulatedDevice& device) : device_(device) { ++device.dependents_; }
  Dependent(const Dependent&) = delete;
  Dependent& operator=(const Dependent&) = delete;
  ~Dependent() { --device_.dependents_; }

  void CheckOf(const EmulatedDevice& device) const {
    LUNA_CHECK(&device == &device_) << "a graph or an event of another device";
  }

 private:
  EmulatedDevice& device_;
};

struct EmulatedDevice::EmulatedGraph final : Graph {
  explicit EmulatedGraph(EmulatedDevice& device) : dependent(device) {}
  Dependent dependent;
  std::vector<Work> works;
};

struct EmulatedDevice::EmulatedEvent final : Event {
  explicit EmulatedEvent(EmulatedDevice& device) : dependent(device) {}
  Dependent dependent;
  uint64_t behind = 0;  // as many pieces of work
};

EmulatedDevice::EmulatedDevice(const EmulatedDeviceOptions& options)
    : options_(options), runner_(options.seed) {}

EmulatedDevice::~EmulatedDevice() {
  captured_.reset();
  LUNA_CHECK(dependents_ == 0) << dependents_ << " graphs or events outlive their device";
}

absl::Status EmulatedDevice::Status() const {
  if (!lost_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(options_.info.name, " is lost"));
}

void EmulatedDevice::CheckNotCapturing(std::string_view what) const {
  LUNA_CHECK(captured_ == nullptr) << what << " cannot be captured";
}

// --- memory --------------------------------------------------------------------------------------

absl::StatusOr<DeviceMemoryUse> EmulatedDevice::MemoryUse() {
  if (lost_) return Status();
  return DeviceMemoryUse{options_.total_bytes - memory_.held_bytes(), options_.total_bytes};
}

absl::StatusOr<void*> EmulatedDevice::Allocate(std::string_view purpose, int64_t bytes) {
  return AllocateFrom(memory_, purpose, bytes, options_.total_bytes - memory_.held_bytes());
}

absl::StatusOr<void*> EmulatedDevice::AllocateStaging(std::string_view purpose, int64_t bytes) {
  return AllocateFrom(staging_, purpose, bytes, bytes);
}

absl::StatusOr<void*> EmulatedDevice::AllocateFrom(emulation::DeviceMemory& memory,
                                                   std::string_view purpose, int64_t bytes,
                                                   int64_t free_bytes) {
  CheckNotCapturing("an allocation");
  if (lost_) return Status();
  const bool fails = Falls(failing_allocation_);
  if (fails || bytes > free_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(AbslView(purpose), " needs ", bytes, " bytes; ", fails ? 0 : free_bytes,
                     " bytes are free on ", &memory == &memory_ ? options_.info.name : "the host"));
  }
  return memory.Allocate(purpose, bytes);
}

void EmulatedDevice::Free(void* memory) { FreeFrom(memory_, memory); }

void EmulatedDevice::FreeStaging(void* memory) { FreeFrom(staging_, memory); }

void EmulatedDevice::FreeFrom(emulation::DeviceMemory& memory, void* address) {
  CheckNotCapturing("giving memory back");
  if (address == nullptr) return;
  DoUpTo(queued_);
  memory.Free(address);
}

// --- work ----------------------------------------------------------------------------------------

absl::Status EmulatedDevice::Load(const Kernel& kernel, int64_t shared_bytes) {
  CheckNotCapturing("loading a kernel");
  LUNA_CHECK(shared_bytes <= options_.info.shared_bytes)
      << kernel.name << ": " << shared_bytes << " bytes of shared memory";
  return Status();
}

absl::Status EmulatedDevice::CopyIn(void* device, const void* staging, int64_t bytes) {
  return Take(CopyWork{Direction::kIn, device, staging, bytes});
}

absl::Status EmulatedDevice::CopyOut(void* staging, const void* device, int64_t bytes) {
  return Take(CopyWork{Direction::kOut, staging, device, bytes});
}

absl::Status EmulatedDevice::CopyWithin(void* to, const void* from, int64_t bytes) {
  LUNA_CHECK(!Overlap(to, bytes, from, bytes)) << "CopyWithin of " << bytes << " bytes to itself";
  return Take(CopyWork{Direction::kWithin, to, from, bytes});
}

absl::Status EmulatedDevice::Fill(void* device, int byte, int64_t bytes) {
  return Take(FillWork{device, byte, bytes});
}

absl::Status EmulatedDevice::Launch(const Kernel& kernel, const Grid& grid, int64_t shared_bytes,
                                    const void* args) {
  LUNA_CHECK(kernel.name != nullptr && kernel.entry != nullptr);
  LUNA_CHECK(kernel.threads > 0 && kernel.threads <= emulation::kMostThreads &&
             kernel.threads % emulation::kLanes == 0)
      << kernel.name << " with blocks of " << kernel.threads << " threads";
  LUNA_CHECK(grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y <= kMostGridRows &&
             grid.z <= kMostGridRows)
      << kernel.name << " over " << grid.x << " x " << grid.y << " x " << grid.z << " blocks";
  LUNA_CHECK(shared_bytes >= 0 && shared_bytes <= options_.info.shared_bytes)
      << kernel.name << " with " << shared_bytes << " bytes of shared memory of "
      << options_.info.shared_bytes;
  if (lost_) return Status();
  if (Falls(failing_launch_)) {
    return absl::InternalError(absl::StrCat("the launch of ", kernel.name, " failed"));
  }
  if (captured_ == nullptr) ++counters_.launches;
  const size_t args_bytes = static_cast<const emulation::Entry*>(kernel.entry)->args_bytes;
  const auto* bytes = static_cast<const std::byte*>(args);
  return Take(
      LaunchWork{kernel, grid, shared_bytes,
                 std::make_shared<const std::vector<std::byte>>(bytes, bytes + args_bytes)});
}

absl::Status EmulatedDevice::Take(Work work) {
  Check(work);
  if (lost_) return Status();
  if (captured_ != nullptr) {
    captured_->works.push_back(std::move(work));
  } else {
    Enqueue(work);
  }
  return absl::OkStatus();
}

void EmulatedDevice::Enqueue(const Work& work) {
  if (const auto* copy = std::get_if<CopyWork>(&work);
      copy != nullptr && copy->direction == Direction::kOut) {
    bool still_read = false;
    for (const Work& earlier : queue_) {
      const auto* in = std::get_if<CopyWork>(&earlier);
      still_read |= in != nullptr && in->direction == Direction::kIn &&
                    Overlap(in->from, in->bytes, copy->to, copy->bytes);
    }
    if (!still_read) emulation::MakeUndefined(copy->to, copy->bytes);
  }
  queue_.push_back(work);
  ++queued_;
}

void EmulatedDevice::Check(const Work& work) const {
  if (const auto* copy = std::get_if<CopyWork>(&work)) {
    const bool in = copy->direction == Direction::kIn, out = copy->direction == Direction::kOut;
    const char* what = in ? "CopyIn" : out ? "CopyOut" : "CopyWithin";
    (out ? staging_ : memory_).CheckRange(what, copy->to, copy->bytes);
    (in ? staging_ : memory_).CheckRange(what, copy->from, copy->bytes);
  } else if (const auto* fill = std::get_if<FillWork>(&work)) {
    memory_.CheckRange("Fill", fill->to, fill->bytes);
  }
}

void EmulatedDevice::Do(const CopyWork& copy) {
  runner_.Join();
  std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
  if (copy.direction == Direction::kIn) counters_.copied_in_bytes += copy.bytes;
  if (copy.direction == Direction::kOut) counters_.copied_out_bytes += copy.bytes;
}

void EmulatedDevice::Do(const FillWork& fill) {
  runner_.Join();
  std::memset(fill.to, fill.byte, static_cast<size_t>(fill.bytes));
}

void EmulatedDevice::Do(const LaunchWork& launch) {
  runner_.Run(launch.kernel, launch.grid, launch.shared_bytes, launch.args->data(),
              /*overlaps=*/true);
  running_args_ = launch.args;
  ++counters_.kernels[launch.kernel.name];
}

// --- graphs and events ---------------------------------------------------------------------------

absl::Status EmulatedDevice::BeginCapture() {
  CheckNotCapturing("a capture");
  if (lost_) return Status();
  captured_ = std::make_unique<EmulatedGraph>(*this);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Device::Graph>> EmulatedDevice::EndCapture() {
  if (lost_) {
    captured_.reset();
    return Status();
  }
  LUNA_CHECK(captured_ != nullptr) << "no capture has begun";
  return std::unique_ptr<Graph>(std::move(captured_));
}

absl::Status EmulatedDevice::Launch(Graph& graph) {
  CheckNotCapturing("a graph's launch");
  const auto& emulated = static_cast<const EmulatedGraph&>(graph);
  emulated.dependent.CheckOf(*this);
  if (lost_) return Status();
  if (Falls(failing_launch_)) return absl::InternalError("the launch of a graph failed");
  ++counters_.graph_launches;
  for (const Work& work : emulated.works) {
    Check(work);
    Enqueue(work);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Device::Event>> EmulatedDevice::MakeEvent() {
  if (lost_) return Status();
  return std::unique_ptr<Event>(std::make_unique<EmulatedEvent>(*this));
}

absl::Status EmulatedDevice::Record(Event& event) {
  CheckNotCapturing("an event");
  auto& emulated = static_cast<EmulatedEvent&>(event);
  emulated.dependent.CheckOf(*this);
  if (lost_) return Status();
  emulated.behind = queued_;
  return absl::OkStatus();
}

void EmulatedDevice::DoUpTo(uint64_t behind) {
  while (!lost_ && done_ < behind) {
    if (Falls(losing_work_)) {
      lost_ = true;
      queue_.clear();
      break;
    }
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    ++done_;
    std::visit([this](const auto& each) { Do(each); }, work);
  }
  runner_.Join();
}

absl::Status EmulatedDevice::Wait(Event& event) {
  CheckNotCapturing("a wait");
  const auto& emulated = static_cast<const EmulatedEvent&>(event);
  emulated.dependent.CheckOf(*this);
  DoUpTo(emulated.behind);
  return Status();
}

}  // namespace luna::backend::cuda
