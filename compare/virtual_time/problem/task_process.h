#ifndef STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_TASK_PROCESS_H_
#define STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_TASK_PROCESS_H_

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
#include "common/process/process.h"
#include "common/unique_fd.h"
#include "compare/virtual_time/problem/problem.h"
#include "compare/virtual_time/problem/task_reply.h"
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
    const std::atomic<bool>* stop = nullptr;  // null: nothing stops it
    absl::Duration describe_within = absl::Minutes(5);
  };

  // Errors also: InvalidArgument where the program is no script of Python's.
  static absl::StatusOr<std::unique_ptr<TaskProcess>> Start(const Options& options);
  ~TaskProcess();
  TaskProcess(const TaskProcess&) = delete;
  TaskProcess& operator=(const TaskProcess&) = delete;

  const proto::TaskDescription& task() const { return task_; }
  // In arena order: the last of the task's tensors first.
  const std::vector<float>& first_weights() const { return first_weights_; }

  // Both spans have as many elements as the arena. Errors also: OutOfRange (loss or gradient is no
  // number), after which it goes on.
  absl::StatusOr<StepResult> Compute(uint32_t rank, uint64_t step, absl::Span<const float> weights,
                                     absl::Span<float> gradients);
  // Errors also: OutOfRange (a value is no number).
  absl::StatusOr<std::map<std::string, double>> Evaluate(uint64_t step,
                                                         absl::Span<const float> weights);

  const absl::Status& health() const { return health_; }
  const std::string& name() const { return name_; }  // of the script, without folders

 private:
  explicit TaskProcess(const Options& options);

  absl::Status Begin();
  absl::Status Attach();
  // Sends a line and reads what it is answered by. `where` stands before what goes wrong.
  absl::StatusOr<proto::TaskReply> Ask(const std::string& line, proto::TaskReply::WhatCase what,
                                       const std::string& where, absl::Time deadline);
  absl::Status Send(std::string line);
  absl::StatusOr<std::string> Receive(absl::Time deadline);
  // How the process ended, with the last line that it has printed.
  absl::Status Death();
  // Sums of gradients that are no numbers. Names the tensor.
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

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_TASK_PROCESS_H_
