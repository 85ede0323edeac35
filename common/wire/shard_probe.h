#ifndef STRATA_COMMON_WIRE_SHARD_PROBE_H_
#define STRATA_COMMON_WIRE_SHARD_PROBE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace strata::net {

struct ProbeResult {
  std::string address;  // "tcp://HOST:PORT"
  std::string error;    // why it is not reachable; empty: it is
};

// Connects to the addresses, kProbesMax at a time, checks by the handshake that ZeroMQ answers
// there, and closes. Passes on results as they come, several at a time, each address once; returns
// when all are known, which takes `timeout` for each kProbesMax silent addresses plus name
// resolution. Returns early, without the rest, once `cancel_fd` (an event descriptor; -1: none) is
// readable. Blocks.
void ProbeShards(const std::vector<std::string>& addresses, absl::Duration timeout, int cancel_fd,
                 const std::function<void(std::vector<ProbeResult>)>& on_results);

}  // namespace strata::net

#endif  // STRATA_COMMON_WIRE_SHARD_PROBE_H_
