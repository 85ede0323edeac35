#include "common/job/program_optimizer.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/number_check.h"

namespace strata {
namespace {

std::string KindName(const proto::Optimizer& optimizer) {
  const auto* const field =
      proto::Optimizer::descriptor()->FindFieldByNumber(optimizer.kind_case());
  return field == nullptr ? "none" : field->name();
}

// A job's own limit stays; if the two differ, one of them would have no effect.
absl::Status TakeClipNorm(const proto::Optimizer& named, proto::Optimizer* optimizer) {
  const float own = optimizer->clip_norm();
  *optimizer = named;
  if (own == 0) return absl::OkStatus();
  if (named.clip_norm() != 0 && named.clip_norm() != own) {
    return Refuse(absl::StrFormat(
        "optimizer.clip_norm: the job has %g, but the program names %g: set one of them", own,
        named.clip_norm()));
  }
  optimizer->set_clip_norm(own);
  return absl::OkStatus();
}

constexpr char kOptimizerDiffers[] = "optimizer: the job has ";
constexpr char kRatesAreSaid[] =
    "schedule: the program says the learning rate of each step, so it has no effect: take it out "
    "of the job";
constexpr char kRatesAreTheRanks[] =
    "schedule: the program's ranks apply the optimizer (mean), so it has no effect: take it out of "
    "the job";
constexpr char kVaryInstead[] =
    ": set it in the program, and to vary it give the program an argument: program.args=--NAME=V1,"
    "--NAME=V2";

// A job that has only a program, with its defaults.
const proto::Job& PlainJob() {
  static const proto::Job job = [] {
    proto::Job plain;
    plain.mutable_program();
    FillDefaults(&plain);
    return plain;
  }();
  return job;
}

proto::Job Filled(proto::Job job) {
  FillDefaults(&job);
  return job;
}

// The job's defaults are filled in.
bool SetsSchedule(const proto::Job& job) {
  return job.schedule().SerializeAsString() != PlainJob().schedule().SerializeAsString();
}

// Returns whether it is a Python script, which gives its rates by itself if it names its optimizer.
bool IsScript(const proto::Program& program) {
  return absl::EndsWith(program.path(), ".py") ||
         (program.args_size() > 0 && absl::EndsWith(program.args(0), ".py"));
}

// Returns why the schedule of a program's job has no effect; empty: it may have one.
std::string WhyNoSchedule(const proto::Job& job) {
  if (job.optimizer().has_mean()) return "ranks apply the optimizer (optimizer.mean)";
  const bool names = job.optimizer().has_from_program() && IsScript(job.program());
  return names ? "the script has an optimizer of its own" : "";
}

// A field that no program reads.
struct UnreadField {
  const char* path;
  const char* why;
};
constexpr UnreadField kUnread[] = {
    {"model", "the job runs a program, which has a model of its own"},
    {"data", "belongs to model, a program reads its own"},
    {"max_steps", "belongs to model, a program ends when it likes"},
    {"evaluation", "belongs to model, a program measures when it likes"},
    {"debug.hash_weights", "belongs to model"},
    {"debug.nan_rank", "belongs to model"},
    {"debug.nan_step", "belongs to model"},
};

// Returns whether `path` is the field or below it.
bool IsWithin(absl::string_view path, absl::string_view field) {
  return path == field || absl::StartsWith(path, absl::StrCat(field, "."));
}

absl::Status CheckSettingIsRead(const std::string& setting, const proto::Job& job) {
  const std::string path = setting.substr(0, setting.find('='));
  const auto refuse = [&path](absl::string_view why) {
    return Refuse(absl::StrCat(path, ": ", why, kVaryInstead));
  };
  for (const UnreadField& field : kUnread) {
    if (IsWithin(path, field.path)) return refuse(field.why);
  }
  if (!job.has_program()) return absl::OkStatus();
  const std::string why_no_schedule = WhyNoSchedule(job);
  if (IsWithin(path, "schedule") && !why_no_schedule.empty()) return refuse(why_no_schedule);
  const bool shapes = job.schedule().has_cosine() && why_no_schedule.empty();
  if (path == "epochs" && !shapes) {
    return refuse("a program makes as many epochs as it likes");
  }
  return absl::OkStatus();
}

// Refuses fields of the job that are set without effect, apart from settings.
absl::Status CheckFieldsAreRead(const proto::Job& written) {
  if (written.max_steps() > 0) {
    return Refuse("max_steps: belongs to model, a program ends when it likes");
  }
  const proto::Job job = Filled(written);
  const proto::Job& plain = PlainJob();
  if (job.evaluation().SerializeAsString() != plain.evaluation().SerializeAsString()) {
    return Refuse("evaluation: belongs to model, a program measures when it likes");
  }
  if (job.debug().hash_weights()) return Refuse("debug.hash_weights: belongs to model");
  if (job.debug().has_nan_rank()) return Refuse("debug.nan_rank: belongs to model");
  const std::string why = WhyNoSchedule(job);
  if (why.empty() || !SetsSchedule(job)) return absl::OkStatus();
  return Refuse(absl::StrCat("schedule: ", why, kVaryInstead));
}

}  // namespace

std::string OptimizerText(const proto::Optimizer& optimizer) {
  return optimizer.ShortDebugString();
}

bool SaysProgramDecides(absl::string_view reason) {
  return absl::StrContains(reason, kOptimizerDiffers) || absl::StrContains(reason, kRatesAreSaid) ||
         absl::StrContains(reason, kRatesAreTheRanks);
}

absl::Status CheckProgramReads(bool is_of_program, const std::vector<std::string>& settings,
                               const proto::Job& job) {
  if (!is_of_program) return absl::OkStatus();
  for (const std::string& setting : settings) {
    if (absl::Status read = CheckSettingIsRead(setting, job); !read.ok()) return read;
  }
  return job.has_program() ? CheckFieldsAreRead(job) : absl::OkStatus();
}

namespace {

// Returns whether the job already has that optimizer.
bool IsSame(const proto::Optimizer& named, const proto::Job& job) {
  proto::Job other = job;
  *other.mutable_optimizer() = named;
  FillDefaults(&other);
  return other.optimizer().SerializeAsString() == job.optimizer().SerializeAsString();
}

}  // namespace

absl::Status TakeProgramOptimizer(const proto::Optimizer* named, bool says_rates, proto::Job* job) {
  const bool is_awaited = job->optimizer().has_from_program();
  if (is_awaited && named == nullptr) {
    return Refuse(
        "optimizer.from_program: the program has named no optimizer: it is to name one when it "
        "starts (JobFacts::optimizer, strata_facts.optimizer), or the job is to set another "
        "optimizer");
  }
  if (!is_awaited && named != nullptr && !IsSame(*named, *job)) {
    return Refuse(absl::StrCat(
        kOptimizerDiffers, KindName(job->optimizer()), ", but the program names ", KindName(*named),
        ": set optimizer { from_program {} }, or let the program name none"));
  }
  if (says_rates && job->exchange() == proto::Job::MPI) {
    return Refuse(
        "exchange: MPI takes learning rates from schedule, but the program says them in each step");
  }
  if (SetsSchedule(*job)) {
    const bool is_mean = named != nullptr && named->has_mean();
    if (says_rates) return Refuse(absl::StrCat(kRatesAreSaid, kVaryInstead));
    if (is_mean) return Refuse(absl::StrCat(kRatesAreTheRanks, kVaryInstead));
  }
  if (!is_awaited) return absl::OkStatus();
  if (named->kind_case() == proto::Optimizer::KIND_NOT_SET || named->has_from_program()) {
    return Refuse(absl::StrCat("optimizer: the program names ", KindName(*named),
                               ", which is no kind of optimizer"));
  }
  if (absl::Status taken = TakeClipNorm(*named, job->mutable_optimizer()); !taken.ok()) {
    return taken;
  }
  FillDefaults(job);
  return ValidateJob(*job);
}

void TakeProgramSamples(uint32_t samples, const proto::Optimizer* named, proto::Job* job) {
  if (samples == 0 || !job->has_program() || job->program().samples_per_rank() != 0) return;
  proto::Job named_job = *job;
  if (named != nullptr) {
    // Conflicting limits are refused when the optimizer is taken.
    TakeClipNorm(*named, named_job.mutable_optimizer()).IgnoreError();
  }
  const proto::Optimizer& optimizer = named_job.optimizer();
  if (!optimizer.has_lars() && optimizer.clip_norm() == 0) return;
  if (AppliesOnNodes(named_job)) job->mutable_program()->set_samples_per_rank(samples);
}

}  // namespace strata
