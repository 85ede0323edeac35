#ifndef STRATA_WORKER_AGGREGATOR_TESTING_SHARD_SERVER_H_
#define STRATA_WORKER_AGGREGATOR_TESTING_SHARD_SERVER_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "worker/exchange/testing/fake_shard.h"

namespace strata::worker {

// FakeShard behind a real socket.
class ShardServer {
 public:
  ShardServer() : endpoint_(*transport::CreateZmqEndpoint({})) {
    port_ = *endpoint_->Listen("tcp://127.0.0.1:0");
    thread_ = std::thread([this] { Serve(); });
  }
  ~ShardServer() {
    stop_ = true;
    endpoint_->Wake();
    thread_.join();
  }
  std::string address() const { return absl::StrCat("tcp://127.0.0.1:", port_); }
  FakeShard shard{1};  // before a client connects, or after it has gone

 private:
  void Serve() {
    while (!stop_) {
      std::vector<transport::Event> events;
      endpoint_->Poll(absl::Seconds(1), &events);
      for (const transport::Event& event : events) {
        if (event.kind != transport::Event::Kind::kFrame) continue;
        for (FakeShard::Reply& reply : shard.OnFrame(event.connection, event.frame)) {
          endpoint_->Send(reply.connection, reply.frame).IgnoreError();
        }
      }
    }
  }

  std::unique_ptr<transport::Endpoint> endpoint_;
  int port_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_TESTING_SHARD_SERVER_H_
