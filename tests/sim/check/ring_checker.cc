#include "tests/sim/check/ring_checker.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/wire/frame.h"
#include "tests/sim/check/reference_chunk.h"

namespace strata::sim {

namespace {

// From job.proto: slices are whole runs of 16 elements, as equal as such runs allow.
constexpr uint32_t kRun = 16;

}  // namespace

RingChecker::RingChecker(const JobPlan& plan, const proto::JobRecord& record, Fail fail)
    : plan_(plan),
      record_(record),
      halving_(record.ring().algorithm() == proto::AllReduce::HALVING_DOUBLING),
      encoding_(record.job().push()),
      codec_(ReferenceCodec(encoding_)),
      payload_(plan),
      map_(record.layout().elements(), record.placement().chunk_elements()),
      fail_(std::move(fail)),
      rings_(1),
      unanswered_(plan.nodes, 0) {
  for (uint32_t n = 0; n < plan.nodes; ++n) rings_[0].nodes.push_back(n);
  const std::vector<uint64_t> none(plan.nodes, 0);
  progress_.assign(map_.chunks(), {.pushed = none, .landed = none});
  Begin();
}

void RingChecker::Begin() {
  chunks_.clear();
  norms_.reset();
  means_told_ = 0;
  const bool is_mean = plan_.drops_lost || ReferenceOptimizer::IsMean(record_);
  if (ReferenceOptimizer::IsMean(record_)) norms_.emplace(record_);
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const ChunkId id(c);
    chunks_.push_back({.optimizer = is_mean ? ReferenceOptimizer::Mean(record_, id)
                                            : ReferenceOptimizer(record_, id),
                       .weights = payload_.FirstWeights(id, map_.ElementsOf(id)),
                       .clocks = {},
                       .copies = {},
                       .applied = std::nullopt});
    const std::vector<float>& weights = chunks_[c].weights;
    if (norms_) norms_->OnFirstWeights(id, weights);
    if (is_mean && !norms_) {
      chunks_[c].applied.emplace(Applied{ReferenceOptimizer(record_, id), weights, {}});
    }
    for (uint32_t k = 0; k < plan_.nodes && codec_ != wire::Codec::kNone; ++k) {
      const auto [begin, end] = SliceOf(static_cast<uint32_t>(weights.size()), k);
      chunks_[c].copies.emplace_back(
          encoding_, ReferenceEncoder::Of::kVersions,
          std::vector<float>(weights.begin() + begin, weights.begin() + end));
    }
  }
}

void RingChecker::Violate(const std::string& invariant, const std::string& what) {
  fail_(absl::StrFormat("%s: %s", invariant, what));
}

void RingChecker::OnBegin(uint32_t node, uint32_t, ChunkId chunk,
                          const std::vector<float>& weights) {
  const auto elements = static_cast<uint32_t>(weights.size());
  if (weights == payload_.FirstWeights(chunk, elements)) return;
  Violate("nodes begin with the first weights",
          absl::StrFormat("node %d chunk %d begins with others", node, chunk.value()));
}

void RingChecker::OnNodeStart(uint32_t node, uint32_t incarnation) {
  if (incarnation == 1) return;
  Violate("only the newest process is heard",
          absl::StrFormat("node %d of a ring starts over as %d", node, incarnation));
}

void RingChecker::OnPush(uint32_t node, ChunkId id, uint64_t clock) {
  ++pushes_;
  if (dropped_.count(node) > 0) return;
  Progress& chunk = progress_[id.value()];
  if (clock != chunk.pushed[node] || clock != chunk.landed[node]) {
    Violate("one push per chunk",
            absl::StrFormat("node %d chunk %d: %d after %d, landed %d", node, id.value(), clock,
                            chunk.pushed[node], chunk.landed[node]));
  }
  ++chunk.pushed[node];
  if (++unanswered_[node] <= plan_.window || plan_.has_norms() || plan_.drops_lost) return;
  Violate("window", absl::StrFormat("node %d has %d chunks under way, window %d", node,
                                    unanswered_[node], plan_.window));
}

uint32_t RingChecker::OwnerOf(uint32_t elements, uint32_t i, uint32_t slices) {
  const uint32_t runs = (elements + kRun - 1) / kRun;
  uint32_t owner = 0;
  while (i >= runs * (owner + 1) / slices * kRun && owner + 1 < slices) ++owner;
  return owner;
}

std::pair<uint32_t, uint32_t> RingChecker::SliceOf(uint32_t elements, uint32_t slice) const {
  uint32_t begin = 0;
  while (begin < elements && OwnerOf(elements, begin, plan_.nodes) < slice) ++begin;
  uint32_t end = begin;
  while (end < elements && OwnerOf(elements, end, plan_.nodes) == slice) ++end;
  return {begin, end};
}

std::vector<float> RingChecker::EncodedRingSum(const std::vector<std::vector<float>>& nodes,
                                               uint32_t elements) const {
  const auto n = static_cast<uint32_t>(nodes.size());
  std::vector<float> sum(elements);
  for (uint32_t slice = 0; slice < n; ++slice) {
    const auto [begin, end] = SliceOf(elements, slice);
    if (begin == end) continue;
    const std::vector<float>& first = nodes[(slice + 1) % n];
    std::vector<float> so_far(first.begin() + begin, first.begin() + end);
    for (uint32_t k = 2; k <= n; ++k) {
      // An encoder without an unsent rest.
      ReferenceEncoder hop(encoding_, ReferenceEncoder::Of::kIncrements,
                           std::vector<float>(so_far.size(), 0.0f));
      so_far = ReferenceDecode(codec_, so_far.size(), hop.Encode(so_far, 0));
      for (uint32_t i = begin; i < end; ++i) so_far[i - begin] += nodes[(slice + k) % n][i];
    }
    std::copy(so_far.begin(), so_far.end(), sum.begin() + begin);
  }
  return sum;
}

// All nodes have the decoded payloads, not the optimizer's weights.
void RingChecker::Encode(Chunk* chunk) const {
  std::vector<float> copy = chunk->weights;
  for (uint32_t slice = 0; slice < chunk->copies.size(); ++slice) {
    const auto [begin, end] = SliceOf(static_cast<uint32_t>(copy.size()), slice);
    if (begin == end) continue;
    ReferenceEncoder& encoder = chunk->copies[slice];
    encoder.Encode(absl::MakeConstSpan(chunk->weights).subspan(begin, end - begin), 0);
    std::copy(encoder.state().begin(), encoder.state().end(), copy.begin() + begin);
  }
  chunk->clocks.push_back(copy);
}

// Added from the node after the slice's own around the ring to that node.
float RingChecker::RingSum(const std::vector<std::vector<float>>& nodes, uint32_t elements,
                           uint32_t i) const {
  const auto n = static_cast<uint32_t>(nodes.size());
  const uint32_t owner = OwnerOf(elements, i, n);
  float sum = nodes[(owner + 1) % n][i];
  for (uint32_t k = 2; k <= n; ++k) sum += nodes[(owner + k) % n][i];
  return sum;
}

// Uses the greatest power of two that is at most the number of nodes: the first nodes add the
// values of the nodes after them beforehand.
std::vector<float> RingChecker::HalvingSum(const std::vector<std::vector<float>>& nodes) {
  const size_t extra = nodes.size() - std::bit_floor(nodes.size());
  std::vector<std::vector<float>> parts;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (n >= 2 * extra || n % 2 == 0) {
      parts.push_back(nodes[n]);
    } else {
      for (size_t i = 0; i < nodes[n].size(); ++i) parts.back()[i] += nodes[n][i];
    }
  }
  return ReferenceNodeSum(std::vector<absl::Span<const float>>(parts.begin(), parts.end()));
}

std::vector<float> RingChecker::SumOf(ChunkId chunk, uint64_t clock) const {
  const uint32_t elements = map_.ElementsOf(chunk);
  std::vector<std::vector<float>> nodes;
  for (const uint32_t n : NodesAt(clock)) {
    std::vector<std::vector<float>> ranks;
    std::vector<absl::Span<const float>> views;
    for (uint32_t r = 0; r < plan_.ranks_per_node; ++r) {
      ranks.emplace_back(elements);
      // Sync: the ledger's marks do not depend on the node's samples.
      payload_.Gradient(n * plan_.ranks_per_node + r, chunk, clock, 0, 0, elements,
                        ranks.back().data());
    }
    for (const std::vector<float>& rank : ranks) views.push_back(rank);
    nodes.push_back(ReferenceNodeSum(views));
  }
  if (halving_) return HalvingSum(nodes);
  if (codec_ != wire::Codec::kNone) return EncodedRingSum(nodes, elements);
  std::vector<float> sum(elements);
  for (uint32_t i = 0; i < elements; ++i) sum[i] = RingSum(nodes, elements, i);
  return sum;
}

std::vector<float> RingChecker::After(ChunkId id, uint64_t clock) {
  if (norms_) {
    for (; means_told_ <= clock; ++means_told_) {
      for (uint32_t c = 0; c < chunks_.size(); ++c) {
        norms_->OnMean(ChunkId(c), means_told_, ReducedAfter(ChunkId(c), means_told_));
      }
    }
    return norms_->After(clock + 1, id);
  }
  std::optional<Applied>& applied = chunks_[id.value()].applied;
  if (!applied) return ReducedAfter(id, clock);
  while (applied->clocks.size() <= clock) {
    const uint64_t step = applied->clocks.size();
    applied->optimizer.Update(ReducedAfter(id, step), 1, 1, 1.0, &applied->weights, SaidRate(step));
    applied->clocks.push_back(applied->weights);
  }
  return applied->clocks[clock];
}

const std::vector<float>& RingChecker::ReducedAfter(ChunkId id, uint64_t clock) {
  Chunk& chunk = chunks_[id.value()];
  while (chunk.clocks.size() <= clock) {
    const uint64_t step = chunk.clocks.size();
    uint64_t samples = 0;
    for (const uint32_t n : NodesAt(step)) {
      for (uint32_t r = 0; r < plan_.ranks_per_node; ++r) {
        samples += payload_.SamplesOf(n * plan_.ranks_per_node + r);
      }
    }
    chunk.optimizer.Update(SumOf(id, step), samples, samples, 1.0, &chunk.weights, SaidRate(step));
    Encode(&chunk);
  }
  return chunk.clocks[clock];
}

void RingChecker::OnWeights(uint32_t node, ChunkId id, uint64_t clock,
                            absl::Span<const float> weights) {
  if (dropped_.count(node) > 0) return;
  if (stopped_.count(node) > 0) {
    return Violate("who has stopped is given nothing",
                   absl::StrFormat("node %d chunk %d clock %d", node, id.value(), clock));
  }
  Progress& chunk = progress_[id.value()];
  if (clock != chunk.landed[node] || clock + 1 != chunk.pushed[node]) {
    return Violate("exactly one delivery",
                   absl::StrFormat("node %d chunk %d: clock %d landed after %d of %d", node,
                                   id.value(), clock, chunk.landed[node], chunk.pushed[node]));
  }
  ++chunk.landed[node];
  --unanswered_[node];
  const std::vector<float> expected = After(id, clock);
  if (std::equal(weights.begin(), weights.end(), expected.begin(), expected.end())) return;
  const auto differs = std::mismatch(weights.begin(), weights.end(), expected.begin()).first;
  Violate("G2 order of bits",
          absl::StrFormat("node %d chunk %d clock %d: element %d is not the model's", node,
                          id.value(), clock, differs - weights.begin()));
}

void RingChecker::OnFinalWeights(uint32_t node, ChunkId id, const Bytes&) {
  Violate(
      "exactly one delivery",
      absl::StrFormat("node %d chunk %d: final weights, that nobody asked for", node, id.value()));
}

void RingChecker::OnFinished() {
  for (uint32_t c = 0; c < progress_.size(); ++c) {
    for (uint32_t n = 0; n < plan_.nodes; ++n) {
      if (progress_[c].landed[n] == plan_.clocks || dropped_.count(n) > 0) continue;
      return Violate("exactly one delivery",
                     absl::StrFormat("node %d chunk %d: %d clocks landed, not %d", n, c,
                                     progress_[c].landed[n], plan_.clocks));
    }
  }
}

uint64_t RingChecker::ModelHash() const {
  uint64_t hash = 1;
  for (const Chunk& chunk : chunks_) {
    const auto* bytes = reinterpret_cast<const std::byte*>(chunk.weights.data());
    hash = hash * 1099511628211 +
           wire::Checksum(absl::MakeConstSpan(bytes, chunk.weights.size() * sizeof(float)));
  }
  return hash;
}

// Nodes that are dropped.

const std::vector<uint32_t>& RingChecker::NodesAt(uint64_t clock) const {
  size_t ring = rings_.size() - 1;
  while (rings_[ring].from_clock > clock) --ring;
  return rings_[ring].nodes;
}

uint64_t RingChecker::LandedOf(uint32_t node) const {
  uint64_t least = progress_[0].landed[node];
  for (const Progress& chunk : progress_) least = std::min(least, chunk.landed[node]);
  return least;
}

// Steps made only by dead nodes are repeated.
void RingChecker::OnRingFormed(const proto::FormRing& forming) {
  while (!rings_.empty() && rings_.back().from_clock >= forming.clock()) rings_.pop_back();
  Ring& ring = rings_.emplace_back();
  ring.from_clock = forming.clock();
  for (const proto::LogicalNode& node : record_.view().nodes()) {
    const auto& nodes = forming.nodes();
    if (std::find(nodes.begin(), nodes.end(), node.node()) == nodes.end()) continue;
    ring.nodes.push_back(node.node());
  }
  if (rings_.front().from_clock > 0) {
    return Violate("rings go on from each other", absl::StrFormat("from step %d on, with no ring "
                                                                  "before",
                                                                  forming.clock()));
  }
  const bool is_ahead = std::any_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
    return chunk.clocks.size() > forming.clock();
  });
  if (is_ahead) Begin();
}

void RingChecker::OnRingStopped(const proto::RingStopped& stopped) {
  const uint32_t node = stopped.node();
  const uint64_t clock = stopped.clock();
  if (dropped_.count(node) > 0) return;
  stopped_[node] = stopped.number();
  for (uint32_t c = 0; c < progress_.size(); ++c) {
    if (progress_[c].landed[node] == clock) continue;
    return Violate("a node says how far it is",
                   absl::StrFormat("node %d says %d steps, of chunk %d it has made %d", node, clock,
                                   c, progress_[c].landed[node]));
  }
  if (!stopped.is_over()) return;
  for (uint32_t n = 0; n < plan_.nodes; ++n) {
    if (dropped_.count(n) > 0 || LandedOf(n) == plan_.clocks) continue;
    return Violate("nobody ends before all have made all steps",
                   absl::StrFormat("node %d knows that all have; node %d has made %d of %d", node,
                                   n, LandedOf(n), plan_.clocks));
  }
}

void RingChecker::OnRingTaken(uint32_t node, const proto::FormRing& forming) {
  const auto waits = stopped_.find(node);
  if (waits != stopped_.end() && waits->second > forming.change().number()) return;
  stopped_.erase(node);
  if (dropped_.count(node) > 0) return;
  const uint64_t made = LandedOf(node), lacks = forming.some_lack() ? 1 : 0;
  if (made <= forming.clock() && made + lacks >= forming.clock()) return;
  Violate("a ring goes on where its nodes are",
          absl::StrFormat("ring %d is to go on from step %d: node %d has made %d",
                          forming.change().number(), forming.clock(), node, made));
}

void RingChecker::OnNodeFinished(uint32_t node) {
  if (!plan_.drops_lost || dropped_.count(node) > 0) return;
  for (uint32_t n = 0; n < plan_.nodes; ++n) {
    if (dropped_.count(n) > 0 || LandedOf(n) == plan_.clocks) continue;
    return Violate("nobody ends before all have made all steps",
                   absl::StrFormat("node %d has ended, node %d has made %d of %d", node, n,
                                   LandedOf(n), plan_.clocks));
  }
}

}  // namespace strata::sim
