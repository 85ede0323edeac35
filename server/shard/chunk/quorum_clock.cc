#include "server/shard/chunk/quorum_clock.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/require.h"

namespace strata::server {

QuorumClock::QuorumClock(const kernels::Kernels& kernels, BufferPool& pool, size_t nodes,
                         size_t elements)
    : kernels_(kernels),
      pool_(pool),
      elements_(elements),
      in_time_(CreateAccumulator(proto::Addition::TREE, kernels, pool, nodes, elements)),
      waits_(nodes, false),
      rates_(nodes, 0.0),
      late_rates_(nodes, 0.0) {}

void QuorumClock::Join(size_t node, Addend sum, const Share& share) {
  STRATA_REQUIRE(!waits_[node]);
  waits_[node] = true;
  ++waiting_;
  samples_ += share.samples;
  rates_[node] = double{share.rate} * share.samples;
  in_time_->Add(node, std::move(sum));
}

void QuorumClock::JoinLate(size_t node, Addend sum, const Share& share) {
  samples_ += share.samples;
  late_rates_[node] += double{share.rate} * share.samples;
  const auto [at, is_first] = late_.try_emplace(node, std::move(sum));
  // try_emplace has not consumed `sum` if there was an entry.
  if (!is_first) at->second = Addend(Sum(at->second.Decoded(pool_), sum.Decoded(pool_)));
}

// A product of a rate's 24 bits with a count, and a sum of such products, is exact up to 2^29
// samples: if all nodes give the same rate, the mean is that rate, bit for bit.
double QuorumClock::MeanRate() const {
  if (samples_ == 0) return 0;
  const double in_time = std::accumulate(rates_.begin(), rates_.end(), 0.0);
  return std::accumulate(late_rates_.begin(), late_rates_.end(), in_time) /
         static_cast<double>(samples_);
}

Bytes QuorumClock::Sum(const Bytes& left, const Bytes& right) {
  if (left.empty()) return right;
  if (right.empty()) return left;
  const std::shared_ptr<float> out = pool_.AllocateFloats(elements_);
  const float* const inputs[] = {left.floats(), right.floats()};
  kernels_.sum(absl::MakeConstSpan(inputs), out.get(), elements_);
  return AsBytes(out, elements_);
}

Bytes QuorumClock::Close() {
  const std::unique_ptr<Accumulator> late =
      CreateAccumulator(proto::Addition::TREE, kernels_, pool_, waits_.size(), elements_);
  for (auto& [node, sum] : late_) late->Add(node, std::move(sum));
  late_.clear();
  std::fill(waits_.begin(), waits_.end(), false);
  std::fill(rates_.begin(), rates_.end(), 0.0);
  std::fill(late_rates_.begin(), late_rates_.end(), 0.0);
  waiting_ = 0;
  samples_ = 0;
  return Sum(in_time_->Finish(), late->Finish());
}

void QuorumClock::AddTo(ChunkCopy* copy) {
  proto::CopiedQuorum* const quorum = copy->head.mutable_quorum();
  copy->Add(in_time_->Parts(), quorum->mutable_in_time());
  std::vector<SumPart> late;
  for (const auto& [node, sum] : late_) late.push_back({node, node + 1, sum});
  copy->Add(late, quorum->mutable_late());
  for (size_t node = 0; node < waits_.size(); ++node) {
    proto::CopiedShare* const share = quorum->add_nodes();
    share->set_waits(waits_[node]);
    share->set_rate(rates_[node]);
    share->set_late_rate(late_rates_[node]);
  }
  quorum->set_samples(samples_);
}

void QuorumClock::Restore(ChunkCopyReader* reader) {
  const proto::CopiedQuorum& quorum = reader->head().quorum();
  if (static_cast<size_t>(quorum.nodes_size()) != waits_.size()) {
    return reader->Fail(
        absl::StrFormat("a quorum of %d nodes, of %d", quorum.nodes_size(), waits_.size()));
  }
  for (size_t node = 0; node < waits_.size(); ++node) {
    const proto::CopiedShare& share = quorum.nodes(static_cast<int>(node));
    waits_[node] = share.waits();
    rates_[node] = share.rate();
    late_rates_[node] = share.late_rate();
    waiting_ += share.waits() ? 1 : 0;
  }
  samples_ = quorum.samples();
  std::vector<SumPart> in_time = reader->Parts(quorum.in_time());
  for (const SumPart& part : in_time) {
    for (size_t node = part.begin; node < part.end && node < waits_.size(); ++node) {
      if (!waits_[node]) return reader->Fail("a push is in time of a node that does not wait");
    }
  }
  reader->Fail(in_time_->Restore(std::move(in_time)));
  for (SumPart& part : reader->Parts(quorum.late())) {
    if (part.begin >= waits_.size()) return reader->Fail("a late push is nobody's");
    late_[part.begin] = std::move(part.value);
  }
}

size_t QuorumClock::held() const {
  return in_time_->held() + std::count_if(late_.begin(), late_.end(),
                                          [](const auto& one) { return !one.second.empty(); });
}

size_t QuorumClock::held_bytes() const {
  size_t bytes = in_time_->held_bytes();
  for (const auto& [node, sum] : late_) bytes += sum.bytes.size();
  return bytes;
}

}  // namespace strata::server
