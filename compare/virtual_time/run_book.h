#ifndef STRATA_COMPARE_VIRTUAL_TIME_RUN_BOOK_H_
#define STRATA_COMPARE_VIRTUAL_TIME_RUN_BOOK_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "compare/run_record.pb.h"
#include "compare/virtual_time/problem/problem.h"
#include "training/trainer/step_plan.h"

namespace strata::compare {

// Keeps what the ranks of a run have done, and writes it down. Windows are of so many steps of all
// ranks together, in the order in which they end, so that they mean the same where ranks are not in
// step.
class RunBook {
 public:
  RunBook(const worker::StepPlan& plan, uint32_t ranks);

  // A rank has made its next step. `now_s` never goes back.
  void OnStep(uint32_t rank, const StepResult& result, double now_s);

  uint64_t samples() const { return samples_; }
  uint64_t slowest_step() const { return slowest_; }  // steps that all ranks have made
  double loss() const { return last_loss_; }          // mean of the newest window

  // The time, samples, steps and windows of what was done; times count from `began_s`.
  void Write(double began_s, proto::RunRecord* record) const;

 private:
  void CloseWindow(double now_s);

  const uint64_t window_steps_;  // of all ranks together
  std::vector<uint64_t> steps_;  // by rank
  uint64_t slowest_ = 0;
  std::deque<uint32_t> ranks_past_;  // by step from slowest_ on: ranks that have made it
  uint64_t samples_ = 0, in_window_ = 0, steps_in_window_ = 0;
  double window_loss_ = 0, last_loss_ = 0, last_s_ = 0;
  std::vector<proto::Window> windows_;  // their times are not from `began_s`
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_RUN_BOOK_H_
