#ifndef STRATA_COMPARE_VIRTUAL_TIME_TASK_PROBLEM_H_
#define STRATA_COMPARE_VIRTUAL_TIME_TASK_PROBLEM_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/os/process.h"
#include "common/unique_fd.h"
#include "compare/virtual_time/problem.h"
#include "compare/virtual_time/task_reply.h"
#include "proto/job.pb.h"

namespace strata::compare {

// A process of Python's that serves the strata.Task of a script: `python -m strata._serve SCRIPT
// ARGS`. Requests are lines on a socket, weights and gradients lie in memory that both share. The
// process ends with this object, whatever it is at; what the script prints is kept only to say
// why a process has died.
//
// Errors of all calls: InvalidArgument (what the script or the task says keeps it; a line), Aborted
// (the process has died), Cancelled (`stop`). After one the process is of no use; the same comes
// again. They begin with the script's name.
//
// Threads: one, which lives as long.
class TaskProcess {
 public:
  struct Options {
    proto::Job job;                           // its program, seed and ranks
    const std::atomic<bool>* stop = nullptr;  // null: cannot be stopped
    absl::Duration describe_within = absl::Minutes(5);
  };

  // Additional errors: InvalidArgument if the program is not a Python script.
  static absl::StatusOr<std::unique_ptr<TaskProcess>> Start(const Options& options);
  ~TaskProcess();
  TaskProcess(const TaskProcess&) = delete;
  TaskProcess& operator=(const TaskProcess&) = delete;

  const proto::TaskDescription& task() const { return task_; }
  // In arena order: the task's last tensor first.
  const std::vector<float>& first_weights() const { return first_weights_; }

  // Both spans have the arena's number of elements. Additional errors: DivergedError (loss or
  // gradient is not a number), after which it can be called again.
  absl::StatusOr<StepResult> Compute(uint32_t rank, uint64_t step, absl::Span<const float> weights,
                                     absl::Span<float> gradients);
  // Additional errors: DivergedError (a value is not a number).
  absl::StatusOr<std::map<std::string, double>> Evaluate(uint64_t step,
                                                         absl::Span<const float> weights);

  const absl::Status& health() const { return health_; }
  const std::string& name() const { return name_; }  // the script's name without folders

 private:
  explicit TaskProcess(const Options& options);

  absl::Status Begin();
  absl::Status Attach();
  // Sends a line and reads the reply. `where` prefixes error messages.
  absl::StatusOr<proto::TaskReply> Ask(const std::string& line, proto::TaskReply::WhatCase what,
                                       const std::string& where, absl::Time deadline);
  absl::Status Send(std::string line);
  absl::StatusOr<std::string> Receive(absl::Time deadline);
  // Returns how the process ended, with the last line that it printed.
  absl::Status Death();
  // Checks the sums of gradients for values that are not numbers. Names the tensor.
  absl::Status CheckGradients(uint32_t rank, uint64_t step) const;

  const Options options_;
  std::string name_;
  absl::Status health_;
  UniqueFd socket_, memory_fd_, printed_;
  std::string received_;
  proto::TaskDescription task_;
  uint64_t elements_ = 0;
  float* memory_ = nullptr;  // weights, then gradients
  std::vector<float> first_weights_;
  std::unique_ptr<Process> process_;
};

// Adds the task's optimizer to its job and checks the job again. Errors: InvalidArgument, one line.
absl::Status CompleteJob(const proto::TaskDescription& task, proto::Job* job);

// Returns the task's tensors in arena order. Errors: those of TensorSet::Add.
absl::StatusOr<client::TensorSet> TensorsOf(const proto::TaskDescription& task);

// The strata.Task of a script. One process computes for all ranks, one call after the other, in the
// order in which virtual time asks: a task whose functions remember something is the same each
// time, too. A step is one stage, as in a live rank, which publishes when all is computed.
class TaskProblem final : public Problem {
 public:
  // `options.job` has its defaults filled in. Errors: those of TaskProcess::Start and
  // TakeProgramOptimizer.
  static absl::StatusOr<std::unique_ptr<TaskProblem>> Create(const TaskProcess::Options& options);

  const proto::TaskDescription& task() const { return process_->task(); }

  bool says_rates() const override { return !task().optimizer().empty(); }
  float rate() const override { return says_rates() ? static_cast<float>(task().rate()) : 0; }

  void FirstWeights(float* arena) const override;
  std::unique_ptr<RankCompute> MakeRank(uint32_t rank, float* arena) override;
  absl::StatusOr<std::unique_ptr<Measuring>> Measure(float* arena, uint64_t step,
                                                     const RankCompute& rank_0,
                                                     ComputePool* pool) override;
  absl::Status health() const override { return process_->health(); }

  // Calls both functions with the first weights, so that errors that always occur do so before
  // anything else is made. A loss that is not a number is no such error.
  absl::Status Try();

 private:
  TaskProblem(const proto::Job& job, std::unique_ptr<TaskProcess> process)
      : Problem(job), process_(std::move(process)) {}
  absl::Status Build();

  const std::unique_ptr<TaskProcess> process_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_TASK_PROBLEM_H_
