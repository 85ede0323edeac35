#ifndef STRATA_WORKER_CLIENT_REPORT_H_
#define STRATA_WORKER_CLIENT_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace strata::client {

inline constexpr size_t kReportValuesMax = 32;
inline constexpr size_t kValueNameMax = 64;

// What a window of steps, [first_step, end_step), looked like on one rank. What the node counts is
// added to it on its way; see RankReport in proto/control.proto.
struct Report {
  uint64_t first_step = 0, end_step = 0;
  uint64_t samples = 0;
  double loss_sum = 0;  // over the window's steps
  double wall_s = 0;
  // When the window ended: seconds since the rank's first step, without those of evaluations. 0 of
  // a program: now, by the client's clock, which takes for an evaluation what the program did
  // between its last step and a report of what it measured.
  double trained_s = 0;
  bool has_test = false;
  double test_accuracy = 0, test_loss = 0;  // NaN: not measured
  bool final = false;                       // of the job's final model
  // What else the program measured: up to kReportValuesMax finite numbers, whose names have 1 to
  // kValueNameMax letters, digits and characters of "._-/". What was tested is above.
  std::map<std::string, double> values;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_REPORT_H_
