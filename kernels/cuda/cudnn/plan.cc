#include "kernels/cuda/cudnn/plan.h"

#include <algorithm>
#include <utility>

// Handles in graphs and plans are needed by all versions but the last ones.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace strata::cuda {
namespace {

using device::ConvolutionPass;

// Names of operands in a graph, in the order in which a pass takes them.
constexpr int64_t kFirst = 1, kSecond = 2, kOut = 3;

// N x C x H x W in the order in which cuDNN names dimensions, channels last in memory.
Descriptor Tensor(const Libraries& libraries, int64_t id, cudnnDataType_t type, int64_t n,
                  int64_t c, int64_t h, int64_t w) {
  Descriptor tensor(libraries, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type})
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, {n, c, h, w})
      .Set(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, 1, w * c, c})
      .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id})
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16});
  (void)tensor.Finalize();  // the operation asks for its status
  return tensor;
}

// How the operation of a pass names its parts.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, source, weights, output;
};
OperationNames NamesOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case ConvolutionPass::kSourceGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvolutionPass::kWeightGradient:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

// A graph of the one operation. `status` says whether it is one.
struct Graph {
  Descriptor source, weights, output, convolution, operation, graph;
  absl::Status status;
};

Graph MakeGraph(const Libraries& libraries, cudnnHandle_t handle, ConvolutionPass pass,
                const device::ConvolutionShape& shape, device::Precision precision) {
  const cudnnDataType_t type =
      precision == device::Precision::kBFloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  const bool makes_source = pass == ConvolutionPass::kSourceGradient;
  const bool makes_weights = pass == ConvolutionPass::kWeightGradient;
  const bool makes_output = pass == ConvolutionPass::kForward;
  Graph of;
  of.source = Tensor(libraries, makes_source ? kOut : kFirst, type, shape.batch, shape.channels,
                     shape.height, shape.width);
  of.weights = Tensor(libraries, makes_weights ? kOut : kSecond, type, shape.outputs,
                      shape.channels, shape.kernel, shape.kernel);
  of.output = Tensor(libraries,
                     makes_output   ? kOut
                     : makes_source ? kFirst
                                    : kSecond,
                     type, shape.batch, shape.outputs, shape.output_height(), shape.output_width());
  const int64_t padding = shape.padding, stride = shape.stride;
  of.convolution = Descriptor(libraries, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  of.convolution
      .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT})
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
           std::vector{CUDNN_CROSS_CORRELATION})
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2})
      .Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1})
      .Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {stride, stride})
      .Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {padding, padding})
      .Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {padding, padding});
  (void)of.convolution.Finalize();
  const OperationNames names = NamesOf(pass);
  of.operation = Descriptor(libraries, names.type);
  of.operation.Set(names.alpha, CUDNN_TYPE_FLOAT, std::vector{1.0f})
      .Set(names.beta, CUDNN_TYPE_FLOAT, std::vector{0.0f})
      .Set(names.convolution, of.convolution)
      .Set(names.source, of.source)
      .Set(names.weights, of.weights)
      .Set(names.output, of.output);
  (void)of.operation.Finalize();
  of.graph = Descriptor(libraries, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  of.graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle})
      .Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, of.operation);
  of.status = of.graph.Finalize();
  return of;
}

// Returns whether sums are fp32, and inputs are used unconverted, with one exception: tensor cores
// round fp32 to TF32, which kFloat32 excludes. Other engines that convert inputs may use fp16,
// whose range is smaller than that of fp32 or bf16.
bool IsAllowed(const Descriptor& engine, device::Precision precision) {
  const auto notes = engine.Get<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::none_of(notes.begin(), notes.end(), [precision](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && precision == device::Precision::kFloat32);
  });
}

// Returns the configurations that cuDNN's heuristics propose.
std::vector<Descriptor> Configurations(const Libraries& libraries, const Graph& graph,
                                       cudnnBackendHeurMode_t mode) {
  constexpr int64_t kMost = 64;
  Descriptor heuristics(libraries, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph)
      .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode});
  if (!heuristics.Finalize().ok()) return {};
  std::vector<Descriptor> all;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < kMost; ++i) {
    all.emplace_back(libraries, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!all.back().status().ok()) return {};
    raw.push_back(all.back().get());
  }
  int64_t count = 0;
  const cudnnStatus_t status =
      libraries.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                              CUDNN_TYPE_BACKEND_DESCRIPTOR, kMost, &count, raw.data());
  all.resize(status == CUDNN_STATUS_SUCCESS ? std::min(count, kMost) : 0);
  return all;
}

// The engine that a configuration is of.
absl::StatusOr<Descriptor> EngineOf(const Libraries& libraries, const Descriptor& configuration) {
  Descriptor engine(libraries, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (!engine.status().ok()) return engine.status();
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  const absl::Status status =
      libraries.Check("cudnnBackendGetAttribute",
                      libraries.get_attribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
  if (!status.ok()) return status;
  return engine;
}

}  // namespace

absl::StatusOr<std::vector<Plan>> MakePlans(const Libraries& libraries, cudnnHandle_t handle,
                                            ConvolutionPass pass,
                                            const device::ConvolutionShape& shape,
                                            device::Precision precision, size_t workspace_bytes_max,
                                            size_t most) {
  const auto graph =
      std::make_shared<const Graph>(MakeGraph(libraries, handle, pass, shape, precision));
  if (!graph->status.ok()) return graph->status;
  std::vector<Plan> plans;
  absl::Status why = absl::UnimplementedError("cuDNN proposes no algorithm");
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (Descriptor& configuration : Configurations(libraries, *graph, mode)) {
      if (plans.size() == most) return plans;
      const auto engine = EngineOf(libraries, configuration);
      if (!engine.ok() || !IsAllowed(*engine, precision)) continue;
      Plan plan;
      plan.plan = Descriptor(libraries, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle})
          .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (absl::Status status = plan.plan.Finalize(); !status.ok()) {
        why = status;
        continue;
      }
      const auto bytes =
          plan.plan.Get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1);
      const auto index = engine->Get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1);
      plan.workspace_bytes = bytes.empty() ? 0 : bytes[0];
      plan.engine = index.empty() ? -1 : index[0];
      if (static_cast<uint64_t>(plan.workspace_bytes) > workspace_bytes_max) continue;
      plan.graph = graph;
      plan.configuration = std::move(configuration);
      plans.push_back(std::move(plan));
    }
    // Fallback engines are slow, but few others work without tensor cores.
    if (!plans.empty() && precision != device::Precision::kFloat32) return plans;
  }
  if (!plans.empty()) return plans;
  return why;
}

absl::Status Execute(const Libraries& libraries, cudnnHandle_t handle, const Plan& plan,
                     const void* a, const void* b, void* out, void* workspace) {
  Descriptor operands(libraries, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  operands
      .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           std::vector<void*>{const_cast<void*>(a), const_cast<void*>(b), out})
      .Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {kFirst, kSecond, kOut})
      .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{workspace});
  if (absl::Status status = operands.Finalize(); !status.ok()) return status;
  return libraries.Check("cudnnBackendExecute",
                         libraries.execute(handle, plan.plan.get(), operands.get()));
}

}  // namespace strata::cuda
