#ifndef STRATA_SERVER_TESTING_SHARD_HARNESS_H_
#define STRATA_SERVER_TESTING_SHARD_HARNESS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "gtest/gtest.h"
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

// A sent frame and its connection.
struct Sent {
  transport::ConnectionId connection;
  wire::Frame frame;
};

// One shard and its connections. Every sent frame is checked: it survives encoding and decoding,
// and an error is never longer than the frame that it answers.
class ShardHarness {
 public:
  // See ShardCore.
  explicit ShardHarness(std::function<absl::Time()> trace_clock = nullptr);

  ShardCore& core() { return core_; }
  // A connection without HELLO.
  transport::ConnectionId Connect() { return transport::ConnectionId(++connections_); }
  // A connection with HELLO, which must succeed.
  transport::ConnectionId Join(const proto::JobRecord& record, uint32_t node,
                               uint32_t incarnation = 1, uint32_t connection = 0,
                               uint32_t shard = 0);
  // Advances the time at which frames are delivered. Returns what was due by then.
  std::vector<Sent> PassTime(absl::Duration duration);
  // Delivers a frame; returns what the shard sends in return, in order.
  std::vector<Sent> Deliver(transport::ConnectionId connection, const wire::Frame& frame);
  // The same if exactly one frame must come back.
  wire::Frame DeliverForOne(transport::ConnectionId connection, const wire::Frame& frame);
  // The connection is gone.
  void Lose(transport::ConnectionId connection);

 private:
  // `answered`: the frame that caused the actions; null: time.
  std::vector<Sent> Check(std::vector<ShardAction> actions, transport::ConnectionId connection,
                          const wire::Frame* answered);

  ShardCore core_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t connections_ = 0;
};

// A node for tests of shards with sockets: an endpoint with one connection to a shard of this host,
// opened by HELLO.
//
// Threads: one.
class SocketNode {
 public:
  SocketNode(const proto::JobRecord& record, uint32_t number, int port,
             std::unique_ptr<transport::Endpoint> endpoint)
      : endpoint_(std::move(endpoint)) {
    connection_ = endpoint_->Connect(absl::StrFormat("tcp://127.0.0.1:%d", port)).value();
    Send(HelloFrame(record, number));
    EXPECT_EQ(Receive().header.op, wire::Op::kHelloOk);
  }

  void Send(const wire::Frame& frame) { EXPECT_TRUE(endpoint_->Send(connection_, frame).ok()); }

  // The next frame; if none came in time, an empty header, whose op is kHello.
  wire::Frame Receive(absl::Duration patience = absl::Seconds(60)) {
    const absl::Time deadline = absl::Now() + patience;
    while (next_ == events_.size() && absl::Now() < deadline) {
      events_.clear();
      next_ = 0;
      endpoint_->Poll(absl::Milliseconds(100), &events_);
    }
    if (next_ == events_.size()) return {};
    const transport::Event& event = events_[next_++];
    EXPECT_EQ(event.kind, transport::Event::Kind::kFrame) << event.error;
    return event.frame;
  }

 private:
  std::unique_ptr<transport::Endpoint> endpoint_;
  transport::ConnectionId connection_;
  std::vector<transport::Event> events_;
  size_t next_ = 0;
};

// Analyzes the weights of a chunk that began with zeros, in a job with a quorum in which each push
// of one sample adds `each` to a weight of its own. A clock's mean is over its pushes, so each of k
// pushes adds each / k, and there are k such weights for each clock of k pushes. Fails the test if
// a push does not count, or counts in two clocks. Returns by k the number of pushes in clocks of k.
inline std::map<uint32_t, uint32_t> PushesByClockSize(absl::Span<const float> weights, float each) {
  std::map<uint32_t, uint32_t> pushes;
  for (const float weight : weights) {
    EXPECT_GT(weight, 0) << "a push that does not count";
    if (!(weight > 0)) continue;
    const float size = std::round(each / weight);
    EXPECT_GE(size, 1) << "a push that counts twice: " << weight;
    EXPECT_NEAR(weight, each / size, 1e-6f * each) << "the share of no clock";
    ++pushes[static_cast<uint32_t>(size)];
  }
  for (const auto& [size, count] : pushes) {
    EXPECT_EQ(count % size, 0) << count << " pushes in clocks of " << size;
  }
  return pushes;
}

}  // namespace strata::server

#endif  // STRATA_SERVER_TESTING_SHARD_HARNESS_H_
