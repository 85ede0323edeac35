#include "worker/exchange/create_exchange.h"

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/job/job.h"
#include "worker/exchange/all_reduce/all_reduce_core.h"
#include "worker/exchange/all_reduce/reforming_core.h"
#include "worker/exchange/core/clip_layer.h"
#include "worker/exchange/core/cut_layer.h"
#include "worker/exchange/core/double_buffer_layer.h"
#include "worker/exchange/core/exchange_layer.h"
#include "worker/exchange/core/local_steps_layer.h"
#include "worker/exchange/core/norm_layer.h"
#include "worker/exchange/server/parameter_server_core.h"

namespace strata::worker {
namespace {

// Cores keep their options, but not the state that they resume from.
absl::StatusOr<std::unique_ptr<ExchangeCore>> CreateBase(const CoreOptions& options) {
  CoreOptions kept = options;
  kept.resume = nullptr;
  if (DropsLost(options.record.job())) return ReformingCore::Create(kept, kernels::Cpu());
  if (options.record.job().exchange() == proto::Job::RING) {
    return AllReduceCore::Create(kept, kernels::Cpu(), options.resume.get());
  }
  return ParameterServerCore::Create(kept, kernels::Cpu());
}

// Restores the core from the node's saved state.
absl::Status RestoreFrom(const NodeResume& resume, const ChunkMap& map, ExchangeCore* core) {
  if (resume.own.size() != map.chunks()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the node's part of the checkpoint has %d chunks, the job %d",
                        resume.own.size(), map.chunks()));
  }
  for (uint32_t c = 0; c < map.chunks(); ++c) {
    const ChunkId chunk(c);
    const NodeChunkImage& image = resume.own[c];
    if (image.begin != map.OffsetOf(chunk) || image.elements != map.ElementsOf(chunk)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "the node's part of the checkpoint has %d elements from %d on, chunk %d has %d from %d",
          image.elements, image.begin, c, map.ElementsOf(chunk), map.OffsetOf(chunk)));
    }
    if (absl::Status status = core->Restore(chunk, image); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the node's part of the checkpoint, chunk %d: %s", c, status.message()));
    }
  }
  return absl::OkStatus();
}

bool CutsNode(const proto::Job& job) { return job.has_checkpoint() && NodesKeepState(job); }

bool HasLayers(const proto::Job& job) {
  return AppliesOnNodes(job) || NodesMakeLocalSteps(job) ||
         job.consistency().lazy().double_buffering() || job.optimizer().clip_norm() > 0 ||
         CutsNode(job);
}

// Adds the layers for the job's mode to the core.
std::unique_ptr<ExchangeCore> WithLayers(std::unique_ptr<ExchangeCore> core,
                                         const CoreOptions& options) {
  const proto::Job& job = options.record.job();
  if (!HasLayers(job)) return core;
  auto layered = std::make_unique<LayeredCore>(std::move(core));
  if (AppliesOnNodes(job)) {
    layered->Add(std::make_unique<NormLayer>(layered->top(), options, kernels::Cpu()));
  }
  if (NodesMakeLocalSteps(job)) {
    layered->Add(std::make_unique<LocalStepsLayer>(layered->top(), options, kernels::Cpu()));
  }
  CutLayer* cuts = nullptr;
  if (CutsNode(job)) {
    auto layer = std::make_unique<CutLayer>(layered->top(), options.record);
    cuts = layer.get();
    layered->AddCuts(std::move(layer));
  }
  if (job.consistency().lazy().double_buffering()) {
    auto layer = std::make_unique<DoubleBufferLayer>(layered->top(), options.record);
    if (cuts != nullptr) {
      cuts->AlsoFrom([buffer = layer.get()](ChunkId chunk, NodeChunkImage* image) {
        buffer->AddArena(chunk, image);
      });
    }
    layered->Add(std::move(layer));
  }
  if (job.optimizer().clip_norm() > 0 && !AppliesOnNodes(job)) {
    layered->Add(std::make_unique<ClipLayer>(layered->top(), options));
  }
  return layered;
}

}  // namespace

bool TakesPayloads(const proto::Job& job) {
  return job.exchange() == proto::Job::PARAMETER_SERVER && IsEncoded(job.push()) && !HasLayers(job);
}

absl::StatusOr<std::unique_ptr<ExchangeCore>> CreateExchangeCore(const CoreOptions& options) {
  absl::StatusOr<std::unique_ptr<ExchangeCore>> base = CreateBase(options);
  if (!base.ok()) return base;
  const proto::JobRecord& record = options.record;
  const ChunkMap map(record.layout().elements(), record.placement().chunk_elements());
  std::unique_ptr<ExchangeCore> core = WithLayers(*std::move(base), options);
  const bool keeps_state = NodesKeepState(record.job());
  const bool reads = keeps_state || record.job().exchange() == proto::Job::RING;
  // The checkpoint's state is outdated by now: the previous process's later state was lost with it.
  const bool rejoins = Rejoins(record, options.node, options.incarnation);
  if (record.has_resume() && reads && !rejoins && options.resume == nullptr) {
    return absl::InvalidArgumentError(
        "the job goes on from a checkpoint, of which this node was given no part");
  }
  if (options.resume != nullptr && keeps_state && !rejoins) {
    if (absl::Status status = RestoreFrom(*options.resume, map, core.get()); !status.ok()) {
      return status;
    }
  }
  return core;
}

absl::StatusOr<std::unique_ptr<Exchange>> CreateExchange(
    const CoreOptions& options, std::unique_ptr<transport::Endpoint> endpoint, int wake_fd,
    ExchangeNode* node, const ClockInterface* clock) {
  CoreOptions core_options = options;
  core_options.memory = endpoint->memory();
  absl::StatusOr<std::unique_ptr<ExchangeCore>> core = CreateExchangeCore(core_options);
  if (!core.ok()) return core.status();
  return std::make_unique<Exchange>(*std::move(core), std::move(endpoint), wake_fd, node, clock,
                                    options.trace);
}

}  // namespace strata::worker
