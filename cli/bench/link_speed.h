#ifndef STRATA_CLI_BENCH_LINK_SPEED_H_
#define STRATA_CLI_BENCH_LINK_SPEED_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::cli {

// The command prefix that runs a command on a host; empty: this host.
using Enter = std::vector<std::string>;

struct LinkSpeed {
  double bytes_per_s = 0;  // goodput of one TCP stream
  std::string congestion;  // the sender's algorithm
};

// Measures with iperf3 from one host to another, after a second of warm-up. Errors: NotFound
// (iperf3 is not installed), Unavailable (its message).
absl::StatusOr<LinkSpeed> MeasureLink(const Enter& from, const Enter& to,
                                      const std::string& address, int seconds);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_LINK_SPEED_H_
