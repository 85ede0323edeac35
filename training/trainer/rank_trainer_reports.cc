// The part of RankTrainer that measures, and reports windows of steps.
#include <utility>

#include "common/job/job.h"
#include "common/log.h"
#include "training/trainer/rank_trainer.h"

namespace strata::worker {

// Where it is for this rank to do.
absl::Status RankTrainer::PrepareToEvaluate() {
  if (!measures() || evaluator_ != nullptr) return absl::OkStatus();
  auto evaluator = Evaluator::Create(model_, &data_.test, normalisation_, WeightSpans(),
                                     statistics_->inference(), backend_);
  if (!evaluator.ok()) return evaluator.status();
  evaluator_ = *std::move(evaluator);
  return absl::OkStatus();
}

// The evaluation after the last step before may not have been made: of a checkpoint, or by a rank
// that has left.
absl::Status RankTrainer::BeginWindows(uint64_t first_step) {
  window_.first_step = window_.end_step = first_step;
  if (first_step == 0) return absl::OkStatus();
  const auto before = client_.views().At(first_step - 1);
  if (!before.ok()) return before.status();
  measurement_due_ = plan_.Evaluates(first_step - 1, *before);
  return client_.Send(window_);  // says where this rank goes on
}

// Into the window that waits for it, if there is one.
absl::Status RankTrainer::MeasureWeights(uint64_t step) {
  if (job_.evaluation().deferred()) {
    return ReportFailure(
        snapshots_.Take(step, TrainedSeconds(), WeightSpans(), statistics_->inference(), backend_));
  }
  if (!held_.has_value()) held_ = window_;
  return EvaluateInto(&*held_);
}

// Without a measurement where another rank has to make it by now.
absl::Status RankTrainer::SendHeld() {
  return held_.has_value() ? Send(*std::exchange(held_, std::nullopt)) : absl::OkStatus();
}

// After `step`: reports the window, or holds it until what it still needs is there.
absl::Status RankTrainer::CloseWindow(uint64_t step) {
  if (plan_.IsLast(step, by_)) return absl::OkStatus();  // End sends it
  client::Report report = std::exchange(window_, client::Report());
  window_.first_step = window_.end_step = step + 1;
  measurement_due_ = plan_.Evaluates(step, by_);
  // Where nodes come and go, any rank may be the first one of the next step.
  const bool may_measure = IsElastic(job_) ? data_.test.size() > 0 : measures();
  if (!measurement_due_ || !may_measure || job_.evaluation().deferred()) return Send(report);
  held_ = report;
  return absl::OkStatus();
}

absl::Status RankTrainer::EvaluateInto(client::Report* report) {
  report->trained_s = TrainedSeconds();
  const absl::Time begin = absl::Now();
  const absl::Duration computed = ThreadTime();
  auto score = evaluator_->Measure();
  computed_before_ += ThreadTime() - computed;
  if (!score.ok()) return ReportFailure(score.status());
  report->has_test = true;
  report->test_accuracy = score->accuracy;
  report->test_loss = score->loss;
  evaluating_ += absl::Now() - begin;
  LogInfo("after step %d: test accuracy %.4f, test loss %.4f", report->end_step, score->accuracy,
          score->loss);
  return absl::OkStatus();
}

absl::Status RankTrainer::MeasureSnapshots() {
  if (snapshots_.empty()) return absl::OkStatus();
  const auto send = [this](const Snapshots::Snapshot& snapshot, const Score& score) {
    client::Report report;
    report.first_step = report.end_step = snapshot.step;
    report.trained_s = snapshot.trained_s;
    report.has_test = true;
    report.test_accuracy = score.accuracy;
    report.test_loss = score.loss;
    LogInfo("after step %d: test accuracy %.4f, test loss %.4f", snapshot.step, score.accuracy,
            score.loss);
    return client_.Send(report);
  };
  const absl::Time begin = absl::Now();
  auto status = snapshots_.Measure(model_, &data_.test, normalisation_, send, backend_);
  evaluating_ += absl::Now() - begin;
  return status;
}

// The window's time is that since the last report, without evaluation.
absl::Status RankTrainer::Send(client::Report report) {
  const absl::Time now = absl::Now();
  report.wall_s = absl::ToDoubleSeconds(now - window_begin_ - evaluating_);
  if (!report.has_test) report.trained_s = TrainedSeconds();
  window_begin_ = now;
  evaluating_before_ += std::exchange(evaluating_, absl::ZeroDuration());
  outcome_.wall_s += report.wall_s;
  outcome_.samples += report.samples;
  if (report.samples > 0) outcome_.loss = report.loss_sum / static_cast<double>(report.samples);
  LogDebug("steps %d to %d: loss %.4f in %.3f s", report.first_step, report.end_step,
           report.loss_sum / static_cast<double>(report.samples), report.wall_s);
  return client_.Send(report);
}

}  // namespace strata::worker
