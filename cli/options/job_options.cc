#include "cli/options/job_options.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/options/straggler_option.h"
#include "common/job/consistency.h"
#include "common/job/job.h"

namespace strata::cli {
namespace {

// One change of the job, as the user wrote it and as path=value.
struct Change {
  std::string option;
  std::string setting;
};

absl::Status Refuse(const std::string& who, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(who, ": ", what));
}

absl::StatusOr<std::vector<Change>> ChangesOf(const JobOptions& options) {
  std::vector<Change> changes;
  if (!options.mode.empty()) {
    const std::string option = absl::StrCat("--mode ", options.mode);
    const absl::StatusOr<std::vector<std::string>> settings = SettingsOfMode(options.mode);
    if (!settings.ok()) return Refuse(option, std::string(settings.status().message()));
    for (const std::string& setting : *settings) changes.push_back({option, setting});
  }
  for (const std::string& setting : options.settings) {
    changes.push_back({absl::StrCat("--set ", setting), setting});
  }
  for (const std::string& straggler : options.stragglers) {
    const std::string option = absl::StrCat("--straggler ", straggler);
    const absl::StatusOr<std::string> setting = SettingOfStraggler(straggler);
    if (!setting.ok()) return Refuse(option, std::string(setting.status().message()));
    changes.push_back({option, *setting});
  }
  return changes;
}

absl::Status Apply(const Change& change, proto::Job* job) {
  const absl::Status status = ApplySettings({change.setting}, job);
  if (!status.ok()) {
    const std::string prefix = absl::StrCat("setting \"", change.setting, "\": ");
    std::string text(absl::StripPrefix(status.message(), prefix));
    for (const std::string mode : {"sync", "lazy", "async"}) {
      if (change.setting == "consistency=" + mode) absl::StrAppend(&text, " or --mode ", mode);
    }
    return Refuse(change.option, text);
  }
  // Defaults would replace it without a word.
  const bool epochs = absl::StartsWith(change.setting, "epochs=");
  if (epochs && job->epochs() == 0 && job->max_steps() == 0) {
    return Refuse(change.option, "epochs must be at least 1, unless max_steps is set before");
  }
  return absl::OkStatus();
}

absl::Status Check(proto::Job job) {
  FillDefaults(&job);
  return ValidateJob(job);
}

}  // namespace

absl::StatusOr<proto::Job> JobFrom(const std::string& text, const JobOptions& options) {
  absl::StatusOr<proto::Job> job = JobAsWrittenFrom(text, options);
  if (job.ok()) FillDefaults(&*job);
  return job;
}

absl::StatusOr<proto::Job> JobAsWrittenFrom(const std::string& text, const JobOptions& options) {
  auto job = ParseJob(text, options.path);
  if (!job.ok()) return job.status();
  // Who is to blame when the whole is refused: who was the first to be refused for this reason.
  std::vector<std::pair<std::string, absl::Status>> steps = {{options.path, Check(*job)}};
  const absl::StatusOr<std::vector<Change>> changes = ChangesOf(options);
  if (!changes.ok()) return changes.status();
  for (const Change& change : *changes) {
    const absl::Status status = Apply(change, &*job);
    if (!status.ok()) return status;
    steps.emplace_back(change.option, Check(*job));
  }
  if (!options.trace.empty() && job->trace().steps() == 0) {
    job->mutable_trace()->set_steps(kTraceSteps);
    steps.emplace_back(absl::StrCat("--trace ", options.trace), Check(*job));
  }
  const absl::Status& end = steps.back().second;
  if (end.ok()) return job;
  for (const auto& [who, status] : steps) {
    if (status == end) return Refuse(who, std::string(end.message()));
  }
  return end;
}

}  // namespace strata::cli
