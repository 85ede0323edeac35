// Jobs whose program names the optimizer when it starts, by events.

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;
using Message = proto::CoordinatorMessage;

class CoreProgram : public testing::Test {
 protected:
  CoreProgram() {
    for (const char* name : {"w1", "w2"}) cluster_.JoinWorker(name, 2);
    cluster_.JoinServer("s1", 1);
  }

  // A job of two nodes, changed by protobuf text.
  uint32_t Submit(const std::string& fields) {
    proto::Job job = CoreHarness::SomeJob(4), more;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(fields, &more));
    job.MergeFrom(more);
    return cluster_.Submit(job);
  }

  void Ready(const std::string& worker, uint32_t job, const std::string& optimizer,
             bool says_rates) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_says_rates(says_rates);
    if (!optimizer.empty()) {
      EXPECT_TRUE(
          google::protobuf::TextFormat::ParseFromString(optimizer, ready.mutable_optimizer()));
    }
    cluster_.Ready(worker, ready);
  }

  // Why a job fails whose program names this.
  std::string Reason(const std::string& fields, const std::string& optimizer,
                     bool says_rates = false) {
    const uint32_t job = Submit(fields);
    Ready("w1", job, optimizer, says_rates);
    Ready("w2", job, optimizer, says_rates);
    EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
    return cluster_.Status(job).reason();
  }

  CoreHarness cluster_;
};

constexpr char kFromProgram[] = "optimizer { from_program {} } ";

TEST_F(CoreProgram, TheRecordHasTheOptimizerAndWhetherThereAreRates) {
  const uint32_t job = Submit(kFromProgram);
  EXPECT_TRUE(cluster_.Status(job).job().optimizer().has_from_program());
  Ready("w1", job, "adam { beta1: 0.5 }", true);
  Ready("w2", job, "adam { beta1: 0.5 }", true);
  const proto::JobRecord record =
      cluster_.Newest("s1", Message::kInstallJob).install_job().record();
  EXPECT_TRUE(record.says_rates());
  EXPECT_EQ(record.job().optimizer().adam().beta1(), 0.5f);
  EXPECT_EQ(record.job().optimizer().adam().beta2(), 0.999f);
  EXPECT_EQ(cluster_.Status(job).job().optimizer().adam().beta1(), 0.5f);
  cluster_.Installed("s1", job);
  EXPECT_TRUE(cluster_.Newest("w2", Message::kRunNode).run_node().record().says_rates());
}

TEST_F(CoreProgram, WhatDoesNotGoWithTheModeFailsTheJobByItsField) {
  EXPECT_THAT(Reason(std::string(kFromProgram) + "consistency { async {} }", "mean {}"),
              HasSubstr("optimizer.mean: needs sync"));
  EXPECT_THAT(
      Reason(std::string(kFromProgram) + "consistency { lazy { staleness: 3 } }", "mean {}"),
      HasSubstr("optimizer.mean: needs sync"));
  EXPECT_THAT(Reason(kFromProgram, "sgd {} clip_norm: 1"), HasSubstr("optimizer.clip_norm: "));
  EXPECT_THAT(Reason(kFromProgram, ""), HasSubstr("the program has named no optimizer"));
  EXPECT_THAT(Reason("", "sgd {}"),
              HasSubstr("the job has momentum_sgd, but the program names sgd"));
}

TEST_F(CoreProgram, NodesAgreeOnTheOptimizerAndOnWhoSaysRates) {
  const auto reason = [&](const std::string& optimizer, bool says_rates) {
    const uint32_t job = Submit(kFromProgram);
    Ready("w1", job, "sgd { weight_decay: 0.5 }", true);
    Ready("w2", job, optimizer, says_rates);
    return cluster_.Status(job).reason();
  };
  const std::string nodes = "node 0 (w1) and node 1 (w2) do not train the same: ";
  EXPECT_EQ(reason("sgd { weight_decay: 0.25 }", true),
            nodes + "optimizer sgd { weight_decay: 0.5 } and sgd { weight_decay: 0.25 }");
  EXPECT_EQ(reason("", true), nodes + "optimizer sgd { weight_decay: 0.5 } and none");
  EXPECT_EQ(reason("sgd { weight_decay: 0.5 }", false),
            nodes + "learning rates of the program and of schedule");
}

TEST_F(CoreProgram, NodesAgreeOnWhetherTheyCanGoOnFromACheckpoint) {
  const uint32_t job = Submit("optimizer { sgd {} }");
  for (const char* worker : {"w1", "w2"}) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_can_resume(worker == std::string("w2"));
    cluster_.Ready(worker, ready);
  }
  EXPECT_EQ(cluster_.Status(job).reason(),
            "node 0 (w1) and node 1 (w2) do not train the same: a program that cannot go on from a "
            "checkpoint and one that can");
}

TEST_F(CoreProgram, SaidRatesNeedNoEpochsButRmspropDoes) {
  const auto reason = [&](const std::string& optimizer, bool says_rates) {
    const uint32_t job = Submit(std::string(kFromProgram) + "schedule { cosine {} } epochs: 9");
    for (const char* worker : {"w1", "w2"}) {
      proto::NodeReady ready = CoreHarness::SomeLayout(job);
      ready.clear_samples_per_epoch();
      ready.set_says_rates(says_rates);
      EXPECT_TRUE(
          google::protobuf::TextFormat::ParseFromString(optimizer, ready.mutable_optimizer()));
      cluster_.Ready(worker, ready);
    }
    const proto::JobStatus status = cluster_.Status(job);
    return status.state() == proto::FAILED ? status.reason() : "";
  };
  EXPECT_THAT(reason("sgd {}", false), HasSubstr("schedule: warm-up, step and cosine need"));
  EXPECT_THAT(reason("rmsprop_warmup { center_epochs: 1 width_epochs: 1 }", true),
              HasSubstr("optimizer.rmsprop_warmup needs"));
  EXPECT_EQ(reason("sgd {}", true), "");
}

}  // namespace
}  // namespace strata::server
