#ifndef STRATA_TRAINING_TRAINER_BATCH_STATISTICS_H_
#define STRATA_TRAINING_TRAINER_BATCH_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "training/nn/create_network.h"
#include "training/nn/network/model.h"
#include "worker/client/client.h"

namespace strata::training {

// Batches leave no trace in the statistics of later ones, as with LAST_BATCH.
void ForgetEarlierBatches(ModelSpec* model);
// Returns a buffer as a tensor that is exchanged with LAST_BATCH.
client::Tensor StatisticsTensor(const TensorSpec& buffer);
// Computes what a rank with these statistics over `samples` pushes instead of a gradient.
void SumStatistics(absl::Span<const float> own, uint32_t samples, absl::Span<float> sum);

// A rank's buffers: the means and variances of batch normalisation. RUNNING: kept here alone.
// LAST_BATCH: those of the rank's newest batch, and, as tensors of the job, their mean over all
// ranks, which inference uses (Akiba et al. 2017).
//
// Threads: one.
class BatchStatistics {
 public:
  // Makes `model` forget earlier batches with LAST_BATCH. The client outlives this.
  BatchStatistics(proto::Model::BatchNorm kind, ModelSpec* model, client::Client* client);

  // Returns true if they are this rank's own, so that checkpoints hold them by rank.
  bool keeps_state() const { return !exchanged_ && !specs_.empty(); }

  // Registers the tensors, if they are exchanged, after the last weight.
  absl::Status Register();
  // Writes their initial values. Call it after the client's Allocate.
  void Initialize();
  // Moves them to their final memory: the initial ones, or those of `state`, which has
  // state_bytes(). Call it after the client's Start. Errors: the device's.
  absl::Status MoveTo(const Backend& backend, absl::Span<const std::byte> state = {});
  // Their size in a checkpoint, in bytes; 0: none.
  size_t state_bytes() const;
  // Appends them to a checkpoint's state. Errors: the device's.
  absl::Status AppendState(std::string* state) const;
  // Publishes them after a forward pass over `samples` samples.
  absl::Status Publish(uint32_t samples);

  // Buffers that training writes, and those that inference reads once the step's weights are there,
  // in the order of ListBuffers, in the backend's memory.
  std::vector<absl::Span<float>> training() { return own_.spans(); }
  std::vector<absl::Span<float>> inference();

 private:
  absl::Status Sum(absl::Span<const float> own, uint32_t samples, absl::Span<float> sum);

  const bool exchanged_;
  client::Client& client_;
  std::vector<TensorSpec> specs_;
  Backend backend_;
  TensorMemory own_;
  std::vector<int> tensors_;  // the client's, if they are exchanged
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_TRAINER_BATCH_STATISTICS_H_
