#ifndef STRATA_SERVER_SHARD_TESTING_SOCKET_NODE_H_
#define STRATA_SERVER_SHARD_TESTING_SOCKET_NODE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "gtest/gtest.h"
#include "proto/record.pb.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {

// A node's end, for tests of shards that have sockets: an endpoint with one connection to a shard
// of this host, which HELLO has opened.
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

  // The next frame; an empty header's op is kHello where none came in time.
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

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_TESTING_SOCKET_NODE_H_
