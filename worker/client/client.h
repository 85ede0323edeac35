#ifndef STRATA_WORKER_CLIENT_CLIENT_H_
#define STRATA_WORKER_CLIENT_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace strata::client {

// One tensor of a job's model, fp32. Tensors are registered in the order in which backward finishes
// their gradients, the same on every rank.
struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;    // product >= 1
  float lr_multiplier = 1.0f;     // of the schedule's learning rate
  float decay_multiplier = 1.0f;  // of weight decay; 0 for biases and batch normalisation

  // The tensor is averaged instead of trained, as running statistics are: each rank pushes a sum
  // over its samples, and the mean over all samples becomes the value. Jobs with local_steps,
  // elastic, delay_compensation, or codecs other than FP16 and BF16 fail with such a tensor.
  bool averaged = false;

  // The caller's memory, with room for all elements each. Both null: MAPPED, the tensor lives in
  // the client's arenas (Client::Weights). Both set: COPIED, Start reads the first weights from
  // `weights`, Wait writes there, and Publish reads from `gradients`. They may be device memory
  // once the client computes in a stream (ClientDevices).
  float* weights = nullptr;
  float* gradients = nullptr;
};

inline constexpr size_t kReportValuesMax = 32;
inline constexpr size_t kValueNameMax = 64;
inline constexpr size_t kStateItemsMax = 4096;
inline constexpr size_t kStateNameMax = 256, kStateValueMax = 64;  // longer ones are cut

// State that must be the same on all ranks that apply the optimizer themselves.
struct State {
  struct Item {
    std::string name;  // of a tensor, or of an option of the optimizer
    uint64_t checksum = 0;
    std::string value;  // options: as text; empty: a tensor
  };
  uint64_t step = 0;  // the state is that after this step
  std::vector<Item> items;
};

// One rank's report of a window of steps, [first_step, end_step). The node adds its counters later:
// see RankReport in proto/control.proto.
struct Report {
  uint64_t first_step = 0, end_step = 0;
  uint64_t samples = 0;
  double loss_sum = 0;  // over the window's steps
  double wall_s = 0;
  // The window's end in seconds since the rank's first step, without evaluations. If a program says
  // 0, the client's clock says it, which counts the time between the last step and a report of
  // measured values as evaluation.
  double trained_s = 0;
  bool has_test = false;
  double test_accuracy = 0, test_loss = 0;  // NaN: not measured
  bool final = false;                       // of the job's final model
  // Other measured values: up to kReportValuesMax finite numbers, whose names have 1 to
  // kValueNameMax letters, digits and characters of "._-/".
  std::map<std::string, double> values;
  // Facts about the rank's data that become known while it trains; 0: unknown, or given to Start.
  uint64_t samples_per_epoch = 0;
  uint32_t epochs = 0;
  // In jobs with local steps, where first_step and end_step count exchanges: the rank's own steps
  // since the job began, and in all. 0: unknown.
  uint64_t local_steps = 0, local_steps_total = 0;
  // The job fails if another rank's state of the same step differs. Such a report has nothing else.
  std::optional<State> state;
};

// The program's facts about its training.
struct JobFacts {
  uint64_t samples_per_epoch = 0;  // all ranks together; needed by schedules with warm-up or shape
  uint64_t total_steps = 0;        // per rank; 0: unknown
  // Every rank begins with rank 0's weights; else all must offer the same. The same on all ranks.
  bool takes_first_weights = false;
  // The optimizer as protobuf text ("sgd { weight_decay: 0.1 }", perhaps with clip_norm), in jobs
  // with optimizer { from_program {} } only. The same on all ranks.
  std::string optimizer;
  // The program passes each step's learning rate to BeginStepAt, in place of the job's schedule.
  // The same on all ranks.
  bool says_rates = false;
  // The program can begin at any Client::first_step, as if it had made the steps before it. Only
  // then can a job resume from a checkpoint, or a node that dies be replaced. The same on all
  // ranks.
  bool can_resume = false;
  // This rank has state of its own for checkpoints (ClientCheckpoints). The same on all ranks. In
  // jobs without checkpoints it means only that nodes cannot be replaced.
  bool keeps_state = false;
  // Samples of this rank in every step, for jobs that need it and have no program.samples_per_rank;
  // 0: unknown. The same on all ranks.
  uint32_t samples_per_rank = 0;
  // A tensor that no rank publishes in a step keeps its value and optimizer state; else its
  // gradient counts as zeros. Only if pushes are FP32 (MayMarkAbsent). If gradients lie on a
  // device, the program writes 0.0 for -0.0. The same on all ranks.
  bool marks_absent = false;
};

class ClientCheckpoints;
class ClientDevices;
class ClientRows;
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
  // The job's number of ranks. If nodes join and leave, views() has those of a step.
  virtual uint32_t ranks() const = 0;

  // Makes every blocking call ask `interrupted`, on its thread and at least every 200 ms, and
  // return Cancelled once that is true. Wait, WaitAll, Publish and FinishStep may then be called
  // again and continue. After a cancelled Start or Finish, or any call but a wait if GPUs exchange
  // among themselves, every call is FailedPrecondition. `interrupted` does not call the client;
  // null: never.
  virtual void OnWait(std::function<bool()> interrupted) = 0;

  // Adds a tensor and returns its index, 0 for the first.
  virtual absl::StatusOr<int> Register(Tensor tensor) = 0;
  // Ends the registration: Weights and Gradients are valid, and zero. Start does it if the program
  // has not.
  virtual absl::Status Allocate() = 0;
  // Offers this rank's weights as the first ones. The job fails unless all ranks offer the same
  // bits, or all take rank 0's (JobFacts). Blocks until every rank has, and training begins.
  virtual absl::Status Start(const JobFacts& facts) = 0;
  // The first step that this process makes: 0 unless the job resumes from a checkpoint. Known after
  // Start; 0 before.
  virtual uint64_t first_step() const = 0;

  // The tensor in the node's weight arena, shared by its ranks and read-only after Start, and in
  // the rank's gradient arena; for a COPIED tensor the caller's memory. Empty: no such tensor, or
  // not allocated yet. On a GPU both move during Start: from then on only its streams touch them.
  virtual absl::Span<float> Weights(int tensor) = 0;
  virtual absl::Span<float> Gradients(int tensor) = 0;
  // All weights back to back in the order of registration, readable by the host: the arena, or on a
  // GPU a copy that is valid until the next call.
  virtual absl::StatusOr<absl::Span<const float>> ReadWeights() = 0;

  // Opens a step in which this rank uses `samples` samples. Gradients are sums over them; with 0
  // they are ignored. A step without samples on any rank changes no weight. Gradients are published
  // between BeginStep and FinishStep.
  virtual absl::Status BeginStep(uint32_t samples) = 0;
  // The same with the step's learning rate (JobFacts::says_rates), equal on all ranks. It travels
  // as fp32. Also InvalidArgument: not a finite number >= 0.
  virtual absl::Status BeginStepAt(uint32_t samples, double rate) = 0;
  // Blocks until the tensor has the weights that the current step (between two steps, the next one)
  // starts from. From then on its gradient memory is free for the step's gradient.
  virtual absl::Status Wait(int tensor) = 0;
  virtual absl::Status WaitAll() = 0;
  // The tensor's gradient is complete, and its weights are not read again in this step.
  virtual absl::Status Publish(int tensor) = 0;
  // Ok if Publish may be called now: within a step in which the tensor was not published.
  virtual absl::Status ExpectUnpublished(int tensor) const = 0;
  // Ends the step. Tensors that were not published have zero gradients.
  virtual absl::Status FinishStep() = 0;
  // Ends the training: blocks until all nodes are done and the final weights are in the arena, and
  // at most 20 s until state given to checkpoints() is written.
  virtual absl::Status Finish() = 0;
  // After Finish: makes the memory of Weights private and writable. The addresses stay, and outlive
  // the client. Pages are copied when written to. Also Unimplemented: it lies on a GPU;
  // ResourceExhausted.
  virtual absl::Status KeepWeights() = 0;

  // Reports a window of steps to the coordinator, which shows it to the user. Also InvalidArgument
  // naming the value.
  virtual absl::Status Send(const Report& report) = 0;
  // Says why this rank fails: its message, one line without the rank's number, is the job's reason.
  // Errors of the rank's GPU or NCCL are reported without this.
  virtual void Fail(const absl::Status& why) = 0;

  // Declared in client_parts.h.
  virtual ClientDevices& devices() = 0;          // GPUs
  virtual ClientTrace& trace() = 0;              // marks in the job's trace
  virtual ClientCheckpoints& checkpoints() = 0;  // a rank's own state
  virtual ClientViews& views() = 0;              // who makes which step
  virtual ClientRows& rows() = 0;                // tables of rows on servers
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CLIENT_H_
