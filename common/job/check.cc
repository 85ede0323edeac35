#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/check_data.h"
#include "common/job/check_device.h"
#include "common/job/check_faults.h"
#include "common/job/check_optimizer.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/job/job.h"
#include "common/job/number_check.h"
#include "common/job/zoo/zoo.h"
#include "common/limits/limits.h"

namespace strata {
namespace {

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
  // A program's ranks may share one node; of a model of the zoo that would be an oversight.
  if (job.ranks() < 2 && !job.has_program()) {
    return Refuse("ranks: 1, but exchange: RING needs two nodes");
  }
  return absl::OkStatus();
}

// What else in a job does not go with local steps, double buffering or a quorum.
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
  if (job.chunk_elements() == 0) return absl::OkStatus();
  return InRange("chunk_elements", job.chunk_elements(), 256, kChunkElementsMax);
}

}  // namespace

absl::Status ValidateJob(const proto::Job& job) {
  return All({CheckName(job.name()), CheckWork(job), CheckTrace(job), CheckShape(job),
              CheckDevice(job), CheckData(job), CheckOptimizer(job.optimizer()),
              CheckEncodings(job), CheckSchedule(job), CheckConsistency(job.consistency()),
              CheckMode(job), CheckRecipe(job), CheckBatchNorm(job), CheckDebug(job),
              CheckFaults(job), CheckEvaluation(job.evaluation()),
              InRange("metrics.every_steps", job.metrics().every_steps(), 1, UINT32_MAX)});
}

}  // namespace strata
