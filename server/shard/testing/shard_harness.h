#ifndef STRATA_SERVER_SHARD_TESTING_SHARD_HARNESS_H_
#define STRATA_SERVER_SHARD_TESTING_SHARD_HARNESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "proto/record.pb.h"
#include "server/shard/shard_core.h"

// Jobs, frames and a shard without a network, for tests.
namespace strata::server {

struct JobOptions {
  uint32_t job = 7;
  std::vector<uint32_t> ranks = {1, 1};  // of each node
  uint32_t elements = 8;
  uint32_t chunk_elements = 4;
  uint32_t shards = 1;
  uint32_t batch_per_rank = 4;
  std::string job_text = "optimizer { sgd {} } schedule { base_lr: 0.5 }";
};

// View 3, generation 2, chunks round-robin over the shards.
proto::JobRecord MakeRecord(const JobOptions& options);

// Frames as a node of the job sends them.
wire::Frame HelloFrame(const proto::JobRecord& record, uint32_t node, uint32_t incarnation = 1,
                       uint32_t connection = 0, uint32_t shard = 0);
wire::Frame InitFrame(const proto::JobRecord& record, uint32_t node, uint32_t chunk,
                      const std::vector<float>& weights);
wire::Frame PushFrame(const proto::JobRecord& record, uint32_t node, uint32_t chunk, uint64_t clock,
                      const std::vector<float>& sum, uint32_t samples, uint64_t base_version = 0);
wire::Frame EmptyFrame(const proto::JobRecord& record, uint32_t node, uint32_t chunk,
                       uint64_t clock, uint32_t samples);
wire::Frame ControlFrame(const proto::JobRecord& record, wire::Op op, uint32_t node, uint32_t chunk,
                         uint64_t clock);
Bytes ToBytes(const std::vector<float>& values);
std::vector<float> ToFloats(const wire::Frame& frame);

// A frame and the connection that it leaves on.
struct Sent {
  transport::ConnectionId connection;
  wire::Frame frame;
};

// One shard and its connections. Every frame that leaves is checked: it survives encoding and
// decoding, and an error is never longer than what it answers.
class ShardHarness {
 public:
  // See ShardCore.
  explicit ShardHarness(std::function<absl::Time()> trace_clock = nullptr);

  ShardCore& core() { return core_; }
  // A connection without HELLO.
  transport::ConnectionId Connect() { return transport::ConnectionId(++connections_); }
  // One with HELLO, which must succeed.
  transport::ConnectionId Join(const proto::JobRecord& record, uint32_t node,
                               uint32_t incarnation = 1, uint32_t connection = 0,
                               uint32_t shard = 0);
  // When frames are delivered; goes forward. What is due by then comes back.
  std::vector<Sent> PassTime(absl::Duration duration);
  // Delivers a frame; what the shard sends in return, in order.
  std::vector<Sent> Deliver(transport::ConnectionId connection, const wire::Frame& frame);
  // Does the same where exactly one frame must come back.
  wire::Frame DeliverForOne(transport::ConnectionId connection, const wire::Frame& frame);
  // The connection is gone.
  void Lose(transport::ConnectionId connection);

 private:
  // `answered`: what the actions are for; null: time.
  std::vector<Sent> Check(std::vector<ShardAction> actions, transport::ConnectionId connection,
                          const wire::Frame* answered);

  ShardCore core_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t connections_ = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_TESTING_SHARD_HARNESS_H_
