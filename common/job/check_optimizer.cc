#include "common/job/check_optimizer.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/number_check.h"

namespace strata {

absl::Status CheckOptimizer(const proto::Optimizer& optimizer) {
  if (optimizer.kind_case() == proto::Optimizer::KIND_NOT_SET) {
    return Refuse("optimizer: one kind is required");
  }
  const std::string kind =
      proto::Optimizer::descriptor()->FindFieldByNumber(optimizer.kind_case())->name();
  const auto name = [&](const char* field) {
    return absl::StrFormat("optimizer.%s.%s", kind, field);
  };
  const OptimizerParams params = MakeOptimizerParams(optimizer);
  const bool rmsprop = params.kind == OptimizerKind::kRmspropWarmup;
  const absl::Status clip = NotNegative("optimizer.clip_norm", optimizer.clip_norm());
  if (!clip.ok() || optimizer.has_from_program()) return clip;
  if (optimizer.has_lars()) {
    const absl::Status lars =
        Positive("optimizer.lars.coefficient", optimizer.lars().coefficient());
    if (!lars.ok()) return lars;
  }
  const bool adam = StateVectors(params.kind) == 2 && !rmsprop;
  const absl::Status decay = NotNegative(name("weight_decay").c_str(), params.weight_decay);
  if (!decay.ok()) return decay;
  if (StateVectors(params.kind) == 1) {
    return InHalfOpenRange(name("momentum").c_str(), params.momentum, 0, 1);
  }
  if (rmsprop) {
    return All({InHalfOpenRange(name("momentum").c_str(), params.momentum, 0, 1),
                InHalfOpenRange(name("decay").c_str(), params.beta2, 0, 1),
                Positive(name("epsilon").c_str(), params.epsilon),
                Positive(name("rms_lr").c_str(), params.rms_lr),
                NotNegative(name("center_epochs").c_str(), params.center_epochs),
                Positive(name("width_epochs").c_str(), params.width_epochs)});
  }
  if (!adam) return absl::OkStatus();
  return All({InHalfOpenRange(name("beta1").c_str(), params.beta1, 0, 1),
              InHalfOpenRange(name("beta2").c_str(), params.beta2, 0, 1),
              Positive(name("epsilon").c_str(), params.epsilon)});
}

namespace {

// Linear scaling must leave a rate that a float holds.
absl::Status CheckBaseBatch(const proto::Job& job) {
  const proto::Schedule& schedule = job.schedule();
  if (schedule.base_batch() == 0) return absl::OkStatus();
  if (SamplesPerRank(job) == 0) {
    return Refuse("schedule.base_batch: needs program.samples_per_rank, else no batch is known");
  }
  const uint64_t batch = uint64_t{job.ranks()} * SamplesPerRank(job);
  const double scale = static_cast<double>(batch) / schedule.base_batch();
  const double rate = schedule.base_lr() * scale;
  if (rate <= std::numeric_limits<float>::max() && static_cast<float>(rate) > 0) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrFormat(
      "schedule.base_batch: %d makes base_lr %g at %d samples a step, not a finite number > 0",
      schedule.base_batch(), rate, batch));
}

// Whatever depends on the kind is checked once the program has named it.
absl::Status CheckFromProgram(const proto::Job& job) {
  if (!job.optimizer().has_from_program()) return absl::OkStatus();
  if (!job.has_program()) {
    return Refuse("optimizer.from_program: needs a program, which names the optimizer");
  }
  return absl::OkStatus();
}

absl::Status CheckMean(const proto::Job& job) {
  if (!job.optimizer().has_mean()) return absl::OkStatus();
  if (!job.has_program()) {
    return Refuse("optimizer.mean: needs a program, whose ranks have optimizers of their own");
  }
  const proto::Consistency& consistency = job.consistency();
  const bool pushes_changes = consistency.lazy().local_steps() > 0;
  if (consistency.lazy().has_significance()) {
    return Refuse(
        "consistency.lazy.significance: nodes choose by weights, which optimizer.mean "
        "leaves to ranks");
  }
  if (!pushes_changes && !IsInStep(consistency)) {
    return Refuse(absl::StrFormat(
        "optimizer.mean: needs sync, double buffering or local_steps, not %s: where updates go on "
        "without some nodes, the optimizer is the servers'",
        ModeName(consistency)));
  }
  if (job.optimizer().clip_norm() > 0) {
    return Refuse("optimizer.clip_norm: with optimizer.mean ranks clip the mean themselves");
  }
  const bool is_ring = job.exchange() == proto::Job::RING;
  const proto::Encoding::Codec back = is_ring ? job.push().codec() : job.pull().codec();
  if (pushes_changes || back == proto::Encoding::FP32 || back == proto::Encoding::FP16 ||
      back == proto::Encoding::BF16) {
    return absl::OkStatus();
  }
  return Refuse(
      absl::StrFormat("%s.codec: %s, but optimizer.mean gives ranks gradients, which come "
                      "back as FP32, FP16 or BF16",
                      is_ring ? "push" : "pull", proto::Encoding::Codec_Name(back)));
}

}  // namespace

absl::Status CheckRecipe(const proto::Job& job) {
  if (absl::Status status = CheckFromProgram(job); !status.ok()) return status;
  if (absl::Status status = CheckMean(job); !status.ok()) return status;
  const proto::Optimizer& optimizer = job.optimizer();
  const proto::Schedule& schedule = job.schedule();
  if (absl::Status status = CheckBaseBatch(job); !status.ok()) return status;
  if (optimizer.has_rmsprop_warmup()) {
    const proto::RmspropWarmup& warmup = optimizer.rmsprop_warmup();
    if (schedule.warmup_epochs() > 0) {
      return Refuse("schedule.warmup_epochs: optimizer.rmsprop_warmup has its own warm-up");
    }
    const double end = warmup.center_epochs() + warmup.width_epochs() / 2;
    if (schedule.has_cosine() && schedule.cosine().final_lr() == 0 && end >= job.epochs()) {
      return Refuse(absl::StrFormat(
          "optimizer.rmsprop_warmup: ends after epoch %g, but schedule.cosine is at 0 after %d",
          end, job.epochs()));
    }
  }
  const bool needs_norms = optimizer.has_lars() || optimizer.clip_norm() > 0;
  if (!needs_norms) return absl::OkStatus();
  const char* const field = optimizer.has_lars() ? "optimizer.lars" : "optimizer.clip_norm";
  if (job.exchange() != proto::Job::PARAMETER_SERVER && job.exchange() != proto::Job::RING) {
    return Refuse(absl::StrFormat("%s: needs exchange: PARAMETER_SERVER or RING", field));
  }
  if (optimizer.has_lars() && !AppliesOnNodes(job)) {
    return Refuse(absl::StrFormat("optimizer.lars: needs sync or double buffering, not %s",
                                  ModeName(job.consistency())));
  }
  if (!AppliesOnNodes(job)) return absl::OkStatus();
  if (SamplesPerRank(job) == 0) {
    return Refuse(absl::StrFormat(
        "%s: needs program.samples_per_rank: nodes must know each other's samples", field));
  }
  const proto::Encoding::Codec push = job.push().codec();
  if (push == proto::Encoding::ONE_BIT || push == proto::Encoding::TOP_K ||
      push == proto::Encoding::DGC) {
    return Refuse(absl::StrFormat("push.codec: %s, but %s needs norms of whole gradients",
                                  proto::Encoding::Codec_Name(push), field));
  }
  if (job.pull().codec() != proto::Encoding::FP32) {
    return Refuse(
        absl::StrFormat("pull.codec: with %s nodes get gradients back, which are FP32", field));
  }
  return absl::OkStatus();
}

absl::Status CheckBatchNorm(const proto::Job& job) {
  if (!proto::Model::BatchNorm_IsValid(job.model().batch_norm())) {
    return Refuse(absl::StrFormat("model.batch_norm: %d is not one of RUNNING, LAST_BATCH",
                                  job.model().batch_norm()));
  }
  if (job.model().batch_norm() != proto::Model::LAST_BATCH) return absl::OkStatus();
  const proto::Consistency& consistency = job.consistency();
  if (HasLocalSteps(job) || MakeDelayCompensation(consistency)) {
    return Refuse(
        absl::StrFormat("model.batch_norm: LAST_BATCH does not go with %s", ModeName(consistency)));
  }
  for (const auto& [field, codec] :
       {std::pair("push.codec", job.push().codec()), std::pair("pull.codec", job.pull().codec())}) {
    using proto::Encoding;
    if (codec == Encoding::FP32 || codec == Encoding::FP16 || codec == Encoding::BF16) continue;
    return Refuse(
        absl::StrFormat("%s: model.batch_norm: LAST_BATCH needs FP32, FP16 or BF16", field));
  }
  return absl::OkStatus();
}

}  // namespace strata
