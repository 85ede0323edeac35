#include "tests/sim/cluster/sim_node.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job_keys.h"
#include "common/transport/sim/sim_endpoint.h"
#include "kernels/kernels.h"
#include "tests/sim/check/ring_checker.h"
#include "tests/sim/check/view_checker.h"
#include "tests/sim/cluster/eavesdropper.h"
#include "tests/sim/cluster/sim_operator.h"
#include "tests/sim/cluster/world.h"
#include "worker/exchange/create_exchange.h"

namespace strata::sim {

namespace {

using worker::Exchange;

// As in the aggregator's loop.
constexpr absl::Duration kIdlePoll = absl::Seconds(1);

proto::LogicalNode SelfIn(const proto::JobRecord& record, uint32_t node) {
  for (const proto::LogicalNode& one : record.view().nodes()) {
    if (one.node() == node) return one;
  }
  return {};
}

}  // namespace

SimNode::SimNode(World* world, const proto::JobRecord& record, const Options& options)
    : world_(world),
      options_(options),
      job_(record.job_id()),
      self_(SelfIn(record, options.node)),
      clocks_(world->plan(job_).clocks),
      payload_(world->plan(job_)),
      map_(record.layout().elements(), record.placement().chunk_elements()),
      core_(RankId(self_.first_rank()), self_.ranks(), map_.chunks()),
      ranks_(self_.ranks()),
      ready_(map_.chunks(), std::vector<uint64_t>(self_.ranks(), 0)),
      gradients_(map_.chunks()),
      consumed_(map_.chunks(), 0),
      landed_(map_.chunks(), 0),
      complete_(self_.ranks(), 0),
      gate_(*Views::Of(record)),
      timers_(&world->network()) {
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    weights_.emplace_back(map_.ElementsOf(ChunkId(c)));
    gradients_[c].assign(self_.ranks(), std::vector<float>(map_.ElementsOf(ChunkId(c))));
  }
  for (uint32_t r = 0; r < self_.ranks(); ++r) {
    samples_ += payload_.SamplesOf(self_.first_rank() + r);
  }
  world_->checker(job_)->OnNodeStart(options_.node, options_.incarnation);
  transport::SimEndpoint::Options endpoint;
  endpoint.name = absl::StrFormat("j%d.n%d#%d", job_, options_.node, options_.incarnation);
  endpoint.host = options_.host;
  endpoint.encode = world->scenario().encode;
  endpoint.on_ready = [this] { Turn(); };
  worker::CoreOptions core;
  core.record = record;
  core.node = NodeId(options_.node);
  core.incarnation = options_.incarnation;
  core.timing = world->scenario().timing;
  core.reserve = world->scenario().reserve;
  std::string own_address;
  if (record.has_ring()) {
    own_address = record.ring().endpoints(static_cast<int>(options_.node));
  }
  std::unique_ptr<transport::Endpoint> way;
  if (const auto keys = *KeysOf(record, own_address)) {
    way = std::make_unique<WatchedEndpoint>(world, endpoint, WatchedEndpoint::Unsealed::kNone);
    (void)way->Protect(JobId(job_), *keys);
  } else {
    way = std::make_unique<transport::SimEndpoint>(&world->network(), endpoint);
  }
  if (record.has_ring()) {
    if (const auto port = way->Listen(own_address); !port.ok()) {
      world_->Fail("a node can listen: " + std::string(port.status().message()));
    }
  }
  exchange_ = *worker::CreateExchange(core, std::move(way), -1, this, &world->clock());
  if (Goes(exchange_->Start())) Turn();
}

uint32_t SimNode::JobOf(const std::string& endpoint) {
  uint32_t job = 0;
  return std::sscanf(endpoint.c_str(), "j%u.", &job) == 1 ? job : 0;
}

bool SimNode::Goes(const absl::Status& status) {
  if (status.ok()) return true;
  stopped_ = true;
  if (is_replaced()) return false;  // refused, as expected
  const std::string reason(status.message());
  if (world_->OnNodeError(job_, reason)) options_.on_failed(reason);
  return false;
}

void SimNode::MoveShard(const proto::MoveShard& move) {
  moves_.push_back({ShardId(move.shard()), move.endpoint(), move.generation()});
  timers_.After(absl::ZeroDuration(), [this] { Turn(); });
}

void SimNode::TakeMoves() {
  for (const worker::ShardMove& move : std::exchange(moves_, {})) {
    if (!Goes(exchange_->OnShardMoved(move))) return;
  }
}

void SimNode::Turn() {
  if (stopped_ || released_) return;
  if (world_->Takes(Rare::kStoppedNode)) {
    return Freeze(world_->random().Between(absl::ZeroDuration(), world_->scenario().outage_max));
  }
  TakeMoves();
  TakeViews();
  TakeRings();
  if (stopped_ || !Goes(exchange_->Poll(kIdlePoll))) return;
  Advance();
}

void SimNode::Freeze(absl::Duration pause) {
  if (std::exchange(stopped_, true)) return;
  timers_.After(pause, [this] {
    stopped_ = false;
    Turn();
  });
}

void SimNode::Advance() {
  if (!training_ && exchange_->phase() == Exchange::Phase::kTraining) {
    Begin();
  }
  if (exchange_->phase() == Exchange::Phase::kFinished) {
    released_ = true;
    world_->checker(job_)->OnNodeFinished(options_.node);
    world_->operators().OnNodeEnd(job_);
    if (!is_replaced()) options_.on_finished(*core_.steps());
  }
}

void SimNode::Begin() {
  training_ = true;
  const uint64_t first = exchange_->first_clock();
  NodeChecker* const checker = world_->checker(job_);
  checker->OnFirstClock(options_.node, options_.incarnation, first);
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    checker->OnBegin(options_.node, options_.incarnation, ChunkId(c), weights_[c]);
    ready_[c].assign(self_.ranks(), first);
  }
  core_.BeginAt(first);
  std::fill(landed_.begin(), landed_.end(), first + 1);
  std::fill(consumed_.begin(), consumed_.end(), first);
  std::fill(complete_.begin(), complete_.end(), first);
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].step = ranks_[r].told = first;
    BeginStep(r);
    WakeRank(r, absl::ZeroDuration());
  }
  Promise();
}

void SimNode::WakeRank(uint32_t r, absl::Duration delay) {
  Rank& rank = ranks_[r];
  if (rank.scheduled || rank.left) return;
  rank.scheduled = true;
  rank.asleep = false;
  timers_.After(delay, [this, r] {
    ranks_[r].scheduled = false;
    RankTurn(r);
  });
}

void SimNode::BeginStep(uint32_t r) {
  Rank& rank = ranks_[r];
  rank.waited = rank.published = 0;
  rank.order.resize(map_.chunks());
  std::iota(rank.order.begin(), rank.order.end(), 0);
  if (!world_->Takes(Rare::kPublishOrder)) return;
  for (size_t i = rank.order.size(); i > 1; --i) {
    std::swap(rank.order[i - 1], rank.order[world_->random().Below(i)]);
  }
}

void SimNode::RankTurn(uint32_t r) {
  Rank& rank = ranks_[r];
  if (rank.published == 0 && rank.step >= End()) return LeaveRank(r);
  if (rank.published == 0 && !MayBegin(r)) return;
  if (rank.waited < map_.chunks()) {
    while (rank.waited < map_.chunks()) {
      const uint32_t chunk = map_.chunks() - 1 - rank.waited;  // forward: the last layers first
      if (landed_[chunk] < rank.step + 1) {
        rank.asleep = true;
        return;
      }
      ++rank.waited;
    }
    const bool slow = world_->Takes(Rare::kSlowRank);
    const bool is_last = options_.node + 1 == world_->plan(job_).nodes;
    const absl::Duration more = is_last ? world_->plan(job_).last_node_step : absl::ZeroDuration();
    return WakeRank(r,
                    more + world_->plan(job_).step_time +
                        world_->random().Between(absl::Microseconds(10),
                                                 slow ? absl::Seconds(3) : absl::Milliseconds(1)));
  }
  Publish(r);
}

// Backward reaches the next few chunks.
void SimNode::Publish(uint32_t r) {
  Rank& rank = ranks_[r];
  const uint32_t left = map_.chunks() - rank.published;
  const auto burst = static_cast<uint32_t>(world_->random().Between(1, left));
  for (uint32_t i = 0; i < burst; ++i) {
    const ChunkId chunk(rank.order[rank.published++]);
    if (rank.published == map_.chunks()) complete_[r] = rank.step + 1;
    WriteGradient(r, chunk);
    std::vector<uint64_t>& ready = ready_[chunk.value()];
    ready[r] = rank.step + 1;
    const absl::StatusOr<bool> complete = core_.OnReady(chunk, ready);
    if (!complete.ok()) {
      return world_->Fail("jobs end well: " + std::string(complete.status().message()));
    }
    if (*complete && !Goes(exchange_->Submit(chunk))) return;
  }
  if (rank.published == map_.chunks()) {
    FinishStep(r);
  } else {
    WakeRank(r, world_->random().Between(absl::Microseconds(1), absl::Microseconds(300)));
  }
  Turn();
}

// The rank's previous gradient must have been summed, or it would be lost.
void SimNode::WriteGradient(uint32_t r, ChunkId chunk) {
  const uint64_t step = ranks_[r].step;
  if (consumed_[chunk.value()] < step) {
    return world_->Fail(
        absl::StrFormat("gradients are summed before the next: job %d rank %d "
                        "chunk %d step %d",
                        job_, self_.first_rank() + r, chunk.value(), step));
  }
  std::vector<float>& gradient = gradients_[chunk.value()][r];
  payload_.Gradient(self_.first_rank() + r, chunk, step, samples_, options_.variant,
                    map_.ElementsOf(chunk), gradient.data(), gate_.views().RanksAt(step));
}

void SimNode::FinishStep(uint32_t r) {
  Rank& rank = ranks_[r];
  ++rank.step;
  if (rank.step >= End()) return LeaveRank(r);
  BeginStep(r);
  WakeRank(r, absl::Microseconds(1));
}

void SimNode::LeaveRank(uint32_t r) {
  Rank& rank = ranks_[r];
  rank.left = true;
  if (const absl::Status left = core_.OnLeave(r, rank.step); !left.ok()) {
    return world_->Fail("jobs end well: " + std::string(left.message()));
  }
  if (core_.steps().has_value() && !finishing_) {
    finishing_ = true;
    world_->OnTrained(job_, options_.node);
    Goes(exchange_->Finish(*core_.steps()));
  }
}

Bytes SimNode::FirstWeights(ChunkId chunk) {
  world_->Progress();
  auto floats =
      std::make_shared<std::vector<float>>(payload_.FirstWeights(chunk, map_.ElementsOf(chunk)));
  if (world_->plan(job_).takes_first_weights) (*floats)[0] += self_.first_rank();
  weights_[chunk.value()] = *floats;
  return Bytes(floats, reinterpret_cast<const std::byte*>(floats->data()),
               floats->size() * sizeof(float));
}

absl::Status SimNode::TakeFirstWeights(ChunkId chunk, const Bytes& weights) {
  world_->Progress();
  weights_[chunk.value()].assign(weights.floats(), weights.floats() + weights.float_count());
  return absl::OkStatus();
}

worker::ExchangeNode::Sum SimNode::TakeSum(ChunkId chunk, uint64_t clock) {
  NodeChecker* const checker = world_->checker(job_);
  if (!is_replaced()) checker->OnPush(options_.node, chunk, clock);
  const uint32_t count = map_.ElementsOf(chunk);
  inputs_.clear();
  for (const std::vector<float>& gradient : gradients_[chunk.value()]) {
    inputs_.push_back(gradient.data());
  }
  const std::shared_ptr<float> sum = pool_.AllocateFloats(count);
  kernels::Cpu().sum(inputs_, sum.get(), count);
  consumed_[chunk.value()] = core_.OnSummed(chunk, complete_);
  checker->OnSum(options_.node, options_.incarnation, chunk, clock, samples_,
                 absl::MakeConstSpan(sum.get(), count));
  return {AsBytes(sum, count), {samples_, world_->plan(job_).says_rates ? SaidRate(clock) : 0}};
}

absl::Status SimNode::TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) {
  std::copy_n(weights.floats(), weights.float_count(),
              weights_[chunk.value()].begin() + first_element);
  return absl::OkStatus();
}

absl::Status SimNode::AddToWeights(ChunkId chunk, uint32_t first_element,
                                   const numerics::CheckedPayload& delta) {
  float* const weights = weights_[chunk.value()].data() + first_element;
  delta.AddTo(weights, weights);
  return absl::OkStatus();
}

absl::Status SimNode::Landed(ChunkId chunk, uint64_t clock) {
  world_->Progress();
  const std::vector<float>& weights = weights_[chunk.value()];
  NodeChecker* const checker = world_->checker(job_);
  checker->OnTaken(options_.node, options_.incarnation, chunk, clock, weights);
  if (!is_replaced()) checker->OnWeights(options_.node, chunk, clock, weights);
  landed_[chunk.value()] = core_.OnLanded(chunk, clock);
  const bool is_made = *std::min_element(landed_.begin(), landed_.end()) == clock + 2;
  if (is_made) world_->operators().OnStepMade(job_, clock + 1 == clocks_);
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    const Rank& rank = ranks_[r];
    const bool waits = rank.asleep && map_.chunks() - 1 - rank.waited == chunk.value();
    if (waits) WakeRank(r, absl::ZeroDuration());
  }
  return absl::OkStatus();
}

absl::Status SimNode::TakeFinalWeights(ChunkId chunk, const Bytes& weights) {
  world_->Progress();
  if (!is_replaced()) world_->checker(job_)->OnFinalWeights(options_.node, chunk, weights);
  return absl::OkStatus();
}

// Rings that stop and form, as in NodeTraining.

using worker::ViewGate;

void SimNode::StopRing(uint32_t number) {
  ring_words_.emplace_back().mutable_stop_ring()->set_number(number);
  timers_.After(absl::ZeroDuration(), [this] { Turn(); });
}

void SimNode::FormRing(const proto::FormRing& forming) {
  *ring_words_.emplace_back().mutable_form_ring() = forming;
  timers_.After(absl::ZeroDuration(), [this] { Turn(); });
}

void SimNode::TakeRings() {
  for (const proto::AgentMessage& word : std::exchange(ring_words_, {})) {
    if (stopped_) return;
    if (word.has_stop_ring()) TakeStop(word.stop_ring().number());
    if (word.has_form_ring()) TakeForming(word.form_ring());
  }
}

void SimNode::TakeStop(uint32_t number) {
  proto::RingStopped answer;
  answer.set_node(options_.node);
  answer.set_number(number);
  absl::StatusOr<StoppedRing> stopped =
      absl::FailedPreconditionError("its first weights are not there yet");
  if (training_) {
    const std::optional<uint64_t> from = gate_.Promise(
        number, [this](uint64_t) { return Close(); }, ViewGate::kNoMargin);
    if (!from) return;
    answer.set_from_clock(*from);
    stopped = exchange_->StopRing(number);
  }
  if (stopped.ok()) {
    answer.set_clock(stopped->clock);
    answer.set_is_over(stopped->is_over);
    world_->ring_checker(job_)->OnRingStopped(answer);
    world_->views().OnRingStopped(job_, answer);
  } else if (absl::IsFailedPrecondition(stopped.status())) {
    answer.set_error(std::string(stopped.status().message()));
  } else {
    Goes(stopped.status());
    return;
  }
  options_.on_ring_stopped(answer);
  world_->operators().OnRing(job_);
}

void SimNode::TakeForming(const proto::FormRing& forming) {
  const proto::ViewChange& change = forming.change();
  if (change.number() <= gate_.views().number()) return;
  world_->ring_checker(job_)->OnRingTaken(options_.node, forming);
  if (!Goes(exchange_->FormRing(forming))) return;
  TakeView(change);
  world_->operators().OnRing(job_);
}

// Changes of the job's nodes, as in NodeTraining.

void SimNode::ProposeView(uint32_t number) {
  proposed_ = std::max(proposed_, number);
  timers_.After(absl::ZeroDuration(), [this] { Turn(); });
}

void SimNode::ChangeView(const proto::ViewChange& change) {
  views_.push_back(change);
  timers_.After(absl::ZeroDuration(), [this] { Turn(); });
}

void SimNode::TakeViews() {
  for (const proto::ViewChange& change : std::exchange(views_, {})) {
    if (!stopped_) TakeView(change);
  }
  if (!stopped_) Promise();
}

void SimNode::TakeView(const proto::ViewChange& change) {
  if (!Goes(gate_.Take(change, Close()))) return;
  if (!is_replaced()) world_->views().OnHeard(job_, options_.node, change.number());
  const std::optional<uint64_t> leaves_at = gate_.views().LeavesAt(NodeId(options_.node));
  if (leaves_at) exchange_->LeaveAt(*leaves_at);
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (std::exchange(ranks_[r].held, false)) WakeRank(r, absl::ZeroDuration());
  }
}

void SimNode::Promise() {
  if (!training_ || proposed_ == 0) return;
  const uint32_t number = std::exchange(proposed_, 0);
  const std::optional<uint64_t> from = gate_.Promise(number, [this](uint64_t) { return Close(); });
  if (!from) return;
  if (is_replaced()) return;
  world_->views().OnPromised(job_, options_.node, number, *from);
  options_.on_promised(number, *from);
}

bool SimNode::is_replaced() const {
  return replaced_ || !world_->views().IsNewest(job_, options_.node, options_.incarnation);
}

uint64_t SimNode::Close() {
  uint64_t told = 0;
  for (const Rank& rank : ranks_) told = std::max(told, rank.told);
  return told;
}

uint64_t SimNode::End() const {
  return std::min(clocks_, gate_.views().LeavesAt(NodeId(options_.node)).value_or(clocks_));
}

// It asks for several steps at once, like a program that draws data ahead.
bool SimNode::MayBegin(uint32_t r) {
  Rank& rank = ranks_[r];
  if (rank.told <= rank.step) {
    const uint64_t ahead = world_->plan(job_).changes_nodes() ? world_->random().Below(3) : 0;
    rank.told = std::min(rank.step + 1 + ahead, std::max(gate_.open_until(), rank.told));
    rank.held = rank.told <= rank.step;
    if (rank.held) return false;
  }
  if (!world_->plan(job_).changes_nodes()) return true;
  if (rank.waited == 0 && !is_replaced()) world_->views().OnStep(job_, options_.node, rank.step);
  return true;
}

}  // namespace strata::sim
