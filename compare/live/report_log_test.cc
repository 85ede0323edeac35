#include "compare/live/report_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/job/job.h"
#include "compare/live/test_reports.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;

// Two nodes of one rank each, batches of 10.
RunPlan PlanOf(const std::string& consistency, const std::string& more = "") {
  auto job = ParseJob(R"(name: "tiny" model { zoo: "mlp" } data { synthetic {} batch_per_rank: 10 }
                         ranks: 2 seed: 5 consistency { )" +
                          consistency + " } " + more,
                      "tiny");
  EXPECT_TRUE(job.ok()) << job.status();
  FillDefaults(&*job);
  return {"the mode", *job};
}

proto::JobStatus EndOf(proto::JobState state, const std::string& reason = "") {
  proto::JobStatus end;
  end.set_state(state);
  end.set_reason(reason);
  for (uint32_t node = 0; node < 2; ++node) {
    end.add_nodes()->set_first_rank(node);
    end.mutable_nodes(node)->set_ranks(1);
  }
  return end;
}

// 20 steps; rank 1 takes twice as long for its own. Measured after 10 steps, and at the end.
proto::RunRecord MakeRecord(const std::string& consistency) {
  ReportLog log(PlanOf(consistency));
  log.Add(Report(0, 0, 10, 1));
  log.Add(Report(1, 0, 10, 2));
  log.Add(Tested(Report(0, 10, 10, 1.5), 0.5));
  log.Add(Final(Report(1, 10, 20, 4)));
  log.Add(Tested(Final(Report(0, 10, 20, 2)), 0.75));
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? *record : proto::RunRecord();
}

TEST(ReportLog, TheRecordSaysWhatRanAndSumsItUp) {
  ReportLog log(PlanOf("sync {}"));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    proto::RankReport report = Final(Report(rank, 0, 10, 3 + rank));
    report.mutable_node()->set_bytes_pushed(1000);
    report.mutable_node()->set_bytes_answered(10);
    report.mutable_node()->add_staleness(7);
    if (rank == 1) report.mutable_node()->add_staleness(2);
    log.Add(report);
  }
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->mode(), "the mode");
  EXPECT_EQ(record->seed(), 5u);
  EXPECT_EQ(record->job().seed(), 5u);
  EXPECT_EQ(record->failure(), "");
  EXPECT_EQ(record->trained_s(), 4);
  EXPECT_EQ(record->samples(), 200u);
  EXPECT_EQ(record->steps(), 10u);
  EXPECT_EQ(record->bytes_pushed(), 2000u);
  EXPECT_EQ(record->bytes_answered(), 20u);
  EXPECT_EQ(record->waiting_share(), 0.25);
  EXPECT_THAT(record->staleness(), ElementsAre(14, 2));
}

TEST(ReportLog, InStepAMeasurementIsOfAllRanksAtRank0sStep) {
  const proto::RunRecord record = MakeRecord("sync {}");
  ASSERT_EQ(record.measurements_size(), 2);
  EXPECT_EQ(record.measurements(0).step(), 10u);
  EXPECT_EQ(record.measurements(0).samples(), 200u);
  EXPECT_EQ(record.measurements(0).updates(), 10u);
  EXPECT_EQ(record.measurements(0).trained_s(), 1.5);
  EXPECT_EQ(record.measurements(0).accuracy(), 0.5);
  EXPECT_EQ(record.measurements(0).loss(), 0.5);
  EXPECT_EQ(record.measurements(1).samples(), 400u);
  EXPECT_EQ(record.measurements(1).updates(), 20u);
  EXPECT_EQ(record.measurements(1).accuracy(), 0.75);
}

TEST(ReportLog, ElseItIsOfWhatEachRankHadMadeByThen) {
  // Rank 1 is at step 7.5 after 1.5 s.
  const proto::RunRecord async = MakeRecord("async {}");
  EXPECT_EQ(async.measurements(0).samples(), 175u);
  EXPECT_EQ(async.measurements(0).updates(), 17u);  // 10 + 7
  EXPECT_EQ(async.measurements(1).samples(), 400u);
  EXPECT_EQ(async.measurements(1).updates(), 40u);
  const proto::RunRecord lazy = MakeRecord("lazy { staleness: 3 }");
  EXPECT_EQ(lazy.measurements(0).samples(), 175u);
  EXPECT_EQ(lazy.measurements(0).updates(), 7u);  // clocks that both have pushed
  EXPECT_EQ(lazy.measurements(1).updates(), 20u);
  EXPECT_EQ(MakeRecord("lazy { staleness: 3 apply: ON_ARRIVAL }").updates(), 40u);
}

TEST(ReportLog, UpdatesOfLocalStepsAreRounds) {
  const proto::RunRecord record = MakeRecord("lazy { local_steps: 8 }");
  EXPECT_EQ(record.measurements(0).samples(), 200u);
  EXPECT_EQ(record.measurements(0).updates(), 1u);
  EXPECT_EQ(record.updates(), 3u);  // 8, 8 and 4 steps
}

TEST(ReportLog, InStepWindowsAreTheSameStepsOfAllRanks) {
  ReportLog log(PlanOf("sync {}"));
  proto::RankReport worse = Report(1, 0, 10, 2.5);
  worse.set_loss_sum(300);
  log.Add(worse);
  log.Add(Final(Report(1, 10, 15, 3)));
  log.Add(Report(0, 0, 10, 2));
  log.Add(Final(Report(0, 10, 15, 2.75)));
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  ASSERT_EQ(record->windows_size(), 2);
  EXPECT_EQ(record->windows(0).samples(), 200u);
  EXPECT_EQ(record->windows(0).trained_s(), 2.5);
  EXPECT_EQ(record->windows(0).loss(), 2);
  EXPECT_EQ(record->windows(1).samples(), 300u);
  EXPECT_EQ(record->windows(1).loss(), 1);
}

TEST(ReportLog, ElseWindowsFollowTime) {
  // Rank 0 has made both its windows before rank 1 has made one.
  const proto::RunRecord record = [] {
    ReportLog log(PlanOf("async {}"));
    for (uint64_t i = 0; i < 2; ++i) {
      proto::RankReport fast = Report(0, 10 * i, 10 * i + 10, 1.0 + static_cast<double>(i));
      proto::RankReport slow = Report(1, 10 * i, 10 * i + 10, 5.0 + static_cast<double>(i));
      slow.set_loss_sum(400);
      log.Add(i == 1 ? Final(slow) : slow);
      log.Add(i == 1 ? Final(fast) : fast);
    }
    return *log.MakeRecord(EndOf(proto::FINISHED));
  }();
  ASSERT_EQ(record.windows_size(), 2);
  EXPECT_EQ(record.windows(0).samples(), 200u);
  EXPECT_EQ(record.windows(0).trained_s(), 2);
  EXPECT_EQ(record.windows(0).loss(), 1);
  EXPECT_EQ(record.windows(1).samples(), 400u);
  EXPECT_EQ(record.windows(1).trained_s(), 6);
  EXPECT_EQ(record.windows(1).loss(), 4);
}

TEST(ReportLog, AFailedRunKeepsWhatItHadReached) {
  ReportLog log(PlanOf("sync {}"));
  log.Add(Report(0, 0, 10, 1));
  log.Add(Report(1, 0, 10, 2));
  log.Add(Report(0, 10, 20, 2));
  const auto record = log.MakeRecord(EndOf(proto::FAILED, "rank 1: loss is NaN at step 19"));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->failure(), "rank 1: loss is NaN at step 19");
  EXPECT_EQ(record->steps(), 10u);
  EXPECT_EQ(record->updates(), 10u);
  EXPECT_EQ(record->windows_size(), 1);
  EXPECT_EQ(record->measurements_size(), 0);
  ReportLog none(PlanOf("sync {}"));
  EXPECT_EQ(none.MakeRecord(EndOf(proto::FAILED, "x"))->steps(), 0u);
}

TEST(ReportLog, MissedReportsAreNoticed) {
  const auto code = [](const std::vector<proto::RankReport>& reports, proto::JobState state) {
    ReportLog log(PlanOf("sync {}"));
    for (const proto::RankReport& report : reports) log.Add(report);
    return log.MakeRecord(EndOf(state)).status().code();
  };
  const auto end = Final(Report(1, 0, 20, 2));
  using absl::StatusCode;
  // Also of ranks that have said where they go on.
  EXPECT_EQ(code({Report(0, 5, 5, 0), Final(Report(0, 10, 20, 1)), end}, proto::FINISHED),
            StatusCode::kDataLoss);
  // Of the start, in the middle, at the end; what comes twice is no harm.
  EXPECT_EQ(code({Final(Report(0, 10, 20, 1)), end}, proto::FINISHED), StatusCode::kDataLoss);
  EXPECT_EQ(code({Report(0, 0, 5, 1), Final(Report(0, 10, 20, 2)), end}, proto::FINISHED),
            StatusCode::kDataLoss);
  EXPECT_EQ(code({Report(0, 0, 10, 1), end}, proto::FINISHED), StatusCode::kDataLoss);
  EXPECT_EQ(code({end}, proto::FINISHED), StatusCode::kDataLoss);
  EXPECT_EQ(code({Report(0, 10, 20, 1)}, proto::FAILED), StatusCode::kDataLoss);
  EXPECT_EQ(code({Report(0, 0, 10, 1), Report(0, 0, 10, 1), Final(Report(0, 10, 20, 2)), end},
                 proto::FINISHED),
            StatusCode::kOk);
}

// Each rank first says with which step it goes on.
proto::RunRecord GoneOn(const std::string& consistency, uint64_t first, uint64_t second) {
  ReportLog log(PlanOf(consistency));
  EXPECT_FALSE(log.has_begun());
  log.Add(Report(0, first, first, 0));
  log.Add(Report(1, second, second, 0));
  EXPECT_TRUE(log.has_begun());
  log.Add(Report(0, first, 30, 1));
  log.Add(Report(1, second, 30, 2));
  log.Add(Tested(Report(0, 30, 30, 1), 0.5));
  log.Add(Final(Report(1, 30, 40, 4)));
  log.Add(Tested(Final(Report(0, 30, 40, 2)), 0.75));
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? *record : proto::RunRecord();
}

TEST(ReportLog, AJobThatGoesOnCountsSamplesAndUpdatesFromTheStart) {
  const proto::RunRecord record = GoneOn("sync {}", 20, 20);
  EXPECT_EQ(record.resumed_step(), 20);
  EXPECT_EQ(record.resumed_samples(), 400);
  EXPECT_EQ(record.steps(), 40);
  EXPECT_EQ(record.samples(), 800);
  EXPECT_EQ(record.updates(), 40);
  EXPECT_EQ(record.trained_s(), 4);
  ASSERT_EQ(record.windows_size(), 2);
  EXPECT_EQ(record.windows(0).samples(), 600);
  EXPECT_EQ(record.windows(1).samples(), 800);
  ASSERT_EQ(record.measurements_size(), 2);
  EXPECT_EQ(record.measurements(0).samples(), 600);
  EXPECT_EQ(record.measurements(0).updates(), 30);
}

TEST(ReportLog, RanksThatAreNotInStepGoOnFromStepsOfTheirOwn) {
  const proto::RunRecord record = GoneOn("async {}", 20, 22);
  EXPECT_EQ(record.resumed_step(), 20);
  EXPECT_EQ(record.resumed_samples(), 420);
  EXPECT_EQ(record.samples(), 800);
  // Rank 1 is half-way from step 22 to step 30 then.
  EXPECT_EQ(record.measurements(0).samples(), 560);
  EXPECT_EQ(record.measurements(0).updates(), 56);
}

// A program's ranks report what they like: here rank 0 alone, its values apart from its windows.
TEST(ReportLog, OfAProgramWhatRank0SaysIsEnough) {
  auto job = ParseJob("name: 'p' program { path: 'p' } ranks: 2 consistency { sync {} }", "p");
  ASSERT_TRUE(job.ok()) << job.status();
  FillDefaults(&*job);
  ReportLog log({"sync", *job});
  log.Add(Report(0, 0, 10, 1));
  proto::RankReport values = Report(0, 10, 10, 1.5);
  (*values.mutable_values())["perplexity"] = 12.5;
  log.Add(values);
  log.Add(Tested(Report(0, 10, 10, 1.75), 0.5));
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->steps(), 10);
  EXPECT_EQ(record->samples(), 200);
  EXPECT_EQ(record->windows_size(), 1);
  ASSERT_EQ(record->measurements_size(), 1);
  const proto::Measurement& measured = record->measurements(0);
  EXPECT_EQ(measured.samples(), 200);
  EXPECT_EQ(measured.accuracy(), 0.5);
  EXPECT_EQ(measured.values().at("perplexity"), 12.5);
  EXPECT_EQ(measured.trained_s(), 1.75);
}

}  // namespace
}  // namespace strata::compare
