// The part of AllReduceCore that ends.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "worker/exchange/all_reduce/all_reduce_core.h"

namespace strata::worker {
namespace {

using Phase = Exchange::Phase;
using wire::Op;

// How long a node that has all of its weights stays for a peer that has all of its own, too, but
// does not acknowledge the last word; and for one that cannot be reached.
constexpr absl::Duration kLinger = absl::Seconds(5), kLeaveAfter = absl::Seconds(30);

}  // namespace

absl::Status AllReduceCore::Finish(uint64_t clocks, absl::Time now, CoreActions* actions) {
  phase_ = Phase::kFinishing;
  clocks_ = clocks;
  absl::Status status = MaybeRetire(now, actions);
  for (const Peer& peer : peers_) status.Update(CheckMade(peer));
  return Fail(status, false, &actions->wire);
}

absl::Status AllReduceCore::MaybeRetire(absl::Time now, CoreActions* actions) {
  if (phase_ != Phase::kFinishing || retired_at_ != absl::InfiniteFuture()) return absl::OkStatus();
  for (const ChunkReduction& chunk : chunks_) {
    if (chunk.clock() < clocks_) return absl::OkStatus();
  }
  if (barrier_ && !barrier_->is_entered()) {
    for (const Peer& peer : peers_) {
      if (absl::Status status = CheckMade(peer); !status.ok()) return status;
    }
    ReductionActions what;
    const absl::Status status = barrier_->Enter(clocks_, &what);
    Send(barrier_->chunk(), what, now, actions);
    if (!status.ok()) return status;
  }
  if (!barrier_ || barrier_->is_passed()) Retire(now, actions);
  return absl::OkStatus();
}

void AllReduceCore::Retire(absl::Time now, CoreActions* actions) {
  retired_at_ = now;
  for (uint32_t c = 0; c < map_.chunks(); ++c) checkpoints_.CutIfDue(ChunkId(c));
  wire::Header header;
  header.op = Op::kRetire;
  header.clock = clocks_;
  for (Peer& peer : peers_) {
    peer.link.Send(header, Bytes(), now, &actions->wire);
    peer.link.NeverGiveUp();
  }
  MaybeFinish(now);
}

// A peer that has retired has had all of this node's frames but the last; whether it got that one
// cannot be known for sure.
absl::Time AllReduceCore::FreeFrom(const Peer& peer) const {
  if (peer.retired && peer.link.drained()) return absl::InfinitePast();
  const absl::Time leave = std::max(peer.link.down_since(), retired_at_) + kLeaveAfter;
  return peer.retired ? std::min(leave, retired_at_ + kLinger) : leave;
}

absl::Time AllReduceCore::finished_at() const {
  if (phase_ != Phase::kFinishing || retired_at_ == absl::InfiniteFuture()) {
    return absl::InfiniteFuture();
  }
  absl::Time at = absl::InfinitePast();
  for (const Peer& peer : peers_) at = std::max(at, FreeFrom(peer));
  return at;
}

void AllReduceCore::MaybeFinish(absl::Time now) {
  if (now >= finished_at()) phase_ = Phase::kFinished;
}

absl::Status AllReduceCore::HasFinished(const Peer& peer) const {
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s has finished after %d steps, but this node goes on", peer.link.Name(), *peer.made));
}

absl::Status AllReduceCore::CheckMade(const Peer& peer) const {
  if (phase_ != Phase::kFinishing || !peer.made || *peer.made == clocks_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s has finished after %d steps, this node after %d", peer.link.Name(), *peer.made, clocks_));
}

absl::Status AllReduceCore::OnRetire(Peer* peer, uint64_t clocks) {
  peer->made = clocks;
  peer->retired = true;
  return CheckMade(*peer);
}

absl::Status AllReduceCore::OnBarrier(Peer* peer, const wire::Frame& frame, absl::Time now,
                                      CoreActions* actions) {
  peer->made = frame.header.clock;
  if (absl::Status status = CheckMade(*peer); !status.ok()) return status;
  if (makes_ > *peer->made) return HasFinished(*peer);
  ReductionActions what;
  const absl::Status status = NamedBy(*peer, barrier_->OnFrame(peer->position, frame, &what));
  Send(barrier_->chunk(), what, now, actions);
  return status.ok() ? MaybeRetire(now, actions) : status;
}

}  // namespace strata::worker
