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

// All of an endpoint's sessions of shared memory with peers of its host: the door at which those
// knock who have connected to it, and the sessions whose connections are gone but whose bytes are
// still read.
//
// Threads: one.
class RegionHost {
 public:
  // Opens the door for connections to a port that this endpoint listens at. Once. Errors:
  // AlreadyExists, ResourceExhausted: payloads of those who connect go with their frames.
  absl::Status Open(int port);
  // Readable when a visitor knocks or sends more; -1: no door.
  int door() const { return watch_.get(); }
  // Hears them, as long as fewer than kRegionPeersMax have come; that others are sent away, and
  // use TCP, is logged once. Nobody is told anything. Never blocks.
  void Serve(absl::Time now);
  // Returns the session of this number, whose peer has named it over a connection and waits for an
  // answer; null: nobody has greeted with it yet.
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
  absl::flat_hash_map<int, Visitor> visitors_;      // who have not greeted, by descriptor
  absl::flat_hash_map<uint64_t, Visitor> greeted_;  // who are to claim, by session
  std::vector<std::unique_ptr<RegionSession>> retired_;
  absl::flat_hash_set<const RegionSession*> claimed_;  // and not retired
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_HOST_H_
