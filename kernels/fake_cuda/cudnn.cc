#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/cudnn_node.h"
#include "kernels/fake_cuda/streams.h"

using fake_cuda::Attribute;
using fake_cuda::EngineId;
using fake_cuda::FindParts;
using fake_cuda::kDownConverts;
using fake_cuda::kEngines;
using fake_cuda::kRoundsSums;
using fake_cuda::kTensorCores;
using fake_cuda::Node;
using fake_cuda::Parts;
using fake_cuda::PlanOperation;
using fake_cuda::Refuse;
using fake_cuda::Values;

struct FakeCudnn {
  const int device = fake_cuda::CurrentDevice();
  cudaStream_t stream = nullptr;
};

namespace {

constexpr int64_t kWorkspaceBytes = 4096;

// The object that a descriptor points to.
struct Handle {
  std::shared_ptr<Node> node;
};
std::shared_ptr<Node>& At(cudnnBackendDescriptor_t descriptor) {
  return static_cast<Handle*>(descriptor)->node;
}

size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_NUMERICAL_NOTE:
      return 4;
    default:
      return 8;
  }
}

// A proposal of the heuristics for a graph: the configuration of an engine.
std::shared_ptr<Node> MakeConfiguration(const std::shared_ptr<const Node>& graph, int64_t index) {
  auto engine = std::make_shared<Node>(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine->is_final = true;
  engine->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = {CUDNN_TYPE_INT64,
                                                        {static_cast<uint64_t>(index)}};
  std::vector<uint64_t> notes;
  if (index == kTensorCores) notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  if (index == kDownConverts) notes.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  if (index == kRoundsSums) notes.push_back(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  engine->attributes[CUDNN_ATTR_ENGINE_NUMERICAL_NOTE] = {CUDNN_TYPE_NUMERICAL_NOTE, notes};
  auto configuration = std::make_shared<Node>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration->is_final = true;
  configuration->nodes[CUDNN_ATTR_ENGINECFG_ENGINE] = {engine};
  configuration->nodes[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] = {graph};
  return configuration;
}

cudnnStatus_t CopyOut(const Attribute& attribute, cudnnBackendAttributeType_t type, int64_t most,
                      int64_t* count, void* values) {
  if (attribute.type != type) return Refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "a type");
  *count = static_cast<int64_t>(attribute.values.size());
  for (int64_t i = 0; i < std::min(*count, most); ++i) {
    std::memcpy(static_cast<std::byte*>(values) + i * SizeOf(type), &attribute.values[i],
                SizeOf(type));
  }
  return CUDNN_STATUS_SUCCESS;
}

std::atomic<uint32_t> executions = 0;

}  // namespace

namespace fake_cuda {
void ForgetExecutions() { executions = 0; }
}  // namespace fake_cuda

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status / 1000) {
    case 0:
      return "CUDNN_STATUS_SUCCESS";
    case 2:
      return "CUDNN_STATUS_BAD_PARAM";
    case 3:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
      return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}
void cudnnGetLastErrorString(char* message, size_t size) {
  std::snprintf(message, size, "%s", fake_cuda::LastRefusal());
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = std::make_unique<FakeCudnn>().release();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const std::unique_ptr<FakeCudnn> owned(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = std::make_unique<Handle>(Handle{std::make_shared<Node>(type)}).release();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const std::unique_ptr<Handle> owned(static_cast<Handle*>(descriptor));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Node& node = *At(descriptor);
  if (node.is_final) return Refuse(CUDNN_STATUS_BAD_PARAM, "it is final already");
  const cudnnStatus_t status = fake_cuda::CheckNode(node);
  node.is_final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  Node& node = *At(descriptor);
  if (node.is_final || count < 1 || values == nullptr) {
    return Refuse(CUDNN_STATUS_BAD_PARAM, "an attribute is set where none can be");
  }
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    auto& children = node.nodes[name];
    for (int64_t i = 0; i < count; ++i) {
      const auto& child = At(static_cast<cudnnBackendDescriptor_t const*>(values)[i]);
      if (!child->is_final) {
        return Refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a part is not final");
      }
      children.push_back(child);
    }
    return CUDNN_STATUS_SUCCESS;
  }
  Attribute& attribute = node.attributes[name];
  attribute.type = type;
  attribute.values.assign(count, 0);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(&attribute.values[i], static_cast<const std::byte*>(values) + i * SizeOf(type),
                SizeOf(type));
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most,
                                       int64_t* count, void* values) {
  Node& node = *At(descriptor);
  if (!node.is_final) return Refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "it is not final");
  auto* const others = static_cast<cudnnBackendDescriptor_t*>(values);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    if (node.Number(CUDNN_ATTR_ENGINEHEUR_MODE) != CUDNN_HEUR_MODE_A) {
      *count = 0;
      return CUDNN_STATUS_SUCCESS;
    }
    *count = kEngines;
    for (int64_t i = 0; i < std::min(kEngines, most); ++i) {
      const auto& graphs = node.nodes[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH];
      At(others[i]) = MakeConfiguration(graphs[0], kEngines - 1 - i);
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE && most == 1) {
    *count = 1;
    At(others[0]) = std::make_shared<Node>(*node.nodes[CUDNN_ATTR_ENGINECFG_ENGINE][0]);
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    const uint64_t bytes = EngineId(node) == kTensorCores ? kWorkspaceBytes : 0;
    return CopyOut({CUDNN_TYPE_INT64, {bytes}}, type, most, count, values);
  }
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return Refuse(CUDNN_STATUS_BAD_PARAM, "no such attribute");
  return CopyOut(found->second, type, most, count, values);
}

namespace {

// A tensor's pointer among the operands; null where there is none or it is misaligned.
void* PointerOf(const Node& tensor, const Node& operands) {
  const auto ids = operands.Numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = operands.Numbers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != tensor.Number(CUDNN_ATTR_TENSOR_UNIQUE_ID)) continue;
    const bool is_aligned = pointers[i] % tensor.Number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) == 0;
    return is_aligned ? reinterpret_cast<void*>(pointers[i]) : nullptr;
  }
  return nullptr;
}

struct Operand {
  void* at;
  size_t elements;
  bool is_bfloat16;

  Values Real(bool rounds) const {
    const auto real = fake_cuda::Reach(at, elements * (is_bfloat16 ? 2 : 4));
    return {real.value_or(nullptr), is_bfloat16, rounds && !is_bfloat16};
  }
};

Operand OperandOf(const Node& tensor, const Node& operands) {
  size_t elements = 1;
  for (int64_t size : tensor.Numbers(CUDNN_ATTR_TENSOR_DIMENSIONS)) elements *= size;
  return {PointerOf(tensor, operands), elements,
          tensor.Number(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_BFLOAT16};
}

}  // namespace

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Node& operands = *At(pack);
  if (!At(plan)->is_final || !operands.is_final || handle->stream == nullptr) {
    return Refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan or its operands are not final");
  }
  if (fake_cuda::CurrentDevice() != handle->device) {
    return Refuse(CUDNN_STATUS_BAD_PARAM, "the handle is of another device than the current one");
  }
  if (++executions == fake_cuda::CurrentSettings().cudnn_fails_at) {
    return Refuse(CUDNN_STATUS_EXECUTION_FAILED, "as the test wants it");
  }
  const Parts parts = FindParts(PlanOperation(*At(plan)));
  const int64_t engine = EngineId(*At(plan));
  const bool tensor_cores = engine == kTensorCores;
  const Operand source = OperandOf(*parts.source, operands);
  const Operand weights = OperandOf(*parts.weights, operands);
  const Operand output = OperandOf(*parts.output, operands);
  if (source.at == nullptr || weights.at == nullptr || output.at == nullptr) {
    return Refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "an operand is missing or misaligned");
  }
  void* const workspace =
      reinterpret_cast<void*>(operands.Number(CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
  if (tensor_cores && workspace == nullptr) {
    return Refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no workspace");
  }
  handle->stream->Add([=, stream = handle->stream, convolution = ParseConvolution(parts)] {
    if (fake_cuda::Sticky() != cudaSuccess) return;
    const Values x = source.Real(tensor_cores), w = weights.Real(tensor_cores);
    const Values y = output.Real(tensor_cores);
    const auto room = tensor_cores ? fake_cuda::Reach(workspace, kWorkspaceBytes) : x.at;
    if (x.at == nullptr || w.at == nullptr || y.at == nullptr || !room) {
      return fake_cuda::Fail(cudaErrorIllegalAddress);
    }
    if (tensor_cores) std::memset(*room, 0x5a, kWorkspaceBytes);
    convolution.Compute(x, w, y);
    stream->Pretend(engine == kDownConverts || engine == kRoundsSums ? 5 : tensor_cores ? 10 : 20);
  });
  return fake_cuda::Return(cudaSuccess) == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                       : CUDNN_STATUS_EXECUTION_FAILED;
}
