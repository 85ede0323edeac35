#ifndef STRATA_COMMON_TRANSPORT_SEALED_SEALED_LINE_H_
#define STRATA_COMMON_TRANSPORT_SEALED_SEALED_LINE_H_

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "common/buffer_pool.h"
#include "common/ids.h"
#include "common/seal/handshake.h"
#include "common/seal/seal.h"
#include "common/wire/frame.h"

namespace strata::transport {

// A connection whose both ends have shown that they know the job's secret. A header's seal covers
// all of the header but payload_kind and payload_checksum, which change below, and the payload's
// seal.
//
// Threads: one.
class SealedLine {
 public:
  // REQUIRES: handshake.is_done(). `payload_secret`: see PayloadSeals.
  SealedLine(const seal::Handshake& handshake, JobId job, seal::Protection protection,
             const seal::Secret& payload_secret);

  // Takes a frame that has come. What is encrypted is read where it lies, if it is `writable`, and
  // into memory of `pool` if not. Errors: InvalidArgument: it is not what the peer has sent next;
  // nothing that comes later may be taken.
  absl::Status Open(BufferPool* pool, wire::Frame* frame);

  // The seal of a frame that is to be sent next with a payload of so many bytes.
  std::array<std::byte, wire::kSealBytes> Seal(const wire::Header& header, size_t payload_bytes,
                                               const seal::PayloadSeal& payload);
  // The frame that Seal was called for last will leave.
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

#endif  // STRATA_COMMON_TRANSPORT_SEALED_SEALED_LINE_H_
