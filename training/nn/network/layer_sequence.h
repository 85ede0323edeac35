#ifndef STRATA_TRAINING_NN_NETWORK_LAYER_SEQUENCE_H_
#define STRATA_TRAINING_NN_NETWORK_LAYER_SEQUENCE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "training/nn/network/model.h"
#include "training/nn/network/network.h"

namespace strata::training {

// A network's layers in the order in which it computes them, and which of its tensors are whose.
// `Layer` is a backend's: BindWeights, BindGradients and BindBuffers take what it was added with.
//
// Threads: one.
template <typename Layer>
class LayerSequence {
 public:
  struct Node {
    std::string name;
    std::unique_ptr<Layer> layer;
    int first_weight = 0, first_buffer = 0;
    int weights = 0, buffers = 0;
  };

  // Adds the next layer, with the tensors of `shape`.
  Node& Add(std::string name, std::unique_ptr<Layer> layer, const LayerShape& shape) {
    nodes_.push_back({std::move(name), std::move(layer), weights_, buffers_,
                      static_cast<int>(shape.weights.size()),
                      static_cast<int>(shape.buffers.size())});
    weights_ += nodes_.back().weights;
    buffers_ += nodes_.back().buffers;
    return nodes_.back();
  }

  // See Network::Bind; `gradients` are ignored without `train`.
  void Bind(absl::Span<const absl::Span<float>> weights,
            absl::Span<const absl::Span<float>> gradients,
            absl::Span<const absl::Span<float>> buffers, bool train) {
    for (Node& node : nodes_) {
      node.layer->BindBuffers(buffers.subspan(node.first_buffer, node.buffers));
      if (node.weights == 0) continue;
      node.layer->BindWeights(weights.subspan(node.first_weight, node.weights));
      if (train) node.layer->BindGradients(gradients.subspan(node.first_weight, node.weights));
    }
  }

  // Backward then ends at the first layer with weights: the layers before it have nothing to learn.
  void EndBackwardAtWeights() {
    while (first_backward_ < nodes_.size() && nodes_[first_backward_].weights == 0) {
      ++first_backward_;
    }
  }

  // Calls `run` for each layer, after `before_read` for each of its weights.
  template <typename Run>
  absl::Status Forward(Network::Hook before_read, Run run) {
    for (Node& node : nodes_) {
      for (int i = 0; i < node.weights; ++i) {
        if (auto status = before_read(node.first_weight + i); !status.ok()) return status;
      }
      if (absl::Status status = run(node); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Calls `run` for each layer from the last to where backward ends; `is_end` at the last call.
  template <typename Run>
  absl::Status BuildBackward(Run run) {
    for (size_t i = nodes_.size(); i-- > first_backward_;) {
      absl::Status status = run(nodes_[i], /*is_end=*/i == first_backward_);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Runs backward, and calls `complete` for each of a layer's weights after it, last weight first.
  template <typename Run>
  absl::Status Backward(Network::Hook complete, Run run) {
    return BuildBackward([&](Node& node, bool) {
      if (absl::Status status = run(node); !status.ok()) return status;
      for (int w = node.weights; w-- > 0;) {
        if (auto status = complete(node.first_weight + w); !status.ok()) return status;
      }
      return absl::OkStatus();
    });
  }

 private:
  std::vector<Node> nodes_;
  int weights_ = 0, buffers_ = 0;  // of all layers so far
  size_t first_backward_ = 0;      // layer at which backward ends
};

// Returns true if the next layer may overwrite this one's output values: they are neither the
// network's input nor read by another layer. `own`: this layer's input values could be overwritten,
// too; `moves`: it writes its output elsewhere.
inline bool LeavesOwnValues(const LayerSpec& spec, bool own, bool moves) {
  const bool shares =
      std::holds_alternative<Fork>(spec.kind) || std::holds_alternative<Branch>(spec.kind);
  return !shares && (own || (moves && !std::holds_alternative<Flatten>(spec.kind)));
}

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_NETWORK_LAYER_SEQUENCE_H_
