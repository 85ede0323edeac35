#include "worker/aggregator/core/rank_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "rows/table_spec.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/contract/rank_socket.h"

namespace strata::worker {
namespace {

// Connections that have not sent Attach, besides those of ranks that are still to do so.
constexpr size_t kStrangersMax = 64;

proto::AggregatorMessage Stopped(const std::string& reason) {
  proto::AggregatorMessage message;
  message.set_stopped(reason);
  return message;
}

// Returns the optimizer of the rank's program, as text.
std::string Named(const proto::Offer& offer) {
  return offer.has_optimizer() ? OptimizerText(offer.optimizer()) : "none";
}

// Describes how the training of two ranks differs; empty: it does not.
std::string Difference(const std::string& rank, const proto::Offer& a, const std::string& other,
                       const proto::Offer& b) {
  if (a.takes_first_weights() != b.takes_first_weights()) {
    return absl::StrFormat("%s begins with rank 0's weights, %s with its own",
                           a.takes_first_weights() ? rank : other,
                           a.takes_first_weights() ? other : rank);
  }
  if (a.weights_checksum() != b.weights_checksum()) {
    return absl::StrFormat("%s offers other first weights than %s", rank, other);
  }
  if (a.samples_per_epoch() != b.samples_per_epoch()) {
    return absl::StrFormat("%s says %d samples per epoch, %s says %d", rank, a.samples_per_epoch(),
                           other, b.samples_per_epoch());
  }
  if (a.total_steps() != b.total_steps()) {
    return absl::StrFormat("%s says %d steps, %s says %d", rank, a.total_steps(), other,
                           b.total_steps());
  }
  if (Named(a) != Named(b)) {
    return absl::StrFormat("%s names the optimizer %s, %s names %s", rank, Named(a), other,
                           Named(b));
  }
  if (a.says_rates() != b.says_rates()) {
    return absl::StrFormat("%s says the learning rate of each step, %s does not",
                           a.says_rates() ? rank : other, a.says_rates() ? other : rank);
  }
  if (a.can_resume() != b.can_resume()) {
    return absl::StrFormat("%s can go on from a checkpoint, %s cannot",
                           a.can_resume() ? rank : other, a.can_resume() ? other : rank);
  }
  if (a.samples_per_rank() != b.samples_per_rank()) {
    return absl::StrFormat("%s says %d samples in each step, %s says %d", rank,
                           a.samples_per_rank(), other, b.samples_per_rank());
  }
  if (a.marks_absent() != b.marks_absent()) {
    return absl::StrFormat("%s marks tensors without a gradient, %s does not",
                           a.marks_absent() ? rank : other, a.marks_absent() ? other : rank);
  }
  if (a.keeps_state() != b.keeps_state()) {
    return absl::StrFormat("%s keeps state of its own in checkpoints, %s does not",
                           a.keeps_state() ? rank : other, a.keeps_state() ? other : rank);
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Create(const proto::Launch& launch) {
  absl::StatusOr<UniqueFd> listener = ListenAt(launch.aggregator_socket());
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<RankGroup>(new RankGroup(launch, *std::move(listener)));
}

RankGroup::RankGroup(const proto::Launch& launch, UniqueFd listener)
    : launch_(launch),
      listener_(std::move(listener)),
      ranks_(launch.local_ranks()),
      left_(launch.local_ranks()),
      stopped_(launch.local_ranks()) {
  poll_.Add(listener_.get());
}

size_t RankGroup::Count(bool Rank::*what) const {
  return std::count_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.*what; });
}

absl::Status RankGroup::Receive() {
  for (int fd : poll_.Readable(0)) {
    if (fd == listener_.get()) {
      Accept();
      continue;
    }
    for (size_t i = 0; i < newcomers_.size(); ++i) {
      if (newcomers_[i]->fd() != fd) continue;
      if (absl::Status status = ReceiveAttach(i); !status.ok()) return status;
      break;
    }
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      if (!ranks_[r].channel || ranks_[r].channel->fd() != fd) continue;
      if (absl::Status status = ReceiveFrom(r); !status.ok()) return status;
      break;
    }
  }
  return absl::OkStatus();
}

void RankGroup::Accept() {
  while (true) {
    UniqueFd fd = AcceptFrom(listener_);
    if (!fd.valid()) return;
    poll_.Add(fd.get());
    newcomers_.push_back(std::make_unique<FramedChannel>(std::move(fd)));
    if (newcomers_.size() <= ranks_.size() - Count(&Rank::attached) + kStrangersMax) continue;
    newcomers_.erase(newcomers_.begin());
    ++refused_;
  }
}

absl::Status RankGroup::ReceiveAttach(size_t index) {
  proto::RankMessage message;
  absl::StatusOr<bool> received = newcomers_[index]->TryReceive(&message);
  if (received.ok() && !*received) return absl::OkStatus();
  std::unique_ptr<FramedChannel> channel = std::move(newcomers_[index]);
  newcomers_.erase(newcomers_.begin() + static_cast<ptrdiff_t>(index));
  if (!received.ok() || !message.has_attach()) {  // not a rank: closed
    ++refused_;
    return absl::OkStatus();
  }
  return OnAttach(std::move(channel), message.attach());
}

absl::Status RankGroup::OnAttach(std::unique_ptr<FramedChannel> channel,
                                 const proto::Attach& attach) {
  const uint32_t local_rank = attach.local_rank();
  std::string refusal;
  if (attach.protocol_version() != kProtocolVersion) {
    refusal = absl::StrFormat("the client library has protocol version %d, the aggregator %d",
                              attach.protocol_version(), kProtocolVersion);
  } else if (attach.token() != launch_.record().token()) {
    refusal = "not a rank of this job";
  } else if (local_rank >= ranks_.size() || ranks_[local_rank].attached) {
    refusal = absl::StrFormat("local rank %d of %d is taken or does not exist", local_rank,
                              ranks_.size());
  }
  if (!refusal.empty()) {
    ++refused_;
    if (SendDescriptors(channel->fd(), -1, -1).ok()) channel->Send(Stopped(refusal)).IgnoreError();
    return absl::OkStatus();
  }
  ranks_[local_rank].channel = std::move(channel);
  ranks_[local_rank].attached = true;
  if (absl::Status status = ValidateLayout(attach.layout()); !status.ok()) return status;
  if (absl::Status status = rows::TablesOf(attach.layout()).status(); !status.ok()) return status;
  if (!first_attached_) {
    first_attached_ = local_rank;
    layout_ = attach.layout();
    return absl::OkStatus();
  }
  return CheckSameLayout(IdOf(*first_attached_), layout_, IdOf(local_rank), attach.layout());
}

absl::Status RankGroup::ReceiveFrom(uint32_t local_rank) {
  Rank& rank = ranks_[local_rank];
  while (true) {
    proto::RankMessage message;
    absl::StatusOr<bool> received = rank.channel->TryReceive(&message);
    if (!received.ok()) {
      rank.channel.reset();
      if (released_) return absl::OkStatus();
      return Lose(local_rank);
    }
    if (!*received) return absl::OkStatus();
    if (message.has_offer() && !rank.offered) {
      if (absl::Status status = OnOffer(local_rank, message.offer()); !status.ok()) return status;
    } else if (message.has_leave()) {
      left_[local_rank] = message.leave().steps();
    } else if (message.has_stopped()) {
      stopped_[local_rank] = message.stopped();
    }
  }
}

absl::Status RankGroup::Lose(uint32_t local_rank) {
  lost_ = local_rank;
  return absl::UnavailableError(
      absl::StrFormat("rank %d is gone before it had finished", IdOf(local_rank).value()));
}

absl::Status RankGroup::OnOffer(uint32_t local_rank, const proto::Offer& offer) {
  ranks_[local_rank].offered = true;
  if (!first_offered_) {
    first_offered_ = local_rank;
    offer_ = offer;
    return absl::OkStatus();
  }
  if (!offer.nccl_id().empty()) offer_.set_nccl_id(offer.nccl_id());  // from local rank 0
  const std::string difference =
      Difference(absl::StrCat("rank ", IdOf(local_rank).value()), offer,
                 absl::StrCat("rank ", IdOf(*first_offered_).value()), offer_);
  return difference.empty() ? absl::OkStatus() : absl::InvalidArgumentError(difference);
}

absl::Status RankGroup::SendMemory(int memory, int doorbell) {
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (!SendDescriptors(ranks_[r].channel->fd(), memory, doorbell).ok()) return Lose(r);
    ranks_[r].has_memory = true;
  }
  return absl::OkStatus();
}

// A failed write shows when the rank is read from.
void RankGroup::SendAll(const proto::AggregatorMessage& message) {
  for (Rank& rank : ranks_) {
    if (rank.channel) rank.channel->Send(message).IgnoreError();
  }
}

void RankGroup::SendStarted(absl::Span<const proto::Started> started) {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    proto::AggregatorMessage message;
    *message.mutable_started() = started[r];
    if (ranks_[r].channel) ranks_[r].channel->Send(message).IgnoreError();
  }
}

void RankGroup::SendChange(const proto::ViewChange& change) {
  proto::AggregatorMessage message;
  *message.mutable_change_view() = change;
  SendAll(message);
}

void RankGroup::SendRing(uint32_t local_rank, const proto::RankRing& ring) {
  proto::AggregatorMessage message;
  *message.mutable_form_ring() = ring;
  Rank& rank = ranks_[local_rank];
  if (rank.channel) rank.channel->Send(message).IgnoreError();
}

void RankGroup::Release() {
  released_ = true;
  proto::AggregatorMessage message;
  message.mutable_released();
  SendAll(message);
}

bool RankGroup::all_gone() const {
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const Rank& rank) { return rank.channel != nullptr; });
}

void RankGroup::Stop(const std::string& reason) {
  for (Rank& rank : ranks_) {
    if (!rank.channel) continue;
    if (!rank.has_memory) SendDescriptors(rank.channel->fd(), -1, -1).IgnoreError();
    rank.has_memory = true;
  }
  SendAll(Stopped(reason));
}

}  // namespace strata::worker
