// Whom the errors about checkpoints tell of others' jobs.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class NamedJobsTest : public ::testing::Test {
 protected:
  uint32_t Submit(const std::string& tenant, const std::string& dir, const std::string& from = "") {
    proto::Job job = CoreHarness::SomeJob(1);
    job.mutable_checkpoint()->set_dir(dir);
    job.mutable_checkpoint()->set_every_steps(10);
    proto::ResumeFrom resume;
    resume.set_dir(from);
    const Submitter by{.owner = {tenant.empty() ? "" : "alice", tenant}, .sees_all = false};
    const auto id = cluster_.core().Submit(job, resume, ++token_, cluster_.now(), by);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(JobId()).value();
  }

  CoreHarness cluster_;
  uint64_t token_ = 0;
};

TEST_F(NamedJobsTest, ANamespaceIsToldOfItsOwnJobsAndTheDefaultOneOfNoOthers) {
  const uint32_t visions = Submit("vision", "/a"), speechs = Submit("speech", "/b");
  const uint32_t defaults = Submit("", "/c"), newest = Submit("vision", "/d"), unknown = 99;
  cluster_.TakeQueries();
  // Each asks once more with all of them there.
  for (const uint32_t job : {visions, speechs, defaults, newest}) {
    cluster_.Found(job, absl::UnavailableError("503"));
  }
  cluster_.Advance(absl::Seconds(6));
  const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
  ASSERT_THAT(queries, SizeIs(4));
  const NamedJobs& in_vision = queries[0].named;
  EXPECT_TRUE(in_vision.Has(visions, true));
  EXPECT_TRUE(in_vision.Has(newest, true));
  EXPECT_FALSE(in_vision.Has(visions, /*of_this_cluster=*/false));
  for (const uint32_t job : {speechs, defaults, unknown}) EXPECT_FALSE(in_vision.Has(job, true));
  const NamedJobs& in_default = queries[2].named;
  for (const uint32_t job : {visions, speechs, newest}) EXPECT_FALSE(in_default.Has(job, true));
  for (const uint32_t job : {defaults, unknown}) EXPECT_TRUE(in_default.Has(job, true));
  EXPECT_TRUE(in_default.Has(visions, /*of_this_cluster=*/false));
}

TEST_F(NamedJobsTest, AJobThatCannotGoOnSaysWhoseCheckpointItIsToItsNamespaceAlone) {
  const uint32_t secret = Submit("speech", "/b");
  const std::string tenants[] = {"vision", "speech"};
  for (const std::string& tenant : tenants) {
    const uint32_t job = Submit(tenant, "/of-" + tenant, "/b");
    const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
    ASSERT_FALSE(queries.empty());
    CheckpointFound found;
    found.manifest.job = secret;
    found.manifest.job_name = "secret-project";
    found.record.set_cluster(queries.back().cluster);
    found.record.mutable_job()->mutable_model()->set_zoo("another");
    cluster_.Found(job, found);
    EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
    const std::string whose = tenant == "vision" ? "another job" : "job 1, secret-project";
    EXPECT_THAT(cluster_.Status(job).reason(), HasSubstr("cannot go on from /b (" + whose + "): "));
  }
}

}  // namespace
}  // namespace strata::server
