#include "kernels/cuda/cudnn/layers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/cuda/cudnn/libraries.h"
#include "kernels/cuda/cudnn/plan.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

using device::ConvolutionPass;
using device::ConvolutionShape;

constexpr size_t kPlansMax = 10;  // candidates that are measured
constexpr int kRuns = 3;          // per candidate, after one that is not counted
constexpr float kHopeless = 2;    // factor of the best time at which measuring stops
// The maximum that cuBLAS uses, on devices since sm_90.
constexpr size_t kCublasWorkspaceBytes = size_t{32} << 20;

const char* NameOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return "forward";
    case ConvolutionPass::kSourceGradient:
      return "source's gradient";
    case ConvolutionPass::kWeightGradient:
      return "weights' gradient";
  }
  return "";
}

std::string TextOf(ConvolutionPass pass, const ConvolutionShape& shape) {
  return absl::StrFormat(
      "convolution %d x %d x %d x %d to %d, kernel %d, padding %d, stride %d, %s", shape.batch,
      shape.channels, shape.height, shape.width, shape.outputs, shape.kernel, shape.padding,
      shape.stride, NameOf(pass));
}

// Time between two points of a stream.
class Timer {
 public:
  Timer() {
    for (cudaEvent_t& event : events_) cudaEventCreateWithFlags(&event, cudaEventDefault);
  }
  ~Timer() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void Begin(CudaStream& stream) { cudaEventRecord(events_[0], stream.get()); }
  absl::StatusOr<float> EndMs(CudaStream& stream) {
    float ms = 0;
    cudaEventRecord(events_[1], stream.get());
    cudaEventSynchronize(events_[1]);
    const absl::Status status = Check(stream.device(), "cudaEventElapsedTime",
                                      cudaEventElapsedTime(&ms, events_[0], events_[1]));
    if (!status.ok()) return status;
    return ms;
  }

 private:
  cudaEvent_t events_[2] = {};
};

class CudnnLayers final : public device::Layers {
 public:
  CudnnLayers(device::Device& device, const device::LayersOptions& options,
              const Libraries& libraries, std::unique_ptr<device::Stream> stream)
      : device_(device),
        options_(options),
        libraries_(libraries),
        element_(ElementFor(options.precision)),
        stream_(std::move(stream)) {}

  ~CudnnLayers() override {
    // Failures of the device have been reported by the call that met them.
    (void)Cast(*stream_).Select();
    (void)stream_->Synchronize();
    plans_.clear();
    if (cudnn_ != nullptr) libraries_.cudnn_destroy(cudnn_);
    if (cublas_ != nullptr) libraries_.cublas_destroy(cublas_);
  }

  absl::Status Open() {
    CudaStream& stream = Cast(*stream_);
    absl::Status status = libraries_.Check("cudnnCreate", libraries_.cudnn_create(&cudnn_));
    if (!status.ok()) return status;
    status = libraries_.Check("cudnnSetStream", libraries_.cudnn_set_stream(cudnn_, stream.get()));
    if (!status.ok()) return status;
    status = libraries_.Check("cublasCreate", libraries_.cublas_create(&cublas_));
    if (!status.ok()) return status;
    status =
        libraries_.Check("cublasSetStream", libraries_.cublas_set_stream(cublas_, stream.get()));
    if (!status.ok()) return status;
    // Otherwise partial sums may be kept in the type of the result.
    status = libraries_.Check(
        "cublasSetMathMode",
        libraries_.cublas_set_math_mode(
            cublas_, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                               CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
    if (!status.ok()) return status;
    auto workspace = device_.Allocate(kCublasWorkspaceBytes, "cuBLAS's workspace");
    if (!workspace.ok()) return workspace.status();
    cublas_workspace_ = *std::move(workspace);
    const size_t version = libraries_.cudnn_version();
    options_.log(
        absl::StrFormat("cuDNN %d.%d.%d", version / 10000, version / 100 % 100, version % 100));
    return libraries_.Check(
        "cublasSetWorkspace",
        libraries_.cublas_set_workspace(cublas_, cublas_workspace_.get(), kCublasWorkspaceBytes));
  }

  device::Precision precision() const override { return options_.precision; }
  device::Stream& stream() override { return *stream_; }
  const device::LayerKernels& kernels() const override { return TheLayerKernels(); }

  absl::Status Prepare(ConvolutionPass pass, const ConvolutionShape& shape) override;

  absl::Status Convolve(ConvolutionPass pass, const ConvolutionShape& shape, const void* a,
                        const void* b, void* out) override {
    const auto found = plans_.find({pass, shape});
    if (found == plans_.end()) {
      return absl::FailedPreconditionError(TextOf(pass, shape) + ": was not prepared");
    }
    if (absl::Status status = Cast(*stream_).Select(); !status.ok()) return status;
    return Execute(libraries_, cudnn_, found->second, a, b, out, workspace_.get());
  }

  absl::Status Multiply(const device::MatrixProductShape& shape, const void* a, const void* b,
                        device::Element out_element, void* out) override {
    if (std::max({shape.m, shape.n, shape.k}) > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError("a matrix is too large for cuBLAS");
    }
    if (absl::Status status = Cast(*stream_).Select(); !status.ok()) return status;
    const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n);
    const int k = static_cast<int>(shape.k);
    const float one = 1, zero = 0;
    // cuBLAS has columns after each other: out^T = op(b)^T op(a)^T.
    const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const auto compute = options_.precision == device::Precision::kTensorFloat32
                             ? CUBLAS_COMPUTE_32F_FAST_TF32
                             : CUBLAS_COMPUTE_32F;
    return libraries_.Check(
        "cublasGemmEx", libraries_.gemm(cublas_, op(shape.transpose_b), op(shape.transpose_a), n, m,
                                        k, &one, b, TypeOf(element_), shape.transpose_b ? k : n, a,
                                        TypeOf(element_), shape.transpose_a ? m : k, &zero, out,
                                        TypeOf(out_element), n, compute, CUBLAS_GEMM_DEFAULT));
  }

 private:
  static cudaDataType TypeOf(device::Element element) {
    return element == device::Element::kBFloat16 ? CUDA_R_16BF : CUDA_R_32F;
  }

  // Memory for the measurement: zeros.
  absl::StatusOr<device::Memory> Zeros(size_t elements) {
    const size_t bytes = elements * ElementBytes(element_);
    auto memory = device_.Allocate(bytes, "measuring a convolution");
    if (!memory.ok()) return memory.status();
    if (absl::Status status = stream_->Fill(memory->get(), 0, bytes); !status.ok()) return status;
    return memory;
  }
  // The minimum of some runs; a single run if that takes far longer than the best so far.
  absl::StatusOr<float> Measure(const Plan& plan, const device::Memory* operands, float best_ms);
  // At least so much.
  absl::Status GrowWorkspace(size_t bytes) {
    if (bytes <= workspace_bytes_) return absl::OkStatus();
    if (absl::Status status = stream_->Synchronize(); !status.ok()) return status;
    workspace_.reset();
    workspace_bytes_ = 0;
    auto memory = device_.Allocate(bytes, "cuDNN's workspace");
    if (!memory.ok()) return memory.status();
    workspace_ = *std::move(memory);
    workspace_bytes_ = bytes;
    return absl::OkStatus();
  }

  device::Device& device_;
  const device::LayersOptions options_;
  const Libraries& libraries_;
  const device::Element element_;
  const std::unique_ptr<device::Stream> stream_;
  cudnnHandle_t cudnn_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
  device::Memory cublas_workspace_, workspace_;
  size_t workspace_bytes_ = 0;
  std::map<std::pair<ConvolutionPass, ConvolutionShape>, Plan> plans_;
};

// The first run, which may compile the engine's code, is not counted. Other ranks may use the same
// device, which makes some runs longer, and none shorter.
absl::StatusOr<float> CudnnLayers::Measure(const Plan& plan, const device::Memory* operands,
                                           float best_ms) {
  Timer timer;
  float least_ms = std::numeric_limits<float>::infinity();
  for (int run = -1; run < kRuns; ++run) {
    timer.Begin(Cast(*stream_));
    const absl::Status status = Execute(libraries_, cudnn_, plan, operands[0].get(),
                                        operands[1].get(), operands[2].get(), workspace_.get());
    if (!status.ok()) return status;
    const auto ms = timer.EndMs(Cast(*stream_));
    if (!ms.ok()) return ms.status();
    if (run < 0) continue;
    least_ms = std::min(least_ms, *ms);
    if (least_ms > kHopeless * best_ms) break;
  }
  return least_ms;
}

absl::Status CudnnLayers::Prepare(ConvolutionPass pass, const ConvolutionShape& shape) {
  if (plans_.contains({pass, shape})) return absl::OkStatus();
  if (absl::Status status = Cast(*stream_).Select(); !status.ok()) return status;
  auto plans = MakePlans(libraries_, cudnn_, pass, shape, options_.precision,
                         options_.workspace_bytes_max, kPlansMax);
  if (!plans.ok()) {
    return absl::Status(plans.status().code(),
                        absl::StrFormat("%s: %s", TextOf(pass, shape), plans.status().message()));
  }
  size_t workspace = 0;
  for (const Plan& plan : *plans) {
    workspace = std::max(workspace, static_cast<size_t>(plan.workspace_bytes));
  }
  if (absl::Status status = GrowWorkspace(workspace); !status.ok()) return status;
  const size_t source = shape.source_elements(), weights = shape.weight_elements();
  const size_t output = shape.output_elements();
  const bool makes_source = pass == ConvolutionPass::kSourceGradient;
  const bool makes_weights = pass == ConvolutionPass::kWeightGradient;
  device::Memory operands[3];
  const size_t elements[3] = {makes_source ? output : source, makes_weights ? output : weights,
                              makes_source    ? source
                              : makes_weights ? weights
                                              : output};
  for (int i = 0; i < 3; ++i) {
    auto memory = Zeros(elements[i]);
    if (!memory.ok()) return memory.status();
    operands[i] = *std::move(memory);
  }
  Plan* best = nullptr;
  float best_ms = std::numeric_limits<float>::infinity();
  absl::Status why;
  for (Plan& plan : *plans) {
    const auto ms = Measure(plan, operands, best_ms);
    if (!ms.ok()) {
      why = ms.status();
    } else if (*ms < best_ms) {
      best_ms = *ms;
      best = &plan;
    }
  }
  if (absl::Status status = stream_->Synchronize(); !status.ok()) return status;
  if (best == nullptr) return why;
  options_.log(absl::StrFormat("%s: engine %d, the best of %d, %.3f ms, workspace %.1f MiB",
                               TextOf(pass, shape), best->engine, plans->size(), best_ms,
                               static_cast<double>(best->workspace_bytes) / 1048576));
  plans_.emplace(std::pair(pass, shape), std::move(*best));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<device::Layers>> OpenLayers(device::Device& device,
                                                           const device::LayersOptions& options) {
  const auto libraries = LoadLibraries();
  if (!libraries.ok()) return libraries.status();
  auto stream = device.NewStream(/*urgent=*/false);
  if (!stream.ok()) return stream.status();
  auto layers = std::make_shared<CudnnLayers>(device, options, **libraries, *std::move(stream));
  if (absl::Status status = layers->Open(); !status.ok()) return status;
  return layers;
}

}  // namespace strata::cuda
