#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/job/consistency.h"
#include "common/job/number_check.h"

namespace strata {
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

// The number in "name(number)"; none: it is not of this name.
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
  const absl::StatusOr<proto::Consistency> preset = ParsePreset(consistency->preset());
  if (preset.ok()) *consistency = *preset;
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
