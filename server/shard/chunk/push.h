#ifndef STRATA_SERVER_SHARD_CHUNK_PUSH_H_
#define STRATA_SERVER_SHARD_CHUNK_PUSH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/bytes.h"
#include "common/wire/frame.h"

namespace strata::server {

// A node's sum for one chunk and clock.
struct Push {
  size_t node = 0;  // its index, in order of the nodes' first ranks
  uint32_t incarnation = 0;
  uint64_t clock = 0;
  uint64_t base_version = 0;
  uint32_t samples = 0;
  float rate = 0;         // of its step, where the job's program says rates
  uint64_t checksum = 0;  // 0: none is known: it came by reference or sealed
  wire::Codec codec = wire::Codec::kNone;
  Bytes sum;           // encoded; empty: adds nothing
  absl::Time came_at;  // a quorum's grace counts from it
};

inline Push PushOf(const wire::Frame& frame, size_t node, absl::Time came_at) {
  const wire::Header& header = frame.header;
  return {.node = node,
          .incarnation = header.incarnation,
          .clock = header.clock,
          .base_version = header.base_version,
          .samples = header.sample_count,
          .rate = header.rate,
          .checksum = header.payload_checksum,
          .codec = header.codec,
          .sum = frame.payload,
          .came_at = came_at};
}

// What became of a push.
struct PushResult {
  wire::ErrorCode error = wire::ErrorCode::kNone;
  std::string reason;      // where there is an error
  bool duplicate = false;  // seen before, not applied again
  bool unchanged = false;  // and all else is as it was, too
};

inline PushResult RefusePush(wire::ErrorCode error, std::string reason) {
  return {.error = error, .reason = std::move(reason)};
}

// An answer that is due now: to the push of `clock`, or to CUT(clock). ERROR: a push of `clock`
// that was received turned out not to be finite, and counts as not received.
struct DueAnswer {
  wire::Op op = wire::Op::kAnswer;
  size_t node = 0;
  uint64_t clock = 0;
  uint32_t staleness = 0;
  bool again = false;  // the push has been answered before
};

inline constexpr char kNotFiniteText[] = "NaN or infinity";

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_PUSH_H_
