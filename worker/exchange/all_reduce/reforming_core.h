#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_REFORMING_CORE_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_REFORMING_CORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/exchange/all_reduce/all_reduce_core.h"
#include "worker/exchange/all_reduce/node_step.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// One node's side of an all-reduce that continues without nodes that die (DropsLost): a sequence of
// AllReduceCores, each among the remaining nodes. It only averages: the means of a step are
// delivered once those of all chunks are there, so a node has either made a step or not, and at any
// moment all nodes have made the same number of steps, or one less.
//
// Between two rings it exchanges with nobody, and postpones connections: nodes learn of a new ring
// one after the other. If some nodes have made one step less, the others first give them its means,
// forwarded like first weights.
//
// A pure state machine, see ExchangeCore.
class ReformingCore final : public ExchangeCore {
 public:
  // Errors: InvalidArgument naming the field of the record. `kernels` outlives it.
  static absl::StatusOr<std::unique_ptr<ReformingCore>> Create(const CoreOptions& options,
                                                               const kernels::Kernels& kernels);

  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) override;
  absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) override;
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override;
  absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions) override;
  absl::StatusOr<StoppedRing> StopRing(uint32_t number, absl::Time now,
                                       CoreActions* actions) override;
  absl::Status FormRing(const proto::FormRing& forming, absl::Time now,
                        CoreActions* actions) override;

  absl::Time deadline() const override;
  const std::string& address(LinkId link) const override;

  Phase phase() const override { return phase_; }
  const ExchangeCounters& counters() const override { return counters_; }
  size_t memory_bytes() const override;
  void AddActivity(absl::Time now, proto::NodeActivity* activity) const override;

 private:
  // The number of ranks whose sums are in the means from a clock on.
  struct Members {
    uint64_t from_clock = 0;
    uint32_t ranks = 0;
  };

  ReformingCore(const CoreOptions& options, const kernels::Kernels& kernels,
                std::unique_ptr<AllReduceCore> first);

  // Makes a call of the ring, and performs everything here that follows from it.
  absl::Status InRing(absl::Time now, CoreActions* actions,
                      const std::function<absl::Status(CoreActions* from)>& call);
  // Performs one request of the ring to the node. `more`: further requests of the ring.
  absl::Status Take(NodeAction action, absl::Time now, CoreActions* actions, CoreActions* more);
  absl::Status GiveSum(const NodeAction& asked, absl::Time now, CoreActions* more);
  void TakeMean(const NodeAction& mean, CoreActions* actions);
  // Forwards the node's pending calls to the ring, once it trains.
  absl::Status TellRing(absl::Time now, CoreActions* more);
  // Passes on the ring's actions on its connections.
  void PassOn(WireActions from, WireActions* actions) const;
  void Note();
  uint32_t RanksAt(uint64_t clock) const;

  void LeaveRing(absl::Time now, WireActions* actions);
  absl::Status EndWith(const proto::FormRing& forming);
  absl::Status CheckFits(const proto::FormRing& forming) const;
  absl::Status Form(const proto::FormRing& forming);
  void PutOff(transport::ConnectionId connection, const wire::Frame& frame, WireActions* actions);
  void OnStaleEvent(const LinkEvent& event, WireActions* actions);
  absl::Status Named(const absl::Status& status) const { return NamedBy(options_.node, status); }

  const CoreOptions options_;
  const kernels::Kernels& kernels_;
  const std::shared_ptr<BufferPool> pool_;  // shared by all rings
  std::unique_ptr<AllReduceCore> ring_;     // null: stopped
  Phase phase_ = Phase::kSeeding;
  NodeStep step_;
  uint32_t number_ = 0;  // the highest known ring number: current, or to come
  uint32_t formed_ = 0;  // of the ring that was formed last
  bool is_first_ = true;
  bool is_over_ = false;           // all nodes have made all steps
  std::optional<uint64_t> makes_;  // total clocks, once known
  bool ring_knows_end_ = false;
  uint32_t links_before_ = 0;  // of previous rings
  const std::string nowhere_;  // the address of those links
  std::vector<Members> members_;
  uint64_t refused_ = 0;
  ExchangeCounters past_, counters_;  // of previous rings; total
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_REFORMING_CORE_H_
