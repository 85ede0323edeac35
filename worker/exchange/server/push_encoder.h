#ifndef STRATA_WORKER_EXCHANGE_SERVER_PUSH_ENCODER_H_
#define STRATA_WORKER_EXCHANGE_SERVER_PUSH_ENCODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/image/node_image.h"
#include "common/job/arena.h"
#include "kernels/kernels.h"
#include "numerics/encoder.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Computes the share of a chunk's elements that a node's sparse pushes send; with DGC it decreases
// over the first epochs.
//
// Threads: one.
class PushDensity {
 public:
  // Reads the job's `push`. The other nodes are assumed to be as fast as this one.
  PushDensity(const proto::JobRecord& record, NodeId node, uint32_t chunks);

  // Returns the share that the chunk's next sum sends, over `samples` of the node. Once per sum, in
  // order.
  double Next(ChunkId chunk, uint32_t samples);
  // The samples of the chunk's sums so far, if the share depends on them; otherwise 0. For
  // checkpoints.
  uint64_t samples(ChunkId chunk) const { return samples_[chunk.value()]; }
  void GoOnFrom(ChunkId chunk, uint64_t samples) { samples_[chunk.value()] = samples; }

 private:
  const proto::Encoding encoding_;
  const double density_;            // after the warm-up
  const double epochs_per_sample_;  // per sample of this node
  std::vector<uint64_t> samples_;   // of each chunk's sums so far
};

// Encodes a node's gradient sums as its job says, each once: what a payload lacks is part of the
// chunk's next one. If the job pushes fp32 or the node has encoded the sums itself, sums pass
// unchanged, and nothing is held. With significance, sums of mostly zeros become sparse.
//
// Threads: one.
class PushEncoder {
 public:
  enum class From { kSums, kPayloads };
  // `kernels` outlives it. Errors: InvalidArgument: the job's encoding.
  static absl::StatusOr<std::unique_ptr<PushEncoder>> Create(const proto::JobRecord& record,
                                                             NodeId node, const ChunkMap& map,
                                                             const kernels::Kernels& kernels,
                                                             From from = From::kSums);

  struct Encoded {
    wire::Codec codec = wire::Codec::kNone;
    Bytes payload;
  };
  // Returns the payload of the chunk's next sum, over `samples` of the node. Errors:
  // InvalidArgument: it is not finite, or too large for the codec.
  absl::StatusOr<Encoded> Encode(ChunkId chunk, const Bytes& sum, uint32_t samples);
  // Returns whether anything is kept from one sum to the next.
  bool keeps_state() const { return !encoders_.empty(); }
  // Returns a copy of the chunk's state: it belongs to the weights that contain exactly its
  // payloads so far.
  PushImage Image(ChunkId chunk);
  // Continues from an image. Errors, after which nothing has changed: InvalidArgument: it is of
  // another codec or size, or not finite. REQUIRES: the sums are not payloads already.
  absl::Status Restore(ChunkId chunk, const PushImage& image);
  // Bytes of what was not sent, of momentum, and of payloads, including free ones.
  size_t memory_bytes() const;

 private:
  PushEncoder(const proto::JobRecord& record, NodeId node, const ChunkMap& map,
              const kernels::Kernels& kernels, From from);
  // Returns the sum unchanged if that is smaller.
  absl::StatusOr<Encoded> WithoutZeros(const Bytes& sum);

  const proto::Encoding encoding_;
  const wire::Codec codec_;
  const bool drops_zeros_;
  const From from_;
  const kernels::Kernels& kernels_;
  PushDensity density_;
  std::vector<std::unique_ptr<numerics::Encoder>> encoders_;  // by chunk
  numerics::EncoderScratch scratch_;
  size_t state_bytes_ = 0;
  BufferPool pool_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_SERVER_PUSH_ENCODER_H_
