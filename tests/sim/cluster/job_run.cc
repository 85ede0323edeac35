#include "tests/sim/cluster/job_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/image/image_file.h"
#include "common/job/consistency.h"
#include "common/require.h"
#include "server/testing/shard_harness.h"
#include "training/data/batch_source.h"

namespace strata::sim {

namespace {

constexpr uint64_t kDataSeed = 5;
constexpr char kAdamW[] = "optimizer { adamw {} } schedule { base_lr: 0.05 } ";
constexpr char kLedger[] = "optimizer { sgd {} } schedule { base_lr: 1 } ";

}  // namespace

const std::vector<JobCase>& JobCases() {
  static const std::vector<JobCase> cases = {
      {.name = "sync", .job = absl::StrCat(kAdamW, "consistency { sync {} }")},
      {.name = "sync, answers encoded",
       .job = absl::StrCat(kAdamW, "consistency { sync {} } pull { codec: INT8 }")},
      {.name = "sync, samples counted",
       .job = absl::StrCat(kLedger, "consistency { sync {} }"),
       .has_ledger = true},
      {.name = "local(2)",
       .job = absl::StrCat(kAdamW, "consistency { lazy { staleness: 0 local_steps: 2 } }"),
       .keeps_nodes = true},
      {.name = "async, samples counted",
       .job = absl::StrCat(kLedger, "consistency { async {} }"),
       .has_ledger = true,
       .keeps_nodes = true,
       .is_async = true},
  };
  return cases;
}

proto::JobRecord MakeJobRecord(const JobCase& one, uint32_t nodes, uint32_t shards,
                               uint64_t every_steps, uint32_t keep) {
  proto::JobRecord record =
      server::MakeRecord({.ranks = std::vector<uint32_t>(nodes, kJobRanks / nodes),
                          .elements = kJobChunks * kJobChunkElements,
                          .chunk_elements = kJobChunkElements,
                          .shards = shards,
                          .batch_per_rank = 1,
                          .job_text = one.job});
  record.mutable_job()->set_name(one.name);
  record.mutable_job()->set_ranks(kJobRanks);
  record.mutable_job()->mutable_checkpoint()->set_every_steps(every_steps);
  record.mutable_job()->mutable_checkpoint()->set_keep(keep);
  record.set_samples_per_epoch(kJobSamples);
  return record;
}

uint64_t JobRun::From::LeastApplied(size_t node) const {
  uint64_t least = UINT64_MAX;
  for (const std::vector<ChunkImage>& of_shard : images) {
    for (const ChunkImage& image : of_shard) least = std::min(least, image.applied.at(node));
  }
  return least;
}

JobRun::JobRun(const JobCase& one, proto::JobRecord record, uint64_t seed, const From& from)
    : case_(one),
      record_(std::move(record)),
      order_(training::EpochOrder(kJobSamples, kDataSeed, 0)),
      network_(seed) {
  network_.set_faults({.drop = 0.1, .duplicate = 0.1, .break_both = 0.01});
  for (int s = 0; s < record_.placement().shard_endpoints_size(); ++s) {
    shards_.push_back(std::make_unique<JobShard>(&network_, record_, s));
    if (!from.images.empty()) status_.Update(shards_.back()->Restore(from.images[s]));
  }
  if (!status_.ok()) return;
  for (int n = 0; n < record_.view().nodes_size(); ++n) AddNode(n, from);
  for (const auto& node : nodes_) node->Start();
}

absl::Status JobRun::status() const {
  if (!status_.ok()) return status_;
  for (const auto& node : nodes_) {
    if (!node->status().ok()) return node->status();
  }
  for (const auto& shard : shards_) {
    if (shard->refused() > 0) return absl::InternalError("a shard has refused a frame");
  }
  return absl::OkStatus();
}

bool JobRun::is_over() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n->is_over(); });
}

bool JobRun::has_finished() const {
  return is_over() && std::all_of(nodes_.begin(), nodes_.end(),
                                  [](const auto& n) { return n->finals() == kJobChunks; });
}

std::vector<PartWriter::Part> JobRun::TakeParts() {
  std::vector<PartWriter::Part> parts;
  for (const auto& shard : shards_) {
    for (server::ShardCut& cut : shard->TakeCuts()) {
      PartWriter::Part& part = parts.emplace_back();
      part.name = {.kind = PartKind::kShard, .number = cut.shard.value()};
      part.clock = cut.clock;
      part.problem = cut.problem;
      part.let_go = [&shard = *shard, id = cut.shard, clock = cut.clock] {
        shard.ReleaseCut(id, clock);
      };
      part.make = [images = std::move(cut.images)] { return MakeImageFile(images); };
    }
  }
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    for (Cut<NodeChunkImage>& cut : nodes_[n]->TakeCuts().own) {
      PartWriter::Part& part = parts.emplace_back();
      part.name = {.kind = PartKind::kNode, .number = n};
      part.clock = cut.clock;
      part.problem = cut.problem;
      part.let_go = [&node = *nodes_[n], clock = cut.clock] {
        node.ReleaseCut(worker::NodeCuts::Kind::kOwn, clock);
      };
      const uint64_t steps = cut.clock * StepsPerClock(record_.job());
      NodeImage image{.node = n, .clock = steps, .chunks = std::move(cut.images)};
      part.make = [image = std::move(image)] { return MakeNodeImageFile(image); };
    }
  }
  return parts;
}

void JobRun::AddNode(uint32_t node, const From& from) {
  const proto::LogicalNode& self = record_.view().nodes(static_cast<int>(node));
  const uint32_t first = self.first_rank(), end = first + self.ranks();
  worker::TrainingNode::Options options;
  options.core.record = record_;
  options.core.node = NodeId(node);
  options.core.incarnation = 1;
  options.core.timing.give_up_after = absl::Hours(1);
  if (!from.nodes.empty()) options.core.resume = from.nodes[node];
  options.name = absl::StrCat("n", node);
  options.addresses_are_names = true;
  options.clocks = kJobSteps;
  options.samples = self.ranks();
  options.first_weight = [this](uint64_t i) {
    return case_.has_ledger ? 0.0f : 0.01f * static_cast<float>(i % 97);
  };
  options.gradient = [this, node, first, end](uint64_t step, uint64_t i) {
    float sum = 0;
    for (uint32_t rank = first; rank < end; ++rank) {
      sum += case_.has_ledger ? Mark(node, rank, step, i)
                              : Gradient(rank, step, i, nodes_[node]->weights()[i]);
    }
    return sum;
  };
  nodes_.push_back(std::make_unique<worker::TrainingNode>(&network_, std::move(options)));
}

// The gradient depends on the weights, so a wrong starting point shows. It is in sixteenths, so all
// sums are exact and the order of addition does not show.
float JobRun::Gradient(uint32_t rank, uint64_t step, uint64_t i, float weight) const {
  const uint64_t mixed = (rank * 131 + step) * 7919 + i * 104729;
  const float own = std::clamp(std::round(weight * 64), -64.0f, 64.0f);
  return (static_cast<float>(mixed % 251) - 125 + own) / 16;
}

// Adds 1 to the element of the rank's sample.
float JobRun::Mark(uint32_t node, uint32_t rank, uint64_t step, uint64_t i) const {
  const uint32_t sample = training::RankSlice(order_, step, rank, kJobRanks, 1)[0];
  if (i % kJobChunkElements != sample) return 0;
  const proto::View& view = record_.view();
  return -static_cast<float>(case_.is_async ? view.nodes(static_cast<int>(node)).ranks()
                                            : kJobRanks);
}

namespace {

using server::ShardAction;
using transport::Event;

constexpr uint32_t kFirstServerHost = 32;

}  // namespace

JobShard::JobShard(transport::SimNetwork* network, const proto::JobRecord& record, uint32_t own)
    : network_(*network), endpoint_(network, OptionsOf(own)) {
  job_ = std::make_unique<server::ShardJob>(
      *server::MakeShardPlan(record, ShardId(own)), server::ShardCopy::kPrimary, kernels::Cpu(),
      pool_, &scratch_, &refusals_, &cuts_, nullptr, nullptr, nullptr);
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
