#include "worker/agent/log_feed.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

constexpr uint32_t kJob = 3;
constexpr uint32_t kMuchCredit = 100 << 20;

// The folder of one job, whose log of rank 3 is rank3.log.
class OneFolder final : public LogFolders {
 public:
  explicit OneFolder(std::string run_dir) : run_dir_(std::move(run_dir)) {}
  bool IsRunning(uint32_t) const override { return running; }
  absl::StatusOr<std::string> Find(uint32_t job, const std::string&) const override {
    if (job != kJob || is_anothers) {
      return absl::FailedPreconditionError("another job has had it since");
    }
    return run_dir_;
  }
  std::string FileOf(const proto::LogProcess& process) const override {
    return absl::StrCat("rank", process.rank(), ".log");
  }

  bool running = true;
  bool is_anothers = false;

 private:
  const std::string run_dir_;
};

class LogFeedTest : public ::testing::Test {
 protected:
  LogFeedTest() {
    std::filesystem::remove_all(run_dir_);
    std::filesystem::create_directories(run_dir_ + "/logs");
  }

  std::string PathOf(uint32_t rank) const {
    return absl::StrCat(run_dir_, "/logs/rank", rank, ".log");
  }
  void Write(uint32_t rank, const std::string& text) {
    std::ofstream(PathOf(rank), std::ios::app) << text;
  }

  static proto::LogWanted Begin(uint64_t reading, std::vector<uint32_t> ranks, bool follow,
                                uint32_t credit = kMuchCredit) {
    proto::LogWanted wanted;
    wanted.set_reading(reading);
    wanted.mutable_begin()->set_job_id(kJob);
    wanted.mutable_begin()->set_credit_bytes(credit);
    wanted.mutable_begin()->mutable_lines()->set_follow(follow);
    for (uint32_t rank : ranks) wanted.mutable_begin()->add_processes()->set_rank(rank);
    return wanted;
  }

  // Returns everything that may be sent now.
  std::vector<proto::LogPart> All() {
    std::vector<proto::LogPart> parts;
    while (true) {
      LogFeed::Step step = feed_.Next();
      if (step.part.has_value()) parts.push_back(*std::move(step.part));
      if (!step.goes_on) return parts;
    }
  }

  const std::string run_dir_ = ::testing::TempDir() + "/feed";
  OneFolder folders_{run_dir_};
  LogFeed feed_{&folders_};
};

TEST_F(LogFeedTest, ShowsOneLogAfterTheOtherAndEnds) {
  Write(0, "a\nb\n");
  Write(1, "c\nno end");
  EXPECT_FALSE(feed_.Next().goes_on);
  feed_.OnWanted(Begin(7, {0, 1}, /*follow=*/false));
  const auto parts = All();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].reading(), 7u);
  EXPECT_EQ(parts[0].process().rank(), 0u);
  EXPECT_EQ(parts[0].lines(), "a\nb\n");
  EXPECT_TRUE(parts[0].ended());
  EXPECT_EQ(parts[1].lines(), "c\nno end\n");
  EXPECT_TRUE(parts[1].ended());
  EXPECT_FALSE(feed_.Watches());
}

TEST_F(LogFeedTest, ALogThatIsNotThereIsAnErrorAndTheOthersAreShown) {
  Write(1, "c\n");
  feed_.OnWanted(Begin(7, {0, 1}, /*follow=*/false));
  const auto parts = All();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_TRUE(parts[0].ended());
  EXPECT_EQ(parts[0].error(), "cannot read " + PathOf(0) + ": No such file or directory");
  EXPECT_EQ(parts[1].lines(), "c\n");
}

TEST_F(LogFeedTest, AFolderThatIsNotTheJobsIsAnError) {
  Write(0, "a\n");
  proto::LogWanted wanted = Begin(7, {0}, /*follow=*/true);
  wanted.mutable_begin()->set_job_id(kJob + 1);
  feed_.OnWanted(wanted);
  const auto parts = All();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].error(), "another job has had it since");
  EXPECT_EQ(parts[0].lines(), "");
}

TEST_F(LogFeedTest, APatternThatIsNoneIsAnErrorOfEach) {
  Write(0, "a\n");
  proto::LogWanted wanted = Begin(7, {0}, /*follow=*/false);
  wanted.mutable_begin()->mutable_lines()->set_grep("(");
  feed_.OnWanted(wanted);
  const auto parts = All();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_NE(parts[0].error().find("grep: ("), std::string::npos) << parts[0].error();
}

TEST_F(LogFeedTest, FollowsLogsSideBySideUntilTheJobAndItsProcessesHaveEnded) {
  Write(0, "a\n");
  feed_.OnWanted(Begin(7, {0, 1}, /*follow=*/true));
  auto parts = All();
  // Rank 1 has none yet.
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].lines(), "a\n");
  EXPECT_FALSE(parts[0].ended());
  EXPECT_TRUE(feed_.Watches());
  Write(1, "first\n");
  Write(0, "b\nhalf");
  parts = All();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_NE(parts[0].process().rank(), parts[1].process().rank());
  EXPECT_TRUE(All().empty());
  proto::LogWanted ended;
  ended.set_reading(7);
  ended.mutable_job_ended();
  feed_.OnWanted(ended);
  // The processes still run, and may write more.
  EXPECT_TRUE(All().empty());
  Write(1, "last\n");
  folders_.running = false;
  parts = All();
  ASSERT_EQ(parts.size(), 2u);
  for (const proto::LogPart& part : parts) {
    EXPECT_TRUE(part.ended());
    EXPECT_EQ(part.lines(), part.process().rank() == 0 ? "half\n" : "last\n");
  }
  EXPECT_FALSE(feed_.Watches());
}

TEST_F(LogFeedTest, SendsNoMoreThanTheCreditAndGoesOnWithMore) {
  const std::string line(1000, 'x');
  std::string text;
  for (int i = 0; i < 1000; ++i) text += line + "\n";
  Write(0, text);
  constexpr uint32_t kCredit = 32 << 10;
  feed_.OnWanted(Begin(7, {0}, /*follow=*/false, kCredit));
  std::string shown;
  size_t rounds = 0;
  bool ended = false;
  while (!ended) {
    size_t cost = 0;
    for (const proto::LogPart& part : All()) {
      cost += part.lines().size() + LogFeed::kPartCost;
      shown += part.lines();
      ended = part.ended();
    }
    ASSERT_LE(cost, kCredit);
    ASSERT_GT(cost, 0u);
    ASSERT_TRUE(ended || !feed_.Next().goes_on);
    ++rounds;
    proto::LogWanted more;
    more.set_reading(7);
    more.set_more_credit_bytes(static_cast<uint32_t>(cost));
    feed_.OnWanted(more);
  }
  EXPECT_EQ(shown, text);
  EXPECT_GT(rounds, 20u);
}

TEST_F(LogFeedTest, WhatAnotherJobWritesThereSinceIsNotShown) {
  Write(0, "mine\n");
  feed_.OnWanted(Begin(7, {0}, /*follow=*/true));
  EXPECT_EQ(All().at(0).lines(), "mine\n");
  std::filesystem::remove(PathOf(0));
  folders_.is_anothers = true;
  Write(0, "theirs\n");
  const auto parts = All();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].lines(), "");
  EXPECT_EQ(parts[0].error(), "another job has had it since");
}

TEST_F(LogFeedTest, OfALogThatComesLaterNothingIsLeftOut) {
  proto::LogWanted wanted = Begin(7, {0}, /*follow=*/true);
  wanted.mutable_begin()->mutable_lines()->set_tail_lines(0);
  feed_.OnWanted(wanted);
  EXPECT_TRUE(All().empty());
  Write(0, "a\nb\n");
  EXPECT_EQ(All().at(0).lines(), "a\nb\n");
}

TEST_F(LogFeedTest, OneReadingThatTakesNothingHoldsNobodyUp) {
  Write(0, "a\n");
  feed_.OnWanted(Begin(1, {0}, /*follow=*/false, /*credit=*/0));
  feed_.OnWanted(Begin(2, {0}, /*follow=*/false));
  const auto parts = All();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].reading(), 2u);
}

TEST_F(LogFeedTest, WhatNobodyLooksAtAnyMoreIsNotRead) {
  Write(0, "a\n");
  feed_.OnWanted(Begin(7, {0}, /*follow=*/true));
  EXPECT_EQ(All().size(), 1u);
  proto::LogWanted end;
  end.set_reading(7);
  end.mutable_end();
  feed_.OnWanted(end);
  Write(0, "b\n");
  EXPECT_TRUE(All().empty());
  EXPECT_FALSE(feed_.Watches());
}

TEST_F(LogFeedTest, LogsThatAreOpenAtOnceAreBounded) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank <= kOpenLogsMax; ++rank) {
    Write(rank, "a\n");
    ranks.push_back(rank);
  }
  feed_.OnWanted(Begin(1, ranks, /*follow=*/true));
  size_t errors = 0;
  for (const proto::LogPart& part : All()) errors += part.error().empty() ? 0 : 1;
  EXPECT_EQ(errors, 1u);
  // Any number is fine one after the other.
  proto::LogWanted end;
  end.set_reading(1);
  end.mutable_end();
  feed_.OnWanted(end);
  feed_.OnWanted(Begin(2, ranks, /*follow=*/false));
  const auto parts = All();
  EXPECT_EQ(parts.size(), ranks.size());
  for (const proto::LogPart& part : parts) EXPECT_EQ(part.error(), "");
}

}  // namespace
}  // namespace strata::worker
