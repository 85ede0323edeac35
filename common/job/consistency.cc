#include "common/job/consistency.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"

namespace strata {
namespace {

absl::Status Refuse(const std::string& line) { return absl::InvalidArgumentError(line); }

absl::Status CheckLocalSteps(const proto::Lazy& lazy) {
  if (lazy.local_steps() == 0) {
    return lazy.has_outer() ? Refuse("consistency.lazy.outer: belongs to local_steps")
                            : absl::OkStatus();
  }
  if (lazy.local_steps() > kLocalStepsMax) {
    return Refuse(absl::StrFormat("consistency.lazy.local_steps: %d is not in 0 to %d",
                                  lazy.local_steps(), kLocalStepsMax));
  }
  const proto::Outer& outer = lazy.outer();
  if (!std::isfinite(outer.lr()) || outer.lr() <= 0) {
    return Refuse(
        absl::StrFormat("consistency.lazy.outer.lr: %g is not a finite number > 0", outer.lr()));
  }
  if (outer.momentum() >= 0 && outer.momentum() < 1) return absl::OkStatus();
  return Refuse(absl::StrFormat("consistency.lazy.outer.momentum: %g is not a number >= 0 and < 1",
                                outer.momentum()));
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

absl::Status CheckLazy(const proto::Lazy& lazy) {
  if (!proto::Lazy::Apply_IsValid(lazy.apply())) {
    return Refuse(absl::StrFormat("consistency.lazy.apply: %d is not one of PER_CLOCK, ON_ARRIVAL",
                                  lazy.apply()));
  }
  if (lazy.staleness() > kStalenessMax) {
    return Refuse(absl::StrFormat("consistency.lazy.staleness: %d is not in 0 to %d",
                                  lazy.staleness(), kStalenessMax));
  }
  if (absl::Status status = CheckLocalSteps(lazy); !status.ok()) return status;
  return CheckDoubleBuffering(lazy);
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
  return name + ")";
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
      if (proto::Async::Damping_IsValid(consistency.async().damping())) return absl::OkStatus();
      return Refuse(
          absl::StrFormat("consistency.async.damping: %d is not one of NONE, INVERSE_STALENESS",
                          consistency.async().damping()));
    case proto::Consistency::kPreset:
      return PresetOf(consistency.preset()).status();
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
      return consistency.async().damping() == proto::Async::INVERSE_STALENESS
                 ? "async(inverse staleness)"
                 : "async";
    case proto::Consistency::kPreset:
      return consistency.preset();
  }
  return "";
}

bool IsInStep(const proto::Consistency& consistency) {
  if (consistency.has_sync()) return true;
  return consistency.has_lazy() && consistency.lazy().staleness() == 0 &&
         consistency.lazy().apply() == proto::Lazy::PER_CLOCK;
}

OptimizerParams SharedOptimizerOf(const proto::Job& job) {
  if (!HasLocalSteps(job)) return OptimizerParamsOf(job.optimizer());
  const float momentum = job.consistency().lazy().outer().momentum();
  return {.kind = momentum > 0 ? OptimizerKind::kNesterov : OptimizerKind::kSgd,
          .momentum = momentum,
          .weight_decay = 0};
}

proto::Schedule SharedScheduleOf(const proto::Job& job) {
  if (!HasLocalSteps(job)) return job.schedule();
  proto::Schedule constant;
  constant.set_base_lr(job.consistency().lazy().outer().lr());
  constant.mutable_constant();
  return constant;
}

}  // namespace strata
