#ifndef STRATA_WORKER_AGGREGATOR_CORE_RANK_GROUP_H_
#define STRATA_WORKER_AGGREGATOR_CORE_RANK_GROUP_H_

#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/os/framed_channel.h"
#include "common/require.h"
#include "common/unique_fd.h"
#include "proto/processes.pb.h"
#include "worker/contract/rank_protocol.pb.h"

namespace strata::worker {

// A set of descriptors to read from, with one descriptor that is readable when any of them is: a
// loop that can wait for one descriptor thus waits for all. Threads: one.
class PollSet {
 public:
  PollSet() : fd_(epoll_create1(EPOLL_CLOEXEC)) {}

  int fd() const { return fd_.get(); }
  // Added until the descriptor is closed.
  void Add(int fd) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  void Remove(int fd) { epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  // Returns those that are readable or closed by the peer; waits up to timeout_ms for the first.
  std::vector<int> Readable(int timeout_ms) {
    epoll_event events[64];
    const int count = epoll_wait(fd_.get(), events, 64, timeout_ms);
    std::vector<int> fds;
    for (int i = 0; i < count; ++i) fds.push_back(events[i].data.fd);
    return fds;
  }

 private:
  const UniqueFd fd_;
};

// The aggregator's conversation with the ranks of its node: they attach with their tensors, offer
// first weights, and leave. It checks what they must agree on.
//
// Threads: one. Nothing blocks.
class RankGroup {
 public:
  // Listens at the launch's socket. Errors: see ListenAt.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(const proto::Launch& launch);

  // Readable when Receive has something to do.
  int fd() const { return poll_.fd(); }
  // Handles received messages. Errors, each naming the rank: InvalidArgument (ranks that differ),
  // Unavailable (a rank that is gone before Release: `lost`).
  absl::Status Receive();
  const std::optional<uint32_t>& lost() const { return lost_; }  // local rank

  bool all_attached() const { return Count(&Rank::attached) == ranks_.size(); }
  // REQUIRES: all_attached.
  const proto::Layout& layout() const {
    STRATA_REQUIRE(all_attached());
    return layout_;
  }
  // Answers every rank's Attach. Errors: Unavailable (`lost`).
  absl::Status SendMemory(int memory, int doorbell);

  bool all_offered() const { return Count(&Rank::offered) == ranks_.size(); }
  // Returns whether the rank has sent everything that it can before others do.
  bool waits(uint32_t local_rank) const {
    const Rank& rank = ranks_[local_rank];
    return rank.attached && (rank.offered || !rank.has_memory);
  }
  // REQUIRES: all_offered.
  const proto::Offer& offer() const {
    STRATA_REQUIRE(all_offered());
    return offer_;
  }
  // By local rank.
  void SendStarted(absl::Span<const proto::Started> started);
  // Announces a change of the participating nodes. REQUIRES: after SendStarted, before Release.
  void SendChange(const proto::ViewChange& change);
  // Tells a rank the ring in which it continues. REQUIRES: likewise.
  void SendRing(uint32_t local_rank, const proto::RankRing& ring);

  // Steps made, by local rank, for those that have left.
  const std::vector<std::optional<uint64_t>>& left() const { return left_; }
  // Each local rank's latest report of where it has stopped for another ring; number 0: none.
  const std::vector<proto::RankStopped>& stopped() const { return stopped_; }
  // The final weights are there; from now on ranks may leave.
  void Release();
  bool all_gone() const;

  // Connections that were not ranks': they sent something other than Attach, or another token.
  uint64_t refused() const { return refused_; }

  // Tells every rank why the job ends.
  void Stop(const std::string& reason);

 private:
  struct Rank {
    std::unique_ptr<FramedChannel> channel;  // null: not attached yet, or gone
    bool attached = false;
    bool has_memory = false;
    bool offered = false;
  };

  RankGroup(const proto::Launch& launch, UniqueFd listener);

  size_t Count(bool Rank::*what) const;
  RankId IdOf(uint32_t local_rank) const { return RankId(launch_.first_rank() + local_rank); }
  void Accept();
  absl::Status ReceiveAttach(size_t index);
  absl::Status OnAttach(std::unique_ptr<FramedChannel> channel, const proto::Attach& attach);
  absl::Status ReceiveFrom(uint32_t local_rank);
  absl::Status Lose(uint32_t local_rank);
  absl::Status OnOffer(uint32_t local_rank, const proto::Offer& offer);
  void SendAll(const proto::AggregatorMessage& message);

  const proto::Launch launch_;
  const UniqueFd listener_;
  PollSet poll_;
  std::vector<std::unique_ptr<FramedChannel>> newcomers_;  // have not sent Attach yet
  std::vector<Rank> ranks_;                                // by local rank
  std::vector<std::optional<uint64_t>> left_;
  std::vector<proto::RankStopped> stopped_;
  std::optional<uint32_t> first_attached_, first_offered_;
  proto::Layout layout_;
  proto::Offer offer_;
  std::optional<uint32_t> lost_;
  bool released_ = false;
  uint64_t refused_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_RANK_GROUP_H_
