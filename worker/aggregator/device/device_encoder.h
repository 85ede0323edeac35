#ifndef STRATA_WORKER_AGGREGATOR_DEVICE_DEVICE_ENCODER_H_
#define STRATA_WORKER_AGGREGATOR_DEVICE_DEVICE_ENCODER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "kernels/device/device.h"
#include "numerics/encoder.h"
#include "proto/record.pb.h"
#include "worker/exchange/server/push_encoder.h"

namespace strata::worker {

// Every `of`-th chunk from `first` on: the share of one of several devices.
struct ChunkShare {
  uint32_t first = 0, of = 1;
};

// Encodes a node's gradient sums on their device, so that only payloads leave it. What a payload
// lacks stays there and is part of the chunk's next one: each is, bit for bit, what PushEncoder
// makes of the same sums.
//
// Everything is queued. The number of elements in a sparse payload is known only when it is done;
// the copy is as long as the longest payload that the chunk's density allows, which is the actual
// length unless almost all elements are zero.
//
// Threads: one.
class DeviceEncoder {
 public:
  // Makes the encoder for a job whose pushes are encoded. Its state on the device, for its share of
  // the chunks, is cleared in `stream`, before later work there. Errors: those of device::Device,
  // InvalidArgument (the encoding).
  static absl::StatusOr<std::unique_ptr<DeviceEncoder>> Create(
      const proto::JobRecord& record, NodeId node, const ChunkMap& map, ChunkShare share,
      const std::shared_ptr<device::Device>& device, device::Stream* stream);

  // Bytes of host memory for the outcome of a chunk's next sum, whatever its density.
  size_t host_bytes(ChunkId chunk) const;
  // On the device: the bytes to copy to the host, in any stream, which then records `copied`.
  struct Outcome {
    const std::byte* at;
    size_t bytes;
    device::Event* copied;
  };
  // Queues the encoding of the chunk's next sum, over `samples` of the node, at `sum` on the
  // device. Two chunks alternate in the memory for outcomes, so that one is encoded while the other
  // is copied; the call after the next waits for `copied`. One stream for all calls. The caller has
  // queued the copy of the last but one outcome. REQUIRES: the chunk is in its share.
  absl::StatusOr<Outcome> Encode(ChunkId chunk, const float* sum, uint32_t samples,
                                 device::Stream* stream);
  // Returns the payload, which is part of `host`. Errors: InvalidArgument: an element is not
  // finite, or too large for the codec; the chunk's state is lost then.
  absl::StatusOr<Bytes> PayloadIn(const std::shared_ptr<std::byte>& host, ChunkId chunk) const;

  wire::Codec codec() const { return codec_; }
  // Bytes of the device's memory.
  size_t device_bytes() const { return device_bytes_; }

 private:
  DeviceEncoder(const proto::JobRecord& record, NodeId node, const ChunkMap& map, ChunkShare share,
                const numerics::CompressionOptions& options)
      : map_(map),
        share_(share),
        options_(options),
        codec_(numerics::WireCodec(options.compression)),
        density_(record, node, map.chunks()) {}

  absl::Status Allocate(device::Device* device, device::Stream* stream);
  // Elements between vectors of state: each begins at a multiple of 16 bytes.
  size_t stride() const;
  // The chunk's part of a vector of state.
  float* StateAt(int vector, ChunkId chunk) const;

  const ChunkMap map_;
  const ChunkShare share_;
  const numerics::CompressionOptions options_;
  const wire::Codec codec_;
  PushDensity density_;
  const device::DeviceKernels* kernels_ = nullptr;  // the device's
  std::shared_ptr<device::Device> device_;
  device::Memory state_;  // StateVectors(options_) arenas
  // Holds a verdict for a chunk being copied and, after it, the payload.
  struct Turn {
    device::Memory memory;
    std::unique_ptr<device::Event> copied;
  };
  std::array<Turn, 2> turns_;
  size_t turn_ = 0;  // for the next call
  size_t device_bytes_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_DEVICE_DEVICE_ENCODER_H_
