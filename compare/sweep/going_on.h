#ifndef STRATA_COMPARE_SWEEP_GOING_ON_H_
#define STRATA_COMPARE_SWEEP_GOING_ON_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compare/run_record.pb.h"
#include "compare/runner.h"
#include "compare/sweep/sweep_plan.h"
#include "proto/job.pb.h"

namespace strata::compare {

// Where runs keep their ends, for those of the next rung to go on from. A job with `checkpoint`
// keeps it where that says.
struct EndsIn {
  bool is_live = false;  // else in virtual time, which has no checkpoints
  std::string dir;       // of the sweep, the same folder on all hosts; empty: there is none
};

// The last step of so many at which the job can write a checkpoint: its end, or with local steps
// the end of a round, with `significance` before the job's end. 0: there is none. The job's
// defaults are filled in.
uint64_t LastKeptStep(const proto::Job& job, uint64_t steps);

using RecordPointer = std::shared_ptr<const proto::RunRecord>;

// RunsOfRung of that rung, with what they are to go on from and what they are to keep. `earlier`:
// the records of the same points and seeds in the rung before, in the same order; of the first rung
// there are none.
std::vector<RunPlan> ChainedRuns(const SweepPlan& plan, size_t rung,
                                 const std::vector<size_t>& points, const EndsIn& ends,
                                 const std::vector<RecordPointer>& earlier);

// Which points start again in each rung, and why: "2 of 4 points start again in each rung: ...", a
// sentence for each reason. None where there is one rung, or in virtual time.
std::vector<std::string> StartsAgainWords(const SweepPlan& plan, const EndsIn& ends);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_GOING_ON_H_
