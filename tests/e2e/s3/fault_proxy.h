#ifndef STRATA_TESTS_E2E_S3_FAULT_PROXY_H_
#define STRATA_TESTS_E2E_S3_FAULT_PROXY_H_

#include <array>
#include <cstdint>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/unique_fd.h"

namespace strata {

// Lies between a store and a server on loopback and does to each connection, in turn, one of:
// nothing, an answer of its own (503), a reset, an orderly end, silence - the latter three after
// some bytes of either side, which a seed says.
class FaultProxy {
 public:
  enum Kind { kFaithful, kBusy, kReset, kCut, kSilent, kKinds };

  FaultProxy(uint16_t server_port, uint64_t seed);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  uint16_t port() const { return port_; }
  // Returns how many connections were ended by a fault of each kind.
  std::array<int, kKinds> faults() const;

 private:
  void Accept();
  void Serve(int client, uint64_t number);
  // Forwards until one side ends. True: until the fault is due.
  static bool Forward(int client, int server, uint64_t bytes_max);
  void Fault(int client, Kind kind);

  const uint16_t server_port_;
  const uint64_t seed_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  mutable absl::Mutex mutex_;
  std::list<int> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::array<int, kKinds> faults_ ABSL_GUARDED_BY(mutex_) = {};
  std::thread acceptor_;
};

}  // namespace strata

#endif  // STRATA_TESTS_E2E_S3_FAULT_PROXY_H_
