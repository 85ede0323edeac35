#include "compare/campaign/course.h"

#include <optional>
#include <utility>

namespace strata::compare {

Course::Course(std::vector<RunPlan> plans, CampaignFolder* folder, Runner* runner,
               const ClockInterface* clock, Options options)
    : plans_(std::move(plans)),
      folder_(folder),
      runner_(runner),
      clock_(clock),
      options_(std::move(options)) {}

absl::StatusOr<std::vector<proto::RunRecord>> Course::Run() {
  std::vector<std::optional<proto::RunRecord>> records;
  for (const RunPlan& plan : plans_) {
    absl::StatusOr<std::optional<proto::RunRecord>> record = folder_->Load(plan);
    if (!record.ok()) return record.status();
    records.push_back(*std::move(record));
    if (records.back().has_value()) {
      ++done_;
    } else if (const absl::Status status = runner_->Check(plan); !status.ok()) {
      return status;
    }
  }
  CourseProgress progress;
  progress.runs = plans_.size();
  progress.to_make = plans_.size() - done_;
  const absl::Time begin = clock_->Now();
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (records[i].has_value()) continue;
    if (stopped_) return absl::CancelledError("stopped");
    progress.number = i + 1;
    progress.plan = &plans_[i];
    absl::StatusOr<proto::RunRecord> record = runner_->Run(plans_[i], [&](const RunProgress& run) {
      progress.run = run;
      progress.elapsed = clock_->Now() - begin;
      if (options_.on_progress != nullptr) options_.on_progress(progress);
    });
    if (!record.ok()) return record.status();
    if (const absl::Status status = folder_->Save(*record); !status.ok()) return status;
    ++done_;
    ++progress.made;
    progress.run = RunProgress();
    progress.elapsed = clock_->Now() - begin;
    if (options_.on_run != nullptr) options_.on_run(progress, *record);
    records[i] = *std::move(record);
  }
  std::vector<proto::RunRecord> all;
  for (std::optional<proto::RunRecord>& record : records) all.push_back(*std::move(record));
  return all;
}

void Course::Stop() {
  stopped_ = true;
  if (runner_ != nullptr) runner_->Stop();
}

}  // namespace strata::compare
