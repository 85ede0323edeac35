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

// Tells the share of a chunk's elements that a node's pushes send, where they are sparse: with DGC
// it comes down over the first epochs.
//
// Threads: one.
class PushDensity {
 public:
  // Reads the job's `push`. The other nodes are taken to be as fast as this one.
  PushDensity(const proto::JobRecord& record, NodeId node, uint32_t chunks);

  // The share that the chunk's next sum sends, over `samples` of the node. Once per sum, in order.
  double Next(ChunkId chunk, uint32_t samples);
  // The samples of the chunk's sums so far, where the share depends on them; else 0. For
  // checkpoints.
  uint64_t samples(ChunkId chunk) const { return samples_[chunk.value()]; }
  void GoOnFrom(ChunkId chunk, uint64_t samples) { samples_[chunk.value()] = samples; }

 private:
  const proto::Encoding encoding_;
  const double density_;            // but for a warm-up
  const double epochs_per_sample_;  // of this node
  std::vector<uint64_t> samples_;   // of each chunk's sums so far
};

// Encodes a node's gradient sums as its job says, each once: what a payload lacks is part of the
// chunk's next one. Sums pass unchanged, and nothing is held, where the job pushes fp32 or where
// the node has encoded them itself. With significance, sums of mostly zeros become sparse.
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
  // The payload of the chunk's next sum, over `samples` of the node. Errors: InvalidArgument: it is
  // not finite, or too large for the codec.
  absl::StatusOr<Encoded> Encode(ChunkId chunk, const Bytes& sum, uint32_t samples);
  // True if anything is kept from one sum to the next.
  bool keeps_state() const { return !encoders_.empty(); }
  // Returns a copy of what is kept of the chunk: it goes with the weights that hold all of its
  // payloads so far, and no more.
  PushImage Image(ChunkId chunk);
  // Goes on from an image. Errors: InvalidArgument: it is of another codec, or not of the chunk's
  // size, or not finite; nothing has changed then. REQUIRES: the sums are not payloads already.
  absl::Status Restore(ChunkId chunk, const PushImage& image);
  // Bytes of what was not sent, of momentum, and of payloads, including free ones.
  size_t memory_bytes() const;

 private:
  PushEncoder(const proto::JobRecord& record, NodeId node, const ChunkMap& map,
              const kernels::Kernels& kernels, From from);
  // Returns the sum as it is where that is smaller.
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
