#ifndef STRATA_TRAINING_NN_ONEDNN_NETWORK_H_
#define STRATA_TRAINING_NN_ONEDNN_NETWORK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "training/nn/network/model.h"
#include "training/nn/network/network.h"

namespace strata::training {

// A network on the CPU, with one compute thread: the same inputs give the same bits. Everything but
// what Bind names is allocated now, nothing per step. Sets OpenMP's thread count to 1 on the
// calling thread, which the network's caller must be. Errors: InvalidArgument (the model's shapes),
// Internal (oneDNN, naming the layer).
absl::StatusOr<std::unique_ptr<Network>> CreateOneDnnNetwork(const ModelSpec& model,
                                                             const Network::Options& options);

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_ONEDNN_NETWORK_H_
