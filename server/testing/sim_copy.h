#ifndef STRATA_SERVER_TESTING_SIM_COPY_H_
#define STRATA_SERVER_TESTING_SIM_COPY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "server/shard/shard_core.h"

namespace strata::server {

// One copy of a shard over a simulated network: a core and its endpoint, working as in ShardThread.
// Only a former primary may be refused, or a node that looks for a shard that has left.
//
// Threads: one.
class SimCopy {
 public:
  SimCopy(transport::SimNetwork* network, const std::string& address, uint32_t host)
      : network_(network), core_(kernels::Cpu()) {
    transport::SimEndpoint::Options options;
    options.name = address;
    options.host = host;
    options.addresses_are_names = true;
    options.on_ready = [this] { OnReady(); };
    endpoint_ = std::make_unique<transport::SimEndpoint>(network, options);
    EXPECT_TRUE(endpoint_->Listen(address).ok());
  }

  ShardCore& core() { return core_; }
  void Do(const std::function<void(std::vector<ShardAction>*)>& what) {
    what(&actions_);
    Execute();
  }
  // A stopped process does nothing until it is continued.
  void Stop() { stopped_ = true; }
  void GoOn() {
    stopped_ = false;
    if (endpoint_ != nullptr) OnReady();
  }
  void Die() { endpoint_.reset(); }
  // Shards may be removed here while nodes still look for them.
  void LetShardsLeave() { shards_leave_ = true; }
  bool is_alive() const { return endpoint_ != nullptr; }

  void OnTime() {
    if (!is_alive() || stopped_) return;
    Do([this](auto* actions) { core_.OnTime(network_->Now(), actions); });
  }

 private:
  void OnReady() {
    if (stopped_) return;
    std::vector<transport::Event> events;
    endpoint_->Poll(absl::InfiniteDuration(), &events);
    for (transport::Event& event : events) {
      if (event.kind == transport::Event::Kind::kFrame) {
        core_.OnFrame(event.connection, std::move(event.frame), network_->Now(), &actions_);
      } else {
        core_.OnDisconnected(event.connection, event.error, network_->Now(), &actions_);
      }
      Execute();
    }
  }

  void Execute() {
    while (!actions_.empty()) {
      for (ShardAction& action : std::exchange(actions_, {})) Execute(action);
    }
  }
  void Execute(const ShardAction& action) {
    if (!is_alive()) return;
    if (action.kind == ShardAction::Kind::kSend) {
      // A former primary gets such an answer.
      const wire::Header& header = action.frame.header;
      const bool has_left = shards_leave_ && header.error == wire::ErrorCode::kWrongJob;
      if (header.op == wire::Op::kError && !has_left) {
        EXPECT_EQ(header.error, wire::ErrorCode::kFenced) << wire::Describe(header);
      }
      // Frames to a closed connection are lost.
      endpoint_->Send(action.connection, action.frame).IgnoreError();
    } else if (action.kind == ShardAction::Kind::kClose) {
      endpoint_->Close(action.connection);
    } else {
      const auto connection = endpoint_->ConnectFor(action.address, action.job);
      ASSERT_TRUE(connection.ok());
      core_.OnConnected(action, *connection, network_->Now(), &actions_);
    }
  }

  transport::SimNetwork* const network_;
  ShardCore core_;
  std::unique_ptr<transport::SimEndpoint> endpoint_;
  std::vector<ShardAction> actions_;
  bool stopped_ = false;
  bool shards_leave_ = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_TESTING_SIM_COPY_H_
