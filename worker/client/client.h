#ifndef STRATA_WORKER_CLIENT_CLIENT_H_
#define STRATA_WORKER_CLIENT_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/client/job_facts.h"
#include "worker/client/report.h"
#include "worker/client/tensor.h"

namespace strata::client {

class ClientCheckpoints;
class ClientDevices;
class ClientTrace;
class ClientViews;

// A rank's side of a job: gradients go out per tensor while backward runs, weights come back per
// tensor while the next forward runs. The order of calls:
//
//   Register*, Start, then per step: (Wait* forward), BeginStep, (Publish* backward), FinishStep;
//   at the end Finish, after which weights are the job's final model.
//
// BeginStep may also come before the waits. Threads: any, one at a time. Errors of every call that
// returns a Status: FailedPrecondition (called out of order; nothing changes), InvalidArgument (no
// such tensor, or a bad one), Internal (the rank's GPU), Unavailable (the job was stopped, or a
// peer process is gone, which it names), Cancelled (OnWait). After Internal and Unavailable the
// program exits.
class Client {
 public:
  virtual ~Client() = default;

  // Joins the job as the rank that `launch_file` (the program's argument "{launch}") describes:
  // through the node's aggregator, or, with exchange: NONE, by itself. Errors: NotFound,
  // InvalidArgument (the file); Unavailable (the aggregator).
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& launch_file);

  virtual uint32_t rank() const = 0;
  // As many as the job says; where nodes join and leave it, views() has those of a step.
  virtual uint32_t ranks() const = 0;

  // Has every call that waits ask `interrupted`, on its thread and at least every 200 ms; once that
  // says yes the call ends with Cancelled. Wait, WaitAll, Publish and FinishStep may then be called
  // again, and go on where they were. After Start and Finish, and where the ranks' GPUs add up
  // among themselves after all but the waits, every call is FailedPrecondition. `interrupted` does
  // not call the client; null: nobody is asked.
  virtual void OnWait(std::function<bool()> interrupted) = 0;

  // Adds a tensor and returns its index, 0 for the first.
  virtual absl::StatusOr<int> Register(Tensor tensor) = 0;
  // Ends the registration, so that Weights and Gradients are valid: zeros, for the caller to fill
  // the weights. Start does it where the program has no need to.
  virtual absl::Status Allocate() = 0;
  // Offers this rank's weights as the first ones; all ranks must offer the same bits, else the job
  // fails, unless all take rank 0's (JobFacts). Blocks until every rank has and training begins.
  virtual absl::Status Start(const JobFacts& facts) = 0;
  // The first step that this process makes: 0, but where the job goes on from a checkpoint, which
  // Start says. Its steps count on from there. 0 before Start.
  virtual uint64_t first_step() const = 0;

  // The tensor in the node's weight arena, shared by its ranks and read-only after Start, and in
  // the rank's gradient arena; of a COPIED tensor the caller's own memory. Empty: no such tensor,
  // or not allocated yet. On a GPU both have moved once Start has returned: only its streams may
  // touch them.
  virtual absl::Span<float> Weights(int tensor) = 0;
  virtual absl::Span<float> Gradients(int tensor) = 0;
  // All weights back to back in the order of registration, for the host to read: the arena, or on a
  // GPU a copy that holds until the next call.
  virtual absl::StatusOr<absl::Span<const float>> ReadWeights() = 0;

  // Opens a step in which this rank uses `samples` samples. Gradients are sums over them. Between
  // BeginStep and FinishStep gradients are published.
  virtual absl::Status BeginStep(uint32_t samples) = 0;
  // Does the same where JobFacts::says_rates: with the step's learning rate, the same on all ranks.
  // It is fp32 on its way. Errors: InvalidArgument, too: not a finite number >= 0.
  virtual absl::Status BeginStepAt(uint32_t samples, double rate) = 0;
  // Blocks until the tensor's weights are those that the step in hand starts from, or, between two
  // steps, the next one. From then on the tensor's gradient memory is free for the step's gradient.
  virtual absl::Status Wait(int tensor) = 0;
  virtual absl::Status WaitAll() = 0;
  // The tensor's gradient is complete, and its weights are not read again in this step.
  virtual absl::Status Publish(int tensor) = 0;
  // Ok where Publish may be called now: within a step that the tensor was not published in.
  virtual absl::Status ExpectUnpublished(int tensor) const = 0;
  // Ends the step. Tensors that were not published have zero gradients.
  virtual absl::Status FinishStep() = 0;
  // No more steps: blocks until all nodes are done and the final weights are in the arena, and, for
  // at most 20 s, until what was given to checkpoints() is written.
  virtual absl::Status Finish() = 0;
  // After Finish: makes what Weights has returned this process's own memory, to write to, for as
  // long as it lives; the addresses stay, and outlive the client. What nobody writes to is not
  // copied. Errors, besides: Unimplemented: it lies on a GPU; ResourceExhausted.
  virtual absl::Status KeepWeights() = 0;

  // Reports a window of steps to the coordinator, which shows it to the user. Errors, besides:
  // InvalidArgument naming the value.
  virtual absl::Status Send(const Report& report) = 0;
  // Says in one line, without the rank's number, why this rank fails: the job's reason. What the
  // rank's GPU or NCCL has met is said without this.
  virtual void Fail(const std::string& reason) = 0;

  virtual ClientDevices& devices() = 0;          // client_devices.h: GPUs
  virtual ClientTrace& trace() = 0;              // client_trace.h: marks in the job's trace
  virtual ClientCheckpoints& checkpoints() = 0;  // client_checkpoints.h: a rank's own state
  virtual ClientViews& views() = 0;              // client_views.h: who makes which step
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CLIENT_H_
