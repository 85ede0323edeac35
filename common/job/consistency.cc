#include "common/job/consistency.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/job/encoding.h"
#include "common/job/job.h"
#include "common/job/number_check.h"

namespace strata {
namespace {

constexpr uint32_t kGraceMsMax = 60'000;

absl::Status CheckLocalSteps(const proto::Lazy& lazy) {
  if (lazy.local_steps() == 0) {
    return lazy.has_outer() ? Refuse("consistency.lazy.outer: belongs to local_steps")
                            : absl::OkStatus();
  }
  const proto::Outer& outer = lazy.outer();
  return All({InRange("consistency.lazy.local_steps", lazy.local_steps(), 0, kLocalStepsMax),
              Positive("consistency.lazy.outer.lr", outer.lr()),
              InHalfOpenRange("consistency.lazy.outer.momentum", outer.momentum(), 0, 1)});
}

absl::Status CheckDoubleBuffering(const proto::Lazy& lazy) {
  if (!lazy.double_buffering()) return absl::OkStatus();
  const char* const field = "consistency.lazy.double_buffering";
  if (lazy.local_steps() > 0) {
    return Refuse(absl::StrFormat("%s: goes with gradients of every step, not with local_steps: %d",
                                  field, lazy.local_steps()));
  }
  if (lazy.staleness() != 0 || lazy.apply() != proto::Lazy::PER_CLOCK) {
    return Refuse(absl::StrFormat("%s: needs staleness: 0 and apply: PER_CLOCK", field));
  }
  return absl::OkStatus();
}

absl::Status CheckQuorum(const proto::Lazy& lazy) {
  if (!lazy.has_quorum()) return absl::OkStatus();
  if (lazy.staleness() != 0 || lazy.apply() != proto::Lazy::PER_CLOCK || lazy.double_buffering()) {
    return Refuse(
        "consistency.lazy.quorum: needs staleness: 0 and apply: PER_CLOCK, without "
        "double_buffering");
  }
  if (lazy.quorum().nodes() == 0) return Refuse("consistency.lazy.quorum.nodes: is required");
  return InRange("consistency.lazy.quorum.grace_ms", lazy.quorum().grace_ms(), 0, kGraceMsMax);
}

absl::Status CheckSignificance(const proto::Lazy& lazy) {
  if (!lazy.has_significance()) return absl::OkStatus();
  if (lazy.local_steps() == 0) {
    return Refuse("consistency.lazy.significance: belongs to local_steps");
  }
  return Positive("consistency.lazy.significance.threshold", lazy.significance().threshold());
}

absl::Status CheckLazy(const proto::Lazy& lazy) {
  if (!proto::Lazy::Apply_IsValid(lazy.apply())) {
    return Refuse(absl::StrFormat("consistency.lazy.apply: %d is not one of PER_CLOCK, ON_ARRIVAL",
                                  lazy.apply()));
  }
  return All({InRange("consistency.lazy.staleness", lazy.staleness(), 0, kStalenessMax),
              CheckLocalSteps(lazy), CheckDoubleBuffering(lazy), CheckQuorum(lazy),
              CheckSignificance(lazy)});
}

absl::Status CheckElasticConsistency(const proto::Async& async) {
  if (async.damping() != proto::Async::NONE || async.has_delay_compensation()) {
    return Refuse(
        "consistency.async.elastic: exchanges weights, but damping and delay_compensation are for "
        "gradients");
  }
  return All({InRange("consistency.async.elastic.every_steps", async.elastic().every_steps(), 1,
                      kLocalStepsMax),
              Positive("consistency.async.elastic.moving_rate", async.elastic().moving_rate())});
}

absl::Status CheckAsync(const proto::Async& async) {
  if (!proto::Async::Damping_IsValid(async.damping())) {
    return Refuse(absl::StrFormat(
        "consistency.async.damping: %d is not one of NONE, INVERSE_STALENESS", async.damping()));
  }
  if (async.has_elastic()) return CheckElasticConsistency(async);
  if (!async.has_delay_compensation()) return absl::OkStatus();
  const proto::DelayCompensation& how = async.delay_compensation();
  return All({Positive("consistency.async.delay_compensation.lambda", how.lambda()),
              InHalfOpenRange("consistency.async.delay_compensation.decay", how.decay(), 0, 1)});
}

std::string LazyName(const proto::Lazy& lazy) {
  if (lazy.double_buffering()) return "double buffering";
  std::string name = absl::StrCat("lazy(", lazy.staleness());
  if (lazy.apply() == proto::Lazy::ON_ARRIVAL) absl::StrAppend(&name, ", on arrival");
  if (lazy.local_steps() > 0) {
    absl::StrAppend(&name, ", ", lazy.local_steps(), " local steps, outer ",
                    absl::StrFormat("%g", lazy.outer().lr()));
    if (lazy.outer().momentum() > 0) {
      absl::StrAppend(&name, ", momentum ", absl::StrFormat("%g", lazy.outer().momentum()));
    }
  }
  if (lazy.has_significance()) {
    absl::StrAppend(&name, ", significance ",
                    absl::StrFormat("%g", lazy.significance().threshold()));
  }
  if (lazy.has_quorum()) absl::StrAppend(&name, ", quorum ", lazy.quorum().nodes());
  if (lazy.quorum().grace_ms() > 0) {
    absl::StrAppend(&name, " and ", lazy.quorum().grace_ms(), " ms");
  }
  return name + ")";
}

std::string AsyncName(const proto::Async& async) {
  std::vector<std::string> parts;
  if (async.damping() == proto::Async::INVERSE_STALENESS) parts.push_back("inverse staleness");
  if (async.has_delay_compensation()) {
    const proto::DelayCompensation& how = async.delay_compensation();
    parts.push_back(absl::StrFormat("%sdelay compensation %g", how.adaptive() ? "adaptive " : "",
                                    how.lambda()));
  }
  if (async.has_elastic()) {
    parts.push_back(absl::StrFormat("elastic every %d steps, moving rate %g",
                                    async.elastic().every_steps(), async.elastic().moving_rate()));
  }
  return parts.empty() ? "async" : absl::StrCat("async(", absl::StrJoin(parts, ", "), ")");
}

}  // namespace

absl::Status CheckConsistency(const proto::Consistency& consistency) {
  switch (consistency.mode_case()) {
    case proto::Consistency::MODE_NOT_SET:
      return Refuse("consistency: one mode is required");
    case proto::Consistency::kSync:
      return absl::OkStatus();
    case proto::Consistency::kLazy:
      return CheckLazy(consistency.lazy());
    case proto::Consistency::kAsync:
      return CheckAsync(consistency.async());
    case proto::Consistency::kPreset:
      return ParsePreset(consistency.preset()).status();
  }
  return absl::OkStatus();
}

std::string ModeName(const proto::Consistency& consistency) {
  switch (consistency.mode_case()) {
    case proto::Consistency::MODE_NOT_SET:
    case proto::Consistency::kSync:
      return "sync";
    case proto::Consistency::kLazy:
      return LazyName(consistency.lazy());
    case proto::Consistency::kAsync:
      return AsyncName(consistency.async());
    case proto::Consistency::kPreset:
      return consistency.preset();
  }
  return "";
}

bool HasLocalSteps(const proto::Job& job) {
  return job.consistency().lazy().local_steps() > 0 || job.consistency().async().has_elastic();
}

bool NodesMakeLocalSteps(const proto::Job& job) {
  return HasLocalSteps(job) && !job.optimizer().has_mean();
}

uint64_t StepsPerClock(const proto::Job& job) {
  const proto::Consistency& consistency = job.consistency();
  if (consistency.async().has_elastic()) return consistency.async().elastic().every_steps();
  return NodesMakeLocalSteps(job) ? consistency.lazy().local_steps() : 1;
}

uint64_t ProgramStepsPerStep(const proto::Job& job) {
  const bool is_by_ranks = HasLocalSteps(job) && job.optimizer().has_mean();
  return is_by_ranks ? std::max<uint64_t>(1, job.consistency().lazy().local_steps()) : 1;
}

bool AppliesOnNodes(const proto::Job& job) {
  const bool needs_norms = job.optimizer().has_lars() || job.optimizer().clip_norm() > 0;
  // So that no part of the optimizer's state is lost with a node of a ring.
  const bool keeps_all =
      DropsLost(job) && !job.optimizer().has_mean() && job.exchange() == proto::Job::RING;
  return (needs_norms || keeps_all) && IsInStep(job.consistency()) && !HasLocalSteps(job);
}

bool NodesKeepState(const proto::Job& job) {
  // The resuming nodes may differ from those that reached the checkpoint.
  if (IsElastic(job)) return false;
  const bool by_servers = job.exchange() == proto::Job::PARAMETER_SERVER;
  // A ring encodes without feedback.
  return (by_servers && IsEncoded(job.push())) || AppliesOnNodes(job) || NodesMakeLocalSteps(job) ||
         job.consistency().lazy().double_buffering();
}

bool RanksKeepWeights(const proto::Job& job) {
  return job.exchange() == proto::Job::NONE || job.exchange() == proto::Job::NCCL ||
         job.exchange() == proto::Job::MPI;
}

uint64_t ClocksPerCheckpoint(const proto::Job& job) {
  const uint64_t steps = StepsPerClock(job);
  return (job.checkpoint().every_steps() + steps - 1) / steps;
}

bool MayMarkAbsent(const proto::Job& job) {
  return job.exchange() == proto::Job::PARAMETER_SERVER && !IsEncoded(job.push()) &&
         !HasLocalSteps(job);
}

bool IsInStep(const proto::Consistency& consistency) {
  if (consistency.has_sync()) return true;
  const proto::Lazy& lazy = consistency.lazy();
  return consistency.has_lazy() && lazy.staleness() == 0 &&
         lazy.apply() == proto::Lazy::PER_CLOCK && !lazy.has_quorum();
}

std::optional<DelayCompensation> MakeDelayCompensation(const proto::Consistency& consistency) {
  if (!consistency.async().has_delay_compensation()) return std::nullopt;
  const proto::DelayCompensation& how = consistency.async().delay_compensation();
  return DelayCompensation{how.lambda(), how.adaptive(), how.decay()};
}

OptimizerParams SharedOptimizer(const proto::Job& job) {
  if (AppliesOnNodes(job)) return {.kind = OptimizerKind::kMean};
  if (!HasLocalSteps(job)) return MakeOptimizerParams(job.optimizer());
  const float momentum = job.consistency().lazy().outer().momentum();
  return {.kind = momentum > 0 ? OptimizerKind::kNesterov : OptimizerKind::kSgd,
          .momentum = momentum,
          .weight_decay = 0};
}

proto::Schedule SharedSchedule(const proto::Job& job) {
  if (!HasLocalSteps(job)) return JobSchedule(job);
  // The center's rate, too: each node has its share of it.
  const proto::Async& async = job.consistency().async();
  proto::Schedule constant;
  constant.set_base_lr(async.has_elastic() ? async.elastic().moving_rate()
                                           : job.consistency().lazy().outer().lr());
  constant.mutable_constant();
  return constant;
}

namespace {

constexpr uint32_t kNodesMax = 1024;
constexpr float kLambda = 0.04f, kAdaptiveLambda = 2.0f, kSquareDecay = 0.95f;
constexpr uint32_t kElasticSteps = 10;
constexpr float kMovingRate = 0.9f, kThreshold = 0.01f;
constexpr float kOuterLr = 1.0f, kOuterMomentumLr = 0.7f, kOuterMomentum = 0.9f;
constexpr char kPresets[] =
    "sync, delay1, ssp(s), local(H), diloco(H), quorum(K), async, async_damped, async_dc, easgd, "
    "significance";

proto::Consistency LocalSteps(uint32_t steps, float outer_momentum) {
  proto::Consistency consistency;
  proto::Lazy* lazy = consistency.mutable_lazy();
  lazy->set_local_steps(steps);
  lazy->mutable_outer()->set_momentum(outer_momentum);
  return consistency;
}

// The number in "name(number)"; none: it has another name.
struct Call {
  std::string name;
  std::optional<uint32_t> argument;
};

absl::StatusOr<Call> ParseCall(const std::string& text) {
  const size_t open = text.find('(');
  if (open == std::string::npos) return Call{text, std::nullopt};
  uint32_t argument = 0;
  const std::string inside = text.substr(open + 1, text.size() - open - 2);
  if (text.back() != ')' || !absl::SimpleAtoi(inside, &argument)) {
    return Refuse(absl::StrFormat("consistency.preset: \"%s\" is not NAME or NAME(NUMBER)", text));
  }
  return Call{text.substr(0, open), argument};
}

absl::StatusOr<uint32_t> ArgumentOf(const Call& call, const char* what, uint32_t least,
                                    uint32_t most) {
  if (!call.argument) {
    return Refuse(absl::StrFormat("consistency.preset: \"%s\" wants its %s, as in \"%s(%d)\"",
                                  call.name, what, call.name, least + 3));
  }
  if (*call.argument >= least && *call.argument <= most) return *call.argument;
  return Refuse(absl::StrFormat("consistency.preset: \"%s(%d)\": %s is not in %d to %d", call.name,
                                *call.argument, what, least, most));
}

}  // namespace

absl::StatusOr<proto::Consistency> ParsePreset(const std::string& name) {
  const absl::StatusOr<Call> call = ParseCall(name);
  if (!call.ok()) return call.status();
  proto::Consistency consistency;
  if (call->name == "ssp") {
    const auto staleness = ArgumentOf(*call, "staleness", 0, kStalenessMax);
    if (!staleness.ok()) return staleness.status();
    consistency.mutable_lazy()->set_staleness(*staleness);
    return consistency;
  }
  if (call->name == "local" || call->name == "diloco") {
    const auto steps = ArgumentOf(*call, "local steps", 1, kLocalStepsMax);
    if (!steps.ok()) return steps.status();
    return LocalSteps(*steps, call->name == "local" ? 0 : kOuterMomentum);
  }
  if (call->name == "quorum") {
    const auto nodes = ArgumentOf(*call, "nodes", 1, kNodesMax);
    if (!nodes.ok()) return nodes.status();
    consistency.mutable_lazy()->mutable_quorum()->set_nodes(*nodes);
    return consistency;
  }
  constexpr const char* kWithoutNumber[] = {"sync",     "delay1",       "async", "async_damped",
                                            "async_dc", "significance", "easgd"};
  if (call->argument && absl::c_linear_search(kWithoutNumber, call->name)) {
    return Refuse(
        absl::StrFormat("consistency.preset: \"%s\": %s takes no number", name, call->name));
  }
  if (name == "sync") {
    consistency.mutable_sync();
  } else if (name == "delay1") {
    consistency.mutable_lazy()->set_double_buffering(true);
  } else if (name == "async") {
    consistency.mutable_async();
  } else if (name == "async_damped") {
    consistency.mutable_async()->set_damping(proto::Async::INVERSE_STALENESS);
  } else if (name == "async_dc") {
    consistency.mutable_async()->mutable_delay_compensation();
  } else if (name == "significance") {
    consistency = LocalSteps(1, 0);
    consistency.mutable_lazy()->mutable_significance();
  } else if (name == "easgd") {
    consistency.mutable_async()->mutable_elastic();
  } else {
    return Refuse(absl::StrFormat("consistency.preset: \"%s\" is not one of %s", name, kPresets));
  }
  return consistency;
}

absl::StatusOr<std::vector<std::string>> SettingsOfMode(const std::string& mode) {
  if (mode == "ring") return std::vector<std::string>{"consistency.sync={}", "exchange=RING"};
  if (mode == "lazy") return std::vector<std::string>{"consistency.lazy={}"};
  const size_t colon = mode.find(':');
  const std::string name = colon == std::string::npos ? mode : mode.substr(colon + 1);
  const absl::StatusOr<proto::Consistency> preset = ParsePreset(name);
  if (!preset.ok()) {
    const std::string why(absl::StripPrefix(preset.status().message(), "consistency.preset: "));
    return Refuse(absl::EndsWith(why, kPresets) ? absl::StrCat(why, ", lazy, ring") : why);
  }
  const auto* member = proto::Consistency::descriptor()->FindFieldByNumber(preset->mode_case());
  if (colon != std::string::npos && mode.substr(0, colon) != member->name()) {
    return Refuse(absl::StrFormat("\"%s\": %s is %s", mode, name, member->name()));
  }
  const std::string text = preset->GetReflection()->GetMessage(*preset, member).ShortDebugString();
  return std::vector<std::string>{absl::StrFormat("consistency.%s={%s}", member->name(), text)};
}

void ExpandPreset(proto::Consistency* consistency) {
  if (!consistency->has_preset()) return;
  const std::string name = consistency->preset();
  const absl::StatusOr<proto::Consistency> preset = ParsePreset(name);
  if (!preset.ok()) return;
  *consistency = *preset;
  consistency->set_preset_name(name);
}

proto::Consistency WithoutName(proto::Consistency consistency) {
  consistency.clear_preset_name();
  return consistency;
}

std::string ShownModeName(const proto::Consistency& consistency) {
  absl::StatusOr<proto::Consistency> preset = ParsePreset(consistency.preset_name());
  if (!preset.ok()) return ModeName(consistency);
  proto::Consistency now = WithoutName(consistency);
  FillConsistency(&now);
  FillConsistency(&*preset);
  const bool is_still_preset = now.SerializeAsString() == preset->SerializeAsString();
  return is_still_preset ? consistency.preset_name() : ModeName(consistency);
}

std::string ShownModeName(const proto::Job& job) {
  const std::string name = ShownModeName(job.consistency());
  if (!job.rows().has_consistency()) return name;
  const std::string of_rows = ShownModeName(job.rows().consistency());
  return of_rows == name ? name : absl::StrCat(name, ", rows ", of_rows);
}

std::string DoesNotGoWithRows(const proto::Consistency& consistency) {
  const proto::Lazy& lazy = consistency.lazy();
  if (lazy.local_steps() > 0) return "lazy.local_steps";
  if (lazy.has_quorum()) return "lazy.quorum";
  if (lazy.double_buffering()) return "lazy.double_buffering";
  if (consistency.async().has_elastic()) return "async.elastic";
  return MakeDelayCompensation(consistency) ? "async.delay_compensation" : "";
}

std::string PresetOfMode(const std::string& mode) {
  const std::string name = mode.substr(mode.find(':') + 1);
  return ParsePreset(name).ok() ? name : "";
}

void FillConsistency(proto::Consistency* consistency) {
  if (consistency->mode_case() == proto::Consistency::MODE_NOT_SET) consistency->mutable_sync();
  ExpandPreset(consistency);
  if (consistency->async().has_delay_compensation()) {
    proto::DelayCompensation* how = consistency->mutable_async()->mutable_delay_compensation();
    if (!how->has_lambda()) how->set_lambda(how->adaptive() ? kAdaptiveLambda : kLambda);
    if (!how->has_decay()) how->set_decay(kSquareDecay);
  }
  if (consistency->async().has_elastic()) {
    proto::Elastic* elastic = consistency->mutable_async()->mutable_elastic();
    if (elastic->every_steps() == 0) elastic->set_every_steps(kElasticSteps);
    if (!elastic->has_moving_rate()) elastic->set_moving_rate(kMovingRate);
  }
  if (!consistency->has_lazy()) return;
  proto::Lazy* lazy = consistency->mutable_lazy();
  if (!lazy->has_staleness()) {
    const bool in_step = lazy->local_steps() > 0 || lazy->double_buffering() || lazy->has_quorum();
    lazy->set_staleness(in_step ? 0 : 2);
  }
  if (lazy->has_significance() && !lazy->significance().has_threshold()) {
    lazy->mutable_significance()->set_threshold(kThreshold);
  }
  if (lazy->local_steps() == 0) return;
  proto::Outer* outer = lazy->mutable_outer();
  if (!outer->has_lr()) outer->set_lr(outer->momentum() > 0 ? kOuterMomentumLr : kOuterLr);
}

}  // namespace strata
