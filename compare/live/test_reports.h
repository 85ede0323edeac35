#ifndef STRATA_COMPARE_LIVE_TEST_REPORTS_H_
#define STRATA_COMPARE_LIVE_TEST_REPORTS_H_

#include <cstdint>

#include "proto/processes.pb.h"

namespace strata::compare {

// For tests: a window of steps [first, end), of 10 samples each; the loss is 1 a sample.
inline proto::RankReport Report(uint32_t rank, uint64_t first, uint64_t end, double trained_s) {
  proto::RankReport report;
  report.set_rank(rank);
  report.set_first_step(first);
  report.set_end_step(end);
  report.set_samples((end - first) * 10);
  report.set_loss_sum(static_cast<double>(report.samples()));
  report.set_wall_s(2);
  report.set_wait_s(0.5);
  report.set_trained_s(trained_s);
  return report;
}

inline proto::RankReport Final(proto::RankReport report) {
  report.set_final(true);
  return report;
}

inline proto::RankReport Tested(proto::RankReport report, double accuracy) {
  report.set_test_accuracy(accuracy);
  report.set_test_loss(1 - accuracy);
  return report;
}

}  // namespace strata::compare

#endif  // STRATA_COMPARE_LIVE_TEST_REPORTS_H_
