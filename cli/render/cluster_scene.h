#ifndef STRATA_CLI_RENDER_CLUSTER_SCENE_H_
#define STRATA_CLI_RENDER_CLUSTER_SCENE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::cli {

// Limits for one job: points of its course, windows per rank, and ranks that have any.
inline constexpr size_t kCoursePointsMax = 1000;
inline constexpr size_t kRankWindowsMax = 60;
inline constexpr size_t kRanksShownMax = 256;
// Limit for a cluster: jobs that have ended, the newest ones.
inline constexpr size_t kEndedJobsMax = 100;

// One window of a job's steps, in the form of charts. NaN: unknown.
struct CoursePoint {
  uint64_t step = 0;     // its end
  double elapsed_s = 0;  // since training began
  double loss = 0;       // mean over its samples
  double samples_per_s = 0;
  double waiting_share = 0;   // of the ranks' time, 0 to 1
  double hidden_share = -1;   // as in MetricsRecord; -1: unknown
  double test_accuracy = -1;  // -1: not measured here
  double lr = 0;
  uint64_t bytes_pushed = 0;  // in the window, all nodes
  uint64_t bytes_answered = 0;
  std::vector<uint64_t> staleness;  // pushes of the window, by staleness
};

// A rank in one window.
struct RankWindow {
  uint64_t end_step = 0;
  double waiting_share = 0;  // of its time, 0 to 1
  double samples_per_s = 0;
};

struct JobScene {
  proto::JobStatus status;
  std::vector<CoursePoint> course;                    // the oldest first
  std::map<uint32_t, std::vector<RankWindow>> ranks;  // by global rank, the oldest first
  uint64_t watched_from_step = 0;                     // the course begins there
  absl::Time first_seen_ended = absl::InfiniteFuture();
};

// A snapshot of a cluster. Immutable once others can see it.
struct ClusterScene {
  absl::Time taken = absl::InfinitePast();  // when the coordinator last answered
  std::string coordinator;                  // the queried address or addresses
  std::string problem;                      // why there is nothing newer, in one line; empty: there
                                            // is no problem
  proto::ListNodesReply nodes;
  std::vector<std::shared_ptr<const JobScene>> jobs;  // the newest first

  // Returns null if there is no such job.
  const JobScene* Find(uint32_t job) const {
    for (const auto& one : jobs) {
      if (one->status.job_id() == job) return one.get();
    }
    return nullptr;
  }
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_CLUSTER_SCENE_H_
