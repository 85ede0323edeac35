#include "worker/exchange/testing/all_reduce_world.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/job/job.h"
#include "common/transport/sim/sim_endpoint.h"
#include "gtest/gtest.h"
#include "worker/exchange/create_exchange.h"

namespace strata::worker {
namespace {

constexpr int kEventsMax = 5'000'000;

proto::JobRecord RecordOf(const AllReduceWorld::Options& options) {
  proto::JobRecord record;
  record.set_job_id(7);
  record.set_token(0x1234);
  record.set_cluster(0x5678);
  *record.mutable_job() = *ParseJob(
      absl::StrCat("name: \"j\" program { path: \"p\" } max_steps: 1 exchange: RING ", options.job),
      "job");
  FillDefaults(record.mutable_job());
  record.mutable_job()->set_window(options.window);
  record.mutable_view()->set_number(3);
  for (uint32_t n = 0; n < options.nodes; ++n) {
    proto::LogicalNode* node = record.mutable_view()->add_nodes();
    node->set_node(n);
    node->set_first_rank(n);
    node->set_ranks(1);
    record.mutable_ring()->add_endpoints(absl::StrFormat("tcp://10.0.0.%d:4000", n + 1));
  }
  record.mutable_ring()->set_algorithm(options.algorithm);
  record.mutable_placement()->set_chunk_elements(options.chunk_elements);
  proto::Segment* segment = record.mutable_layout()->add_segments();
  segment->set_name("w");
  segment->add_shape(options.elements);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  record.mutable_layout()->set_elements(options.elements);
  return record;
}

}  // namespace

// Publishes each chunk again some time after its weights have landed.
class AllReduceWorld::Node final : public ExchangeNode {
 public:
  Node(AllReduceWorld* world, uint32_t node)
      : world_(world),
        node_(node),
        clocks_(world->options_.clocks + (world->options_.one_clock_more == node ? 1 : 0)),
        map_(world->options_.elements, world->options_.chunk_elements),
        weights_(world->options_.elements),
        landed_(map_.chunks(), 0) {
    transport::SimEndpoint::Options options;
    options.name = absl::StrCat("n", node);
    options.host = node;
    options.on_ready = [this] { Turn(); };
    auto endpoint = std::make_unique<transport::SimEndpoint>(&world->network_, options);
    EXPECT_TRUE(endpoint->Listen(world->record_.ring().endpoints(node)).ok());
    CoreOptions core;
    core.record = world->record_;
    core.node = NodeId(node);
    core.incarnation = 1;
    core.timing = world->options_.timing;
    if (!world->options_.traces.empty()) core.trace = world->options_.traces[node];
    exchange_ = *CreateExchange(core, std::move(endpoint), -1, this, &world->clock_);
  }

  void Start() {
    exchange_->Start();
    Turn();
  }
  void Kill() {
    status_ = absl::AbortedError("killed");
    counters_ = exchange_->counters();
    exchange_.reset();
  }
  bool alive() const { return exchange_ != nullptr; }
  bool over() const {
    return !status_.ok() || !exchange_ || exchange_->phase() == Exchange::Phase::kFinished;
  }
  absl::Status status() const { return status_; }
  const std::vector<float>& weights() const { return weights_; }
  ExchangeCounters counters() const { return exchange_ ? exchange_->counters() : counters_; }

  Bytes FirstWeights(ChunkId chunk) override {
    const bool other = world_->options_.other_first_weights == node_;
    const Bytes first =
        Floats(chunk, [&](uint64_t i) { return FirstWeight(i) + (other ? 1.0f : 0.0f); });
    TakeWeights(chunk, 0, first);
    return first;
  }
  Sum TakeSum(ChunkId chunk, uint64_t clock) override {
    EXPECT_EQ(clock, landed_[chunk.value()]);
    const bool nan = clock == 1 && world_->options_.nan_at_clock_1 == node_;
    return {Floats(chunk,
                   [&](uint64_t i) {
                     if (nan) return std::numeric_limits<float>::quiet_NaN();
                     return Gradient(world_->options_.seed, node_, clock, i);
                   }),
            SamplesOf(node_)};
  }
  void TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) override {
    std::copy_n(weights.floats(), weights.float_count(),
                weights_.begin() + static_cast<ptrdiff_t>(map_.OffsetOf(chunk)) + first_element);
  }
  void AddToWeights(ChunkId chunk, uint32_t first_element,
                    const kernels::CheckedPayload& delta) override {
    float* const weights = &weights_[map_.OffsetOf(chunk) + first_element];
    delta.AddTo(weights, weights);
  }
  void Landed(ChunkId chunk, uint64_t clock) override {
    EXPECT_EQ(clock, landed_[chunk.value()]);
    landed_[chunk.value()] = clock + 1;
    if (clock + 1 < clocks_) return PublishSoon(chunk);
    const bool all = std::all_of(landed_.begin(), landed_.end(),
                                 [&](uint64_t landed) { return landed == clocks_; });
    if (all) {
      world_->network_.After(absl::ZeroDuration(), [this] {
        if (exchange_) exchange_->Finish(clocks_);
        Turn();
      });
    }
  }
  void TakeFinalWeights(ChunkId, const Bytes&) override {}

 private:
  Bytes Floats(ChunkId chunk, const std::function<float(uint64_t)>& at) {
    auto floats = std::make_shared<std::vector<float>>(map_.ElementsOf(chunk));
    for (size_t i = 0; i < floats->size(); ++i) (*floats)[i] = at(map_.OffsetOf(chunk) + i);
    return Bytes(floats, reinterpret_cast<const std::byte*>(floats->data()),
                 floats->size() * sizeof(float));
  }
  void PublishSoon(ChunkId chunk) {
    const absl::Duration delay =
        world_->network_.random().Between(absl::Microseconds(1), absl::Milliseconds(1));
    world_->network_.After(delay, [this, chunk] {
      if (!exchange_ || !status_.ok()) return;
      exchange_->Submit(chunk);
      Turn();
    });
  }
  void Turn() {
    if (!exchange_ || !status_.ok()) return;
    if (exchange_->phase() == Exchange::Phase::kFinished && ++polls_after_end_ > 100) return;
    status_ = exchange_->Poll(absl::Seconds(1));
    if (began_ || exchange_->phase() != Exchange::Phase::kTraining) return;
    began_ = true;
    for (uint32_t c = 0; c < map_.chunks(); ++c) PublishSoon(ChunkId(c));
  }

  AllReduceWorld* const world_;
  const uint32_t node_;
  const uint64_t clocks_;
  const ChunkMap map_;
  std::vector<float> weights_;
  std::vector<uint64_t> landed_;
  std::unique_ptr<Exchange> exchange_;
  ExchangeCounters counters_;
  absl::Status status_;
  bool began_ = false;
  int polls_after_end_ = 0;
};

AllReduceWorld::AllReduceWorld(const Options& options)
    : options_(options),
      network_(options.seed),
      clock_(&network_),
      since_(network_.Now()),
      record_(RecordOf(options)) {
  network_.set_faults(options.faults);
  for (uint32_t n = 0; n < options.nodes; ++n) nodes_.push_back(std::make_unique<Node>(this, n));
}

AllReduceWorld::~AllReduceWorld() = default;

void AllReduceWorld::KillAfter(uint32_t node, uint64_t frames) {
  const std::string name = absl::StrCat("n", node);
  auto left = std::make_shared<uint64_t>(frames);
  network_.set_observer([this, node, name, left](transport::SimNote note, const std::string& from,
                                                 const std::string&, transport::ConnectionId,
                                                 const wire::Header* header) {
    if (note != transport::SimNote::kSent || from != name || header == nullptr) return;
    if (header->op != wire::Op::kReduce && header->op != wire::Op::kGather) return;
    if ((*left)-- != 1) return;
    network_.After(absl::ZeroDuration(), [this, node] {
      since_ = network_.Now();
      nodes_[node]->Kill();
    });
  });
}

bool AllReduceWorld::Run() {
  for (const auto& node : nodes_) node->Start();
  for (int events = 0; events < kEventsMax; ++events) {
    if (std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->over(); })) {
      return true;
    }
    if (!network_.RunOne()) return false;
  }
  return false;
}

absl::Status AllReduceWorld::status(uint32_t node) const { return nodes_[node]->status(); }
const std::vector<float>& AllReduceWorld::weights(uint32_t node) const {
  return nodes_[node]->weights();
}
ExchangeCounters AllReduceWorld::counters(uint32_t node) const { return nodes_[node]->counters(); }

float AllReduceWorld::Gradient(uint64_t seed, uint32_t node, uint64_t clock, uint64_t i) {
  // Sums of these depend on the order of addition.
  const uint64_t mixed = (seed * 31 + node * 7919 + clock * 104729 + i * 1299709) % 1000003;
  return std::ldexp(static_cast<float>(mixed) - 500000.0f, static_cast<int>(mixed % 23) - 20);
}

}  // namespace strata::worker
