#ifndef STRATA_CLI_BENCH_LINK_SPEED_H_
#define STRATA_CLI_BENCH_LINK_SPEED_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::cli {

// A host as what is put before a command line to run the rest there; empty: this one.
using Enter = std::vector<std::string>;

struct LinkSpeed {
  double bytes_per_s = 0;  // goodput of one TCP stream
  std::string congestion;  // control of the sender
};

// Lets iperf3 send from one host to another for so long, after a second of warm-up. Errors:
// NotFound (iperf3 is not installed), Unavailable (what it says).
absl::StatusOr<LinkSpeed> MeasureLink(const Enter& from, const Enter& to,
                                      const std::string& address, int seconds);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_LINK_SPEED_H_
