#include "compare/campaign/course.h"

#include <thread>
#include <utility>

#include "common/log.h"

namespace strata::compare {

Course::Course(std::vector<RunPlan> plans, CampaignFolder* folder, std::vector<Runner*> runners,
               const ClockInterface* clock, Options options)
    : plans_(std::move(plans)),
      folder_(folder),
      runners_(std::move(runners)),
      clock_(clock),
      options_(std::move(options)) {}

absl::StatusOr<std::vector<proto::RunRecord>> Course::Run() {
  if (const absl::Status status = Load(); !status.ok()) return status;
  std::vector<std::thread> threads;
  for (size_t i = 1; i < runners_.size(); ++i) threads.emplace_back([this, i] { RunBy(i); });
  if (!runners_.empty()) RunBy(0);
  for (std::thread& thread : threads) thread.join();
  absl::MutexLock lock(&mutex_);
  if (!state_.error.ok()) return state_.error;
  std::vector<proto::RunRecord> all;
  for (std::optional<proto::RunRecord>& record : state_.records) {
    if (!record.has_value()) return absl::CancelledError("stopped");
    all.push_back(*std::move(record));
  }
  return all;
}

absl::Status Course::Load() {
  absl::MutexLock lock(&mutex_);
  for (const RunPlan& plan : plans_) {
    absl::StatusOr<std::optional<proto::RunRecord>> record = folder_->Load(plan);
    if (!record.ok()) return record.status();
    state_.records.push_back(*std::move(record));
    if (state_.records.back().has_value()) {
      ++done_;
    } else if (const absl::Status status = runners_.front()->Check(plan); !status.ok()) {
      return status;
    }
  }
  state_.to_make = plans_.size() - done_;
  state_.under_way.resize(runners_.size());
  state_.is_busy.resize(runners_.size());
  state_.begin = clock_->Now();
  return absl::OkStatus();
}

void Course::RunBy(size_t runner) {
  while (const std::optional<size_t> run = Take(runner)) {
    absl::StatusOr<proto::RunRecord> record = runners_[runner]->Run(
        AsContinued(plans_[*run]),
        [&](const RunProgress& progress) { ShowProgress(runner, *run, progress); });
    if (!Finish(runner, *run, std::move(record))) return;
  }
}

RunPlan Course::AsContinued(const RunPlan& plan) {
  RunPlan whole = plan;
  if (!plan.job.has_checkpoint()) return whole;
  whole.chain.keep = [this](const proto::RunRecord& so_far) {
    absl::MutexLock lock(&mutex_);
    const absl::Status kept = folder_->SaveInterrupted(so_far);
    if (!kept.ok()) LogWarning("%s", kept.message());
  };
  absl::MutexLock lock(&mutex_);
  if (auto earlier = folder_->LoadInterrupted(plan); earlier != nullptr) {
    whole.chain.earlier = std::move(earlier);
    whole.chain.was_interrupted = true;
  }
  return whole;
}

std::optional<size_t> Course::Take(size_t runner) {
  absl::MutexLock lock(&mutex_);
  while (state_.next < plans_.size() && state_.records[state_.next].has_value()) ++state_.next;
  if (stopped_ || state_.next == plans_.size()) return std::nullopt;
  state_.is_busy[runner] = true;
  return state_.next++;
}

CourseProgress Course::FindProgress(size_t runner, size_t run) const {
  CourseProgress progress;
  progress.runs = plans_.size();
  progress.number = run + 1;
  progress.made = state_.made;
  progress.to_make = state_.to_make;
  progress.plan = &plans_[run];
  progress.run = state_.under_way[runner];
  for (size_t other = 0; other < runners_.size(); ++other) {
    if (other == runner || !state_.is_busy[other]) continue;
    ++progress.others;
    progress.others_done += state_.under_way[other].done;
  }
  progress.elapsed = clock_->Now() - state_.begin;
  return progress;
}

void Course::ShowProgress(size_t runner, size_t run, const RunProgress& progress) {
  absl::MutexLock lock(&mutex_);
  state_.under_way[runner] = progress;
  if (options_.on_progress != nullptr) options_.on_progress(FindProgress(runner, run));
}

bool Course::Finish(size_t runner, size_t run, absl::StatusOr<proto::RunRecord> record) {
  absl::Status status = record.status();
  {
    absl::MutexLock lock(&mutex_);
    state_.under_way[runner] = RunProgress();
    state_.is_busy[runner] = false;
    if (status.ok()) status = folder_->Save(*record);
    if (status.ok()) {
      ++done_;
      ++state_.made;
      if (options_.on_run != nullptr) options_.on_run(FindProgress(runner, run), *record);
      state_.records[run] = *std::move(record);
      return true;
    }
    if (!state_.error.ok()) return false;  // it is the first error that has stopped this one
    state_.error = status;
  }
  // The others' runs would not be asked for.
  if (runners_.size() > 1) Stop();
  return false;
}

void Course::Stop() {
  stopped_ = true;
  for (Runner* runner : runners_) runner->Stop();
}

}  // namespace strata::compare
