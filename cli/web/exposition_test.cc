#include "cli/web/exposition.h"

#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/web/metric_text.h"
#include "cli/web/sample_scene.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] = "job=\"3\",name=\"lenet\",mode=\"lazy(2)\",namespace=\"vision\"";
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

std::string Line(absl::string_view family, absl::string_view more, absl::string_view value) {
  return absl::StrCat("\n", family, "{", kJob, more, "} ", value, "\n");
}

// The sample's job, to be changed.
std::shared_ptr<JobScene> CopyOfJob(const ClusterScene& scene) {
  return std::make_shared<JobScene>(*scene.jobs.at(0));
}

size_t Series(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  size_t count = 0;
  while (std::getline(lines, line)) count += !line.empty() && line[0] != '#';
  return count;
}

size_t Count(absl::string_view text, absl::string_view wanted) {
  size_t count = 0;
  for (size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) ++count;
  return count;
}

TEST(ExpositionTest, AJobSaysWhoItWaitsForAndHowFarItIs) {
  const std::string text = Exposition(testing::SampleScene(kNow), kNow);
  EXPECT_THAT(text, HasSubstr(Line("strata_job_wait_seconds",
                                   ",node=\"1\",rank=\"3\",daemon=\"w2\"", "12")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_state", ",state=\"running\"", "1")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_state", ",state=\"failed\"", "0")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_steps_total", "", "57")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_steps_planned", "", "100")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_samples_total", "", "14592")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_samples_per_second", "", "1234.5")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_loss", "", "0.5")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_test_accuracy_ratio", "", "0.875")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_eta_seconds", "", "83")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_epoch", "", "1.25")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_step_bytes", "", "4096")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_waiting_ratio", "", "0.25")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_hidden_ratio", "", "0.75")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_staleness_pushes", ",staleness=\"1\"", "12")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_checkpoints_total", ",result=\"failed\"", "1")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_checkpoint_age_seconds", "", "90")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_restarts_total", "", "1")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_replacements_total", "", "1")));
}

TEST(ExpositionTest, ShardsNodesAndRanksHaveTheirOwnSeries) {
  const std::string text = Exposition(testing::SampleScene(kNow), kNow);
  constexpr char kShard[] = ",daemon=\"s1\",shard=\"0\"";
  EXPECT_THAT(text, HasSubstr(Line("strata_shard_pushes_total", kShard, "114")));
  EXPECT_THAT(text, HasSubstr(Line("strata_shard_answers_total", kShard, "112")));
  EXPECT_THAT(text, HasSubstr(Line("strata_shard_duplicates_total", kShard, "3")));
  EXPECT_THAT(text, HasSubstr(Line("strata_shard_refused_total", kShard, "1")));
  EXPECT_THAT(text,
              HasSubstr(Line("strata_shard_received_bytes_total", kShard, "9007199254740991")));
  EXPECT_THAT(text, HasSubstr(Line("strata_shard_sent_bytes_total", kShard, "700000")));
  EXPECT_THAT(text, HasSubstr(Line("strata_shard_memory_bytes", kShard, "1000000")));
  EXPECT_THAT(text, HasSubstr(Line("strata_shard_memory_limit_bytes", kShard, "2000000")));
  constexpr char kNode[] = ",node=\"1\",daemon=\"w2\"";
  EXPECT_THAT(text, HasSubstr(Line("strata_node_memory_bytes", kNode, "500000")));
  EXPECT_THAT(text, HasSubstr(Line("strata_node_gpu_memory_limit_bytes", kNode, "400000")));
  EXPECT_THAT(text, HasSubstr(Line("strata_rank_waiting_ratio", ",rank=\"3\"", "0.125")));
  EXPECT_THAT(text, HasSubstr(Line("strata_rank_samples_per_second", ",rank=\"3\"", "300")));
}

TEST(ExpositionTest, DaemonsAndTheCoordinatorTellWhatTheyUseAndRefuse) {
  const std::string text = Exposition(testing::SampleScene(kNow), kNow);
  for (const char* line : {
           "strata_coordinator_reachable 1",
           "strata_scene_age_seconds 0.5",
           "strata_coordinator_resource_used{name=\"connections\"} 4",
           "strata_coordinator_resource_limit{name=\"connections\"} 4096",
           "strata_refusals_total{daemon=\"coordinator\",role=\"coordinator\",cause=\"malformed\"} "
           "1",
           "strata_refusals_total{daemon=\"s1\",role=\"server\",cause=\"unknown job\"} 2",
           "strata_expected_refusals_total{daemon=\"s1\",role=\"server\",cause=\"frame of a "
           "shard that has left\"} 3",
           "strata_daemon_up{daemon=\"s1\",role=\"server\"} 1",
           "strata_daemon_up{daemon=\"w2\",role=\"worker\"} 0",
           "strata_daemon_heartbeat_age_seconds{daemon=\"w2\",role=\"worker\"} 13",
           "strata_daemon_draining{daemon=\"w2\",role=\"worker\"} 1",
           "strata_daemon_slots{daemon=\"w2\",role=\"worker\"} 4",
           "strata_daemon_slots_used{daemon=\"w2\",role=\"worker\"} 2",
           "strata_daemon_gpu_slots{daemon=\"w2\",role=\"worker\"} 2",
           "strata_daemon_gpu_slots_used{daemon=\"w2\",role=\"worker\"} 1",
           "strata_daemon_resource_used{daemon=\"s1\",role=\"server\",name=\"processes\"} 3",
           "strata_daemon_resource_limit{daemon=\"s1\",role=\"server\",name=\"memory bytes\"} "
           "8000000",
       }) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\n", line, "\n")));
  }
  // It has no limit.
  EXPECT_THAT(text, Not(HasSubstr("limit{daemon=\"s1\",role=\"server\",name=\"processes\"}")));
}

TEST(ExpositionTest, WhatIsNotKnownIsAbsent) {
  ClusterScene scene = testing::SampleScene(kNow);
  auto job = CopyOfJob(scene);
  job->status.mutable_progress()->set_test_accuracy(-1);
  job->status.mutable_progress()->set_eta_s(-1);
  job->status.clear_hidden_share();
  job->status.clear_checkpoints();
  job->course.clear();
  scene.jobs = {job};
  const std::string text = Exposition(scene, kNow);
  for (const char* name : {"strata_job_test_accuracy", "strata_job_eta", "strata_job_hidden",
                           "strata_job_checkpoint", "strata_job_waiting"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

TEST(ExpositionTest, ALossThatIsNotANumberIsTold) {
  ClusterScene scene = testing::SampleScene(kNow);
  auto job = CopyOfJob(scene);
  job->status.mutable_progress()->set_loss(std::numeric_limits<double>::quiet_NaN());
  scene.jobs = {job};
  EXPECT_THAT(Exposition(scene, kNow), HasSubstr(Line("strata_job_loss", "", "NaN")));
}

TEST(ExpositionTest, AnEndedJobStaysForFiveMinutesAndHasNoRunningParts) {
  ClusterScene scene = testing::SampleScene(kNow);
  auto job = CopyOfJob(scene);
  job->status.set_state(proto::FAILED);
  job->status.set_ended_ms(absl::ToUnixMillis(kNow));
  job->first_seen_ended = kNow;
  scene.jobs = {job};
  scene.taken = kNow + absl::Seconds(299);
  std::string text = Exposition(scene, scene.taken);
  EXPECT_THAT(text, HasSubstr(Line("strata_job_state", ",state=\"failed\"", "1")));
  EXPECT_THAT(text, HasSubstr(Line("strata_job_checkpoint_age_seconds", "", "90")));
  EXPECT_THAT(text, Not(HasSubstr("strata_job_wait_seconds")));
  EXPECT_THAT(text, Not(HasSubstr("strata_shard_")));
  scene.taken = kNow + absl::Minutes(5);
  text = Exposition(scene, scene.taken);
  EXPECT_THAT(text, Not(HasSubstr("job=\"3\"")));
}

TEST(ExpositionTest, ALostCoordinatorIsToldAtOnceAndOldValuesLeaveAfterAMinute) {
  ClusterScene scene = testing::SampleScene(kNow);
  scene.taken = kNow;
  scene.problem = "coordinator at 127.0.0.1:7070 cannot be reached";
  std::string text = Exposition(scene, kNow + absl::Seconds(60));
  EXPECT_THAT(text, HasSubstr("\nstrata_coordinator_reachable 0\n"));
  EXPECT_THAT(text, HasSubstr("\nstrata_scene_age_seconds 60\n"));
  EXPECT_THAT(text, HasSubstr("strata_daemon_up{"));
  text = Exposition(scene, kNow + absl::Seconds(61));
  EXPECT_EQ(Series(text), 3u) << text;
  EXPECT_THAT(text, HasSubstr("\nstrata_coordinator_reachable 0\n"));
}

TEST(ExpositionTest, BeforeTheCoordinatorFirstAnsweredOnlyThatIsTold) {
  ClusterScene scene;
  scene.taken = absl::InfinitePast();
  const std::string text = Exposition(scene, kNow);
  EXPECT_EQ(Series(text), 2u) << text;
  EXPECT_THAT(text, HasSubstr("\nstrata_coordinator_reachable 0\n"));
  EXPECT_TRUE(absl::EndsWith(text, "\n# EOF\n"));
}

TEST(ExpositionTest, HostileNamesMakeNoLineOfTheirOwn) {
  ClusterScene scene = testing::SampleScene(kNow);
  const size_t series = Series(Exposition(scene, kNow));
  auto job = CopyOfJob(scene);
  job->status.set_name("x\"} 1\nstrata_job_loss{job=\"9\"} 7\n# EOF\n\\");
  scene.jobs = {job};
  scene.nodes.mutable_daemons(0)->set_name(std::string("\xFF\0\r\n# EOF", 9));
  const std::string text = Exposition(scene, kNow);
  EXPECT_EQ(Series(text), series);
  EXPECT_EQ(text.find("# EOF\n"), text.size() - 6);
}

TEST(ExpositionTest, ADaemonThatReportsAThousandResourcesShowsTheFirst64) {
  ClusterScene scene = testing::SampleScene(kNow);
  proto::DaemonStatus* daemon = scene.nodes.mutable_daemons(1);
  for (int i = 0; i < 1000; ++i) daemon->add_resources()->set_name(absl::StrCat("r", i));
  const std::string text = Exposition(scene, kNow);
  EXPECT_THAT(text, HasSubstr("name=\"r63\""));
  EXPECT_THAT(text, Not(HasSubstr("name=\"r64\"")));
}

TEST(ExpositionTest, AThousandDaemonsAndAHundredJobsAreToldWhole) {
  const std::string text = Exposition(testing::LargeScene(kNow, 1000, 100), kNow);
  // A daemon has 16 series, a worker 4 more. A job has 27, plus 4 for each of its nodes, 8 for each
  // of its shards and 2 for each of its ranks. The cluster has 3.
  EXPECT_EQ(Series(text), 500u * 16 + 500u * 20 + 100u * (27 + 8 * 4 + 8 * 8 + 16 * 2) + 3u);
  EXPECT_THAT(text, HasSubstr("\nstrata_series_left_out 0\n"));
}

TEST(ExpositionTest, BeyondTheBoundRanksLeaveFirstAndWaitsStay) {
  constexpr int kJobs = 200;
  ClusterScene scene = testing::LargeScene(kNow, 1000, kJobs);
  for (auto& job : scene.jobs) {
    auto changed = std::make_shared<JobScene>(*job);
    for (uint32_t rank = 0; rank < 400; ++rank) changed->ranks[rank] = {RankWindow{}};
    job = changed;
  }
  const std::string text = Exposition(scene, kNow);
  // Each of the ranks' two families has room alone, but not beside all else.
  EXPECT_THAT(text, Not(HasSubstr("strata_rank_waiting_ratio")));
  EXPECT_THAT(text, Not(HasSubstr("strata_rank_samples_per_second")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("\nstrata_series_left_out ", 2 * kJobs * 400, "\n")));
  EXPECT_EQ(Count(text, "\nstrata_job_wait_seconds{"), size_t{kJobs});
  EXPECT_EQ(Count(text, "\nstrata_shard_pushes_total{"), size_t{8 * kJobs});
  EXPECT_EQ(Count(text, "\nstrata_daemon_resource_used{"), size_t{5 * 1000});
}

TEST(ExpositionTest, WhereOneOfTheRanksFamiliesHasRoomOnlyTheOtherLeaves) {
  constexpr int kJobs = 200;
  ClusterScene scene = testing::LargeScene(kNow, 1000, kJobs);
  for (auto& job : scene.jobs) {
    auto changed = std::make_shared<JobScene>(*job);
    for (uint32_t rank = 0; rank < 240; ++rank) changed->ranks[rank] = {RankWindow{}};
    job = changed;
  }
  const std::string text = Exposition(scene, kNow);
  EXPECT_LE(Series(text), metrics::kSeriesMax);
  EXPECT_EQ(Count(text, "\nstrata_rank_waiting_ratio{"), size_t{240 * kJobs});
  EXPECT_THAT(text, Not(HasSubstr("strata_rank_samples_per_second")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("\nstrata_series_left_out ", 240 * kJobs, "\n")));
}

}  // namespace
}  // namespace strata::cli

namespace strata::cli::metrics {
namespace {

constexpr Family kNumber{"number", Kind::kGauge, "", Detail::kJob, "A number."};
constexpr Family kBytes{"sent_bytes", Kind::kCounter, "bytes", Detail::kShard, "Bytes sent."};
constexpr Family kFine{"fine", Kind::kGauge, "", Detail::kRank, "A rank's."};

TEST(MetricTextTest, ACounterHasItsUnitInItsNameAndTotalOnItsSamplesAlone) {
  MetricText text;
  text.Add(kBytes, Label("shard", "0"), uint64_t{18446744073709551615u});
  EXPECT_EQ(text.Write(),
            "# TYPE sent_bytes counter\n"
            "# UNIT sent_bytes bytes\n"
            "# HELP sent_bytes Bytes sent.\n"
            "sent_bytes_total{shard=\"0\"} 18446744073709551615\n"
            "# TYPE strata_series_left_out gauge\n"
            "# HELP strata_series_left_out Series that this scrape lacks, as it would have too "
            "many; the finest go first.\n"
            "strata_series_left_out 0\n"
            "# EOF\n");
}

TEST(MetricTextTest, NumbersThatAreNotFiniteAreWrittenAsTheFormatHasThem) {
  MetricText text;
  text.Add(kNumber, Label("i", "0"), std::numeric_limits<double>::quiet_NaN());
  text.Add(kNumber, Label("i", "1"), std::numeric_limits<double>::infinity());
  text.Add(kNumber, Label("i", "2"), -std::numeric_limits<double>::infinity());
  text.Add(kNumber, Label("i", "3"), 1e300);
  const std::string all = text.Write();
  EXPECT_NE(all.find("{i=\"0\"} NaN\n"), std::string::npos);
  EXPECT_NE(all.find("{i=\"1\"} +Inf\n"), std::string::npos);
  EXPECT_NE(all.find("{i=\"2\"} -Inf\n"), std::string::npos);
  EXPECT_NE(all.find("{i=\"3\"} 1e+300\n"), std::string::npos);
}

TEST(MetricTextTest, ALabelIsEscaped) {
  EXPECT_EQ(Label("name", "a\"b\\c\nd"), "name=\"a\\\"b\\\\c\\nd\"");
  EXPECT_EQ(Label("name", "} 1\nup 2"), "name=\"} 1\\nup 2\"");
}

TEST(MetricTextTest, WhatIsNotUtf8OrCannotBeSeenIsReplaced) {
  EXPECT_EQ(Label("name", "a\xFF z"), "name=\"a\xEF\xBF\xBD z\"");
  EXPECT_EQ(Label("name", std::string("\0\x1B\x7F", 3)),
            "name=\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  // Longer than needed, a surrogate, beyond the last character, cut.
  EXPECT_EQ(Label("n", "\xC0\xAF"), "n=\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Label("n", "\xED\xA0\x80"), "n=\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Label("n", "\xF4\x90\x80\x80").size(), 4u + 4 * 3);
  EXPECT_EQ(Label("n", "\xE2\x82"), "n=\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Label("n", "\xE2\x82\xAC \xF0\x9F\x98\x80"), "n=\"\xE2\x82\xAC \xF0\x9F\x98\x80\"");
}

TEST(MetricTextTest, ALongNameIsCutBetweenCharacters) {
  EXPECT_EQ(Label("n", std::string(1000, 'a')), absl::StrCat("n=\"", std::string(128, 'a'), "\""));
  EXPECT_EQ(Label("n", std::string(127, 'a') + "\xC3\xA9"),
            absl::StrCat("n=\"", std::string(127, 'a'), "\""));
}

TEST(MetricTextTest, OfTwoSeriesWithEqualLabelsTheFirstCountsAndTheOtherIsTold) {
  MetricText text;
  text.Add(kNumber, Label("name", std::string(200, 'a') + "1"), 1.5);
  text.Add(kNumber, Label("name", std::string(200, 'a') + "2"), 2.5);
  const std::string all = text.Write();
  EXPECT_NE(all.find("\"} 1.5\n"), std::string::npos);
  EXPECT_EQ(all.find("\"} 2.5\n"), std::string::npos);
  EXPECT_NE(all.find("strata_series_left_out 1\n"), std::string::npos);
}

TEST(MetricTextTest, WhereNotAllHaveRoomTheFinestFamilyGoesWholeAndIsCounted) {
  MetricText text(/*series_max=*/5);
  for (uint64_t i = 0; i < 3; ++i) text.Add(kFine, Label("rank", absl::StrCat(i)), i);
  for (uint64_t i = 0; i < 2; ++i) text.Add(kNumber, Label("job", absl::StrCat(i)), i);
  const std::string all = text.Write();
  EXPECT_EQ(all.find("fine{"), std::string::npos);
  EXPECT_NE(all.find("number{job=\"1\"} 1\n"), std::string::npos);
  EXPECT_NE(all.find("strata_series_left_out 3\n"), std::string::npos);
}

}  // namespace
}  // namespace strata::cli::metrics
