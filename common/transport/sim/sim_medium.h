#ifndef STRATA_COMMON_TRANSPORT_SIM_SIM_MEDIUM_H_
#define STRATA_COMMON_TRANSPORT_SIM_SIM_MEDIUM_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "common/wire/frame.h"

namespace strata::transport {

// What takes frames from host to host on a SimNetwork, in place of its random delays: links that
// have a bandwidth, say. Nothing is lost on it.
//
// Threads: one.
class SimMedium {
 public:
  // Says when the frame's last byte is there. The network delivers it then, or after what was sent
  // before it on its connection.
  using Arrive = std::function<void(absl::Time at)>;

  virtual ~SimMedium() = default;

  // A frame leaves `from` for `to`. Calls `arrive` once, now or at a later event.
  virtual void Carry(uint32_t from, uint32_t to, const wire::Frame& frame, Arrive arrive) = 0;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SIM_SIM_MEDIUM_H_
