#ifndef STRATA_TESTS_SIM_CHECK_JOB_RULES_H_
#define STRATA_TESTS_SIM_CHECK_JOB_RULES_H_

#include <cstdint>

#include "proto/record.pb.h"
#include "tests/sim/scenario/scenario.h"

namespace strata::sim {

// What follows from a job's plan and record, for JobChecker.
class JobRules {
 protected:
  JobRules(const JobPlan& plan, const proto::JobRecord& record)
      : plan_(plan), record_(record), consistency_(record.job().consistency()) {}
  ~JobRules() = default;

  bool gated() const { return !consistency_.has_async(); }
  bool has_quorum() const { return consistency_.lazy().has_quorum(); }
  bool per_clock() const {
    return gated() &&
           (!consistency_.has_lazy() || consistency_.lazy().apply() == proto::Lazy::PER_CLOCK);
  }
  uint64_t bound() const { return consistency_.has_lazy() ? consistency_.lazy().staleness() : 0; }
  // The weights after each clock follow from its nodes.
  bool is_exact() const { return gated() && bound() == 0 && per_clock() && !has_quorum(); }
  // Whether a copy of a chunk may lack pushes of clocks that are not complete.
  bool MayLeaveOpenClocksOut() const { return per_clock() && bound() == 0 && !has_quorum(); }
  bool keeps_past() const { return plan_.replicas > 0 || plan_.is_elastic(); }

  const JobPlan plan_;
  const proto::JobRecord record_;
  const proto::Consistency consistency_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_JOB_RULES_H_
