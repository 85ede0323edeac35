#ifndef STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_FIXTURE_H_
#define STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_FIXTURE_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "compare/virtual_time/cluster_file.h"
#include "compare/virtual_time/virtual_run.h"
#include "gtest/gtest.h"

namespace strata::compare {

// Gives tests jobs and clusters of text, and runs.

inline ClusterFile ParseTestCluster(const std::string& text) {
  absl::StatusOr<proto::Cluster> cluster = ParseCluster(text, "cluster");
  EXPECT_EQ(cluster.status(), absl::OkStatus());
  FillClusterDefaults(&*cluster);
  EXPECT_EQ(CheckCluster(*cluster), absl::OkStatus());
  return {.cluster = *std::move(cluster), .traces = {}};
}

// A small perceptron on synthetic data in chunks of 1,024 elements, in the mode of that name;
// `more`: additional settings.
inline RunPlan MakePlan(const std::string& mode, uint32_t ranks, uint64_t steps,
                        const std::vector<std::string>& more = {}) {
  absl::StatusOr<proto::Job> job = ParseJob(
      absl::StrCat("name: \"v\" model { zoo: \"mlp\" } chunk_elements: 1024 "
                   "data { synthetic { train_samples: 2048 test_samples: 128 } batch_per_rank: 4 } "
                   "metrics { every_steps: 2 } evaluation { every_steps: 3 } ranks: ",
                   ranks, " max_steps: ", steps),
      "job");
  EXPECT_EQ(job.status(), absl::OkStatus());
  const absl::StatusOr<std::vector<std::string>> settings = SettingsOfMode(mode);
  EXPECT_EQ(settings.status(), absl::OkStatus());
  EXPECT_EQ(ApplySettings(*settings, &*job), absl::OkStatus());
  EXPECT_EQ(ApplySettings(more, &*job), absl::OkStatus());
  FillDefaults(&*job);
  EXPECT_EQ(ValidateJob(*job), absl::OkStatus());
  return {.mode = mode, .job = *std::move(job)};
}

inline VirtualOutcome RunVirtually(const RunPlan& plan, const ClusterFile& cluster,
                                   const VirtualRunOptions& options = {}) {
  auto data = LoadTrainingData(plan.job);
  EXPECT_EQ(data.status(), absl::OkStatus());
  absl::StatusOr<VirtualOutcome> outcome = RunInVirtualTime(plan, cluster, *data, options);
  EXPECT_EQ(outcome.status(), absl::OkStatus()) << plan.mode;
  return outcome.ok() ? *std::move(outcome) : VirtualOutcome();
}

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_FIXTURE_H_
