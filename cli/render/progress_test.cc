#include "cli/render/progress.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

proto::JobStatus Running() {
  proto::JobStatus status;
  status.set_job_id(3);
  status.set_name("lenet");
  status.set_state(proto::RUNNING);
  status.set_mode("sync");
  status.set_model("lenet5");
  status.set_ranks(4);
  status.add_nodes()->set_daemon("w0");
  status.add_nodes()->set_daemon("w1");
  proto::Progress* progress = status.mutable_progress();
  progress->set_step(351);
  progress->set_total_steps(1170);
  progress->set_epoch(1.5);
  progress->set_epochs(5);
  progress->set_samples_per_s(12345.4);
  progress->set_loss(0.43211);
  progress->set_test_accuracy(0.87123);
  progress->set_bytes_per_step(1'240'000);
  progress->set_eta_s(83.2);
  return status;
}

std::string Shown(int columns, const std::vector<proto::FollowEvent>& events,
                  bool has_bar = false) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  ProgressDisplay display(out, columns, has_bar);
  for (const auto& event : events) display.Show(event);
  std::fclose(out);
  std::string shown(text, size);
  free(text);
  return shown;
}

TEST(Progress, FormatsTimesAndBytes) {
  EXPECT_EQ(FormatDuration(0), "0:00");
  EXPECT_EQ(FormatDuration(83.4), "1:23");
  EXPECT_EQ(FormatDuration(3723), "1:02:03");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1240), "1.24 kB");
  EXPECT_EQ(FormatBytes(3.5e9), "3.50 GB");
}

TEST(Progress, ShowsEpochSpeedLossAccuracyBytesAndTimeLeft) {
  EXPECT_EQ(ProgressLine(Running()),
            "epoch 1.50/5  12,345 samples/s  loss 0.4321  test accuracy 0.8712  1.24 MB/step  "
            "ETA 1:23");
}

TEST(Progress, ShowsWhatAProgramMeasuredByItsNames) {
  proto::JobStatus status = Running();
  (*status.mutable_progress()->mutable_values())["perplexity"] = 12.3;
  (*status.mutable_progress()->mutable_values())["bleu"] = 0.123456;
  EXPECT_EQ(ProgressLine(status),
            "epoch 1.50/5  12,345 samples/s  loss 0.4321  test accuracy 0.8712  bleu 0.1235  "
            "perplexity 12.3  1.24 MB/step  ETA 1:23");
  proto::MetricsRecord record;
  record.set_step(5);
  (*record.mutable_values())["perplexity"] = 12.3;
  EXPECT_EQ(MetricsText(record, status), "step 5/1170  perplexity 12.3");
  record.set_samples(640);
  record.set_epoch(2);
  record.set_final(true);
  EXPECT_EQ(MetricsText(record, status), "step 5/1170  perplexity 12.3  (final model)");
  status.set_state(proto::FINISHED);
  EXPECT_EQ(EndLine(status),
            "job 3 (lenet): finished, test accuracy 0.8712, bleu 0.1235, perplexity 12.3");
}

TEST(Progress, LeavesOutWhatIsNotKnownYet) {
  proto::JobStatus status = Running();
  status.mutable_progress()->set_test_accuracy(-1);
  status.mutable_progress()->set_eta_s(-1);
  status.mutable_progress()->set_bytes_per_step(0);
  EXPECT_EQ(ProgressLine(status), "epoch 1.50/5  12,345 samples/s  loss 0.4321");
}

TEST(Progress, WritesALinePerWindowWhereThereIsNoTerminal) {
  proto::FollowEvent status;
  *status.mutable_status() = Running();
  proto::FollowEvent metrics;
  metrics.mutable_metrics()->set_step(400);
  metrics.mutable_metrics()->set_epoch(1.7);
  metrics.mutable_metrics()->set_loss(0.5);
  metrics.mutable_metrics()->set_samples_per_s(1000);
  EXPECT_EQ(Shown(0, {status, status, metrics}),
            "job 3 (lenet): running lenet5, mode sync, 4 ranks on w0, w1\n"
            "step 400/1170  epoch 1.70/5  1,000 samples/s  loss 0.5000  1.24 MB/step  ETA 1:23\n");
}

TEST(Progress, KeepsOneLiveLineOnATerminal) {
  proto::FollowEvent status;
  *status.mutable_status() = Running();
  proto::FollowEvent metrics;
  metrics.mutable_metrics()->set_step(400);
  std::string shown = Shown(200, {status, metrics, status});
  EXPECT_EQ(shown, "job 3 (lenet): running lenet5, mode sync, 4 ranks on w0, w1\n\r\033[K" +
                       ProgressLine(Running()) + "\r\033[K" + ProgressLine(Running()));
}

proto::FollowEvent Waiting(double seconds) {
  proto::FollowEvent event;
  *event.mutable_status() = Running();
  proto::Wait* wait = event.mutable_status()->add_waits();
  wait->set_daemon("w1");
  wait->set_seconds(seconds);
  wait->set_text(absl::StrFormat("node 1 (w1) for %d s", static_cast<int>(seconds)));
  return event;
}

TEST(Progress, TheLiveLineHasABarWhereTheTerminalHasRoomForIt) {
  proto::FollowEvent status;
  *status.mutable_status() = Running();
  const std::string shown = Shown(160, {status}, /*has_bar=*/true);
  EXPECT_EQ(
      shown.substr(shown.find('\r')),
      "\r\033[Kstep 351/1170  [########--------------------]  30 %  " + ProgressLine(Running()));
  const std::string narrow = Shown(80, {status}, /*has_bar=*/true);
  EXPECT_EQ(narrow.substr(narrow.find('\r')), "\r\033[K" + ProgressLine(Running()).substr(0, 79));
}

TEST(Progress, ABarChangesNothingOfALineForAWaitNorWhereThereIsNoTerminal) {
  EXPECT_EQ(Shown(160, {Waiting(2)}, true), Shown(160, {Waiting(2)}, false));
  proto::FollowEvent status;
  *status.mutable_status() = Running();
  EXPECT_EQ(Shown(0, {status, Waiting(12)}, true), Shown(0, {status, Waiting(12)}, false));
}

TEST(Progress, TheLiveLineShowsTheLongestWaitInsteadOfProgress) {
  proto::FollowEvent two = Waiting(3);
  *two.mutable_status()->add_waits() = two.status().waits(0);
  std::string shown = Shown(200, {Waiting(2), two});
  EXPECT_EQ(shown.substr(shown.find('\r')),
            "\r\033[Kstep 351/1170  waits: node 1 (w1) for 2 s"
            "\r\033[Kstep 351/1170  waits (and 1 more): node 1 (w1) for 3 s");
}

TEST(Progress, ALongWaitHasALineOfItsOwnWhereThereIsNoTerminal) {
  std::string shown =
      Shown(0, {Waiting(2), Waiting(9), Waiting(10), Waiting(11), Waiting(69), Waiting(71)});
  EXPECT_EQ(shown,
            "job 3 (lenet): running lenet5, mode sync, 4 ranks on w0, w1\n"
            "waits: node 1 (w1) for 10 s\nwaits: node 1 (w1) for 71 s\n");
}

TEST(Progress, TellsWhereANodeWent) {
  proto::FollowEvent before, waits, goes_on;
  *before.mutable_status() = Running();
  *waits.mutable_status() = Running();
  waits.mutable_status()->mutable_nodes(1)->clear_daemon();
  proto::ReplacementStatus* one = waits.mutable_status()->add_replacements();
  one->set_node(1);
  one->set_from("w1");
  one->set_reason("w1 is lost");
  goes_on = waits;
  goes_on.mutable_status()->mutable_nodes(1)->set_daemon("w3");
  goes_on.mutable_status()->mutable_replacements(0)->set_to("w3");
  EXPECT_EQ(Shown(0, {before, waits, waits, goes_on, goes_on}),
            "job 3 (lenet): running lenet5, mode sync, 4 ranks on w0, w1\n"
            "replaced: node 1 (w1, waits for another worker): w1 is lost\n"
            "job 3 (lenet): running lenet5, mode sync, 4 ranks on w0, w3\n"
            "replaced: node 1 (w1 -> w3): w1 is lost\n");
}

TEST(Progress, TellsOnceFromWhichStepAJobGoesOn) {
  proto::FollowEvent status, again;
  *status.mutable_status() = Running();
  status.mutable_status()->mutable_checkpoints()->set_resumed_dir("/data/c");
  status.mutable_status()->mutable_checkpoints()->set_resumed_step(40);
  again = status;
  again.mutable_status()->add_restarts()->set_step(60);
  EXPECT_EQ(Shown(0, {status, status, again, again}),
            "job 3 (lenet): running lenet5, mode sync, 4 ranks on w0, w1\n"
            "resumed from step 40 in /data/c\n"
            "resumed from step 60, restart 1\n");
  again.mutable_status()->add_restarts()->set_step(0);
  EXPECT_EQ(Shown(0, {again}),
            "job 3 (lenet): running lenet5, mode sync, 4 ranks on w0, w1\n"
            "begun again from step 0, restart 2\n");
}

TEST(Progress, TheBarOfAJobWhoseStepsNobodyKnowsGoesByItsEpochs) {
  proto::FollowEvent event;
  *event.mutable_status() = Running();
  proto::Progress* progress = event.mutable_status()->mutable_progress();
  progress->set_total_steps(0);
  progress->set_step(50);
  progress->set_epoch(1.25);
  progress->set_epochs(5);
  const std::string shown = Shown(200, {event}, /*has_bar=*/true);
  EXPECT_THAT(shown, ::testing::HasSubstr("step 50/200  ["));
  EXPECT_THAT(shown, ::testing::HasSubstr("]  25 %  epoch 1.25/5"));
}

TEST(Progress, TellsOnceThatNodesJoinAndLeave) {
  proto::FollowEvent before, after;
  *before.mutable_status() = Running();
  after = before;
  proto::NodesChange* change = after.mutable_status()->add_nodes_changes();
  change->set_step(40);
  change->add_left(1);
  change->set_ranks(2);
  EXPECT_EQ(Shown(0, {before, after, after}),
            "job 3 (lenet): running lenet5, mode sync, 4 ranks on w0, w1\n"
            "nodes: node 1 leaves with step 40: 2 ranks\n");
}

TEST(Progress, CutsTheLiveLineToTheTerminalsWidth) {
  proto::FollowEvent status;
  *status.mutable_status() = Running();
  std::string shown = Shown(20, {status});
  EXPECT_EQ(shown.substr(shown.find("\033[K")), "\033[Kepoch 1.50/5  12,34");
}

TEST(Progress, TellsHowAJobEnded) {
  proto::JobStatus status = Running();
  status.set_started_ms(1000);
  status.set_ended_ms(84'000);
  status.set_state(proto::FINISHED);
  EXPECT_EQ(EndLine(status), "job 3 (lenet): finished after 1:23, test accuracy 0.8712");
  status.set_state(proto::FAILED);
  status.set_reason("server s1 is gone");
  EXPECT_EQ(EndLine(status), "job 3 (lenet): failed after 1:23: server s1 is gone");
  status.set_state(proto::CANCELLED);
  status.set_reason("");
  EXPECT_EQ(EndLine(status), "job 3 (lenet): cancelled after 1:23");
}

constexpr char kRest[] = "12,345 samples/s  ETA 1:23";  // 26 columns

TEST(ProgressBar, TakesWhatTheRestLeavesUpToThirtyColumns) {
  EXPECT_EQ(WithBar(234, 1170, kRest, 120),
            "step 234/1170  [#####-----------------------]  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 79),
            "step 234/1170  [#####-----------------------]  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 65),
            "step 234/1170  [##------------]  20 %  12,345 samples/s  ETA 1:23");
}

TEST(ProgressBar, NoLineButABareRestIsWiderThanTheTerminal) {
  for (int columns = 26; columns < 130; ++columns) {
    EXPECT_LE(WithBar(234, 1170, kRest, columns).size(), static_cast<size_t>(columns));
  }
}

TEST(ProgressBar, FallsAwayFirstThenTheStepThenTheShare) {
  EXPECT_EQ(WithBar(234, 1170, kRest, 59),
            "step 234/1170  [#-------]  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 58), "step 234/1170  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 47), "step 234/1170  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 46), "20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 40), "20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 31), kRest);
  EXPECT_EQ(WithBar(234, 1170, kRest, 10), kRest);
}

TEST(ProgressBar, IsFullWithTheLastStepOnly) {
  const std::string empty(28, '-'), full(28, '#');
  EXPECT_EQ(WithBar(0, 1000, "x", 80), "step 0/1000  [" + empty + "]  0 %  x");
  EXPECT_EQ(WithBar(999, 1000, "x", 80), "step 999/1000  [" + std::string(27, '#') + "-]  99 %  x");
  EXPECT_EQ(WithBar(1000, 1000, "x", 80), "step 1000/1000  [" + full + "]  100 %  x");
  EXPECT_EQ(WithBar(1001, 1000, "x", 80), "step 1001/1000  [" + full + "]  100 %  x");
}

TEST(ProgressBar, AJobWithoutAKnownEndHasNone) { EXPECT_EQ(WithBar(5, 0, "x", 80), "x"); }

TEST(ProgressBar, DumbTerminalsAndThoseThatWantNoColorAreShownNone) {
  EXPECT_TRUE(ShowsBars({}));
  EXPECT_TRUE(ShowsBars({{"TERM", "xterm-256color"}, {"NO_COLOR", ""}}));
  EXPECT_FALSE(ShowsBars({{"TERM", "dumb"}}));
  EXPECT_FALSE(ShowsBars({{"TERM", "xterm"}, {"NO_COLOR", "1"}}));
}

}  // namespace

}  // namespace strata::cli
