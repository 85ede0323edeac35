#include "common/job/consistency.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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

absl::Status CheckElastic(const proto::Async& async) {
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
  if (async.has_elastic()) return CheckElastic(async);
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

bool AppliesOnNodes(const proto::Job& job) {
  const bool needs_norms = job.optimizer().has_lars() || job.optimizer().clip_norm() > 0;
  // So that no part of the optimizer's state is lost with a node of a ring.
  const bool keeps_all =
      DropsLost(job) && !job.optimizer().has_mean() && job.exchange() == proto::Job::RING;
  return (needs_norms || keeps_all) && IsInStep(job.consistency()) && !HasLocalSteps(job);
}

bool NodesKeepState(const proto::Job& job) {
  // Other nodes may go on than have come to the checkpoint.
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

}  // namespace strata
