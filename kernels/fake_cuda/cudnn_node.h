#ifndef STRATA_KERNELS_FAKE_CUDA_CUDNN_NODE_H_
#define STRATA_KERNELS_FAKE_CUDA_CUDNN_NODE_H_

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/fake_cuda/products.h"

// The descriptors of the fake cuDNN, and the attributes that each needs to be final.

namespace fake_cuda {

// Channels last, by plain loops.
struct Convolution {
  enum Pass { kForward, kSourceGradient, kWeightGradient };
  using Dimensions = std::array<int64_t, 4>;  // N x C x H x W
  Pass pass = kForward;
  Dimensions source, weights, output;
  int64_t padding[2], stride[2];

  bool Fits() const;
  // Computes the values of the pass's result.
  void Compute(const Values& source, const Values& weights, const Values& output) const;
};

// Engines: 0 multiplies fp32; 1 has tensor cores, which round fp32 inputs to TF32, and needs
// workspace; 2 is proposed, but supports nothing; 3 converts inputs to lower precision, and 4 sums
// in less than fp32, both faster than the others.
inline constexpr int64_t kEngines = 5, kTensorCores = 1, kUnsupported = 2, kDownConverts = 3,
                         kRoundsSums = 4;

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::vector<uint64_t> values;
};

struct Node {
  explicit Node(cudnnBackendDescriptorType_t t) : type(t) {}
  cudnnBackendDescriptorType_t type;
  bool is_final = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  std::map<cudnnBackendAttributeName_t, std::vector<std::shared_ptr<const Node>>> nodes;

  std::vector<int64_t> Numbers(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    return {found->second.values.begin(), found->second.values.end()};
  }
  int64_t Number(cudnnBackendAttributeName_t name) const {
    const auto numbers = Numbers(name);
    return numbers.size() == 1 ? numbers[0] : -1;
  }
  const Node* Child(cudnnBackendAttributeName_t name) const {
    const auto found = nodes.find(name);
    return found == nodes.end() || found->second.size() != 1 ? nullptr : found->second[0].get();
  }
};

// The operation's parts, whatever its kind.
struct Parts {
  Convolution::Pass pass;
  const Node *convolution, *source, *weights, *output;
  float alpha, beta;
};
Parts FindParts(const Node& operation);
Convolution ParseConvolution(const Parts& parts);

// The engine and the operation of a plan.
int64_t EngineId(const Node& plan);
const Node& PlanOperation(const Node& plan);

// Checks that all attributes are present and consistent; otherwise says why not.
cudnnStatus_t CheckNode(const Node& node);

// Returns the status, and keeps its reason for a later query.
cudnnStatus_t Refuse(cudnnStatus_t status, const char* why);
const char* LastRefusal();

}  // namespace fake_cuda

#endif  // STRATA_KERNELS_FAKE_CUDA_CUDNN_NODE_H_
