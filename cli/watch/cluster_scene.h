#ifndef STRATA_CLI_WATCH_CLUSTER_SCENE_H_
#define STRATA_CLI_WATCH_CLUSTER_SCENE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::cli {

// Of each job, as a scene keeps it.
inline constexpr size_t kCoursePointsMax = 1000;
inline constexpr size_t kRankWindowsMax = 60;
inline constexpr size_t kWatchedRanksMax = 256;

// One window of a job, as charts show it.
struct CoursePoint {
  uint64_t step = 0;
  double elapsed_s = 0;  // since training began
  double loss = 0;
  double samples_per_s = 0;
  double waiting_share = 0;   // of the ranks' time, 0 to 1
  double hidden_share = -1;   // -1: not known
  double test_accuracy = -1;  // -1: not measured here
  double lr = 0;
  uint64_t bytes_pushed = 0;  // in the window
  uint64_t bytes_answered = 0;
  std::vector<uint64_t> staleness;  // pushes of the window by staleness
};

// A rank in one window.
struct RankWindow {
  uint64_t end_step = 0;
  double waiting_share = 0;
  double samples_per_s = 0;
};

struct JobScene {
  proto::JobStatus status;
  std::vector<CoursePoint> course;  // oldest first; at most kCoursePointsMax, thinned evenly
  // The newest kRankWindowsMax windows of each of at most kWatchedRanksMax ranks.
  std::map<uint32_t, std::vector<RankWindow>> ranks;
  uint64_t watched_from_step = 0;  // the course begins there; 0: all of it is there
  absl::Time first_seen_ended = absl::InfiniteFuture();  // InfiniteFuture: it has not ended
};

// What is known of a cluster at one time.
struct ClusterScene {
  absl::Time taken = absl::InfinitePast();  // when the coordinator last answered; or never
  std::string coordinator;                  // the addresses that are asked
  std::string problem;  // why nothing newer is there, in one line; empty: nothing is wrong
  proto::ListNodesReply nodes;
  // The newest first; running, queued, and ended ones (the newest 100).
  std::vector<std::shared_ptr<const JobScene>> jobs;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_WATCH_CLUSTER_SCENE_H_
