#ifndef STRATA_COMMON_WIRE_HELLO_H_
#define STRATA_COMMON_WIRE_HELLO_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace strata::wire {

// What HELLO binds a connection to. Payload of kHello, kHelloBytes long, little-endian:
// protocol u32, role u32, cluster u64, token u64, connection u32, shard u32. Job, node and
// incarnation stand in the header.
struct Hello {
  uint32_t protocol = 0;
  enum class Role : uint32_t {
    kNode = 1,
    kPrimary = 2,  // the one that holds the shard, to its backup; of no node
  } role = Role::kNode;
  uint64_t cluster = 0, token = 0;
  uint32_t connection = 0;  // which of those that the job allows a pair of peers, from 0
  uint32_t shard = 0;       // of the job; between nodes 0
};
inline constexpr size_t kHelloBytes = 32;

std::array<std::byte, kHelloBytes> EncodeHello(const Hello& hello);
// Errors: InvalidArgument: wrong size, reserved bits or role.
absl::Status DecodeHello(absl::Span<const std::byte> payload, Hello* hello);

}  // namespace strata::wire

#endif  // STRATA_COMMON_WIRE_HELLO_H_
