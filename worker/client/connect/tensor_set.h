#ifndef STRATA_WORKER_CLIENT_CONNECT_TENSOR_SET_H_
#define STRATA_WORKER_CLIENT_CONNECT_TENSOR_SET_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "proto/record.pb.h"
#include "worker/client/client.h"

namespace strata::client {

// The registered tensors, back to back in the order of registration. Plain data, no threads.
class TensorSet {
 public:
  struct Entry {
    Tensor tensor;
    uint64_t offset = 0;  // elements from the arena's start
    uint64_t count = 0;
    bool copied() const { return tensor.weights != nullptr; }
  };

  // Returns the tensor's index. Errors: InvalidArgument naming the tensor: no name, no elements, a
  // multiplier that is negative or not finite, only one of the two pointers.
  absl::StatusOr<int> Add(Tensor tensor);

  int size() const { return static_cast<int>(entries_.size()); }
  bool Has(int index) const { return index >= 0 && index < size(); }
  const Entry& operator[](int index) const { return entries_[index]; }
  uint64_t elements() const { return elements_; }
  proto::Layout Layout() const;

 private:
  std::vector<Entry> entries_;
  uint64_t elements_ = 0;
};

// Tracks which chunks are complete within one step: a chunk is once every tensor that overlaps it
// has been published.
class StepBook {
 public:
  StepBook(const TensorSet& tensors, const ChunkMap& map);

  void Begin();
  bool published(int tensor) const { return published_[tensor]; }
  // Appends the chunks that this tensor completes. REQUIRES: not published in this step.
  void Publish(int tensor, std::vector<ChunkId>* complete);

  ChunkId FirstChunk(int tensor) const { return reach_[tensor].first; }
  ChunkId LastChunk(int tensor) const { return reach_[tensor].last; }

 private:
  struct Reach {
    ChunkId first, last;
  };
  std::vector<Reach> reach_;       // by tensor
  std::vector<uint32_t> tensors_;  // by chunk: number of tensors that overlap it
  std::vector<uint32_t> missing_;  // by chunk: of these, not yet published in this step
  std::vector<bool> published_;    // by tensor
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_TENSOR_SET_H_
