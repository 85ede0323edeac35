#ifndef STRATA_COMMON_TRANSPORT_SEALED_PAYLOAD_SEALS_H_
#define STRATA_COMMON_TRANSPORT_SEALED_PAYLOAD_SEALS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/seal/seal.h"

namespace strata::transport {

// Bytes as they travel, with what the header's seal says of them.
struct SealedPayload : Bytes::Made {
  uint64_t sealer = 0;  // which of this process has made it
  seal::PayloadSeal seal;
  Bytes bytes;
};

// Seals what one endpoint sends of one job. A payload that goes to many peers is sealed once, as
// long as somebody keeps what Of has returned. Its salt is new with each object: numbers begin
// anew, and so must the key.
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

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SEALED_PAYLOAD_SEALS_H_
