#include "worker/testing/training_node.h"

#include <algorithm>
#include <utility>

#include "common/transport/sim/sim_endpoint.h"
#include "gtest/gtest.h"
#include "worker/exchange/create_exchange.h"

namespace strata::worker {
namespace {

// A finished node still answers others, but not forever.
constexpr int kPollsAfterEndMax = 100;

}  // namespace

TrainingNode::TrainingNode(transport::SimNetwork* network, Options options)
    : network_(*network),
      options_(std::move(options)),
      map_(options_.core.record.layout().elements(),
           options_.core.record.placement().chunk_elements()),
      weights_(map_.elements()),
      landed_(map_.chunks(), 0) {
  transport::SimEndpoint::Options at;
  at.name = options_.name;
  at.host = options_.core.node.value();
  at.addresses_are_names = options_.addresses_are_names;
  at.on_ready = [this] { Poll(); };
  auto endpoint = std::make_unique<transport::SimEndpoint>(network, at);
  if (!options_.listen.empty()) {
    EXPECT_TRUE(endpoint->Listen(options_.listen).ok());
  }
  exchange_ = *CreateExchange(options_.core, std::move(endpoint), -1, this, &network->clock());
}

void TrainingNode::Start() { Took(exchange_->Start()); }

void TrainingNode::OnShardMoved(const ShardMove& move) {
  if (exchange_ && status_.ok()) Took(exchange_->OnShardMoved(move));
}

void TrainingNode::GoOn() {
  if (exchange_ && status_.ok() && held_) BeginStep(*held_);
}

void TrainingNode::LeaveAt(uint64_t clock) {
  if (!exchange_) return;
  exchange_->LeaveAt(clock);
  options_.clocks = std::min(options_.clocks, clock);
  if (held_ && *held_ >= options_.clocks) {
    held_.reset();
    FinishIfLast();
  }
}

absl::StatusOr<StoppedRing> TrainingNode::StopRing(uint32_t number) {
  const absl::StatusOr<StoppedRing> stopped = exchange_->StopRing(number);
  Poll();
  return stopped;
}

void TrainingNode::FormRing(const proto::FormRing& forming) {
  if (status_.ok()) Took(exchange_->FormRing(forming));
}

void TrainingNode::Kill() {
  status_ = absl::AbortedError("killed");
  Exit();
}

void TrainingNode::Exit() {
  counters_ = exchange_->counters();
  exchange_.reset();
}

bool TrainingNode::is_over() const {
  return !status_.ok() || !exchange_ || exchange_->phase() == Exchange::Phase::kFinished;
}

Bytes TrainingNode::FirstWeights(ChunkId chunk) {
  const Bytes first = Floats(chunk, options_.first_weight);
  EXPECT_EQ(TakeWeights(chunk, 0, first), absl::OkStatus());
  return first;
}

ExchangeNode::Sum TrainingNode::TakeSum(ChunkId chunk, uint64_t clock) {
  EXPECT_EQ(clock, landed_[chunk.value()]);
  return {Floats(chunk, [&](uint64_t i) { return options_.gradient(clock, i); }),
          {options_.samples, options_.rate}};
}

absl::Status TrainingNode::TakeWeights(ChunkId chunk, uint32_t first_element,
                                       const Bytes& weights) {
  std::copy_n(weights.floats(), weights.float_count(),
              weights_.begin() + static_cast<ptrdiff_t>(map_.OffsetOf(chunk)) + first_element);
  return absl::OkStatus();
}

absl::Status TrainingNode::AddToWeights(ChunkId chunk, uint32_t first_element,
                                        const numerics::CheckedPayload& delta) {
  float* const weights = &weights_[map_.OffsetOf(chunk) + first_element];
  delta.AddTo(weights, weights);
  return absl::OkStatus();
}

absl::Status TrainingNode::Landed(ChunkId chunk, uint64_t clock) {
  EXPECT_EQ(clock, landed_[chunk.value()]);
  landed_[chunk.value()] = clock + 1;
  if (clock + 1 >= options_.clocks) {
    FinishIfLast();
  } else if (!options_.in_step) {
    PublishSoon(chunk);
  } else if (std::all_of(landed_.begin(), landed_.end(), [&](auto l) { return l > clock; })) {
    BeginStep(clock + 1);
  }
  return absl::OkStatus();
}

void TrainingNode::BeginStep(uint64_t clock) {
  held_.reset();
  if (options_.may_begin && !options_.may_begin(clock)) {
    held_ = clock;
    return;
  }
  step_weights_ = weights_;
  if (options_.on_step) options_.on_step(clock, weights_);
  for (uint32_t c = 0; c < map_.chunks(); ++c) PublishSoon(ChunkId(c));
}

void TrainingNode::FinishIfLast() {
  const uint64_t first = landed_[0];
  const bool all = std::all_of(landed_.begin(), landed_.end(), [&](uint64_t landed) {
    return landed == first && landed >= options_.clocks;
  });
  if (!all) return;
  network_.After(absl::ZeroDuration(), [this, first] {
    if (exchange_ && status_.ok()) Took(exchange_->Finish(first));
  });
}

absl::Status TrainingNode::TakeFirstWeights(ChunkId chunk, const Bytes& weights) {
  EXPECT_FALSE(began_);
  return TakeWeights(chunk, 0, weights);
}

absl::Status TrainingNode::TakeFinalWeights(ChunkId chunk, const Bytes& weights) {
  ++finals_;
  return TakeWeights(chunk, 0, weights);
}

Bytes TrainingNode::Floats(ChunkId chunk, const std::function<float(uint64_t)>& at) const {
  auto floats = std::make_shared<std::vector<float>>(map_.ElementsOf(chunk));
  for (size_t i = 0; i < floats->size(); ++i) (*floats)[i] = at(map_.OffsetOf(chunk) + i);
  return Bytes(floats, reinterpret_cast<const std::byte*>(floats->data()),
               floats->size() * sizeof(float));
}

void TrainingNode::PublishSoon(ChunkId chunk) {
  const absl::Duration delay =
      network_.random().Between(absl::Microseconds(1), absl::Milliseconds(1));
  network_.After(delay, [this, chunk] {
    if (exchange_ && status_.ok()) Took(exchange_->Submit(chunk));
  });
}

void TrainingNode::Took(const absl::Status& status) {
  status_ = status;
  Poll();
}

void TrainingNode::Poll() {
  if (!exchange_ || !status_.ok()) return;
  const bool has_ended = exchange_->phase() == Exchange::Phase::kFinished;
  if (has_ended && ++polls_after_end_ > kPollsAfterEndMax) return;
  status_ = exchange_->Poll(absl::Seconds(1));
  if (began_ || exchange_->phase() != Exchange::Phase::kTraining) return;
  began_ = true;
  first_weights_ = weights_;
  first_clock_ = exchange_->first_clock();
  landed_.assign(landed_.size(), first_clock_);
  if (first_clock_ >= options_.clocks) return FinishIfLast();
  BeginStep(first_clock_);
}

}  // namespace strata::worker
