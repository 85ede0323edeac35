#ifndef STRATA_WORKER_AGGREGATOR_CORE_VIEW_GATE_H_
#define STRATA_WORKER_AGGREGATOR_CORE_VIEW_GATE_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/job/views.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Limits how far a node's ranks may go while a change of the job's nodes is being agreed: the node
// promises not to begin a clock before it learns the outcome, so that the change can take effect at
// that clock. Ranks ask who makes a step before they begin it, or draw data for it; the nodes of
// such a step do not change any more.
//
// Threads: one.
class ViewGate {
 public:
  // The number of clocks that ranks may still begin while a change is being agreed, which takes two
  // round trips and a disk write. The change takes effect that much later. 0 if ranks wait
  // meanwhile.
  static constexpr uint64_t kMargin = 4;
  static constexpr uint64_t kNoMargin = 0;
  static constexpr uint64_t kOpen = std::numeric_limits<uint64_t>::max();

  explicit ViewGate(Views views) : views_(std::move(views)) {}

  // Ranks are told of no step from `until` on. Returns how many steps, from the first on, any of
  // them has been told of, or is about to be.
  using Close = absl::FunctionRef<uint64_t(uint64_t until)>;
  // Returns the clock from which on the job can have other nodes, in answer to change `number`: the
  // same one each time. None: the question is outdated.
  std::optional<uint64_t> Promise(uint32_t number, Close close, uint64_t margin = kMargin);
  // The change was decided or given up; `told`: steps that any rank has been told of. Outdated news
  // changes nothing. Errors: InvalidArgument (see Views); FailedPrecondition: it takes effect at a
  // clock that ranks may have begun.
  absl::Status Take(const proto::ViewChange& change, uint64_t told);

  // Ranks are told of steps before this one.
  uint64_t open_until() const { return promised_ ? promised_->from_clock : kOpen; }
  const Views& views() const { return views_; }

 private:
  struct Promised {
    uint32_t number = 0;
    uint64_t from_clock = 0;
  };

  Views views_;
  uint32_t heard_ = 0;                // the newest number whose outcome is known
  std::optional<Promised> promised_;  // until the outcome is known
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_VIEW_GATE_H_
