#ifndef STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/job/trace_log.h"
#include "common/transport/endpoint.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/link_driver.h"

namespace strata::worker {

// The upper level of a node: an ExchangeCore between an endpoint and the node. The core documents
// the calls.
//
// Errors of every call end the job; each names the peer, or the chunk and its clock.
//
// Threads: one. Only Poll blocks.
class Exchange {
 public:
  using Phase = ExchangeCore::Phase;

  // `node`, `clock` and `trace` (null: none) outlive this. Poll also returns when `wake_fd` is
  // readable (-1: none).
  Exchange(std::unique_ptr<ExchangeCore> core, std::unique_ptr<transport::Endpoint> endpoint,
           int wake_fd, ExchangeNode* node, const ClockInterface* clock, TraceLog* trace = nullptr);

  // Adds a core that uses the same endpoint. Before Start.
  void Add(std::unique_ptr<LinkCore> beside);
  // Calls that core, by `call(absl::Time now, CoreActions*)`.
  template <typename Call>
  absl::Status RunBeside(Call call) {
    return driver_.RunBeside(std::move(call));
  }

  // Starts to offer the first weights. Called once, first.
  absl::Status Start();
  // Errors also include FailedPrecondition (not kTraining: a rank continues after it has left).
  absl::Status Submit(ChunkId chunk);
  absl::Status Finish(uint64_t clocks);
  // Makes progress, waiting up to `timeout` for something to happen.
  absl::Status Poll(absl::Duration timeout) { return driver_.Poll(timeout); }

  absl::Status OnShardMoved(const ShardMove& move);
  void LeaveAt(uint64_t clock) { core_->LeaveAt(clock); }
  absl::StatusOr<StoppedRing> StopRing(uint32_t number);
  absl::Status FormRing(const proto::FormRing& forming);

  Phase phase() const { return core_->phase(); }
  uint64_t first_clock() const { return core_->first_clock(); }
  bool goes_on() const { return core_->goes_on(); }
  ExchangeCore* core() { return core_.get(); }
  NodeCuts TakeCuts() { return core_->TakeCuts(); }
  void ReleaseCut(NodeCuts::Kind kind, uint64_t clock) { core_->ReleaseCut(kind, clock); }
  const ExchangeCounters& counters() const { return core_->counters(); }
  size_t memory_bytes() const { return core_->memory_bytes(); }
  // The frames that its endpoint has refused since the beginning.
  transport::Refusals refusals() const { return driver_.refusals(); }
  void AddActivity(proto::NodeActivity* activity) const {
    core_->AddActivity(clock_->Now(), activity);
  }

 private:
  absl::Status Do(const NodeAction& action, CoreActions* actions);
  absl::Status Sum(const NodeAction& action, CoreActions* actions);
  absl::Status Deliver(const NodeAction& action);

  const std::unique_ptr<ExchangeCore> core_;
  std::unique_ptr<LinkCore> beside_;  // null: none
  const std::unique_ptr<transport::Endpoint> endpoint_;
  ExchangeNode* const node_;
  const ClockInterface* const clock_;
  TraceLog* const trace_;
  std::vector<absl::Time> ready_at_;  // by chunk; if there is a trace
  LinkDriver driver_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_H_
