#include "worker/testing/all_reduce_world.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"

namespace strata::worker {
namespace {

constexpr int kEventsMax = 5'000'000;

}  // namespace

proto::JobRecord AllReduceWorld::RecordOf(const Options& options) {
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
  record.set_takes_first_weights(options.takes_first_weights);
  record.set_says_rates(options.rate > 0);
  return record;
}

TrainingNode::Options AllReduceWorld::NodeOptions(uint32_t node) const {
  const bool has_other_weights = options_.other_first_weights == node;
  const bool has_nan = options_.nan_at_clock_1 == node;
  TrainingNode::Options of;
  of.core.record = record_;
  of.core.node = NodeId(node);
  of.core.incarnation = 1;
  of.core.timing = options_.timing;
  if (!options_.traces.empty()) of.core.trace = options_.traces[node];
  of.name = absl::StrCat("n", node);
  of.listen = record_.ring().endpoints(static_cast<int>(node));
  of.clocks = options_.clocks + (options_.one_clock_more == node ? 1 : 0);
  of.samples = Samples(node);
  of.rate = options_.other_rate == node ? 2 * options_.rate : options_.rate;
  const bool is_other = has_other_weights || options_.takes_first_weights;
  of.first_weight = [=](uint64_t i) {
    return FirstWeight(i) + (is_other ? static_cast<float>(node) : 0.0f);
  };
  of.gradient = [=, seed = options_.seed](uint64_t clock, uint64_t i) {
    if (clock == 1 && has_nan) return std::numeric_limits<float>::quiet_NaN();
    return Gradient(seed, node, clock, i);
  };
  return of;
}

AllReduceWorld::AllReduceWorld(const Options& options)
    : options_(options),
      network_(options.seed),
      since_(network_.Now()),
      record_(RecordOf(options)) {
  network_.set_faults(options.faults);
  for (uint32_t n = 0; n < options.nodes; ++n)
    nodes_.push_back(std::make_unique<TrainingNode>(&network_, NodeOptions(n)));
}

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
    if (std::all_of(nodes_.begin(), nodes_.end(),
                    [](const auto& node) { return node->is_over(); })) {
      return true;
    }
    if (!network_.RunOne()) return false;
  }
  return false;
}

float AllReduceWorld::Gradient(uint64_t seed, uint32_t node, uint64_t clock, uint64_t i) {
  // Sums of these depend on the order of addition.
  const uint64_t mixed = (seed * 31 + node * 7919 + clock * 104729 + i * 1299709) % 1000003;
  return std::ldexp(static_cast<float>(mixed) - 500000.0f, static_cast<int>(mixed % 23) - 20);
}

}  // namespace strata::worker
