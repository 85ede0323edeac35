#include "kernels/fake_cuda/cudnn_node.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace fake_cuda {

namespace {

thread_local const char* last_refusal = "";

int64_t BytesOf(int64_t type) { return type == CUDNN_DATA_BFLOAT16 ? 2 : 4; }

cudnnStatus_t CheckTensor(const Node& node) {
  const auto type = node.Number(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const auto dimensions = node.Numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = node.Numbers(CUDNN_ATTR_TENSOR_STRIDES);
  if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_BFLOAT16) {
    return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "a tensor's data type");
  }
  if (dimensions.size() != 4 || strides.size() != 4 ||
      *std::min_element(dimensions.begin(), dimensions.end()) < 1 ||
      node.Number(CUDNN_ATTR_TENSOR_UNIQUE_ID) < 0 ||
      node.Number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) < BytesOf(type)) {
    return Refuse(CUDNN_STATUS_BAD_PARAM, "a tensor's attributes");
  }
  const int64_t c = dimensions[1], h = dimensions[2], w = dimensions[3];
  if (strides != std::vector<int64_t>{h * w * c, 1, w * c, c}) {
    return Refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "a tensor's channels do not come last");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CheckConvolution(const Node& node) {
  const auto ones = std::vector<int64_t>{1, 1};
  const auto padding = node.Numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const bool good = node.Number(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
                    node.Number(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION &&
                    node.Number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
                    node.Numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS) == ones &&
                    node.Numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES).size() == 2 &&
                    padding.size() == 2 &&
                    padding == node.Numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  return good ? CUDNN_STATUS_SUCCESS : Refuse(CUDNN_STATUS_BAD_PARAM, "a convolution's attributes");
}

cudnnStatus_t CheckOperation(const Node& node) {
  const Parts parts = FindParts(node);
  const std::vector<const Node*> tensors = {parts.source, parts.weights, parts.output};
  if (parts.convolution == nullptr || std::count(tensors.begin(), tensors.end(), nullptr) > 0 ||
      parts.alpha != 1 || parts.beta != 0) {
    return Refuse(CUDNN_STATUS_BAD_PARAM, "an operation's attributes");
  }
  for (const Node* tensor : tensors) {
    if (tensor->Number(CUDNN_ATTR_TENSOR_DATA_TYPE) !=
        parts.source->Number(CUDNN_ATTR_TENSOR_DATA_TYPE)) {
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "tensors of several types");
    }
  }
  return ParseConvolution(parts).Fits()
             ? CUDNN_STATUS_SUCCESS
             : Refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "an operation's shapes");
}

cudnnStatus_t CheckPlan(const Node& node) {
  const Node* const configuration = node.Child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (configuration == nullptr) return Refuse(CUDNN_STATUS_BAD_PARAM, "a plan's attributes");
  if (EngineId(node) == kUnsupported) {
    return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "an engine supports nothing");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CheckPack(const Node& node) {
  const auto ids = node.Numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = node.Numbers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  return ids.size() == pointers.size() && !ids.empty()
             ? CUDNN_STATUS_SUCCESS
             : Refuse(CUDNN_STATUS_BAD_PARAM, "a variant pack's attributes");
}

}  // namespace

Parts FindParts(const Node& node) {
  const auto scalar = [&](cudnnBackendAttributeName_t name) {
    const uint32_t bits = static_cast<uint32_t>(node.Number(name));
    return std::bit_cast<float>(bits);
  };
  switch (node.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {Convolution::kForward,
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC),
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y),
              scalar(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA),
              scalar(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA)};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {Convolution::kSourceGradient,
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC),
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY),
              scalar(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA),
              scalar(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA)};
    default:
      return {Convolution::kWeightGradient,
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC),
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW),
              node.Child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY),
              scalar(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA),
              scalar(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA)};
  }
}

Convolution ParseConvolution(const Parts& parts) {
  Convolution convolution = {.pass = parts.pass};
  const auto copy = [](const Node& tensor, Convolution::Dimensions* to) {
    const auto dimensions = tensor.Numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
    std::copy(dimensions.begin(), dimensions.end(), to->begin());
  };
  copy(*parts.source, &convolution.source);
  copy(*parts.weights, &convolution.weights);
  copy(*parts.output, &convolution.output);
  for (int i = 0; i < 2; ++i) {
    convolution.padding[i] = parts.convolution->Numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[i];
    convolution.stride[i] = parts.convolution->Numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[i];
  }
  return convolution;
}

int64_t EngineId(const Node& plan) {
  return plan.Child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
      ->Child(CUDNN_ATTR_ENGINECFG_ENGINE)
      ->Number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}
const Node& PlanOperation(const Node& plan) {
  return *plan.Child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
              ->Child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
              ->Child(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

cudnnStatus_t CheckNode(const Node& node) {
  switch (node.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return CheckTensor(node);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return CheckConvolution(node);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return CheckOperation(node);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      if (node.Child(CUDNN_ATTR_OPERATIONGRAPH_OPS) != nullptr) return CUDNN_STATUS_SUCCESS;
      return Refuse(CUDNN_STATUS_BAD_PARAM, "a graph's attributes");
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      if (node.Child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) != nullptr) return CUDNN_STATUS_SUCCESS;
      return Refuse(CUDNN_STATUS_BAD_PARAM, "a heuristic's attributes");
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return CheckPlan(node);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return CheckPack(node);
    default:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "a descriptor's type");
  }
}

cudnnStatus_t Refuse(cudnnStatus_t status, const char* why) {
  last_refusal = why;
  return status;
}
const char* LastRefusal() { return last_refusal; }

namespace {

size_t Elements(const Convolution::Dimensions& of) { return of[0] * of[1] * of[2] * of[3]; }

std::vector<double> Read(const Values& from, size_t count) {
  std::vector<double> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = from.Get(i);
  return numbers;
}
void Write(const std::vector<double>& numbers, const Values& to) {
  for (size_t i = 0; i < numbers.size(); ++i) to.Set(i, numbers[i]);
}

}  // namespace

bool Convolution::Fits() const {
  if (source[0] != output[0] || source[1] != weights[1] || weights[0] != output[1]) return false;
  for (int i = 0; i < 2; ++i) {
    const int64_t room = source[2 + i] + 2 * padding[i] - weights[2 + i];
    if (room < 0 || stride[i] < 1 || output[2 + i] != room / stride[i] + 1) return false;
  }
  return true;
}

void Convolution::Compute(const Values& x, const Values& w, const Values& y) const {
  const size_t xs = Elements(source), ws = Elements(weights), ys = Elements(output);
  auto in = pass == kSourceGradient ? std::vector<double>(xs) : Read(x, xs);
  auto of = pass == kWeightGradient ? std::vector<double>(ws) : Read(w, ws);
  auto out = pass == kForward ? std::vector<double>(ys) : Read(y, ys);
  const int64_t channels = source[1], outputs = output[1];
  for (int64_t n = 0; n < output[0]; ++n) {
    for (int64_t i = 0; i < output[2]; ++i) {
      for (int64_t j = 0; j < output[3]; ++j) {
        for (int64_t r = 0; r < weights[2]; ++r) {
          const int64_t row = i * stride[0] + r - padding[0];
          if (row < 0 || row >= source[2]) continue;
          for (int64_t s = 0; s < weights[3]; ++s) {
            const int64_t column = j * stride[1] + s - padding[1];
            if (column < 0 || column >= source[3]) continue;
            double* const place = &in[((n * source[2] + row) * source[3] + column) * channels];
            for (int64_t k = 0; k < outputs; ++k) {
              double& value = out[((n * output[2] + i) * output[3] + j) * outputs + k];
              double* const weight = &of[((k * weights[2] + r) * weights[3] + s) * channels];
              for (int64_t c = 0; c < channels; ++c) {
                if (pass == kForward) value += place[c] * weight[c];
                if (pass == kSourceGradient) place[c] += value * weight[c];
                if (pass == kWeightGradient) weight[c] += value * place[c];
              }
            }
          }
        }
      }
    }
  }
  if (pass == kForward) Write(out, y);
  if (pass == kSourceGradient) Write(in, x);
  if (pass == kWeightGradient) Write(of, w);
}

}  // namespace fake_cuda
