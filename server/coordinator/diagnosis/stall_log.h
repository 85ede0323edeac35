#ifndef STRATA_SERVER_COORDINATOR_DIAGNOSIS_STALL_LOG_H_
#define STRATA_SERVER_COORDINATOR_DIAGNOSIS_STALL_LOG_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::server {

// What the log says of one job's waits: each long one once, again while it lasts, and that the job
// goes on. Pure: time comes in with the calls.
class StallLog {
 public:
  struct Options {
    absl::Duration log_after = absl::Seconds(10);
    // Also for one that ends and begins again: steps that take longer than `log_after` are normal
    // for some jobs.
    absl::Duration again_every = absl::Seconds(60);
    size_t lines_max = 4;  // at a time; the longest waits
  };

  explicit StallLog(Options options) : options_(options) {}
  StallLog() : StallLog(Options()) {}

  // Returns the lines to log now. `waits` are all that are known now, the longest first.
  std::vector<std::string> OnWaits(const proto::JobStatus& job,
                                   const std::vector<proto::Wait>& waits, absl::Time now);

 private:
  Options options_;
  std::map<std::string, absl::Time> logged_at_;  // by who waits
  bool stalled_ = false;                         // the log says so
  double seconds_ = 0;                           // of the longest wait while stalled
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_DIAGNOSIS_STALL_LOG_H_
