// Secrets of jobs: who gets them, for how long, and what cannot be protected.

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;
using Message = proto::CoordinatorMessage;

// A cluster with keys, with predictable secrets.
class CoreProtectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.JoinServer("s1", 1);
    cluster_.JoinWorker("w1", 2);
  }
  CoordinatorCore::Options Options() {
    CoordinatorCore::Options options;
    options.jobs.protection = [this] { return rules_; };
    options.jobs.new_secret = [this] { return std::string(32, static_cast<char>(++secrets_)); };
    return options;
  }
  const proto::JobRecord& Stored(uint32_t job) { return cluster_.stored().at(job).record(); }

  ProtectionRules rules_ = {.has_keys = true, .keeps_secrets = true};
  int secrets_ = 0;
  CoreHarness cluster_{Options()};
};

TEST_F(CoreProtectionTest, ItsDaemonsGetTheSecretAndItIsErasedAtTheEnd) {
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  EXPECT_EQ(Stored(job).job().protection(), proto::Job::ENCRYPT);
  EXPECT_EQ(Stored(job).secret(), std::string(32, '\1'));
  EXPECT_EQ(cluster_.Status(job).job().protection(), proto::Job::ENCRYPT);
  const auto install = cluster_.Newest("s1", Message::kInstallJob).install_job().record();
  const auto start = cluster_.Newest("w1", Message::kStartNode).start_node().record();
  EXPECT_EQ(install.secret(), Stored(job).secret());
  EXPECT_EQ(start.secret(), Stored(job).secret());
  cluster_.Failed("w1", job, "boom");
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(Stored(job).secret(), "");
}

TEST_F(CoreProtectionTest, APlainOneHasNone) {
  rules_.allows_plain = true;
  proto::Job job = CoreHarness::SomeJob(2);
  job.set_protection(proto::Job::PLAIN);
  EXPECT_EQ(Stored(cluster_.Submit(job)).secret(), "");
  EXPECT_EQ(secrets_, 0);
}

// A daemon whose keys were revoked knows only the old secret.
TEST_F(CoreProtectionTest, EachAttemptHasASecretOfItsOwn) {
  proto::Job wish = CoreHarness::SomeJob(2);
  wish.mutable_checkpoint()->set_dir("/c");
  wish.mutable_checkpoint()->set_every_steps(10);
  wish.mutable_restart()->set_attempts(3);
  const uint32_t job = cluster_.Submit(wish);
  cluster_.Found(job, CheckpointFound());
  proto::NodeReady ready = CoreHarness::SomeLayout(job);
  ready.set_can_resume(true);
  cluster_.Ready("w1", ready);
  cluster_.Installed("s1", job);
  const std::string first = Stored(job).secret();
  const uint64_t token = Stored(job).token();
  cluster_.Failed("w1", job, "boom");
  ASSERT_EQ(cluster_.Status(job).state(), proto::QUEUED) << cluster_.Status(job).reason();
  EXPECT_EQ(Stored(job).attempt(), 1);
  EXPECT_EQ(Stored(job).secret().size(), 32);
  EXPECT_NE(Stored(job).secret(), first);
  EXPECT_NE(Stored(job).token(), token);
}

TEST_F(CoreProtectionTest, AJobThatWaitsSinceAnOlderVersionIsProtected) {
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(7));  // more ranks than there are slots
  proto::JobRecord* record = cluster_.stored_to_change(job)->mutable_record();
  record->clear_secret();
  record->mutable_job()->set_protection(proto::Job::BY_CLUSTER);
  cluster_.Restart();
  EXPECT_EQ(cluster_.Status(job).job().protection(), proto::Job::ENCRYPT);
}

TEST_F(CoreProtectionTest, RanksThatAddUpByNcclStayOnOneHostAlsoWhereNodesMayBeLost) {
  const auto submit = [&](const std::vector<std::string>& workers) {
    proto::Job wish = CoreHarness::SomeJob(2);
    wish.set_ranks_per_node(1);
    wish.set_device(proto::Job::GPU);
    wish.set_exchange(proto::Job::NCCL);
    wish.set_on_loss(proto::Job::DROP);
    const uint32_t job = cluster_.Submit(wish);
    for (const std::string& worker : workers) {
      proto::NodeReady ready = CoreHarness::SomeLayout(job);
      ready.set_nccl_id(std::string(128, 'i'));
      cluster_.Ready(worker, ready);
    }
    return job;
  };
  for (const char* worker : {"w2", "w3", "w4"}) {
    cluster_.SetHost(worker, worker == std::string("w4") ? "b" : "a");
    cluster_.SetGpus(worker, 1);
    if (worker != std::string("w4")) cluster_.JoinWorker(worker, 1);
  }
  const uint32_t on_one = submit({"w2", "w3"});
  EXPECT_TRUE(cluster_.stored().at(on_one).training()) << cluster_.Status(on_one).reason();
  cluster_.Disconnect("w2");
  cluster_.Disconnect("w3");
  cluster_.Advance(absl::Seconds(10));
  cluster_.JoinWorker("w3", 1);
  cluster_.JoinWorker("w4", 1);
  EXPECT_THAT(cluster_.Status(submit({"w3", "w4"})).reason(),
              HasSubstr("neither encrypts nor signs"));
}

TEST_F(CoreProtectionTest, WithoutKeysNothingIsProtected) {
  rules_ = {};
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(2));
  EXPECT_EQ(Stored(job).job().protection(), proto::Job::PLAIN);
  EXPECT_EQ(Stored(job).secret(), "");
  proto::Job wish = CoreHarness::SomeJob(2);
  wish.set_protection(proto::Job::ENCRYPT);
  const auto refused = cluster_.core().Submit(wish, {}, 1, cluster_.now());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("needs a cluster with keys"));
}

}  // namespace
}  // namespace strata::server
