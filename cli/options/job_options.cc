#include "cli/options/job_options.h"

#include <cmath>
#include <cstdint>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "common/os/message_bounds.h"

namespace strata::cli {

namespace {

constexpr char kForm[] = "as in node=1,slow=4x or node=1,delay=30ms+-10ms";

absl::Status RefuseStraggler(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, ", ", kForm));
}

absl::StatusOr<std::map<std::string, std::string>> PartsOf(const std::string& text) {
  std::map<std::string, std::string> parts;
  for (const auto part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const bool known = pair.first == "node" || pair.first == "slow" || pair.first == "delay";
    if (!known) return RefuseStraggler(absl::StrFormat("\"%s\" is not node, slow or delay", part));
    if (!parts.insert(pair).second) {
      return RefuseStraggler(absl::StrFormat("%s stands there twice", pair.first));
    }
  }
  if (parts.count("node") == 0) return RefuseStraggler("node is missing");
  if (parts.size() == 1) return RefuseStraggler("slow or delay is missing");
  return parts;
}

// Whole milliseconds.
absl::StatusOr<uint32_t> MillisecondsOf(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() ||
      duration > absl::Hours(1)) {
    return RefuseStraggler(absl::StrFormat("delay=%s: not a duration", text));
  }
  return static_cast<uint32_t>(std::lround(absl::ToDoubleMilliseconds(duration)));
}

}  // namespace

absl::StatusOr<std::string> SettingOfStraggler(const std::string& text) {
  const auto parts = PartsOf(text);
  if (!parts.ok()) return parts.status();
  uint32_t node = 0;
  if (!absl::SimpleAtoi(parts->at("node"), &node)) {
    return RefuseStraggler(absl::StrFormat("node=%s: not a number", parts->at("node")));
  }
  std::string setting = absl::StrFormat("debug.delays={node: %d", node);
  if (const auto slow = parts->find("slow"); slow != parts->end()) {
    float factor = 0;
    if (!absl::SimpleAtof(absl::StripSuffix(slow->second, "x"), &factor) || !(factor >= 1)) {
      return RefuseStraggler(absl::StrFormat("slow=%s: not a number from 1 on", slow->second));
    }
    absl::StrAppend(&setting, " slow: ", factor);
  }
  if (const auto delay = parts->find("delay"); delay != parts->end()) {
    const std::string spread = absl::StrReplaceAll(delay->second, {{"±", "+-"}});
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(spread, absl::MaxSplits("+-", 1));
    const auto ms = MillisecondsOf(pair.first);
    if (!ms.ok()) return ms.status();
    const auto jitter_ms = MillisecondsOf(pair.second.empty() ? "0" : pair.second);
    if (!jitter_ms.ok()) return jitter_ms.status();
    absl::StrAppendFormat(&setting, " delay_ms: %d jitter_ms: %d", *ms, *jitter_ms);
  }
  return setting + "}";
}

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
    if (const std::string preset = PresetOfMode(options.mode); !preset.empty()) {
      changes.push_back({option, absl::StrCat("consistency.preset_name=\"", preset, "\"")});
    }
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

// `settings`: those that the job has so far; `is_of_program`: the job of the file is.
absl::Status Check(bool is_of_program, const std::vector<std::string>& settings, proto::Job job) {
  if (absl::Status bounded = CheckBounds(job); !bounded.ok()) return bounded;
  const absl::Status read = CheckProgramReads(is_of_program, settings, job);
  if (!read.ok()) return read;
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
  // If the whole job is refused, blames the option that was first refused for this reason.
  const bool is_of_program = job->has_program();
  std::vector<std::string> settings;
  const auto check = [&] { return Check(is_of_program, settings, *job); };
  std::vector<std::pair<std::string, absl::Status>> steps = {{options.path, check()}};
  const absl::StatusOr<std::vector<Change>> changes = ChangesOf(options);
  if (!changes.ok()) return changes.status();
  for (const Change& change : *changes) {
    const absl::Status status = Apply(change, &*job);
    if (!status.ok()) return status;
    settings.push_back(change.setting);
    steps.emplace_back(change.option, check());
  }
  if (!options.trace.empty() && job->trace().steps() == 0) {
    job->mutable_trace()->set_steps(kTraceSteps);
    steps.emplace_back(absl::StrCat("--trace ", options.trace), check());
  }
  const absl::Status& end = steps.back().second;
  if (end.ok()) return job;
  for (const auto& [who, status] : steps) {
    if (status == end) return Refuse(who, std::string(end.message()));
  }
  return end;
}

}  // namespace strata::cli
