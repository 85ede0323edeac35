#ifndef STRATA_BENCH_PEERS_PEER_H_
#define STRATA_BENCH_PEERS_PEER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace CLI {
class App;
}

namespace strata::bench {

// Options of every peer. Processes of one run differ in the rank only.
struct PeerOptions {
  uint32_t rank = 0;
  uint32_t nodes = 2;
  uint64_t bytes = uint64_t{1} << 20;  // of the gradient
  uint64_t steps = 10;
  uint64_t warmup = 2;
  std::string gate;  // HOST:PORT where all meet before each step (see cli/bench/gate.h)
};

void AddPeerOptions(CLI::App* app, PeerOptions* options);

// One step of a peer: from this rank's gradient to the sum over all ranks in `sum`.
using PeerStep = std::function<absl::Status(absl::Span<float> gradient, absl::Span<float> sum)>;

// Runs warm-up and steps, verifies the values of each, and prints a line of JSON with this rank's
// figures: {"peer", "rank", "min_ms", "median_ms", "p99_ms", "verified"}. `in_place`: gradient and
// sum are the same memory. Returns the process's exit status.
int RunPeer(const std::string& name, const PeerOptions& options, bool in_place,
            const PeerStep& step);

// a[i] += b[i] and out[i] = a[i] + b[i], as fast as this machine does it.
void AddTo(float* a, const float* b, size_t n);
void Add(float* out, const float* a, const float* b, size_t n);

}  // namespace strata::bench

#endif  // STRATA_BENCH_PEERS_PEER_H_
