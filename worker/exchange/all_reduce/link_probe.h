#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_LINK_PROBE_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_LINK_PROBE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/bytes.h"
#include "worker/exchange/all_reduce/peer_link.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// Measures the link from this node to the next one of the ring: the shortest of some round trips,
// then the rate of a burst. Its links are like those of the following all-reduce, and all nodes
// measure at the same time, as they will all send at the same time.
//
// A node that has begun to all-reduce while this one still probes is told to try again.
//
// A pure state machine, see LinkCore.
class LinkProbe final : public LinkCore {
 public:
  struct Result {
    double latency_s = 0;  // one way
    double bytes_per_s = 0;
  };

  // `options.record`: view and ring.endpoints. Errors: InvalidArgument naming the field.
  static absl::StatusOr<std::unique_ptr<LinkProbe>> Create(const CoreOptions& options);

  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) override;
  absl::Time deadline() const override;
  const std::string& address(LinkId) const override { return next_.options().address; }

  const std::optional<Result>& result() const { return result_; }
  // Closes the connections; no calls may follow.
  void Close(WireActions* actions);

 private:
  LinkProbe(const CoreOptions& options, const PeerLink::Options& next,
            const PeerLink::Options& previous);

  absl::Status OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                       CoreActions* actions);
  absl::Status OnTime(absl::Time now, WireActions* actions);
  void OnLost(transport::ConnectionId connection, const absl::Status& why, absl::Time now,
              WireActions* actions);
  void Go(absl::Time now, CoreActions* actions);

  const CoreOptions options_;
  PeerLink next_, previous_;
  uint32_t round_ = 0;    // trips in progress or made; then the burst
  bool waiting_ = false;  // for the acknowledgement of what was sent
  absl::Time sent_at_;
  absl::Duration shortest_ = absl::InfiniteDuration();
  uint32_t lost_ = 0;  // times that the connection broke during measurement
  std::optional<Result> result_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_LINK_PROBE_H_
