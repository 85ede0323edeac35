#ifndef STRATA_SERVER_COORDINATOR_JOBS_METRICS_METRICS_MERGE_FIXTURE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_METRICS_METRICS_MERGE_FIXTURE_H_

#include <cstdint>

#include "proto/processes.pb.h"
#include "server/coordinator/jobs/metrics/metrics_merge.h"

// What tests of MetricsMerge share.
namespace strata::server {

inline constexpr uint64_t kSamplesPerEpoch = 1000;
inline constexpr uint64_t kTotalSteps = 100;

// A window in which a rank made ten samples a step, of loss 2.
inline proto::RankReport Report(uint32_t rank, uint64_t first, uint64_t end) {
  proto::RankReport report;
  report.set_rank(rank);
  report.set_first_step(first);
  report.set_end_step(end);
  report.set_samples((end - first) * 10);
  report.set_loss_sum((end - first) * 10 * 2.0);
  report.set_wall_s(5);
  report.set_wait_s(1);
  report.set_lr(0.1);
  return report;
}

inline MetricsMerge TwoRanks() { return MetricsMerge(2, 5, kSamplesPerEpoch, kTotalSteps); }

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_METRICS_METRICS_MERGE_FIXTURE_H_
