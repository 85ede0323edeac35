#include "server/coordinator/service/port_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "common/require.h"
#include "common/wire/shard_probe.h"

namespace strata::server {
namespace {

constexpr absl::Duration kTimeout = absl::Milliseconds(300);
// A process that exits closes its ports one after the other, and its control connection among them.
constexpr int kPausesMs[] = {0, 20, 50, 100, 200, 400};

enum class Ports { kClosed, kOpen, kUnclear };

Ports LookAt(const std::vector<std::string>& addresses, int stop_fd) {
  size_t closed = 0;
  bool is_open = false;
  net::ProbeShards(addresses, kTimeout, stop_fd, [&](std::vector<net::ProbeResult> results) {
    for (const net::ProbeResult& one : results) {
      closed += one.error == "connection refused" ? 1 : 0;
      is_open = is_open || one.error.empty();
    }
  });
  if (closed == addresses.size()) return Ports::kClosed;
  return is_open ? Ports::kOpen : Ports::kUnclear;
}

// Returns false if the watch is stopped.
bool Pause(int milliseconds, int stop_fd) {
  pollfd stop = {.fd = stop_fd, .events = POLLIN, .revents = 0};
  return poll(&stop, 1, milliseconds) == 0;
}

}  // namespace

PortWatch::PortWatch() : stop_(eventfd(0, EFD_CLOEXEC)) { STRATA_REQUIRE(stop_.valid()); }

void PortWatch::Learn(uint64_t process, const std::vector<std::string>& addresses) {
  if (addresses.empty()) return;
  work_.Do([this, process, addresses] {
    if (LookAt(addresses, stop_.get()) != Ports::kOpen) return;
    absl::MutexLock lock(&mutex_);
    reached_.insert(process);
  });
}

void PortWatch::Look(uint64_t process, const std::vector<std::string>& addresses,
                     std::function<void()> closed) {
  {
    absl::MutexLock lock(&mutex_);
    if (!reached_.contains(process)) return;
  }
  work_.Do([this, process, addresses, closed = std::move(closed)] {
    Ports ports = Ports::kUnclear;
    for (const int pause : kPausesMs) {
      if (!Pause(pause, stop_.get())) return;
      ports = LookAt(addresses, stop_.get());
      // Open ports may be about to close.
      if (ports == Ports::kClosed) break;
    }
    if (ports != Ports::kClosed) return;
    {
      absl::MutexLock lock(&mutex_);
      reached_.erase(process);
    }
    closed();
  });
}

void PortWatch::Stop() {
  const uint64_t one = 1;
  // A failed write means that it is signalled already.
  (void)!write(stop_.get(), &one, sizeof(one));
  work_.WaitForAll();
}

}  // namespace strata::server
