#ifndef STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_TASK_PROBLEM_H_
#define STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_TASK_PROBLEM_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/virtual_time/problem/problem.h"
#include "compare/virtual_time/problem/task_process.h"

namespace strata::compare {

// Puts the task's optimizer into its job and checks the job again. Errors: InvalidArgument, one
// line.
absl::Status CompleteJob(const proto::TaskDescription& task, proto::Job* job);

// The task's tensors in arena order. Errors: of TensorSet::Add.
absl::StatusOr<client::TensorSet> TensorsOf(const proto::TaskDescription& task);

// The strata.Task of a script. One process computes for all ranks, one call after the other, in the
// order in which virtual time asks: a task whose functions remember something is the same each
// time, too. A step is one stage, as in a live rank, which publishes when all is computed.
class TaskProblem final : public Problem {
 public:
  // The job has its defaults filled in. Errors: those of TaskProcess::Start, and of
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

  // Calls both functions with the first weights, so that what always goes wrong does so before
  // anything else is made. A loss that is no number is none of that.
  absl::Status Try();

 private:
  TaskProblem(const proto::Job& job, std::unique_ptr<TaskProcess> process)
      : Problem(job), process_(std::move(process)) {}
  absl::Status Build();

  const std::unique_ptr<TaskProcess> process_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_TASK_PROBLEM_H_
