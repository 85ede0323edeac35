#include "worker/exchange/create_exchange.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "worker/exchange/all_reduce/all_reduce_core.h"
#include "worker/exchange/core/core_exchange.h"
#include "worker/exchange/layers/clip_layer.h"
#include "worker/exchange/layers/double_buffer_layer.h"
#include "worker/exchange/layers/layered_core.h"
#include "worker/exchange/layers/local_steps_layer.h"
#include "worker/exchange/layers/norm_layer.h"
#include "worker/exchange/server/parameter_server_core.h"

namespace strata::worker {
namespace {

absl::StatusOr<std::unique_ptr<ExchangeCore>> CreateBase(const CoreOptions& options) {
  if (options.record.job().exchange() == proto::Job::RING) {
    return AllReduceCore::Create(options, kernels::Cpu());
  }
  return ParameterServerCore::Create(options, kernels::Cpu());
}

// Refuses jobs that cannot go on from a checkpoint, which has what servers keep, and nothing of
// what nodes keep from one clock to the next.
absl::Status CheckResumes(const proto::Job& job) {
  std::string keeper;
  if (job.exchange() == proto::Job::RING) keeper = "exchange: RING";
  if (AppliesOnNodes(job)) keeper = "an optimizer that nodes apply, because it needs norms,";
  if (NodesMakeLocalSteps(job)) keeper = "a mode with steps of a node's own";
  if (job.consistency().lazy().double_buffering()) keeper = "consistency.lazy.double_buffering";
  if (keeper.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the job is to go on from a checkpoint, but ", keeper,
                   " has state on its nodes, which checkpoints do not hold yet"));
}

bool HasLayers(const proto::Job& job) {
  return AppliesOnNodes(job) || NodesMakeLocalSteps(job) ||
         job.consistency().lazy().double_buffering() || job.optimizer().clip_norm() > 0;
}

}  // namespace

bool TakesPayloads(const proto::Job& job) {
  return job.exchange() == proto::Job::PARAMETER_SERVER && IsEncoded(job.push()) && !HasLayers(job);
}

absl::StatusOr<std::unique_ptr<ExchangeCore>> CreateExchangeCore(const CoreOptions& options) {
  if (options.record.has_resume()) {
    if (absl::Status status = CheckResumes(options.record.job()); !status.ok()) return status;
  }
  absl::StatusOr<std::unique_ptr<ExchangeCore>> core = CreateBase(options);
  const proto::JobRecord& record = options.record;
  const proto::Job& job = record.job();
  if (!core.ok() || !HasLayers(job)) return core;
  auto layered = std::make_unique<LayeredCore>(*std::move(core));
  if (AppliesOnNodes(job)) {
    layered->Add(std::make_unique<NormLayer>(layered->top(), options, kernels::Cpu()));
  }
  if (NodesMakeLocalSteps(job)) {
    layered->Add(std::make_unique<LocalStepsLayer>(layered->top(), options, kernels::Cpu()));
  }
  if (job.consistency().lazy().double_buffering()) {
    const ChunkMap map(record.layout().elements(), record.placement().chunk_elements());
    layered->Add(std::make_unique<DoubleBufferLayer>(layered->top(), map.chunks()));
  }
  if (job.optimizer().clip_norm() > 0 && !AppliesOnNodes(job)) {
    layered->Add(std::make_unique<ClipLayer>(layered->top(), options));
  }
  return layered;
}

absl::StatusOr<std::unique_ptr<Exchange>> CreateExchange(
    const CoreOptions& options, std::unique_ptr<transport::Endpoint> endpoint, int wake_fd,
    ExchangeNode* node, const ClockInterface* clock) {
  CoreOptions core_options = options;
  core_options.memory = endpoint->memory();
  absl::StatusOr<std::unique_ptr<ExchangeCore>> core = CreateExchangeCore(core_options);
  if (!core.ok()) return core.status();
  return std::make_unique<CoreExchange>(*std::move(core), std::move(endpoint), wake_fd, node, clock,
                                        options.trace);
}

}  // namespace strata::worker
