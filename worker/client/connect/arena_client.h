#ifndef STRATA_WORKER_CLIENT_CONNECT_ARENA_CLIENT_H_
#define STRATA_WORKER_CLIENT_CONNECT_ARENA_CLIENT_H_

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
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/job/arena.h"
#include "common/job/trace_log.h"
#include "common/require.h"
#include "kernels/device/device.h"
#include "proto/processes.pb.h"
#include "rows/table_spec.h"
#include "worker/client/client.h"
#include "worker/client/client_parts.h"
#include "worker/client/connect/rank_checkpoints.h"
#include "worker/client/connect/rank_views.h"
#include "worker/client/connect/step_clock.h"
#include "worker/client/connect/tensor_set.h"
#include "worker/client/rank_link.h"
#include "worker/contract/agent_channel.h"

namespace strata::client {

// Reads and writes a rank's arenas: by the host itself or, if they are on a device, through a
// stream.
//
// Threads: one.
class ArenaAccess {
 public:
  // The arenas are on `device` from now on. Errors: Device::NewStream's.
  absl::Status MoveTo(std::shared_ptr<device::Device> device);
  // Queues work in `stream`, which outlives the next call of this; calls then return before it is
  // done. Null: calls complete it. REQUIRES: MoveTo, or null.
  void QueueIn(device::Stream* stream) {
    STRATA_REQUIRE(stream == nullptr || device_ != nullptr);
    stream_ = stream;
  }

  device::Device* device() const { return device_.get(); }
  device::Stream* stream() const { return stream_; }

  // One of the two may always be host memory.
  absl::Status Copy(float* to, const float* from, size_t count);
  absl::Status Clear(absl::Span<float> values);
  // Writes -0.0, the mark of an absent gradient: see JobRecord.marks_absent.
  absl::Status FillAbsent(absl::Span<float> values);
  // Blocks until all queued work is done.
  absl::Status Settle();

 private:
  device::Stream& InUse() const { return stream_ != nullptr ? *stream_ : *own_; }
  absl::Status After(absl::Status status);

  std::shared_ptr<device::Device> device_;  // null: the host's memory
  std::unique_ptr<device::Stream> own_;     // with device_
  device::Stream* stream_ = nullptr;
  std::vector<float> absent_;  // the source of FillAbsent on a device
};

// Checks a report's values. Errors: InvalidArgument naming the value.
absl::Status CheckValues(const std::map<std::string, double>& values);

// Copies the program's report of a window of steps. The client adds its own counters.
void CopyReport(const Report& report, proto::RankReport* out);

// Client over any RankLink: enforces the order of calls, lays out tensors in the arena, copies
// COPIED ones, and maps tensors to chunks.
//
// Threads: one. Calls out of order are FailedPrecondition and change nothing.
class ArenaClient final : public Client,
                          private ClientDevices,
                          private ClientTrace,
                          private ClientRows {
 public:
  // `agent` is shared with the link, which may wait for the daemon in Start.
  ArenaClient(proto::Launch launch, std::shared_ptr<AgentChannel> agent,
              std::unique_ptr<RankLink> link);
  ~ArenaClient() override;

  uint32_t rank() const override { return launch_.rank(); }
  uint32_t ranks() const override { return launch_.record().job().ranks(); }

  void OnWait(std::function<bool()> interrupted) override {
    interrupted_ = std::move(interrupted);
    ask_next_ = absl::InfinitePast();
  }
  absl::StatusOr<int> Register(Tensor tensor) override {
    const absl::Status status = Expect(Phase::kRegistering, "Register");
    return status.ok() ? tensors_.Add(std::move(tensor)) : status;
  }
  absl::Status Allocate() override;
  absl::Status Start(const JobFacts& facts) override;
  uint64_t first_step() const override { return run_.first_step; }
  absl::Span<float> Weights(int tensor) override;
  absl::Span<float> Gradients(int tensor) override;
  absl::StatusOr<absl::Span<const float>> ReadWeights() override;
  absl::Status BeginStep(uint32_t samples) override;
  absl::Status BeginStepAt(uint32_t samples, double rate) override;
  absl::Status Wait(int tensor) override;
  absl::Status WaitAll() override;
  absl::Status Publish(int tensor) override;
  absl::Status ExpectUnpublished(int tensor) const override;
  absl::Status FinishStep() override;
  absl::Status Finish() override;
  absl::Status KeepWeights() override {
    const absl::Status finished = Expect(Phase::kFinished, "KeepWeights");
    return finished.ok() ? ReportFailure(link_->KeepWeights()) : finished;
  }
  absl::Status Send(const Report& report) override;
  void Fail(const absl::Status& why) override { agent_->SendFailed(why); }
  ClientDevices& devices() override { return *this; }
  ClientTrace& trace() override { return *this; }
  ClientCheckpoints& checkpoints() override { return checkpoints_; }
  ClientViews& views() override { return views_; }
  ClientRows& rows() override { return *this; }

 private:
  void Accept() override { accepts_device_ = true; }
  device::Device* device() const override { return access_.device(); }
  absl::Status ComputeIn(device::Stream* stream) override;
  void BeginBackward() override {
    if (trace_ && backward_at_ == absl::InfinitePast()) backward_at_ = trace_->Now();
  }

  absl::StatusOr<int> Add(const rows::TableSpec& table) override;
  absl::Status LookUp(int table, absl::Span<const uint64_t> ids, float* to) override;
  absl::Status Take(int table, absl::Span<const uint64_t> ids, float* to) override;
  absl::Status Want(int table, absl::Span<const uint64_t> ids) override;
  int lookahead() const override { return static_cast<int>(link_->row_lookahead()); }
  absl::Status Push(int table, absl::Span<const uint64_t> ids, const float* gradients,
                    double rate) override;

  enum class Phase { kRegistering, kAllocated, kBetweenSteps, kInStep, kFinished, kBroken };

  absl::Status Expect(Phase phase, const char* call) const;
  // For Wait and WaitAll: within a step, or between two.
  absl::Status ExpectTraining(const char* call) const;
  absl::Status ExpectTensor(int tensor, const char* call) const;
  // Checks a call about rows of a table.
  absl::Status ExpectRows(int table, absl::Span<const uint64_t> ids, const char* call) const;
  absl::Status LookUpRows(const char* call, int table, absl::Span<const uint64_t> ids, bool of_step,
                          float* to);
  // The common part of BeginStep and BeginStepAt.
  absl::Status Begin(const char* call, uint32_t samples, float rate);
  // Errors: FailedPrecondition: the program does not support tensors where the job has them.
  absl::Status CheckPlace();
  // Reports to the daemon why this rank fails, if `status` is an error of its own: Unavailable is
  // the failure of others, Cancelled the program's wish. Briefly waits for pending writes to the
  // store then. Returns `status`.
  absl::Status ReportFailure(absl::Status status);
  // A call that the program interrupted halfway leaves the link unusable.
  absl::Status BrokenIfInterrupted(absl::Status status);
  // Asks the program, unless it was asked a moment ago.
  absl::Status AskProgram();
  // Waits for the tensor's chunks and copies a COPIED one's weights to the caller, once a step.
  absl::Status Fetch(int tensor);
  absl::Status Await(ChunkId chunk);
  // The step's forward pass begins with its first wait, unless it has begun.
  void BeginForward() {
    if (trace_ && forward_at_ == absl::InfinitePast()) forward_at_ = trace_->Now();
  }
  // Sleeps as the job says (debug.delays).
  absl::Status Straggle();
  // Records the step in the trace, if it is traced.
  void NoteStep();
  // Sends all recorded events.
  void SendTrace();
  absl::Status PublishFetched(int tensor);
  absl::Status CopyWeightsOut(int tensor);
  // Moves to the link's arenas on a device, if it has any.
  absl::Status MoveToDevice();

  const proto::Launch launch_;
  const std::shared_ptr<AgentChannel> agent_;
  const std::unique_ptr<RankLink> link_;

  Phase phase_ = Phase::kRegistering;
  bool accepts_device_ = false;
  std::function<bool()> interrupted_;  // null: never
  absl::Time ask_next_ = absl::InfinitePast();
  TensorSet tensors_;
  std::vector<rows::TableSpec> tables_;
  ArenaView view_;
  ArenaAccess access_;
  std::vector<float> read_;  // host copy of a device's weights
  RunFacts run_;
  std::optional<StepBook> book_;
  std::vector<bool> fetched_;      // by tensor, for step_
  std::vector<ChunkId> complete_;  // scratch
  uint64_t step_ = 0;              // the current step or the next one
  uint32_t step_samples_ = 0;      // of this rank in the current step
  RankViews views_;
  // Samples of all ranks in all steps. Assumes that other ranks have as many as this one, and that
  // steps before this process had as many as its first one.
  uint64_t samples_ = 0;
  bool says_rates_ = false;  // the program gives rates, in each step
  bool marks_absent_ = false;
  uint32_t samples_due_ = 0;  // in each step; 0: any number
  float rate_ = 0;            // of the newest step, if given
  StepClock clock_;
  RankCheckpoints checkpoints_;
  bool straggled_ = false;                 // in the current step
  uint64_t reports_ = 0;                   // of this process
  absl::Duration waited_;                  // since the last report
  absl::Duration waited_before_;           // until then
  const std::unique_ptr<TraceLog> trace_;  // null: the job wants none
  // When the passes of step_ began, if there is a trace; otherwise InfinitePast.
  absl::Time forward_at_ = absl::InfinitePast(), backward_at_ = absl::InfinitePast();
};

// Client::Connect with a launch that has been read. Errors: as there, except those of the file.
absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const proto::Launch& launch);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_ARENA_CLIENT_H_
