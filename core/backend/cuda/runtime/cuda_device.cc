#include "core/backend/cuda/runtime/cuda_device.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::backend::cuda {
namespace {

constexpr int kOldestMajor = 8;
constexpr int kOverlappingMajor = 9;
// Set: kernels run one after the other, to look for faults and to see what overlapping brings.
constexpr char kSerialVariable[] = "LUNA_CUDA_SERIAL";

std::string Describe(cudaError_t error) {
  return absl::StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

class CudaGraph final : public Device::Graph {
 public:
  explicit CudaGraph(cudaGraphExec_t graph) : graph_(graph) {}
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }
  cudaGraphExec_t get() const { return graph_; }

 private:
  const cudaGraphExec_t graph_;
};

class CudaEvent final : public Device::Event {
 public:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}
  ~CudaEvent() override { cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  const cudaEvent_t event_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(DeviceInfo info, cudaStream_t stream, bool overlaps)
      : info_(std::move(info)), stream_(stream), overlaps_(overlaps) {}
  ~CudaDevice() override { cudaStreamDestroy(stream_); }

  const DeviceInfo& info() const override { return info_; }

  absl::StatusOr<DeviceMemoryUse> MemoryUse() override {
    size_t free_bytes = 0, total_bytes = 0;
    LUNA_RETURN_IF_ERROR(Check(cudaMemGetInfo(&free_bytes, &total_bytes), "memory use"));
    return DeviceMemoryUse{.free_bytes = static_cast<int64_t>(free_bytes),
                           .total_bytes = static_cast<int64_t>(total_bytes)};
  }

  absl::StatusOr<void*> Allocate(std::string_view purpose, int64_t bytes) override {
    void* memory = nullptr;
    LUNA_RETURN_IF_ERROR(
        CheckMemory(cudaMalloc(&memory, static_cast<size_t>(bytes)), purpose, bytes));
    return memory;
  }
  void Free(void* memory) override {
    cudaStreamSynchronize(stream_);
    cudaFree(memory);
  }

  absl::StatusOr<void*> AllocateStaging(std::string_view purpose, int64_t bytes) override {
    void* memory = nullptr;
    LUNA_RETURN_IF_ERROR(
        CheckStaging(cudaMallocHost(&memory, static_cast<size_t>(bytes)), purpose, bytes));
    return memory;
  }
  void FreeStaging(void* memory) override {
    cudaStreamSynchronize(stream_);
    cudaFreeHost(memory);
  }

  absl::Status Load(const Kernel& kernel, int64_t shared_bytes) override {
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel.entry);
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
        error == cudaErrorUnsupportedPtxVersion) {
      cudaGetLastError();
      return absl::UnimplementedError(absl::StrCat(kernel.name, " was not compiled for ",
                                                   AbslView(info_.name), ": ", Describe(error)));
    }
    LUNA_RETURN_IF_ERROR(Check(error, kernel.name));
    // Compiled from PTX for an older device, it would not wait for the kernel before it.
    overlaps_ = overlaps_ && attributes.ptxVersion >= 10 * kOverlappingMajor;
    return Check(cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared_bytes)),
                 kernel.name);
  }

  absl::Status CopyIn(void* device, const void* staging, int64_t bytes) override {
    return Copy(device, staging, bytes, cudaMemcpyHostToDevice);
  }
  absl::Status CopyOut(void* staging, const void* device, int64_t bytes) override {
    return Copy(staging, device, bytes, cudaMemcpyDeviceToHost);
  }
  absl::Status CopyWithin(void* to, const void* from, int64_t bytes) override {
    return Copy(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  absl::Status Fill(void* device, int byte, int64_t bytes) override {
    return Check(cudaMemsetAsync(device, byte, static_cast<size_t>(bytes), stream_), "fill");
  }

  absl::Status Launch(const Kernel& kernel, const Grid& grid, int64_t shared_bytes,
                      const void* args) override {
    void* arguments[] = {const_cast<void*>(args)};
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                          static_cast<unsigned>(grid.z));
    config.blockDim = dim3(static_cast<unsigned>(kernel.threads));
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    config.stream = stream_;
    config.attrs = &overlap;
    config.numAttrs = overlaps_ ? 1 : 0;
    return Check(cudaLaunchKernelExC(&config, kernel.entry, arguments), kernel.name);
  }

  absl::Status BeginCapture() override {
    return Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
  }
  absl::StatusOr<std::unique_ptr<Graph>> EndCapture() override {
    cudaGraph_t graph = nullptr;
    LUNA_RETURN_IF_ERROR(Check(cudaStreamEndCapture(stream_, &graph), "capture"));
    cudaGraphExec_t ready = nullptr;
    const absl::Status status = Check(cudaGraphInstantiate(&ready, graph, 0), "graph");
    cudaGraphDestroy(graph);
    LUNA_RETURN_IF_ERROR(status);
    return std::make_unique<CudaGraph>(ready);
  }
  absl::Status Launch(Graph& graph) override {
    return Check(cudaGraphLaunch(static_cast<CudaGraph&>(graph).get(), stream_), "graph");
  }

  absl::StatusOr<std::unique_ptr<Event>> MakeEvent() override {
    cudaEvent_t event = nullptr;
    LUNA_RETURN_IF_ERROR(Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event"));
    return std::make_unique<CudaEvent>(event);
  }
  absl::Status Record(Event& event) override {
    return Check(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream_), "event");
  }
  absl::Status Wait(Event& event) override {
    return Check(cudaEventSynchronize(static_cast<CudaEvent&>(event).get()), "step");
  }

 private:
  absl::Status Copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    return Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream_), "copy");
  }

  // What was asked for is known here, and what is left.
  absl::Status CheckMemory(cudaError_t error, std::string_view purpose, int64_t bytes) {
    if (error != cudaErrorMemoryAllocation) return Check(error, purpose);
    cudaGetLastError();  // is told once, and not to whoever comes next
    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return absl::ResourceExhaustedError(absl::StrCat(AbslView(purpose), " needs ", bytes,
                                                     " bytes; ", AbslView(info_.name), " has ",
                                                     free_bytes, " of ", total_bytes, " free"));
  }

  absl::Status CheckStaging(cudaError_t error, std::string_view purpose, int64_t bytes) {
    if (error != cudaErrorMemoryAllocation) return Check(error, purpose);
    cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat(AbslView(purpose), " needs ", bytes,
                     " bytes of the host's page-locked memory, which the system does not give"));
  }

  // A fault that spoiled the context stays: whatever is asked later fails with it too.
  absl::Status Check(cudaError_t error, std::string_view what) {
    if (lost_.has_value()) error = *lost_;
    if (error == cudaSuccess) return absl::OkStatus();
    cudaGetLastError();
    if (SpoilsContext(error)) {
      lost_ = error;
      return absl::UnavailableError(
          absl::StrCat(AbslView(info_.name), " is lost: ", AbslView(what), ": ", Describe(error)));
    }
    const std::string message = absl::StrCat(AbslView(what), ": ", Describe(error));
    if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
    return absl::InternalError(message);
  }
  // NVIDIA, "CUDA Runtime API", cudaError_t: "leaves the process in an inconsistent state", and a
  // device that is gone.
  static bool SpoilsContext(cudaError_t error) {
    switch (error) {
      case cudaErrorECCUncorrectable:
      case cudaErrorNvlinkUncorrectable:
      case cudaErrorContextIsDestroyed:
      case cudaErrorIllegalAddress:
      case cudaErrorLaunchTimeout:
      case cudaErrorAssert:
      case cudaErrorHardwareStackError:
      case cudaErrorIllegalInstruction:
      case cudaErrorMisalignedAddress:
      case cudaErrorInvalidAddressSpace:
      case cudaErrorInvalidPc:
      case cudaErrorLaunchFailure:
      case cudaErrorExternalDevice:
      case cudaErrorDevicesUnavailable:
      case cudaErrorNoDevice:
      case cudaErrorSystemNotReady:
      case cudaErrorMpsClientTerminated:
#if CUDART_VERSION >= 13000
      case cudaErrorContained:
      case cudaErrorTensorMemoryLeak:
#endif
      case cudaErrorUnknown:
        return true;
      default:
        return false;
    }
  }

  const DeviceInfo info_;
  const cudaStream_t stream_;
  bool overlaps_;  // kernels: see AwaitEarlierKernels
  std::optional<cudaError_t> lost_;
};

absl::Status NoDevice(std::string_view why) {
  return absl::NotFoundError(absl::StrCat("no CUDA device: ", AbslView(why)));
}

absl::Status Unusable(std::string_view why) {
  return absl::UnavailableError(absl::StrCat("no usable CUDA device: ", AbslView(why)));
}

// 12080: 12.8.
std::string VersionOf(int number) { return absl::StrCat(number / 1000, ".", number % 1000 / 10); }

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice() {
  int driver = 0, runtime = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return NoDevice("there is no driver");
  }
  cudaRuntimeGetVersion(&runtime);
  switch (const cudaError_t error = cudaGetDeviceCount(&count); error) {
    case cudaSuccess:
      break;
    case cudaErrorNoDevice:
      return NoDevice("the driver finds none");
    case cudaErrorInsufficientDriver:
      return Unusable(absl::StrCat("the driver is for CUDA ", VersionOf(driver),
                                   "; this server needs one for ", VersionOf(runtime)));
    default:
      return Unusable(Describe(error));
  }
  if (count == 0) return NoDevice("the driver finds none");
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess) {
    return Unusable(Describe(error));
  }
  if (properties.major < kOldestMajor) {
    return Unusable(absl::StrCat(properties.name, " has compute capability ", properties.major, ".",
                                 properties.minor, "; at least ", kOldestMajor, ".0 is needed"));
  }
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = cudaSetDevice(0); error != cudaSuccess) {
    return Unusable(Describe(error));
  }
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      error != cudaSuccess) {
    return Unusable(Describe(error));
  }
  return std::make_unique<CudaDevice>(
      DeviceInfo{.name = properties.name,
                 .major = properties.major,
                 .minor = properties.minor,
                 .multiprocessors = properties.multiProcessorCount,
                 .shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin)},
      stream, properties.major >= kOverlappingMajor && std::getenv(kSerialVariable) == nullptr);
}

}  // namespace luna::backend::cuda
