#ifndef STRATA_COMMON_SEAL_SEAL_H_
#define STRATA_COMMON_SEAL_SEAL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/seal/aead.h"
#include "common/seal/secret.h"

// Seals of frames: AES-256-GCM over payloads, GMAC over headers. A payload is sealed once, under a
// key of its sender, and may go to many peers; a header is sealed for one connection, and
// identifies its payload.

namespace strata::seal {

// The protection of payloads. Headers are always signed. The values are part of the keys.
enum class Protection : uint8_t {
  kSign = 1,     // the payload stays readable
  kEncrypt = 2,  // and it is encrypted
};

inline constexpr uint64_t kPayloadBytesMax = uint64_t{1} << 30;

// The number is epoch << 32 | index: which key, and which of its payloads, from 1. Number 0: the
// payload has no seal.
struct PayloadSeal {
  uint64_t number = 0;
  Tag tag = {};
};

// When a sender changes its key. Smaller limits are for tests.
struct KeyLimits {
  uint64_t bytes_per_key = uint64_t{1} << 36;
  uint32_t payloads_per_key = UINT32_MAX;
  uint32_t last_epoch = UINT32_MAX;
};

// Seals the payloads of one sender. No nonce of a key is used twice as long as no other sealer has
// the same secret, salt and protection: each sealer of each process uses a new salt. Threads: one
// at a time.
class PayloadSealer {
 public:
  PayloadSealer(const Secret& secret, const Salt& salt, Protection protection,
                const KeyLimits& limits = {});

  // kEncrypt: writes as many bytes to `out`, which may be the payload's own address but must not
  // overlap it otherwise. kSign: only reads the payload, and `out` may be null.
  // REQUIRES: at most kPayloadBytesMax bytes.
  PayloadSeal Seal(absl::Span<const std::byte> payload, std::byte* out);

 private:
  void TakeKey();

  const WipedSecret secret_;
  const Salt salt_;
  const Protection protection_;
  const KeyLimits limits_;
  uint32_t epoch_ = 0;
  uint32_t index_ = 0;  // of the last payload
  uint64_t bytes_ = 0;  // sealed under this key
  std::optional<Gcm> gcm_;
};

// Opens the payloads of one sender. Does not detect replays: headers do. Threads: one at a time.
class PayloadOpener {
 public:
  // The salt is the sender's.
  PayloadOpener(const Secret& secret, const Salt& salt, Protection protection);

  // kEncrypt: decrypts to `out`, with the rules of Seal. kSign: only checks. Errors:
  // InvalidArgument: the payload was changed, is not from this sender, or has no seal; `out` is
  // zeroed then (kEncrypt).
  absl::Status Open(absl::Span<const std::byte> sealed, const PayloadSeal& seal, std::byte* out);

 private:
  struct EpochKey {
    uint32_t epoch = 0;
    std::optional<Gcm> gcm;  // nullopt: of no epoch yet
  };

  Gcm& KeyOf(uint32_t epoch);

  const WipedSecret secret_;
  const Salt salt_;
  const Protection protection_;
  // The most recently used comes first: around a change of keys, resends still need the older one.
  std::array<EpochKey, 2> keys_;
};

// Signs the headers of one direction of one connection. Threads: one at a time.
class HeaderSealer {
 public:
  // The key is used only for this direction of this connection.
  explicit HeaderSealer(const Key& key);

  // Returns the tag of the next frame: over its header, its payload's seal and its position.
  Tag Next(absl::Span<const std::byte> header, const PayloadSeal& seal);

  // The frame with the last tag of Next is being sent. If a frame was not queued, its tag is
  // discarded, and Next gives another one for the same position. Two tags of one nonce would reveal
  // the key to anybody who sees both; only this process has seen the discarded one.
  // REQUIRES: a call of Next since the last call of Took.
  void Took();

 private:
  Gcm gcm_;
  uint64_t place_ = 1;
  bool has_tag_ = false;  // computed for this position
};

// Checks the headers of one direction of one connection. Threads: one at a time.
class HeaderOpener {
 public:
  explicit HeaderOpener(const Key& key);

  // Errors: InvalidArgument: the frame was changed, replayed, or is out of order, or one before it
  // is missing. All later calls fail then.
  absl::Status Check(absl::Span<const std::byte> header, const PayloadSeal& seal, const Tag& tag);

 private:
  Gcm gcm_;
  uint64_t place_ = 1;
  bool is_dead_ = false;
};

// The bytes after a header: the payload's number (8 bytes, little-endian), the payload's tag, the
// header's tag.
inline constexpr size_t kSealBytes = 8 + kTagBytes + kTagBytes;

std::array<std::byte, kSealBytes> EncodeSeal(const PayloadSeal& seal, const Tag& header_tag);

// Errors: InvalidArgument: not kSealBytes bytes, or a seal that no sealer makes. `seal` and
// `header_tag` are unchanged then.
absl::Status DecodeSeal(absl::Span<const std::byte> bytes, PayloadSeal* seal, Tag* header_tag);

// The keys of one job's frames.
struct JobKeys {
  Protection protection = Protection::kEncrypt;
  Secret secret = {};
  // The number of earlier starts of the job: each start has keys of its own.
  uint32_t attempt = 0;
  // The address of this endpoint in the job's record; empty: nobody connects to it.
  std::string own_address = {};

  bool operator==(const JobKeys&) const = default;
};

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_SEAL_H_
