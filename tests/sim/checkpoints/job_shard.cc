#include "tests/sim/checkpoints/job_shard.h"

#include "absl/strings/str_cat.h"
#include "common/require.h"

namespace strata::sim {
namespace {

using server::ShardAction;
using transport::Event;

constexpr uint32_t kFirstServerHost = 32;

}  // namespace

JobShard::JobShard(transport::SimNetwork* network, const proto::JobRecord& record, uint32_t own)
    : network_(*network), endpoint_(network, OptionsOf(own)) {
  job_ = std::make_unique<server::ShardJob>(*server::MakeShardPlan(record, ShardId(own)),
                                            server::ShardCopy::kPrimary, kernels::Cpu(), pool_,
                                            &scratch_, &refusals_, &cuts_, nullptr);
  const std::string& address = record.placement().shard_endpoints(static_cast<int>(own));
  STRATA_REQUIRE(endpoint_.Listen(address).ok());
}

transport::SimEndpoint::Options JobShard::OptionsOf(uint32_t own) {
  transport::SimEndpoint::Options options;
  options.name = absl::StrCat("s", own);
  options.host = kFirstServerHost + own;
  options.addresses_are_names = true;
  options.on_ready = [this] { Serve(); };
  return options;
}

void JobShard::Serve() {
  std::vector<Event> events;
  endpoint_.Poll(absl::InfiniteDuration(), &events);
  for (const Event& event : events) Take(event);
  WakeAtDeadline();
}

void JobShard::Take(const Event& event) {
  std::vector<ShardAction> actions;
  if (event.kind != Event::Kind::kFrame) {
    bound_.erase(event.connection);
    job_->OnDisconnected(event.connection, event.error, network_.Now(), &actions);
  } else if (event.frame.header.op == wire::Op::kHello) {
    wire::Hello hello;
    const Bytes& payload = event.frame.payload;
    STRATA_REQUIRE(wire::DecodeHello({payload.data(), payload.size()}, &hello).ok());
    if (job_->OnHello(event.connection, event.frame, hello, network_.Now(), &actions)) {
      bound_.insert(event.connection);
    }
  } else if (bound_.contains(event.connection)) {
    job_->OnFrame(event.connection, event.frame, network_.Now(), &actions);
  }
  Send(actions);
}

void JobShard::Send(const std::vector<ShardAction>& actions) {
  for (const ShardAction& action : actions) {
    endpoint_.Send(action.connection, action.frame).IgnoreError();
  }
}

void JobShard::WakeAtDeadline() {
  const absl::Time at = job_->deadline();
  if (at >= wakes_at_) return;
  wakes_at_ = at;
  network_.After(at - network_.Now(), [this] {
    wakes_at_ = absl::InfiniteFuture();
    std::vector<ShardAction> actions;
    job_->OnTime(network_.Now(), &actions);
    Send(actions);
    WakeAtDeadline();
  });
}

}  // namespace strata::sim
