#ifndef STRATA_TRAINING_TRAINER_MODEL_FILE_H_
#define STRATA_TRAINING_TRAINER_MODEL_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "training/nn/network/model.h"
#include "training/nn/tensor_memory.h"

namespace strata::worker {

// Writes a model as safetensors: each layer's weights and buffers in the order of the forward pass,
// fp32, named as in ListWeights and ListBuffers; metadata: model, job, format.
// Errors name the path.
absl::Status SaveModel(const std::string& path, const ModelSpec& model, const std::string& job,
                       const Tensors& weights, const Tensors& buffers);

// Whether files can be made in the folder, tried out with one. Errors name the folder.
absl::Status CheckWritable(const std::string& dir);

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TRAINER_MODEL_FILE_H_
