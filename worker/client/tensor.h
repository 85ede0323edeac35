#ifndef STRATA_WORKER_CLIENT_TENSOR_H_
#define STRATA_WORKER_CLIENT_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

namespace strata::client {

// One tensor of a job's model, fp32. Tensors are registered in the order in which backward finishes
// their gradients, the same on every rank.
struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;    // product >= 1
  float lr_multiplier = 1.0f;     // of the schedule's learning rate
  float decay_multiplier = 1.0f;  // of weight decay; 0 for biases and batch normalisation

  // Whether the tensor is averaged instead of trained, as running statistics are: what is pushed in
  // place of its gradient, a sum over samples, becomes its value as a mean over the samples of all
  // ranks. Jobs with local_steps, elastic, delay_compensation, or codecs other than FP16 and BF16
  // fail where there is such a tensor.
  bool averaged = false;

  // Where the caller keeps the tensor, with room for all elements each. Both null: MAPPED, the
  // tensor lives in the client's arenas, see Client::Weights. Both set: COPIED, Start reads the
  // first weights from `weights`, Wait writes there, and Publish reads from `gradients`. They may
  // be the device's memory once the client computes in a stream, see client_devices.h.
  float* weights = nullptr;
  float* gradients = nullptr;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_TENSOR_H_
