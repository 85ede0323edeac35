#ifndef STRATA_TESTS_E2E_TESTING_CHECKPOINTED_H_
#define STRATA_TESTS_E2E_TESTING_CHECKPOINTED_H_

#include <cstdint>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {

// LenetJob with Adam that writes a checkpoint every 20 steps to TestDir()/FOLDER. All these jobs
// have the same name, because models contain it.
proto::Job CheckpointedJob(const std::string& folder, int ranks_per_node, int steps,
                           const std::string& consistency = "sync {}");
// Makes every step of the job take at least this long.
void SlowDown(proto::Job* job, uint32_t step_ms);
void GoOnByItself(proto::Job* job);

proto::ResumeFrom FromFolder(const std::string& dir);
proto::ResumeFrom FromJob(uint32_t job);

// Returns the content of a file, which must exist.
std::string Content(const std::string& path);
// RUN_DIR/model.safetensors.
std::string Model(const proto::JobStatus& status);

// Expects each window of the metrics once, in order, with the right end, up to `steps`, and with
// the samples of 4 ranks. `in_step`: no rank is ahead of another.
void ExpectWindows(const proto::JobStatus& status, uint64_t steps, bool in_step = true);

// Jobs that continue from checkpoints, on a cluster.
class Checkpointed : public testing::Test {
 protected:
  void Start(const Cluster::Options& options);
  JobId Submit(const proto::Job& job, const proto::ResumeFrom& from = {});
  // Submits the job and expects it to finish.
  proto::JobStatus Run(const proto::Job& job, const proto::ResumeFrom& from = {});
  // Returns the error of submitting it.
  std::string Refusal(const proto::Job& job, const proto::ResumeFrom& from = {});
  // Returns the reason for its failure: one line.
  std::string Failure(const proto::Job& job, const proto::ResumeFrom& from = {});
  // Waits until the job runs and has a complete checkpoint of `clock` or later.
  proto::JobStatus AwaitCheckpoint(JobId job, uint64_t clock);
  // Cancels the job once it has a complete checkpoint of `clock` or later; returns when all its
  // processes have ended.
  void CancelAfter(JobId job, uint64_t clock);

  std::unique_ptr<Cluster> cluster_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_CHECKPOINTED_H_
