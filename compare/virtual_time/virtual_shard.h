#ifndef STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_SHARD_H_
#define STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_SHARD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compare/virtual_time/link_medium.h"
#include "proto/cluster.pb.h"
#include "proto/record.pb.h"
#include "server/shard/shard_core.h"

namespace strata::compare {

// One shard of a server: its core, its endpoint, and one core of a processor, which takes its time
// for each frame, one after the other, before the frame has any effect.
//
// Threads: one.
class VirtualShard {
 public:
  // All outlive it.
  VirtualShard(transport::SimClock* clock, transport::SimNetwork* network, uint32_t host,
               const proto::Servers& servers);

  // Takes the one job in and listens. Errors: ShardCore's and Listen's.
  absl::Status Start(const proto::JobRecord& record, ShardId own_shard, const std::string& address);

 private:
  void OnReady();
  void OnEvent(const transport::Event& event);
  void Execute();
  // Tells the core the time when it wants to be told.
  void WakeAtDeadline();

  transport::SimClock* const clock_;
  const double seconds_per_byte_;
  const absl::Duration per_frame_;
  server::ShardCore core_;
  absl::Time free_;  // the processor, from then on
  absl::Time wakes_at_ = absl::InfiniteFuture();
  std::vector<transport::Event> events_;
  std::vector<server::ShardAction> actions_;
  transport::SimEndpoint endpoint_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_SHARD_H_
