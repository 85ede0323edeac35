#include "common/job/program_optimizer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "common/job/number_check.h"

namespace strata {
namespace {

std::string KindName(const proto::Optimizer& optimizer) {
  const auto* const field =
      proto::Optimizer::descriptor()->FindFieldByNumber(optimizer.kind_case());
  return field == nullptr ? "none" : field->name();
}

// A job's own limit stays; two that differ would leave one of them without effect.
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

}  // namespace

std::string OptimizerText(const proto::Optimizer& optimizer) {
  return optimizer.ShortDebugString();
}

namespace {

// Whether the job has that optimizer already.
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
    return Refuse(absl::StrFormat(
        "optimizer: the job has %s, but the program names %s: set optimizer { from_program {} }, "
        "or let the program name none",
        KindName(job->optimizer()), KindName(*named)));
  }
  if (says_rates && job->exchange() == proto::Job::MPI) {
    return Refuse(
        "exchange: MPI takes learning rates from schedule, but the program says them in each step");
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

}  // namespace strata
