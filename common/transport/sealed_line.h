#ifndef STRATA_COMMON_TRANSPORT_SEALED_LINE_H_
#define STRATA_COMMON_TRANSPORT_SEALED_LINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/seal/handshake.h"
#include "common/seal/seal.h"
#include "common/wire/frame.h"

namespace strata::transport {

// Transmitted bytes, with the payload's seal for the header.
struct SealedPayload : Bytes::Made {
  uint64_t sealer = 0;  // which sealer of this process has made it
  seal::PayloadSeal seal;
  Bytes bytes;
};

// Seals one endpoint's payloads of one job. A payload for many peers is sealed once, while somebody
// keeps the object that Of returned. Each PayloadSeals has a new salt: its numbers start over, so
// its key must differ.
//
// Threads: one.
class PayloadSeals {
 public:
  PayloadSeals(seal::Protection protection, const seal::Secret& secret);

  const seal::Salt& salt() const { return salt_; }
  // REQUIRES: !payload.empty().
  std::shared_ptr<const SealedPayload> Of(const Bytes& payload, BufferPool* pool);

 private:
  const uint64_t id_;
  const seal::Protection protection_;
  const seal::Salt salt_;
  seal::PayloadSealer sealer_;
};

// A connection between two ends that have proved knowledge of the job's secret. A header's seal
// covers the payload's seal and the whole header except payload_kind and payload_checksum, which
// lower layers change.
//
// Threads: one.
class SealedLine {
 public:
  // REQUIRES: handshake.is_done(). `payload_secret`: see PayloadSeals.
  SealedLine(const seal::Handshake& handshake, JobId job, seal::Protection protection,
             const seal::Secret& payload_secret);

  // Opens a received frame. Encrypted bytes are decrypted in place if they are `writable`,
  // otherwise into memory of `pool`. Errors: InvalidArgument: it is not the peer's next frame; no
  // later frame may be accepted.
  absl::Status Open(BufferPool* pool, wire::Frame* frame);

  // Returns the seal of the next frame to be sent, with a payload of `payload_bytes`.
  std::array<std::byte, wire::kSealBytes> Seal(const wire::Header& header, size_t payload_bytes,
                                               const seal::PayloadSeal& payload);
  // The frame of the last Seal call will be sent.
  void Took() { sealer_.Took(); }

 private:
  absl::Status OpenPayload(const seal::PayloadSeal& payload, BufferPool* pool, wire::Frame* frame);

  const JobId job_;
  const seal::Protection protection_;
  seal::HeaderSealer sealer_;
  seal::HeaderOpener opener_;
  seal::PayloadOpener payload_opener_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SEALED_LINE_H_
