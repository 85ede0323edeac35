#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/job/job.h"
#include "common/job/number_check.h"
#include "common/job/placement.h"
#include "common/job/zoo.h"
#include "common/os/limits.h"
#include "proto/job.pb.h"

namespace strata {
namespace {

// The maximum number of samples of a rank in a step.
inline constexpr uint32_t kBatchMax = 65536;

constexpr uint32_t kClassesMax = 65536;  // labels have 16 bits
constexpr uint64_t kSampleElementsMax = 1 << 24;
constexpr uint64_t kSamplesMax = 1 << 26;

absl::Status CheckSynthetic(const proto::Synthetic& data) {
  const absl::Status sizes = All({InRange("data.synthetic.classes", data.classes(), 2, kClassesMax),
                                  InRange("data.synthetic.channels", data.channels(), 1, 65536),
                                  InRange("data.synthetic.height", data.height(), 1, 65536),
                                  InRange("data.synthetic.width", data.width(), 1, 65536)});
  if (!sizes.ok()) return sizes;
  const uint64_t elements = static_cast<uint64_t>(data.channels()) * data.height() * data.width();
  return InRange("data.synthetic: channels * height * width", elements, 1, kSampleElementsMax);
}

absl::Status CheckSyntheticImageNet(const proto::SyntheticImageNet& data) {
  return All(
      {InRange("data.synthetic_imagenet.classes", data.classes(), 2, kClassesMax),
       InRange("data.synthetic_imagenet.size", data.size(), 16, 1024),
       InRange("data.synthetic_imagenet.train_samples", data.train_samples(), 1, kSamplesMax),
       InRange("data.synthetic_imagenet.test_samples", data.test_samples(), 1, kSamplesMax)});
}

absl::Status CheckSource(const proto::Data& data) {
  switch (data.source_case()) {
    case proto::Data::SOURCE_NOT_SET:
      return Refuse(
          "data.idx, data.synthetic, data.cifar10, data.synthetic_imagenet: one of them is "
          "required");
    case proto::Data::kIdx:
      return data.idx().dir().empty() ? Refuse("data.idx.dir: is required") : absl::OkStatus();
    case proto::Data::kCifar10:
      return data.cifar10().dir().empty() ? Refuse("data.cifar10.dir: is required")
                                          : absl::OkStatus();
    case proto::Data::kSynthetic:
      return CheckSynthetic(data.synthetic());
    case proto::Data::kSyntheticImagenet:
      return CheckSyntheticImageNet(data.synthetic_imagenet());
  }
  return absl::OkStatus();
}

// A whole batch of every rank must fit into an epoch, if its size is known from the job alone.
absl::Status CheckEpochHoldsABatch(const proto::Job& job) {
  const proto::Data& data = job.data();
  uint64_t samples = data.limit_train();
  const char* field = "data.limit_train";
  const auto take = [&](const char* from, uint64_t count) {
    if (samples == 0 || count < samples) {
      samples = count;
      field = from;
    }
  };
  if (data.has_synthetic()) {
    take("data.synthetic.train_samples", data.synthetic().train_samples());
  }
  if (data.has_synthetic_imagenet()) {
    take("data.synthetic_imagenet.train_samples", data.synthetic_imagenet().train_samples());
  }
  const uint32_t ranks = std::max(job.ranks(), job.ranks_max());
  const uint64_t batch = static_cast<uint64_t>(data.batch_per_rank()) * ranks;
  if (samples == 0 || samples >= batch) return absl::OkStatus();
  return Refuse(absl::StrFormat("%s: %d is less than one step of all ranks (%d x %d = %d)", field,
                                samples, ranks, data.batch_per_rank(), batch));
}

// Returns the images' shape and the field that gives it, if the job alone tells: IDX files may have
// any.
std::optional<std::pair<const char*, ImageShape>> ImagesOf(const proto::Data& data) {
  if (data.has_cifar10()) return std::pair("data.cifar10", ImageShape{3, 32, 32, 10});
  if (data.has_synthetic()) {
    const proto::Synthetic& of = data.synthetic();
    return std::pair("data.synthetic",
                     ImageShape{of.channels(), of.height(), of.width(), of.classes()});
  }
  if (data.has_synthetic_imagenet()) {
    const proto::SyntheticImageNet& of = data.synthetic_imagenet();
    return std::pair("data.synthetic_imagenet", ImageShape{3, of.size(), of.size(), of.classes()});
  }
  return std::nullopt;
}

// Part of ValidateJob: the data, that an epoch holds a batch of it, and that the model takes its
// images, as far as the job alone tells. Errors: InvalidArgument, one line.
absl::Status CheckData(const proto::Job& job) {
  if (!job.has_data()) return absl::OkStatus();
  const absl::Status fields =
      All({InRange("data.batch_per_rank", job.data().batch_per_rank(), 1, kBatchMax),
           CheckSource(job.data()), CheckEpochHoldsABatch(job)});
  if (!fields.ok()) return fields;
  const auto images = ImagesOf(job.data());
  if (!images.has_value()) return absl::OkStatus();
  return CheckZooInput(job.model().zoo(), images->first, images->second);
}

absl::Status CheckPrecision(const proto::Job& job) {
  const proto::Model::Precision precision = job.model().precision();
  if (!proto::Model::Precision_IsValid(precision)) {
    return Refuse(absl::StrFormat("model.precision: %d is not one of FP32, TF32, BF16", precision));
  }
  if (precision == proto::Model::FP32 || job.device() == proto::Job::GPU) return absl::OkStatus();
  return Refuse(absl::StrFormat("model.precision: %s needs device: GPU",
                                proto::Model::Precision_Name(precision)));
}

absl::Status CheckNccl(const proto::Job& job) {
  if (job.exchange() != proto::Job::NCCL) return absl::OkStatus();
  if (job.device() != proto::Job::GPU) {
    return Refuse("exchange: NCCL adds up what lies on GPUs, so it needs device: GPU");
  }
  if (job.consistency().has_sync()) return absl::OkStatus();
  return Refuse(absl::StrFormat("consistency: exchange: NCCL is sync, %s needs servers",
                                ModeName(job.consistency())));
}

absl::Status CheckNodeSum(const proto::Job& job) {
  const proto::NodeSum::By by = job.node_sum();
  if (!proto::NodeSum::By_IsValid(by)) {
    return Refuse(absl::StrFormat("node_sum: %d is not one of AGGREGATOR, NCCL", by));
  }
  if (by == proto::NodeSum::AGGREGATOR) return absl::OkStatus();
  if (job.device() != proto::Job::GPU) {
    return Refuse("node_sum: NCCL adds up what lies on GPUs, so it needs device: GPU");
  }
  if (job.exchange() == proto::Job::PARAMETER_SERVER || job.exchange() == proto::Job::RING) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrFormat("node_sum: NCCL needs exchange: PARAMETER_SERVER or RING, not %s",
                                proto::Job::Exchange_Name(job.exchange())));
}

// Part of ValidateJob: the device of ranks, and what requires GPUs. Errors: InvalidArgument, one
// line.
absl::Status CheckDevice(const proto::Job& job) {
  if (!proto::Job::Device_IsValid(job.device())) {
    return Refuse(absl::StrFormat("device: %d is not one of CPU, GPU", job.device()));
  }
  if (absl::Status status = CheckPrecision(job); !status.ok()) return status;
  if (absl::Status status = CheckNccl(job); !status.ok()) return status;
  if (absl::Status status = CheckNodeSum(job); !status.ok()) return status;
  if (job.device() == proto::Job::CPU) return absl::OkStatus();
  if (job.exchange() == proto::Job::MPI) {
    return Refuse("device: GPU does not go with exchange: MPI, which adds up on the host");
  }
  return absl::OkStatus();
}

constexpr uint32_t kKeepMax = 1000;
constexpr uint32_t kAttemptsMax = 1000;
constexpr uint32_t kReplacedPerHourMax = 100'000;
constexpr uint32_t kPatienceSMax = 7 * 24 * 3600;
// A shorter time would not be noticed.
constexpr uint32_t kHangAfterSMin = 3;

// Nodes keep answers as weights.
absl::Status CheckNodes(const proto::Job& job) {
  if (!job.consistency().lazy().double_buffering() || !IsEncoded(job.pull())) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrFormat(
      "checkpoint: consistency: %s goes with pull.codec: FP32 only, not %s",
      ModeName(job.consistency()), proto::Encoding::Codec_Name(job.pull().codec())));
}

absl::Status CheckCheckpoint(const proto::Job& job) {
  if (!job.has_checkpoint()) {
    return job.has_restart() ? Refuse("restart: needs checkpoint, which a failed job goes on from")
                             : absl::OkStatus();
  }
  const proto::Checkpoint& checkpoint = job.checkpoint();
  if (checkpoint.dir().empty()) return Refuse("checkpoint.dir: is required");
  if (!absl::StartsWith(checkpoint.dir(), "/") && !absl::StartsWith(checkpoint.dir(), "s3://")) {
    return Refuse(
        absl::StrFormat("checkpoint.dir: \"%s\" is neither an absolute path nor s3://BUCKET/PREFIX",
                        checkpoint.dir()));
  }
  const absl::Status ranges =
      All({InRange("checkpoint.every_steps", checkpoint.every_steps(), 1, INT64_MAX),
           InRange("checkpoint.keep", checkpoint.keep(), 1, kKeepMax)});
  if (!ranges.ok()) return ranges;
  if (absl::Status status = CheckNodes(job); !status.ok()) return status;
  if (!job.has_restart()) return absl::OkStatus();
  if (job.exchange() == proto::Job::MPI) {
    return Refuse(
        "restart: a job with exchange: MPI is started by mpirun; start it again with --resume");
  }
  return All({InRange("restart.attempts", job.restart().attempts(), 1, kAttemptsMax),
              Positive("restart.within_hours", job.restart().within_hours())});
}

absl::Status CheckCopies(const proto::Job& job) {
  if (job.replicas() > 0 && job.exchange() != proto::Job::PARAMETER_SERVER) {
    return Refuse("replicas: belongs to exchange: PARAMETER_SERVER: others have no servers");
  }
  if (!proto::Job::Unprotected_IsValid(job.while_unprotected())) {
    return Refuse(absl::StrFormat("while_unprotected: %d is not one of GO_ON, WAIT",
                                  job.while_unprotected()));
  }
  if (job.while_unprotected() != proto::Job::GO_ON && job.replicas() == 0) {
    return Refuse(absl::StrFormat(
        "while_unprotected: %s needs replicas: 1: without second copies none can be waited for",
        proto::Job::Unprotected_Name(job.while_unprotected())));
  }
  return absl::OkStatus();
}

// Refuses jobs whose nodes keep state of their own, which a replacement or joining process does not
// have. `field` requests such processes, and `lost` says how the state is lost.
absl::Status CheckNodesKeepNothing(const proto::Job& job, const char* field, const char* lost) {
  const proto::Lazy& lazy = job.consistency().lazy();
  if (HasLocalSteps(job) || lazy.double_buffering()) {
    return Refuse(absl::StrFormat("%s: consistency: %s keeps weights on the nodes, which %s", field,
                                  ModeName(job.consistency()), lost));
  }
  // The remaining nodes have all state that is common to all nodes.
  if (DropsLost(job)) return absl::OkStatus();
  if (job.optimizer().has_mean()) {
    return Refuse(absl::StrFormat("%s: optimizer.mean has the ranks keep the weights, which %s",
                                  field, lost));
  }
  if (!AppliesOnNodes(job)) return absl::OkStatus();
  return Refuse(
      absl::StrFormat("%s: %s has the nodes keep weights and optimizer state, which %s", field,
                      job.optimizer().has_lars() ? "optimizer.lars" : "optimizer.clip_norm", lost));
}

// Returns whether all nodes begin each round of local steps with the servers' weights, so that only
// the optimizer's state is lost with a node.
bool BeginsRoundsAlike(const proto::Job& job) {
  return NodesMakeLocalSteps(job) && IsInStep(job.consistency()) &&
         !job.consistency().lazy().has_significance();
}

absl::Status CheckHangAfter(uint32_t seconds) {
  if (seconds == 0 || (seconds >= kHangAfterSMin && seconds <= kPatienceSMax)) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrFormat("replace.hang_after_s: %d is neither 0 nor in %d to %d", seconds,
                                kHangAfterSMin, kPatienceSMax));
}

absl::Status CheckReplace(const proto::Job& job) {
  if (absl::Status status = CheckCopies(job); !status.ok() || !job.has_replace()) return status;
  if (job.exchange() != proto::Job::PARAMETER_SERVER) {
    return Refuse(
        "replace: belongs to exchange: PARAMETER_SERVER: elsewhere the weights are lost with their "
        "node");
  }
  const proto::Replace& replace = job.replace();
  if (replace.per_hour() == 0) return Refuse("replace.per_hour: is required, and at least 1");
  return All({InRange("replace.per_hour", replace.per_hour(), 1, kReplacedPerHourMax),
              InRange("replace.patience_s", replace.patience_s(), 1, kPatienceSMax),
              CheckHangAfter(replace.hang_after_s()),
              BeginsRoundsAlike(job)
                  ? absl::OkStatus()
                  : CheckNodesKeepNothing(job, "replace", "are lost with a node that dies")});
}

// Nodes are laid out once, so each has the same number of ranks.
absl::Status CheckWholeNodes(const proto::Job& job) {
  if (job.ranks_per_node() == 0) {
    return Refuse(
        "ranks_per_node: is required where nodes may join and leave (ranks_min, ranks_max)");
  }
  for (const auto& [field, ranks] :
       {std::pair("ranks", job.ranks()), std::pair("ranks_min", job.ranks_min()),
        std::pair("ranks_max", job.ranks_max())}) {
    if (ranks % job.ranks_per_node() == 0) continue;
    return Refuse(absl::StrFormat(
        "%s: %d is not a multiple of ranks_per_node: %d, as it is where nodes may join and leave",
        field, ranks, job.ranks_per_node()));
  }
  return absl::OkStatus();
}

// Refuses models of the zoo whose ranks keep state; a program says when it starts whether its ranks
// do. `field` permits nodes to join and leave.
absl::Status CheckRanksKeepNothing(const proto::Job& job, const char* field) {
  if (!job.has_model()) return absl::OkStatus();
  const bool has_statistics =
      job.model().batch_norm() == proto::Model::RUNNING && HasBatchNorm(job.model().zoo());
  if (has_statistics && !DropsLost(job)) {
    return Refuse(absl::StrFormat(
        "%s: model.batch_norm: RUNNING has each rank of %s keep statistics of its own, which a "
        "node that joins does not have; LAST_BATCH exchanges them",
        field, job.model().zoo()));
  }
  if (job.evaluation().deferred()) {
    return Refuse(
        absl::StrFormat("%s: evaluation.deferred has a rank keep copies of the weights until "
                        "training is over, which leave the job with its node",
                        field));
  }
  return absl::OkStatus();
}

absl::Status CheckOnLoss(const proto::Job& job) {
  if (!proto::Job::OnLoss_IsValid(job.on_loss())) {
    return Refuse(absl::StrFormat("on_loss: %d is not one of FAIL, DROP", job.on_loss()));
  }
  if (!DropsLost(job)) return absl::OkStatus();
  if (job.exchange() != proto::Job::RING && job.exchange() != proto::Job::NCCL) {
    return Refuse(
        "on_loss: DROP belongs to exchange: RING or NCCL: servers have nodes that die begun again "
        "(replace)");
  }
  if (job.ranks_per_node() == 0) return Refuse("ranks_per_node: is required with on_loss: DROP");
  if (!job.consistency().has_sync()) {
    return Refuse(absl::StrFormat("on_loss: DROP needs consistency: sync, not %s",
                                  ModeName(job.consistency())));
  }
  if (IsEncoded(job.push())) {
    return Refuse(
        "on_loss: DROP goes with push.codec: FP32 only: what codecs leave out is lost with a node");
  }
  if (job.has_checkpoint()) {
    return Refuse("on_loss: DROP goes without checkpoint: the job lasts as long as one node does");
  }
  if (job.ranks_max() > job.ranks()) {
    return Refuse(absl::StrFormat("ranks_max: %d is above ranks: %d: no node joins a ring",
                                  job.ranks_max(), job.ranks()));
  }
  return absl::OkStatus();
}

absl::Status CheckElastic(const proto::Job& job) {
  if (!IsElastic(job)) return absl::OkStatus();
  if (job.ranks_min() > job.ranks()) {
    return Refuse(
        absl::StrFormat("ranks_min: %d is above ranks: %d", job.ranks_min(), job.ranks()));
  }
  if (job.ranks_max() < job.ranks()) {
    return Refuse(
        absl::StrFormat("ranks_max: %d is below ranks: %d", job.ranks_max(), job.ranks()));
  }
  // Both are set once defaults are; if they agree, either may have been meant.
  const char* const field = DropsLost(job)                   ? "on_loss"
                            : job.ranks_max() == job.ranks() ? "ranks_min"
                                                             : "ranks_max";
  if (job.exchange() != proto::Job::PARAMETER_SERVER && !DropsLost(job)) {
    return Refuse(
        absl::StrFormat("%s: belongs to exchange: PARAMETER_SERVER: elsewhere nodes neither join "
                        "nor leave a job that trains, unless on_loss: DROP drops those that die",
                        field));
  }
  return All({InRange(field, job.ranks_max(), 1, kRanksMax), CheckWholeNodes(job),
              CheckNodesKeepNothing(job, field, "a node that joins does not have"),
              CheckRanksKeepNothing(job, field)});
}

// Part of ValidateJob: a job's measures against deaths (`checkpoint`, `restart`, `replicas`,
// `while_unprotected`, `replace`), whether nodes may join and leave it (`ranks_min`, `ranks_max`,
// `on_loss`), and conflicts with these. Errors: InvalidArgument, one line that names the field.
absl::Status CheckFaults(const proto::Job& job) {
  return All({CheckCheckpoint(job), CheckReplace(job), CheckOnLoss(job), CheckElastic(job)});
}

// Part of ValidateJob: the optimizer's fields. Errors: InvalidArgument, one line that names the
// field.
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
  const absl::Status clip = NotNegative("optimizer.clip_norm", optimizer.clip_norm());
  if (!clip.ok() || optimizer.has_from_program()) return clip;
  if (optimizer.has_lars()) {
    const absl::Status lars =
        Positive("optimizer.lars.coefficient", optimizer.lars().coefficient());
    if (!lars.ok()) return lars;
  }
  const absl::Status decay = NotNegative(name("weight_decay").c_str(), params.weight_decay);
  if (!decay.ok()) return decay;
  switch (params.kind) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kMean:
      return absl::OkStatus();
    case OptimizerKind::kMomentumSgd:
    case OptimizerKind::kNesterov:
      return InHalfOpenRange(name("momentum").c_str(), params.momentum, 0, 1);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return All({InHalfOpenRange(name("beta1").c_str(), params.beta1, 0, 1),
                  InHalfOpenRange(name("beta2").c_str(), params.beta2, 0, 1),
                  Positive(name("epsilon").c_str(), params.epsilon)});
    case OptimizerKind::kRmspropWarmup:
      return All({InHalfOpenRange(name("momentum").c_str(), params.momentum, 0, 1),
                  InHalfOpenRange(name("decay").c_str(), params.beta2, 0, 1),
                  Positive(name("epsilon").c_str(), params.epsilon),
                  Positive(name("rms_lr").c_str(), params.rms_lr),
                  NotNegative(name("center_epochs").c_str(), params.center_epochs),
                  Positive(name("width_epochs").c_str(), params.width_epochs)});
    case OptimizerKind::kAdagrad:
      return All({Positive(name("epsilon").c_str(), params.epsilon),
                  NotNegative(name("initial_accumulator").c_str(), params.initial_accumulator)});
    case OptimizerKind::kFtrl:
      return All({NotNegative(name("l1").c_str(), params.l1),
                  NotNegative(name("l2").c_str(), params.l2),
                  Positive(name("beta").c_str(), params.beta)});
  }
  return absl::OkStatus();
}

// Linear scaling must yield a rate that fits a float.
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

// Checks that depend on the kind follow once the program has named it.
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

// Refuses optimizers that conflict with the schedule, mode or exchange.
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
  // A program that names the optimizer may also give its samples.
  if (SamplesPerRank(job) == 0 && !optimizer.has_from_program()) {
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

// Refuses Model.batch_norm with modes and encodings that do not support it.
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

constexpr uint32_t kDelayMsMax = 60'000;
constexpr double kSlowMax = 1000;

absl::Status CheckName(const std::string& name) {
  const bool characters = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  });
  if (characters && !name.empty() && name.size() <= 64 && name[0] != '.') return absl::OkStatus();
  if (name.empty()) return Refuse("name: is required");
  return Refuse(absl::StrFormat(
      "name: \"%s\" is not 1 to 64 letters, digits, '.', '_' and '-' (not '.' first)", name));
}

absl::Status CheckProgram(const proto::Program& program) {
  std::set<std::string> names;
  for (const std::string& variable : program.env()) {
    const std::string name = variable.substr(0, variable.find('='));
    if (name.empty() || name.size() == variable.size()) {
      return Refuse(absl::StrFormat("program.env: \"%s\" is not NAME=VALUE", variable));
    }
    if (!names.insert(name).second) {
      return Refuse(absl::StrFormat("program.env: %s stands there twice", name));
    }
  }
  return InRange("program.samples_per_rank", program.samples_per_rank(), 0, kBatchMax);
}

absl::Status CheckWork(const proto::Job& job) {
  switch (job.work_case()) {
    case proto::Job::WORK_NOT_SET:
      return Refuse("model, program: one of them is required");
    case proto::Job::kModel:
      if (std::find(ZooNames().begin(), ZooNames().end(), job.model().zoo()) == ZooNames().end()) {
        return Refuse(absl::StrFormat("model.zoo: \"%s\" is not one of %s", job.model().zoo(),
                                      absl::StrJoin(ZooNames(), ", ")));
      }
      if (!job.has_data()) return Refuse("data: is required with model");
      return absl::OkStatus();
    case proto::Job::kProgram:
      if (job.program().path().empty()) return Refuse("program.path: is required");
      if (job.has_data()) return Refuse("data: belongs to model, a program reads its own");
      return CheckProgram(job.program());
  }
  return absl::OkStatus();
}

absl::Status CheckStep(const proto::Step& step) {
  if (step.boundaries_epochs().empty()) {
    return Refuse("schedule.step.boundaries_epochs: at least one is required");
  }
  float previous = 0;
  for (float boundary : step.boundaries_epochs()) {
    if (!std::isfinite(boundary) || boundary <= previous) {
      return Refuse(absl::StrFormat(
          "schedule.step.boundaries_epochs: %g is not a finite number > %g: they must ascend",
          boundary, previous));
    }
    previous = boundary;
  }
  return Positive("schedule.step.gamma", step.gamma());
}

absl::Status CheckSchedule(const proto::Job& job) {
  const proto::Schedule& schedule = job.schedule();
  const absl::Status numbers =
      All({Positive("schedule.base_lr", schedule.base_lr()),
           NotNegative("schedule.warmup_epochs", schedule.warmup_epochs())});
  if (!numbers.ok()) return numbers;
  if (schedule.has_step()) return CheckStep(schedule.step());
  if (!schedule.has_cosine()) return absl::OkStatus();
  if (job.epochs() == 0) return Refuse("epochs: 0, but schedule.cosine needs their number");
  if (schedule.warmup_epochs() >= job.epochs()) {
    return Refuse(
        absl::StrFormat("schedule.warmup_epochs: %g leaves none of %d epochs to schedule.cosine",
                        schedule.warmup_epochs(), job.epochs()));
  }
  return NotNegative("schedule.cosine.final_lr", schedule.cosine().final_lr());
}

absl::Status CheckDebug(const proto::Job& job) {
  std::set<uint32_t> nodes;
  for (const proto::Delay& delay : job.debug().delays()) {
    if (!nodes.insert(delay.node()).second) {
      return Refuse(absl::StrFormat("debug.delays: node %d stands there twice", delay.node()));
    }
    const absl::Status status = All(
        {InRange("debug.delays.node", delay.node(), 0, std::max(job.ranks(), job.ranks_max()) - 1),
         InRange("debug.delays.delay_ms", delay.delay_ms(), 0, kDelayMsMax),
         InRange("debug.delays.jitter_ms", delay.jitter_ms(), 0, delay.delay_ms()),
         InHalfOpenRange("debug.delays.slow", delay.slow(), 0, kSlowMax)});
    if (!status.ok()) return status;
  }
  if (!job.debug().has_nan_rank()) return absl::OkStatus();
  return InRange("debug.nan_rank", job.debug().nan_rank(), 0, job.ranks() - 1);
}

absl::Status CheckMpi(const proto::Job& job) {
  if (job.exchange() != proto::Job::MPI) return absl::OkStatus();
  if (!job.consistency().has_sync()) {
    return Refuse(absl::StrFormat("consistency: exchange: MPI is sync, %s needs servers",
                                  ModeName(job.consistency())));
  }
  if (!job.has_model()) return Refuse("program: exchange: MPI trains a model of the zoo");
  if (job.protection() == proto::Job::ENCRYPT || job.protection() == proto::Job::SIGN) {
    return Refuse(
        absl::StrCat("protection: ", proto::Job::Protection_Name(job.protection()),
                     ", but exchange: MPI sends over MPI's own connections, which nothing "
                     "here protects"));
  }
  if (job.tensorboard()) {
    return Refuse(
        "tensorboard: exchange: MPI has no worker that writes events; strata export tensorboard "
        "makes them of metrics.jsonl");
  }
  if (job.rank_log_bytes() != 0 && job.rank_log_bytes() != kRankLogBytes) {
    return Refuse(
        "rank_log_bytes: exchange: MPI has no worker that keeps logs: mpirun's output is its own");
  }
  return absl::OkStatus();
}

absl::Status CheckAllReduce(const proto::Job& job) {
  const proto::Consistency& consistency = job.consistency();
  const bool per_clock =
      consistency.has_sync() ||
      (consistency.has_lazy() && consistency.lazy().apply() == proto::Lazy::PER_CLOCK);
  if (!proto::Addition::Order_IsValid(job.order())) {
    return Refuse(absl::StrFormat("order: %d is not one of TREE, RING", job.order()));
  }
  if (job.order() == proto::Addition::RING && job.exchange() != proto::Job::PARAMETER_SERVER) {
    return Refuse("order: RING is for servers, so it needs exchange: PARAMETER_SERVER");
  }
  if (job.order() == proto::Addition::RING && !per_clock) {
    return Refuse(absl::StrFormat(
        "order: RING adds the gradients of a clock, but consistency %s applies each on arrival",
        ModeName(consistency)));
  }
  if (!proto::AllReduce::Algorithm_IsValid(job.all_reduce().algorithm())) {
    return Refuse(
        absl::StrFormat("all_reduce.algorithm: %d is not one of AUTO, RING, HALVING_DOUBLING",
                        job.all_reduce().algorithm()));
  }
  if (job.exchange() != proto::Job::RING) {
    return job.has_all_reduce() ? Refuse("all_reduce: belongs to exchange: RING")
                                : absl::OkStatus();
  }
  if (!IsInStep(consistency)) {
    return Refuse(absl::StrFormat("consistency: exchange: RING is sync, %s needs servers",
                                  ModeName(consistency)));
  }
  // A program's ranks may share one node; for a model of the zoo that would be an oversight.
  if (job.ranks() < 2 && !job.has_program()) {
    return Refuse("ranks: 1, but exchange: RING needs two nodes");
  }
  return absl::OkStatus();
}

// Refuses settings that conflict with local steps, double buffering or a quorum.
absl::Status CheckMode(const proto::Job& job) {
  const bool pushes_changes = job.consistency().lazy().local_steps() > 0;
  if (pushes_changes && job.push().codec() == proto::Encoding::DGC) {
    return Refuse("push.codec: DGC compresses gradients, but local_steps push changes of weights");
  }
  const proto::Lazy& lazy = job.consistency().lazy();
  if (lazy.has_quorum()) {
    const uint32_t nodes =
        job.ranks_per_node() == 0 ? job.ranks() : (job.ranks() - 1) / job.ranks_per_node() + 1;
    if (lazy.quorum().nodes() > nodes) {
      return Refuse(absl::StrFormat(
          "consistency.lazy.quorum.nodes: %d, but the job has no more than %d nodes",
          lazy.quorum().nodes(), nodes));
    }
    if (job.order() == proto::Addition::RING) {
      return Refuse(
          "order: RING adds the gradients of all nodes, but a quorum goes on without some");
    }
  }
  if (lazy.has_significance() && IsEncoded(job.push())) {
    return Refuse(absl::StrFormat(
        "push.codec: %s, but consistency.lazy.significance chooses what is pushed, as FP32",
        proto::Encoding::Codec_Name(job.push().codec())));
  }
  if (lazy.has_significance() && job.exchange() == proto::Job::RING) {
    return Refuse("consistency.lazy.significance: needs servers, exchange: RING adds whole slices");
  }
  const proto::Async& async = job.consistency().async();
  if (async.has_elastic() && (IsEncoded(job.push()) || IsEncoded(job.pull()))) {
    return Refuse(absl::StrFormat(
        "%s.codec: %s, but consistency.async.elastic exchanges whole weights, as FP32",
        IsEncoded(job.push()) ? "push" : "pull",
        proto::Encoding::Codec_Name((IsEncoded(job.push()) ? job.push() : job.pull()).codec())));
  }
  if (async.has_elastic() && async.elastic().moving_rate() >= static_cast<float>(job.ranks())) {
    return Refuse(absl::StrFormat(
        "consistency.async.elastic.moving_rate: %g, but divided by at most %d nodes it must be "
        "below 1",
        async.elastic().moving_rate(), job.ranks()));
  }
  const bool is_joint = HasLocalSteps(job) || lazy.double_buffering() || lazy.has_quorum();
  if (is_joint && job.exchange() == proto::Job::NONE) {
    return Refuse(absl::StrFormat("consistency: %s, but exchange: NONE exchanges nothing",
                                  ModeName(job.consistency())));
  }
  return absl::OkStatus();
}

absl::Status CheckEvaluation(const proto::Evaluation& evaluation) {
  if (evaluation.every_steps() > 0) {
    return evaluation.every_epochs() == 0
               ? absl::OkStatus()
               : Refuse("evaluation: every_epochs or every_steps, not both");
  }
  return InRange("evaluation.every_epochs", evaluation.every_epochs(), 1, UINT32_MAX);
}

absl::Status CheckTrace(const proto::Job& job) {
  const proto::Trace& trace = job.trace();
  if (trace.steps() > 0 && job.exchange() == proto::Job::MPI) {
    return Refuse("trace: exchange: MPI has no daemons that could gather one");
  }
  if (trace.steps() == 0 && trace.first_step() > 0) {
    return Refuse(absl::StrFormat("trace.first_step: %d, but trace.steps: 0 records nothing",
                                  trace.first_step()));
  }
  return absl::OkStatus();
}

absl::Status CheckRowsMode(const proto::Job& job) {
  const proto::Rows& rows = job.rows();
  if (rows.has_consistency()) {
    const absl::Status right = CheckConsistency(rows.consistency());
    if (!right.ok()) return Refuse(absl::StrCat("rows.", right.message()));
    const std::string field = DoesNotGoWithRows(rows.consistency());
    if (!field.empty()) {
      return Refuse(absl::StrCat("rows.consistency.", field, ": rows do not have it"));
    }
  }
  const uint32_t lookahead = RowsLookahead(job);
  if (lookahead > 1 && RowsConsistency(job).has_sync()) {
    return Refuse(absl::StrFormat(
        "rows.lookahead: %d with rows in sync, where a row has all steps before: 1, or lazy, async",
        lookahead));
  }
  return InRange("rows.lookahead", lookahead, 1, kRowsLookaheadMax);
}

absl::Status CheckRows(const proto::Job& job) {
  if (!job.has_rows()) return absl::OkStatus();
  if (!job.has_program()) return Refuse("rows: models of the zoo have no tables");
  if (job.exchange() != proto::Job::PARAMETER_SERVER) {
    return Refuse("rows: tables lie on servers, so they need exchange: PARAMETER_SERVER");
  }
  const uint32_t buckets = job.rows().buckets();
  if (buckets != 0 && !IsBucketCount(buckets)) {
    return Refuse(absl::StrFormat("rows.buckets: %d is not a power of two from 1 to %d", buckets,
                                  kBucketsMax));
  }
  constexpr uint64_t kLeast = 1 << 10, kMost = uint64_t{16} << 30;
  if (job.rows().bytes_per_step() != 0) {
    const absl::Status few =
        InRange("rows.bytes_per_step", job.rows().bytes_per_step(), kLeast, kMost);
    if (!few.ok()) return few;
  }
  return CheckRowsMode(job);
}

absl::Status CheckShape(const proto::Job& job) {
  const absl::Status ranges =
      All({InRange("ranks", job.ranks(), 1, kRanksMax),
           InRange("ranks_per_node", job.ranks_per_node(), 0, kRanksMax),
           InRange("window", job.window(), 2, 64),
           InRange("connections", job.connections(), 1, kConnectionsPerPeerMax),
           InRange("replicas", job.replicas(), 0, 1)});
  if (!ranges.ok()) return ranges;
  if (job.epochs() == 0 && job.max_steps() == 0) {
    return Refuse("epochs: 0, and max_steps: 0, so the job would have no end");
  }
  if (!proto::Job::Exchange_IsValid(job.exchange())) {
    return Refuse(absl::StrFormat(
        "exchange: %d is not one of PARAMETER_SERVER, RING, MPI, NCCL, NONE", job.exchange()));
  }
  if (job.exchange() == proto::Job::NONE && job.ranks() != 1) {
    return Refuse(absl::StrFormat("ranks: %d, but exchange: NONE needs ranks: 1", job.ranks()));
  }
  if (absl::Status status = CheckAllReduce(job); !status.ok()) return status;
  if (absl::Status status = CheckMpi(job); !status.ok()) return status;
  if (!proto::Job::Placement_IsValid(job.placement())) {
    return Refuse(absl::StrFormat("placement: %d is not one of AUTO, DEDICATED, ON_WORKERS, MIXED",
                                  job.placement()));
  }
  if (job.placement() != proto::Job::AUTO && job.exchange() != proto::Job::PARAMETER_SERVER) {
    return Refuse("placement: belongs to exchange: PARAMETER_SERVER");
  }
  const bool has_peers =
      job.exchange() == proto::Job::PARAMETER_SERVER || job.exchange() == proto::Job::RING;
  if (job.connections() > 1 && !has_peers) {
    return Refuse("connections: belongs to exchange: PARAMETER_SERVER or RING");
  }
  if (job.rank_log_bytes() != 0) {
    const absl::Status status =
        InRange("rank_log_bytes", job.rank_log_bytes(), kRankLogBytesMin, kRankLogBytesMax);
    if (!status.ok()) return status;
  }
  if (job.chunk_elements() == 0) return absl::OkStatus();
  return InRange("chunk_elements", job.chunk_elements(), 256, kChunkElementsMax);
}

}  // namespace

absl::Status ValidateJob(const proto::Job& job) {
  return All({CheckName(job.name()), CheckWork(job), CheckTrace(job), CheckShape(job),
              CheckDevice(job), CheckData(job), CheckOptimizer(job.optimizer()),
              CheckEncodings(job), CheckSchedule(job), CheckConsistency(job.consistency()),
              CheckMode(job), CheckRecipe(job), CheckBatchNorm(job), CheckDebug(job),
              CheckFaults(job), CheckRows(job), CheckEvaluation(job.evaluation()),
              InRange("metrics.every_steps", job.metrics().every_steps(), 1, UINT32_MAX)});
}

}  // namespace strata
