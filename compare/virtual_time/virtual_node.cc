#include "compare/virtual_time/virtual_node.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/kernels.h"
#include "worker/exchange/create_exchange.h"

namespace strata::compare {
namespace {

using worker::Exchange;

proto::LogicalNode SelfIn(const proto::JobRecord& record, uint32_t node) {
  return record.view().nodes(static_cast<int>(node));
}

}  // namespace

absl::StatusOr<std::unique_ptr<VirtualNode>> VirtualNode::Create(
    const Options& options, transport::SimClock* clock, transport::SimNetwork* network,
    ComputePool* pool, Problem* problem, NodeObserver* observer) {
  std::unique_ptr<VirtualNode> node(
      new VirtualNode(options, clock, network, pool, problem, observer));
  if (absl::Status status = node->Join(network); !status.ok()) return status;
  return node;
}

VirtualNode::VirtualNode(const Options& options, transport::SimClock* clock,
                         transport::SimNetwork* network, ComputePool* pool, Problem* problem,
                         NodeObserver* observer)
    : options_(options),
      self_(SelfIn(options.record, options.node)),
      clock_(clock),
      pool_(pool),
      problem_(problem),
      observer_(observer),
      map_(options.record.layout().elements(), options.record.placement().chunk_elements()),
      core_(RankId(self_.first_rank()), self_.ranks(), map_.chunks()),
      weights_(map_.elements()),
      ranks_(self_.ranks()),
      ready_(map_.chunks(), std::vector<uint64_t>(self_.ranks(), 0)),
      complete_(self_.ranks(), 0),
      shown_(map_.chunks(), 0) {
  problem_->FirstWeights(weights_.data());
  for (uint32_t r = 0; r < self_.ranks(); ++r) {
    const uint32_t rank = self_.first_rank() + r;
    ranks_[r].compute = problem_->MakeRank(rank, weights_.data());
    ranks_[r].book = std::make_unique<client::StepBook>(problem_->tensors(), map_);
    ranks_[r].straggler = std::make_unique<Straggler>(problem_->job(), options.node, rank);
  }
}

VirtualNode::~VirtualNode() = default;

absl::Status VirtualNode::Join(transport::SimNetwork* network) {
  auto endpoint = std::make_unique<transport::SimEndpoint>(
      network, VirtualEndpoint(options_.host, [this] { Turn(); }));
  if (!options_.listen.empty()) {
    if (auto port = endpoint->Listen(options_.listen); !port.ok()) return port.status();
  }
  worker::CoreOptions core;
  core.record = options_.record;
  core.node = NodeId(options_.node);
  core.incarnation = 1;
  absl::StatusOr<std::unique_ptr<Exchange>> exchange =
      worker::CreateExchange(core, std::move(endpoint), -1, this, clock_);
  if (!exchange.ok()) return exchange.status();
  exchange_ = *std::move(exchange);
  return absl::OkStatus();
}

void VirtualNode::Start() {
  if (const absl::Status started = exchange_->Start(); !started.ok()) return Fail(started);
  Turn();
}

void VirtualNode::Fail(const absl::Status& status) {
  if (std::exchange(ended_, true)) return;
  observer_->OnFailed(status);
}

void VirtualNode::Turn() {
  if (ended_) return;
  if (const absl::Status status = exchange_->Poll(absl::InfiniteDuration()); !status.ok()) {
    return Fail(status);
  }
  if (!training_ && exchange_->phase() == Exchange::Phase::kTraining) BeginTraining();
  if (exchange_->phase() == Exchange::Phase::kFinished) {
    ended_ = true;
    observer_->OnFinished(this);
  }
}

void VirtualNode::AfterMoving(uint64_t bytes, transport::SimClock::Call call) {
  const absl::Time begin = std::max(aggregator_free_, clock_->Now());
  aggregator_free_ = begin + absl::Seconds(bytes / options_.aggregation_bytes_per_s);
  clock_->At(aggregator_free_, std::move(call));
}

void VirtualNode::BeginTraining() {
  training_ = true;
  std::fill(shown_.begin(), shown_.end(), 1);
  BeginComputing();
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].began = clock_->Now();
    BeginStep(r);
  }
}

// Computes the step whose weights have all landed.
void VirtualNode::BeginComputing() {
  observer_->OnWeights(this, landed_step_);
  if (landed_step_ >= problem_->plan().total_steps) return;
  for (Rank& rank : ranks_) rank.compute->Begin(landed_step_, pool_);
}

absl::Status VirtualNode::Landed(ChunkId chunk, uint64_t clock) {
  const uint64_t shown = core_.OnLanded(chunk, clock);
  if (++landed_ahead_ == map_.chunks()) {
    landed_ahead_ = 0;
    ++landed_step_;
    BeginComputing();
  }
  const uint64_t bytes = map_.ElementsOf(chunk) * sizeof(float);
  AfterMoving(bytes, [this, chunk, shown] {
    shown_[chunk.value()] = shown;
    Show(chunk);
  });
  return absl::OkStatus();
}

void VirtualNode::Show(ChunkId chunk) {
  if (++shown_ahead_ == map_.chunks()) {
    shown_ahead_ = 0;
    ++shown_step_;
  }
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].waits) Forward(r);
  }
}

void VirtualNode::BeginStep(uint32_t r) {
  Rank& rank = ranks_[r];
  const absl::Duration time = options_.compute[r].Of(rank.step);
  rank.forward = time * options_.forward_share;
  rank.backward = time - rank.forward;
  rank.stage = 0;
  rank.book->Begin();
  Forward(r);
}

std::vector<int> VirtualNode::StageTensors(const StepStage& stage) const {
  std::vector<int> tensors;
  if (&stage == &problem_->stages().back()) {
    for (int tensor = problem_->first_statistics(); tensor < problem_->tensors().size(); ++tensor) {
      tensors.push_back(tensor);
    }
  }
  for (int weight = stage.first_weight + stage.weights; weight-- > stage.first_weight;) {
    tensors.push_back(problem_->TensorIndex(weight));
  }
  return tensors;
}

bool VirtualNode::IsShown(const StepStage& stage, uint64_t step) const {
  for (const int tensor : StageTensors(stage)) {
    const client::StepBook& book = *ranks_[0].book;
    for (uint32_t c = book.FirstChunk(tensor).value(); c <= book.LastChunk(tensor).value(); ++c) {
      if (shown_[c] <= step) return false;
    }
  }
  return true;
}

// From the rank's stage on, as far as weights are there.
void VirtualNode::Forward(uint32_t r) {
  Rank& rank = ranks_[r];
  const std::vector<StepStage>& stages = problem_->stages();
  if (!IsShown(stages[rank.stage], rank.step)) {
    if (!std::exchange(rank.waits, true)) rank.waits_since = clock_->Now();
    return;
  }
  if (std::exchange(rank.waits, false)) waited_ += clock_->Now() - rank.waits_since;
  double share = stages[rank.stage++].forward;
  if (shown_step_ >= rank.step) {  // so is all the rest
    for (; rank.stage < stages.size(); ++rank.stage) share += stages[rank.stage].forward;
  }
  clock_->After(share * rank.forward, [this, r] {
    ranks_[r].stage < problem_->stages().size() ? Forward(r) : EndForward(r);
  });
}

// A deliberately slow rank pauses here, as in a trainer.
void VirtualNode::EndForward(uint32_t r) {
  Rank& rank = ranks_[r];
  rank.computed += rank.forward;
  const absl::Duration delay = rank.straggler->Delay(rank.step, rank.computed);
  rank.computed = rank.backward;
  const double share = problem_->stages()[--rank.stage].backward;
  clock_->After(delay + share * rank.backward, [this, r] { Backward(r); });
}

// A stage's gradients are there.
void VirtualNode::Backward(uint32_t r) {
  if (ended_) return;
  Rank& rank = ranks_[r];
  const std::vector<StepStage>& stages = problem_->stages();
  if (rank.stage + 1 == stages.size()) {
    const absl::StatusOr<StepResult> result = rank.compute->Finish(pool_);
    if (!result.ok()) return Fail(result.status());
    rank.result = *result;
  }
  Publish(r, stages[rank.stage]);
  if (ended_) return;
  if (rank.stage == 0) return FinishStep(r);
  const double share = stages[--rank.stage].backward;
  clock_->After(share * rank.backward, [this, r] { Backward(r); });
}

void VirtualNode::Publish(uint32_t r, const StepStage& stage) {
  Rank& rank = ranks_[r];
  complete_chunks_.clear();
  for (const int tensor : StageTensors(stage)) rank.book->Publish(tensor, &complete_chunks_);
  if (rank.stage == 0) complete_[r] = rank.step + 1;
  for (const ChunkId chunk : complete_chunks_) {
    std::vector<uint64_t>& ready = ready_[chunk.value()];
    ready[r] = rank.step + 1;
    const absl::StatusOr<bool> complete = core_.OnReady(chunk, ready);
    if (!complete.ok()) return Fail(complete.status());
    if (!*complete) continue;
    const uint64_t bytes = map_.ElementsOf(chunk) * sizeof(float) * ranks_.size();
    AfterMoving(bytes, [this, chunk] {
      if (ended_) return;
      if (const absl::Status status = exchange_->Submit(chunk); !status.ok()) return Fail(status);
      Turn();
    });
  }
}

void VirtualNode::FinishStep(uint32_t r) {
  Rank& rank = ranks_[r];
  observer_->OnStep(self_.first_rank() + r, rank.result);
  ++rank.step;
  if (rank.step < problem_->plan().total_steps) return BeginStep(r);
  stepped_ += clock_->Now() - rank.began;
  if (const absl::Status left = core_.OnLeave(r, rank.step); !left.ok()) return Fail(left);
  if (!core_.steps().has_value()) return;
  AfterMoving(0, [this] {
    if (ended_) return;
    const absl::Status finished = exchange_->Finish(*core_.steps());
    if (!finished.ok()) return Fail(finished);
    Turn();
  });
}

Bytes VirtualNode::FirstWeights(ChunkId chunk) {
  const size_t count = map_.ElementsOf(chunk);
  const std::shared_ptr<float> buffer = buffers_.AllocateFloats(count);
  std::copy_n(weights_.data() + map_.OffsetOf(chunk), count, buffer.get());
  return AsBytes(buffer, count);
}

worker::ExchangeNode::Sum VirtualNode::TakeSum(ChunkId chunk, uint64_t /*clock*/) {
  const size_t count = map_.ElementsOf(chunk);
  inputs_.clear();
  worker::StepFacts facts{.rate = problem_->rate()};
  for (const Rank& rank : ranks_) {
    facts.samples += rank.result.samples;
    inputs_.push_back(rank.compute->gradients() + map_.OffsetOf(chunk));
  }
  const std::shared_ptr<float> sum = buffers_.AllocateFloats(count);
  kernels::Cpu().sum(inputs_, sum.get(), count);
  core_.OnSummed(chunk, complete_);
  return {AsBytes(sum, count), facts};
}

absl::Status VirtualNode::TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) {
  std::copy_n(weights.floats(), weights.float_count(),
              weights_.data() + map_.OffsetOf(chunk) + first_element);
  return absl::OkStatus();
}

absl::Status VirtualNode::AddToWeights(ChunkId chunk, uint32_t first_element,
                                       const numerics::CheckedPayload& delta) {
  float* const weights = weights_.data() + map_.OffsetOf(chunk) + first_element;
  delta.AddTo(weights, weights);
  return absl::OkStatus();
}

absl::Status VirtualNode::TakeFinalWeights(ChunkId chunk, const Bytes& weights) {
  return TakeWeights(chunk, 0, weights);
}

}  // namespace strata::compare
