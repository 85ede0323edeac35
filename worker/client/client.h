#ifndef STRATA_WORKER_CLIENT_CLIENT_H_
#define STRATA_WORKER_CLIENT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/client/job_facts.h"

namespace strata::device {
class Device;
class Stream;
}  // namespace strata::device

namespace strata::client {

// One tensor that is trained. Tensors are registered in the order in which backward finishes their
// gradients; that order is the arena's and must be the same on every rank.
struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;  // fp32; product >= 1
  float lr_multiplier = 1.0f;
  float decay_multiplier = 1.0f;  // 0 for biases and batch normalisation
  // Not trained: what is pushed in place of its gradient, as a sum over samples, becomes its value
  // as a mean over the samples of all ranks. Jobs with local_steps, elastic, delay_compensation, or
  // codecs other than FP16 and BF16 fail where there is one.
  bool averaged = false;
  // COPIED: memory of the caller's, which holds the first weights at Start, and from and to which
  // Publish and Wait copy. Both null: MAPPED, the tensor lives in the arena itself (see Weights).
  // With device: GPU and ComputeIn it may be the device's, too, once Start has returned.
  float* weights = nullptr;
  float* gradients = nullptr;
};

// What one window of steps looked like; see RankReport in proto/control.proto.
struct Report {
  uint64_t first_step = 0, end_step = 0, samples = 0;
  double loss_sum = 0, wall_s = 0;
  double trained_s = 0;
  bool has_test = false;
  double test_accuracy = 0, test_loss = 0;
  bool final = false;
};

// A rank's side of a job: gradients go out per tensor while backward runs, weights come back per
// tensor while the next forward runs. The order of calls:
//
//   Register*, Start, then per step: BeginStep, (Wait* forward), (Publish* backward), FinishStep;
//   at the end Finish, after which weights are the job's final model.
//
// Threads: one per Client. Every wait ends with an error when the job is stopped or a peer process
// is gone: Unavailable, naming it; the program then exits.
class Client {
 public:
  virtual ~Client() = default;

  // Joins the job as the rank that `launch_file` (the program's argument "{launch}") describes:
  // through the node's aggregator, or, with exchange: NONE, by itself. Errors: NotFound,
  // InvalidArgument, Unavailable (aggregator).
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& launch_file);

  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;

  // Adds a tensor; returns its index. Errors: InvalidArgument; FailedPrecondition after Start.
  virtual absl::StatusOr<int> Register(Tensor tensor) = 0;

  // With device: GPU, MAPPED tensors may lie on a device. Before Allocate, which else fails where
  // there are any: a program that does not know of devices would crash on the first one.
  virtual void AcceptDevice() {}

  // Lays the arena out, so that Weights and Gradients are valid. MAPPED tensors are zero until the
  // caller fills them. After the last Register.
  virtual absl::Status Allocate() = 0;

  // Offers this rank's weights as the first ones (all ranks must offer the same bits, else the job
  // fails) and blocks until every chunk is confirmed.
  virtual absl::Status Start(const JobFacts& facts) = 0;

  // The tensor's place in the node's weight arena (shared by its ranks: read only after Start) and
  // in the rank's gradient arena; COPIED tensors: the caller's memory. With device: GPU, once Start
  // has returned, these are other places, on the device: only its streams may touch them.
  virtual absl::Span<float> Weights(int tensor) = 0;
  virtual absl::Span<float> Gradients(int tensor) = 0;
  // All weights back to back in arena order, for the host to read: the arena itself or, of a
  // device, a copy, which holds until the next call. Errors: Internal (the device).
  virtual absl::StatusOr<absl::Span<const float>> ReadWeights() = 0;

  // With device: GPU, once Start has returned: the rank's device; else null.
  virtual device::Device* device() const { return nullptr; }
  // Wait, Publish and FinishStep become points in `stream`, which the caller computes in, and no
  // longer wait for it: what it is given after Wait finds the weights there; the gradient is
  // complete once what it was given before Publish is done. Null: back to how it was. REQUIRES:
  // device(); between steps; `stream` outlives this or the next such call.
  virtual void ComputeIn(device::Stream* stream) {}

  // Opens a step in which this rank uses `samples` samples. Gradients are sums over them. A
  // tensor's gradient memory is free again once Wait has returned for it.
  virtual absl::Status BeginStep(uint32_t samples) = 0;

  // Blocks until the tensor's weights are those that this step starts from.
  virtual absl::Status Wait(int tensor) = 0;
  virtual absl::Status WaitAll() = 0;

  // The forward pass is over. For the job's trace only, which else takes the first Publish for it.
  virtual void BeginBackward() {}
  // The tensor's gradient is complete and its weights are not read again in this step.
  virtual absl::Status Publish(int tensor) = 0;

  // Ends the step: tensors that were not published count as zero gradients.
  virtual absl::Status FinishStep() = 0;

  // No more steps: blocks until all nodes are done and the weights of the last clock are in the
  // arena.
  virtual absl::Status Finish() = 0;

  // Sends a report; wait_s and the node's counters are filled in here. `lr` is that of the last
  // step.
  virtual absl::Status Send(const Report& report) = 0;
  // Says why this rank fails, to stand in the job's reason: one line, without the rank's number.
  // What its GPU or NCCL has met is said without this.
  virtual void Fail(const std::string& reason) = 0;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CLIENT_H_
