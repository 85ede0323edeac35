#ifndef STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_
#define STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/block_source.h"
#include "common/trace/trace_log.h"
#include "proto/control.pb.h"
#include "worker/exchange/connection/line.h"
#include "worker/exchange/core/exchange.h"
#include "worker/exchange/core/push_window.h"

namespace strata::worker {

// What a core wants of the node, besides WireActions.
struct NodeAction {
  enum class Kind {
    kFirstWeights,  // answer with OnPayload
    kSum,           // the chunk's sum of `clock`: answer with OnPayload
    kDeliver,       // `weights` are part of the chunk's weights after `clock`, or make them of
                    // those before
    kDeliverFinal,  // `weights` are the job's final ones
  };
  Kind kind = Kind::kSum;
  ChunkId chunk;
  uint64_t clock = 0;
  uint32_t first_element = 0;  // kDeliver: of the chunk
  bool lands = false;          // kDeliver: the rest of the chunk has been delivered
  Bytes weights;
  // kDeliver: `weights` are this payload, to be added; none: they are fp32, and replace.
  std::optional<kernels::CheckedPayload> delta;
};

struct CoreActions {
  std::vector<WireAction> wire;
  std::vector<NodeAction> node;
};

// One node's side of a job.
struct CoreOptions {
  proto::JobRecord record;  // with placement and layout
  NodeId node;
  uint32_t incarnation = 0;
  LineTiming timing;
  PushWindow::Reserve reserve = PushWindow::Reserve::kLowest;
  // Where buffers for payloads come from; null: the allocator.
  std::shared_ptr<BlockSource> memory;
  // The node's sums are payloads of the job's `push` already. Only where TakesPayloads.
  bool takes_payloads = false;
  // Of the node's events, outlives the exchange; null: none is kept.
  TraceLog* trace = nullptr;
};

LineIdentity IdentityOf(const CoreOptions& options);
// "node N: " before the message of an error.
absl::Status NamedBy(NodeId node, const absl::Status& status);

// Something that speaks over connections: events in, actions out; time comes with the events.
// A pure state machine. Errors end the job and name the peer's address; what is in the actions then
// is still to be done.
class LineCore {
 public:
  virtual ~LineCore() = default;

  virtual void Start(absl::Time now, CoreActions* actions) = 0;
  virtual void OnConnected(LineId line, transport::ConnectionId connection, absl::Time now,
                           CoreActions* actions) = 0;
  virtual void OnConnectFailed(LineId line, const absl::Status& why, absl::Time now,
                               CoreActions* actions) = 0;
  // Events of connections that are no longer in use are ignored.
  virtual void OnLost(transport::ConnectionId connection, const absl::Status& why, absl::Time now,
                      CoreActions* actions) = 0;
  // The endpoint's queue to the peer was full.
  virtual void OnNotTaken(const WireAction& send, absl::Time now) = 0;
  virtual absl::Status OnFrame(transport::ConnectionId connection, const wire::Frame& frame,
                               absl::Time now, CoreActions* actions) = 0;
  virtual absl::Status OnTime(absl::Time now, CoreActions* actions) = 0;
  virtual absl::Time deadline() const = 0;
  // Where kConnect is to go.
  virtual const std::string& address(LineId line) const = 0;
};

// One node's side of an exchange. Weights are delivered exactly once per (chunk, clock) whatever
// connections lose, repeat or reorder. Errors name the node and the chunk, too.
class ExchangeCore : public LineCore {
 public:
  // See Exchange.
  virtual void Submit(ChunkId chunk, CoreActions* actions) = 0;
  virtual void Finish(uint64_t clocks, absl::Time now, CoreActions* actions) = 0;
  // What kFirstWeights or kSum asked for.
  virtual absl::Status OnPayload(const NodeAction& asked, Bytes payload, uint32_t samples,
                                 absl::Time now, CoreActions* actions) = 0;

  virtual Exchange::Phase phase() const = 0;
  virtual bool goes_on() const { return false; }
  virtual const ExchangeCounters& counters() const = 0;
  virtual size_t memory_bytes() const = 0;
  // Adds how it stands with each peer that it connects to. REQUIRES: started.
  virtual void AddActivity(absl::Time now, proto::NodeActivity* activity) const = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_EXCHANGE_CORE_H_
