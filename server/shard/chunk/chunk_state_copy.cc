// The part of ChunkState that makes another copy of the chunk.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/shard/chunk/chunk_state.h"

namespace strata::server {
namespace {

proto::CopiedNode Copied(const NodeProgress& node) {
  proto::CopiedNode copied;
  copied.set_received(node.received);
  copied.set_waiting(node.waiting);
  copied.set_retired(node.retired);
  copied.set_incarnation(node.incarnation);
  copied.set_checksum(node.checksum);
  copied.set_samples(node.samples);
  copied.set_rate(node.rate);
  copied.set_versions_behind(node.versions_behind);
  copied.set_joined_at(node.joined_at);
  return copied;
}

NodeProgress Progress(const proto::CopiedNode& node) {
  return {.received = node.received(),
          .waiting = node.waiting(),
          .retired = node.retired(),
          .incarnation = node.incarnation(),
          .checksum = node.checksum(),
          .samples = node.samples(),
          .rate = node.rate(),
          .versions_behind = node.versions_behind(),
          .joined_at = node.joined_at()};
}

}  // namespace

ChunkCopy ChunkState::Copy(bool whole_clocks) {
  ChunkCopy copy;
  proto::ChunkCopy& head = copy.head;
  const uint64_t gate = nodes_.Gate();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    NodeProgress node = nodes_[i];
    // What it has pushed of an incomplete clock is not there.
    if (whole_clocks && !node.retired && node.received > gate) {
      node = {.received = std::max(gate, node.joined_at), .joined_at = node.joined_at};
    }
    *head.add_nodes() = Copied(node);
  }
  if (!weights_.seeded()) return copy;
  const WeightImage weights = weights_.Image();
  head.set_seeded(true);
  head.set_weights(copy.Add(weights.weights));
  head.set_previous(copy.Add(weights_.previous()));
  for (const Bytes& vector : weights.state) head.add_state(copy.Add(vector));
  head.set_version(weights.version);
  head.set_updates(weights.updates);
  head.set_samples(weights.samples);
  head.set_seed_checksum(weights_.seed_checksum());
  head.set_first(copy.Add(first_));
  head.set_last_cut(cuts_.last());
  copies_.AddTo(&copy);
  if (!whole_clocks) mode_->AddTo(&copy);
  return copy;
}

absl::Status ChunkState::TakeCopy(const ChunkCopy& copy) {
  const proto::ChunkCopy& head = copy.head;
  if (static_cast<size_t>(head.nodes_size()) != nodes_.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a copy for %d nodes, of %d", head.nodes_size(), nodes_.size()));
  }
  for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i] = Progress(head.nodes(static_cast<int>(i)));
  if (!head.seeded()) return absl::OkStatus();
  ChunkCopyReader reader(copy, kernels_, weights_.elements());
  WeightImage image = {
      .version = head.version(), .updates = head.updates(), .samples = head.samples()};
  image.weights = reader.SomeFloats(head.weights(), "weights");
  for (const uint32_t vector : head.state()) {
    image.state.push_back(reader.SomeFloats(vector, "optimizer state"));
  }
  if (!reader.ok()) return reader.status();
  if (absl::Status fits = weights_.Restore(image, head.seed_checksum()); !fits.ok()) return fits;
  weights_.RestorePrevious(reader.Floats(head.previous(), "the weights before"));
  copies_.Seed(weights_.weights(), weights_.version());
  copies_.Restore(&reader);
  first_ = reader.Floats(head.first(), "first weights");
  cuts_.GoOnFrom(head.last_cut());
  mode_->OnSeed();
  mode_->Restore(&reader);
  return reader.status();
}

}  // namespace strata::server
