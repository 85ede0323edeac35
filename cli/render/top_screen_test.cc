#include "cli/render/top_screen.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

const absl::Time kNow = absl::FromUnixSeconds(1'790'000'000);

proto::JobStatus Job(uint32_t id, proto::JobState state) {
  proto::JobStatus job;
  job.set_job_id(id);
  job.set_name(absl::StrCat("job-", id));
  job.set_state(state);
  job.set_mode("sync");
  job.set_ranks(4);
  job.mutable_progress()->set_step(50);
  job.mutable_progress()->set_total_steps(200);
  job.mutable_progress()->set_samples_per_s(1234);
  job.mutable_progress()->set_loss(0.5);
  job.mutable_progress()->set_test_accuracy(-1);
  job.mutable_progress()->set_eta_s(83);
  return job;
}

void AddDaemon(const std::string& name, proto::Role role, TopScene* scene) {
  proto::DaemonStatus* daemon = scene->nodes.add_daemons();
  daemon->set_name(name);
  daemon->set_role(role);
  daemon->set_alive(true);
  if (role != proto::WORKER) return;
  daemon->set_slots(2);
  daemon->set_slots_used(1);
}

TopScene Scene() {
  TopScene scene{.coordinator = "head:7070", .taken = kNow};
  AddDaemon("w1", proto::WORKER, &scene);
  AddDaemon("s1", proto::SERVER, &scene);
  scene.jobs.push_back(Job(3, proto::RUNNING));
  return scene;
}

std::vector<std::string> Lines(const TopScene& scene, const TopSize& size = {}) {
  std::vector<std::string> lines = absl::StrSplit(TopScreen(scene, size, kNow), '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  return lines;
}

TEST(TopScreenTest, SaysWhatThereIs) {
  const std::string text = TopScreen(Scene(), {.columns = 200}, kNow);
  EXPECT_THAT(text, StartsWith("strata top  head:7070  servers 1/1  workers 1/1  slots 1/2 used  "
                               "jobs 1 running, 0 queued"));
  EXPECT_THAT(text, HasSubstr("\n\nnothing is stuck\n\n"));
  EXPECT_THAT(text, HasSubstr("3    job-3  running  sync  4      [###---------]  25 %  50    1:23  "
                              "1234       0.5000  -"));
  EXPECT_THAT(text, HasSubstr("\nw1      worker  alive  1/2    0     0.0 s  -              0\n"));
}

TEST(TopScreenTest, OfAProgramThatDoesNotSayHowManyStepsItMakesWhatIsKnownIsShown) {
  TopScene scene = Scene();
  proto::Progress& progress = *scene.jobs[0].mutable_progress();
  progress.set_total_steps(0);
  const auto shows = [&] { return TopScreen(scene, {.columns = 200}, kNow); };
  EXPECT_THAT(shows(), HasSubstr("sync  4      50 steps  50 "));
  progress.set_epoch(1.25);
  EXPECT_THAT(shows(), HasSubstr("sync  4      epoch 1.25  50 "));
  progress.set_epochs(5);
  EXPECT_THAT(shows(), HasSubstr("sync  4      [###---------]  epoch 1.25/5  50 "));
  scene.jobs[0].mutable_progress()->Clear();
  EXPECT_THAT(shows(), HasSubstr("sync  4      -         0 "));
}

TEST(TopScreenTest, WhoIsStuckComesFirstAndTheLongestWaitBeforeAllOthers) {
  TopScene scene = Scene();
  for (int i = 0; i < 8; ++i) {
    proto::Wait* wait = scene.jobs[0].add_waits();
    wait->set_seconds(kStuckSeconds - 3 + i);
    wait->set_text(absl::StrCat("rank ", i, " is stopped by a signal"));
  }
  const std::vector<std::string> lines = Lines(scene);
  EXPECT_EQ(lines[2], "STUCK  job 3 (job-3) waits: rank 7 is stopped by a signal");
  EXPECT_EQ(lines[6], "STUCK  job 3 (job-3) waits: rank 3 is stopped by a signal");
  EXPECT_EQ(lines[7], "waits  job 3 (job-3): rank 2 is stopped by a signal");
  EXPECT_EQ(lines[8], "       and 2 more");
}

TEST(TopScreenTest, AWaitIsCalledStuckOnceItHasLastedTenSeconds) {
  TopScene scene = Scene();
  proto::Wait* wait = scene.jobs[0].add_waits();
  wait->set_text("rank 1 computes");
  for (const double seconds : {0.0, 1.0, 9.9}) {
    wait->set_seconds(seconds);
    const std::string text = TopScreen(scene, {.colours = true}, kNow);
    EXPECT_THAT(text, HasSubstr("\033[33mwaits  job 3 (job-3): rank 1 computes\033[0m\n"));
    EXPECT_THAT(text, Not(HasSubstr("STUCK"))) << seconds;
    EXPECT_THAT(text, Not(HasSubstr("nothing is stuck"))) << seconds;
  }
  for (const double seconds : {10.0, 11.0}) {
    wait->set_seconds(seconds);
    const std::string text = TopScreen(scene, {.colours = true}, kNow);
    EXPECT_THAT(text, HasSubstr("\033[1;31mSTUCK  job 3 (job-3) waits: rank 1 computes\033[0m\n"));
  }
}

TEST(TopScreenTest, WithoutAnAnswerTheLastPictureStaysWithItsAge) {
  TopScene scene = Scene();
  scene.problem = "coordinator at head:7070 cannot be reached (tried for 2s): connection refused";
  scene.taken = kNow - absl::Seconds(65);
  const std::vector<std::string> lines = Lines(scene);
  EXPECT_EQ(lines[1], "! " + scene.problem);
  EXPECT_EQ(lines[2], "  what follows was so 1:05 ago; it is asked again");
  EXPECT_THAT(TopScreen(scene, {}, kNow), HasSubstr("job-3"));

  scene = {.coordinator = "head:7070", .problem = scene.problem};
  EXPECT_THAT(Lines(scene), SizeIs(3));
}

TEST(TopScreenTest, RunningJobsComeFirstAndOfThoseThatHaveEndedTheNewest) {
  TopScene scene = Scene();
  scene.jobs.clear();
  for (uint32_t id = 1; id <= 20; ++id) {
    scene.jobs.push_back(Job(id, proto::FINISHED));
    scene.jobs.back().set_ended_ms(id);
  }
  scene.jobs.push_back(Job(21, proto::QUEUED));
  scene.jobs.push_back(Job(22, proto::RUNNING));
  const std::vector<std::string> lines = Lines(scene);
  EXPECT_THAT(lines[5], StartsWith("22 "));
  EXPECT_THAT(lines[6], StartsWith("21 "));
  EXPECT_THAT(lines[7], StartsWith("20 "));
  EXPECT_THAT(lines[11], StartsWith("16 "));
  EXPECT_EQ(lines[12], "");
}

TEST(TopScreenTest, WhatIsWrongWithDaemonsComesFirst) {
  TopScene scene = Scene();
  for (const char* name : {"w2", "w3", "w4"}) AddDaemon(name, proto::WORKER, &scene);
  scene.nodes.mutable_daemons(2)->set_alive(false);
  scene.nodes.mutable_daemons(3)->set_draining(true);
  proto::Resource* memory = scene.nodes.mutable_daemons(4)->add_resources();
  memory->set_name("memory bytes");
  memory->set_used(95);
  memory->set_limit(100);
  const std::vector<std::string> lines = Lines(scene);
  EXPECT_THAT(lines[8], StartsWith("w2      worker  gone"));
  EXPECT_THAT(lines[9], StartsWith("w3      worker  alive, draining"));
  EXPECT_THAT(lines[10], HasSubstr("memory bytes 95 %"));
  EXPECT_THAT(lines[11], StartsWith("w1 "));
}

TEST(TopScreenTest, ItFitsTheTerminalAndCountsWhatIsLeftOut) {
  TopScene scene = Scene();
  for (uint32_t id = 100; id < 200; ++id) scene.jobs.push_back(Job(id, proto::RUNNING));
  for (int i = 0; i < 1000; ++i) AddDaemon(absl::StrCat("w", 10 + i), proto::WORKER, &scene);
  for (const int rows : {16, 24, 50, 200}) {
    for (const int columns : {40, 80, 200}) {
      const std::vector<std::string> lines = Lines(scene, {.columns = columns, .rows = rows});
      EXPECT_LE(lines.size(), rows) << columns;
      for (const std::string& line : lines) EXPECT_LE(line.size(), columns) << line;
    }
  }
  const std::string text = TopScreen(scene, {.columns = 80, .rows = 24}, kNow);
  EXPECT_THAT(text, HasSubstr(" more jobs\n"));
  EXPECT_THAT(text, HasSubstr(" more daemons\n"));
}

TEST(TopScreenTest, ALineIsCutBetweenCharactersAndControlsNoTerminal) {
  TopScene scene = Scene();
  scene.jobs[0].set_name("\033[2Jäöüäöüäöü\x7f");
  for (int columns = 1; columns < 40; ++columns) {
    const std::string text = TopScreen(scene, {.columns = columns}, kNow);
    EXPECT_THAT(text, Not(HasSubstr("\033")));
    EXPECT_THAT(text, Not(HasSubstr("\x7f")));
    EXPECT_THAT(text, Not(HasSubstr("\xC3~"))) << "half a character";
  }
  EXPECT_THAT(TopScreen(scene, {.columns = 200}, kNow), HasSubstr("\\x1b[2Jäöü"));
}

TEST(TopScreenTest, NoLineHasAControlOfTwoBytesWhichSomeTerminalsObey) {
  TopScene scene = Scene();
  scene.jobs[0].set_name(
      "a\xc2\x9b"
      "2Jb\xc2\x80\xc2\x9f"
      "c\xc2\xa0"
      "d");
  EXPECT_THAT(TopScreen(scene, {.columns = 200}, kNow),
              HasSubstr("a\\u009b2Jb\\u0080\\u009fc\xc2\xa0"
                        "d"));
  for (int columns = 1; columns < 40; ++columns) {
    const std::string text = TopScreen(scene, {.columns = columns}, kNow);
    for (const char* control : {"\x9b", "\x80", "\x9f"}) {
      EXPECT_THAT(text, Not(HasSubstr(control))) << columns;
    }
    EXPECT_THAT(text, Not(HasSubstr("\xc2~"))) << "half a character";
  }
}

TEST(TopScreenTest, ColoursOnlyWhereTheyAreAskedFor) {
  TopScene scene = Scene();
  scene.jobs[0].set_state(proto::FAILED);
  const std::string plain = TopScreen(scene, {}, kNow);
  std::string coloured = TopScreen(scene, {.colours = true}, kNow);
  EXPECT_THAT(plain, Not(HasSubstr("\033")));
  EXPECT_THAT(coloured, HasSubstr("\033[1;31m3 "));
  for (const char* code : {"\033[1m", "\033[1;31m", "\033[33m", "\033[32m", "\033[2m", "\033[0m"}) {
    for (size_t at; (at = coloured.find(code)) != std::string::npos;) {
      coloured.erase(at, std::string(code).size());
    }
  }
  EXPECT_EQ(coloured, plain);
}

TEST(TopScreenTest, AClusterWithoutAnythingSaysSo) {
  const std::string text = TopScreen({.coordinator = "c", .taken = kNow}, {}, kNow);
  EXPECT_THAT(text, HasSubstr("no jobs\n"));
  EXPECT_THAT(text, HasSubstr("no daemon has registered\n"));
}

}  // namespace
}  // namespace strata::cli
