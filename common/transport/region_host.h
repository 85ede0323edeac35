#ifndef STRATA_COMMON_TRANSPORT_REGION_HOST_H_
#define STRATA_COMMON_TRANSPORT_REGION_HOST_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/transport/region_memory.h"
#include "common/transport/region_session.h"
#include "common/unique_fd.h"

namespace strata::transport {

// All of an endpoint's shared-memory sessions with peers on its host: the door for peers that have
// connected to it, and former sessions whose bytes are still read.
//
// Threads: one.
class RegionHost {
 public:
  // Opens the door for connections to a port on which this endpoint listens. Once. Errors:
  // AlreadyExists, ResourceExhausted: payloads of those peers go with their frames.
  absl::Status Open(int port);
  // Readable when a visitor knocks or sends more; -1: no door.
  int door() const { return watch_.get(); }
  // Handles visitors while fewer than kRegionPeersMax have come; that others are refused, and use
  // TCP, is logged once. Visitors get no answer yet. Never blocks.
  void Serve(absl::Time now);
  // Returns the session of this number, which its peer has named over a connection; null: nobody
  // has greeted with it yet.
  std::unique_ptr<RegionSession> Claim(uint64_t number);

  // Its connection is gone. Null is allowed.
  void Retire(std::unique_ptr<RegionSession> session);
  // Releases memory that peers no longer need.
  void Sweep();

 private:
  struct Visitor {
    std::unique_ptr<RegionSession> session;
    absl::Time until;
  };
  void Admit(UniqueFd line, absl::Time now);

  int port_ = 0;
  bool has_said_full_ = false;
  UniqueFd listener_;
  UniqueFd watch_;                                  // epoll over the door and its visitors
  absl::flat_hash_map<int, Visitor> visitors_;      // visitors that have not greeted, by descriptor
  absl::flat_hash_map<uint64_t, Visitor> greeted_;  // visitors that are to claim, by session
  std::vector<std::unique_ptr<RegionSession>> retired_;
  absl::flat_hash_set<const RegionSession*> claimed_;  // and not retired
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_HOST_H_
