#include "compare/campaign/campaign_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "google/protobuf/util/message_differencer.h"
#include "training/data/dataset.h"
#include "training/trainer/step_plan.h"

namespace strata::compare {

namespace {

absl::Status Refuse(const std::string& mode, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("mode ", mode, ": ", why));
}

// Checks what is the same in all modes.
absl::Status CheckJob(const proto::Job& job) {
  if (!job.run_dir().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("run_dir: ", job.run_dir(), ": the runs of a comparison have one each"));
  }
  return absl::OkStatus();
}

// The campaign's job in that mode with its first seed; how it is measured is still open.
absl::StatusOr<proto::Job> JobIn(const Mode& mode, const proto::Campaign& campaign) {
  proto::Job job = campaign.job();
  if (const absl::Status status = ApplySettings(mode.settings, &job); !status.ok()) {
    return Refuse(mode.name, status.message());
  }
  const bool is_of_program = campaign.job().has_program();
  if (auto status = CheckProgramReads(is_of_program, mode.settings, job); !status.ok()) {
    return Refuse(mode.name, status.message());
  }
  if (job.seed() != campaign.job().seed()) {
    return Refuse(mode.name, "seed: all modes have the same ones");
  }
  if (job.exchange() == proto::Job::NONE || job.exchange() == proto::Job::MPI) {
    return Refuse(mode.name, absl::StrCat("exchange: ", proto::Job::Exchange_Name(job.exchange()),
                                          ": only PARAMETER_SERVER and RING can be compared"));
  }
  if (const absl::Status status = CheckJob(job); !status.ok()) {
    return Refuse(mode.name, status.message());
  }
  proto::Job filled = job;
  FillDefaults(&filled);
  if (const absl::Status status = ValidateJob(filled); !status.ok()) {
    return Refuse(mode.name, status.message());
  }
  return job;
}

absl::StatusOr<std::vector<Mode>> ModesOf(const proto::Campaign& campaign) {
  std::vector<Mode> modes;
  for (const std::string& name : campaign.modes()) {
    absl::StatusOr<Mode> mode = ParseMode(name);
    if (!mode.ok()) return mode.status();
    modes.push_back(*std::move(mode));
  }
  return modes;
}

uint64_t SamplesOf(const proto::Job& job, uint64_t steps) {
  return steps * job.ranks() * job.data().batch_per_rank();
}

// Says when accuracy is measured, and fills in defaults.
absl::Status Complete(const Mode& mode, uint64_t round, proto::Job* job) {
  const bool given = job->evaluation().every_epochs() > 0 || job->evaluation().every_steps() > 0;
  const bool metrics_given = job->metrics().every_steps() > 0;
  FillDefaults(job);
  if (job->has_program()) return absl::OkStatus();  // it measures what and when it likes
  const absl::StatusOr<uint64_t> steps = TotalSteps(*job);
  if (!steps.ok()) return Refuse(mode.name, steps.status().message());
  const auto every =
      static_cast<uint32_t>(std::min<uint64_t>(MeasureEvery(*steps, round), UINT32_MAX));
  if (!given) {
    job->mutable_evaluation()->clear_every_epochs();
    job->mutable_evaluation()->set_every_steps(every);
  }
  job->mutable_evaluation()->set_deferred(true);
  if (!metrics_given) job->mutable_metrics()->set_every_steps(every);
  return absl::OkStatus();
}

// True if two jobs do the same, whatever their modes are called.
bool AreTheSame(proto::Job a, proto::Job b) {
  for (proto::Job* job : {&a, &b}) *job->mutable_consistency() = WithoutName(job->consistency());
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

// The jobs of all modes with the first seed. Errors as of PlanRuns.
absl::StatusOr<std::vector<RunPlan>> FirstRound(const proto::Campaign& campaign) {
  const absl::StatusOr<std::vector<Mode>> modes = ModesOf(campaign);
  if (!modes.ok()) return modes.status();
  std::vector<RunPlan> round;
  std::map<std::string, std::string> by_file;
  uint64_t samples = 0;
  for (const Mode& mode : *modes) {
    absl::StatusOr<proto::Job> job = JobIn(mode, campaign);
    if (!job.ok()) return job.status();
    if (auto status = Complete(mode, campaign.measured_round(), &*job); !status.ok()) return status;
    for (const RunPlan& other : round) {
      if (AreTheSame(other.job, *job)) {
        return Refuse(mode.name, absl::StrCat("is the same job as mode ", other.mode));
      }
    }
    const auto [file, is_new] = by_file.try_emplace(ModeFileName(mode.name), mode.name);
    if (!is_new) {
      return Refuse(mode.name, absl::StrCat("would have the file of mode ", file->second));
    }
    const uint64_t own = job->has_program() ? 0 : SamplesOf(*job, *TotalSteps(*job));
    if (!round.empty() && own != samples) {
      return Refuse(mode.name, absl::StrFormat("trains on %d samples, mode %s on %d", own,
                                               round.front().mode, samples));
    }
    samples = own;
    round.push_back({mode.name, *std::move(job)});
  }
  return round;
}

}  // namespace

absl::StatusOr<proto::Campaign> PlanCampaign(const CampaignRequest& request) {
  if (const absl::Status status = CheckJob(request.job); !status.ok()) return status;
  if (request.seeds == 0) return absl::InvalidArgumentError("seeds: 0, at least 1 is needed");
  const absl::StatusOr<std::vector<Mode>> modes = ParseModes(request.modes);
  if (!modes.ok()) return modes.status();
  proto::Campaign campaign;
  *campaign.mutable_job() = request.job;
  campaign.mutable_job()->clear_consistency();
  if (campaign.job().seed() == 0) campaign.mutable_job()->set_seed(1);
  campaign.set_seeds(request.seeds);
  campaign.set_cluster(request.cluster);
  campaign.set_version(request.version);
  uint64_t round = 1;
  for (const Mode& mode : *modes) {
    campaign.add_modes(mode.name);
    absl::StatusOr<proto::Job> job = JobIn(mode, campaign);
    if (!job.ok()) return job.status();
    FillDefaults(&*job);
    round = std::max(round, StepsPerClock(*job));
  }
  campaign.set_measured_round(round);
  return campaign;
}

absl::StatusOr<std::vector<RunPlan>> PlanRuns(const proto::Campaign& campaign) {
  const absl::StatusOr<std::vector<RunPlan>> round = FirstRound(campaign);
  if (!round.ok()) return round.status();
  std::vector<RunPlan> runs;
  for (uint32_t seed = 0; seed < campaign.seeds(); ++seed) {
    for (const RunPlan& first : *round) {
      runs.push_back(first);
      runs.back().job.set_seed(first.job.seed() + seed);
    }
  }
  return runs;
}

absl::StatusOr<uint64_t> TotalSteps(const proto::Job& job) {
  absl::StatusOr<uint64_t> samples = training::CountTrainingSamples(job.data());
  if (!samples.ok() && job.data().limit_train() > 0) samples = job.data().limit_train();
  if (samples.ok()) {
    const absl::StatusOr<training::StepPlan> plan =
        training::MakeStepPlan(job, *samples, job.ranks());
    if (!plan.ok()) return plan.status();
    return plan->total_steps;
  }
  if (job.max_steps() > 0) return job.max_steps();
  return absl::InvalidArgumentError(
      absl::StrCat(samples.status().message(),
                   "; where the data is not here, max_steps or data.limit_train has to be set"));
}

uint64_t MeasureEvery(uint64_t total_steps, uint64_t round) {
  const uint64_t every = std::max<uint64_t>(1, total_steps / kMeasurements);
  const uint64_t rounded = (every + round - 1) / round * round;
  return total_steps / rounded >= kMeasurementsMin ? rounded : every;
}

namespace {

constexpr char kExample[] = "sync,lazy:ssp(3),async,ring";

}  // namespace

absl::StatusOr<Mode> ParseMode(const std::string& name) {
  const std::vector<std::string> parts = SplitOutside(name, [&name](size_t i) {
    return name[i] == '+' && (i + 1 == name.size() || absl::ascii_isalpha(name[i + 1]));
  });
  const auto refuse = [&name](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("mode ", name, ": ", why));
  };
  absl::StatusOr<std::vector<std::string>> settings = SettingsOfMode(parts[0]);
  if (!settings.ok()) return refuse(settings.status().message());
  Mode mode{name, *std::move(settings)};
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      return refuse(absl::StrCat("\"+", parts[i], "\" is not +FIELD=VALUE"));
    }
    mode.settings.push_back(parts[i]);
  }
  return mode;
}

absl::StatusOr<std::vector<Mode>> ParseModes(const std::string& text) {
  std::vector<Mode> modes;
  if (absl::StripAsciiWhitespace(text).empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no mode to compare, as in ", kExample));
  }
  for (const std::string& part : SplitOutside(text, [&](size_t i) { return text[i] == ','; })) {
    const std::string name(absl::StripAsciiWhitespace(part));
    if (name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\": an empty mode between commas"));
    }
    const bool twice = std::any_of(modes.begin(), modes.end(),
                                   [&name](const Mode& mode) { return mode.name == name; });
    if (twice) return absl::InvalidArgumentError(absl::StrCat("mode ", name, " is there twice"));
    absl::StatusOr<Mode> mode = ParseMode(name);
    if (!mode.ok()) return mode.status();
    modes.push_back(*std::move(mode));
  }
  return modes;
}

std::string ModeFileName(const std::string& mode) {
  std::string name;
  for (const char c : mode) {
    if (absl::ascii_isalnum(c) || c == '.' || c == '-') {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return std::string(absl::StripSuffix(name, "_"));
}

std::string RunName(const std::string& mode, uint64_t seed) {
  return absl::StrCat(ModeFileName(mode), "-seed", seed);
}

std::vector<std::string> SplitOutside(const std::string& text,
                                      const std::function<bool(size_t)>& separates) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\0' && depth == 0 && separates(i)) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '{' || c == '[') {
      ++depth;
    } else if ((c == ')' || c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return parts;
}

}  // namespace strata::compare
