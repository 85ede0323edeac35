#include "worker/exchange/all_reduce/all_reduce_core.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/diverged.h"
#include "common/image/chunk_image.h"
#include "common/job/arena.h"
#include "common/job/connections.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/require.h"
#include "proto/record.pb.h"
#include "worker/exchange/all_reduce/peer_link.h"

namespace strata::worker {
namespace {

using Phase = ExchangeCore::Phase;
using wire::Op;

// Bytes of a connection that are not acknowledged. They are those of chunks under way, so they do
// not add to what a node holds.
constexpr uint64_t kInFlightBytesMax = 2 << 20;

std::vector<ChunkId> AllChunks(uint32_t chunks) {
  std::vector<ChunkId> ids;
  for (uint32_t c = 0; c < chunks; ++c) ids.push_back(ChunkId(c));
  return ids;
}

std::vector<ChunkReduction> MakeReductions(const ReductionRules& rules, const proto::Layout& layout,
                                           const ChunkMap& map) {
  std::vector<ChunkReduction> chunks;
  for (const ChunkId chunk : AllChunks(map.chunks())) {
    chunks.emplace_back(&rules, layout, map, chunk);
  }
  return chunks;
}

// How long a node that has all of its weights waits for a peer that has all of its own, too, but
// does not acknowledge the last message; and for one that is unreachable.
constexpr absl::Duration kLinger = absl::Seconds(5), kLeaveAfter = absl::Seconds(30);

std::vector<uint64_t> BeginsOf(const std::vector<ChunkReduction>& chunks) {
  std::vector<uint64_t> begins;
  for (const ChunkReduction& chunk : chunks) {
    if (chunk.own_begin()) begins.push_back(*chunk.own_begin());
  }
  return begins;
}

ReductionRules WithoutTrace(ReductionRules rules) {
  rules.trace = nullptr;
  return rules;
}

// A layout in which the chunk of that number has one element.
proto::Layout LayoutUpTo(ChunkId chunk) {
  proto::Layout layout;
  layout.set_elements(uint64_t{chunk.value()} + 1);
  proto::Segment* const segment = layout.add_segments();
  segment->add_shape(layout.elements());
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  return layout;
}

Bytes Zero() {
  const auto zero = std::make_shared<float>(0.0f);
  return AsBytes(zero, 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllReduceCore>> AllReduceCore::CreateWith(
    const CoreOptions& options, const kernels::Kernels& kernels, std::shared_ptr<BufferPool> pool) {
  if (absl::Status status = CheckRing(options.record, options.node); !status.ok()) return status;
  if (absl::Status status = ValidateLayout(options.record.layout()); !status.ok()) return status;
  const ChunkMap map(options.record.layout().elements(),
                     options.record.placement().chunk_elements());
  const uint32_t position = RingPosition(RingNodes(options.record), options.node);
  return std::unique_ptr<AllReduceCore>(
      new AllReduceCore(options, map, kernels, position, std::move(pool)));
}

absl::StatusOr<std::unique_ptr<AllReduceCore>> AllReduceCore::Create(
    const CoreOptions& options, const kernels::Kernels& kernels, const NodeResume* resume) {
  auto core =
      CreateWith(options, kernels,
                 std::make_shared<BufferPool>(BufferPool::kRetainedBytesMax, options.memory));
  if (!core.ok() || resume == nullptr) return core;
  if (absl::Status status = (*core)->GoOn(*resume); !status.ok()) return status;
  return core;
}

absl::StatusOr<std::unique_ptr<AllReduceCore>> AllReduceCore::CreateAfter(
    const CoreOptions& options, const kernels::Kernels& kernels, RingBegin begin) {
  auto core = CreateWith(options, kernels, begin.pool);
  if (!core.ok()) return core;
  for (ChunkReduction& chunk : (*core)->chunks_) chunk.StartAt(begin.clock);
  (*core)->begin_ = std::move(begin);
  return core;
}

AllReduceCore::AllReduceCore(const CoreOptions& options, ChunkMap map,
                             const kernels::Kernels& kernels, uint32_t position,
                             std::shared_ptr<BufferPool> pool)
    : options_(options),
      map_(map),
      pool_(std::move(pool)),
      rules_(ReductionRules::Of(options.record, kernels, pool_.get(), position, options.trace)),
      connections_(ConnectionsFor(options.record.job(), map.chunks())),
      chunks_(MakeReductions(rules_, options.record.layout(), map)),
      checkpoints_(options.record, chunks_),
      cut_memory_(pool_->RetainMore(checkpoints_.CutBytes(rules_.update.optimizer.kind))),
      window_(AllChunks(map.chunks()), std::max<uint32_t>(2, options.record.job().window()),
              options.reserve) {
  if (DropsLost(options.record.job())) barrier_.emplace(rules_, ChunkId(map.chunks()));
  const std::vector<RingNode> nodes = RingNodes(options.record);
  LinkIdentity identity = MakeIdentity(options);
  for (const uint32_t peer : rules_.plan.Peers()) {
    for (uint32_t i = 0; i < connections_; ++i) {
      identity.hello.connection = i;
      peers_.push_back({.position = peer,
                        .link = PeerLink({.link = LinkId(static_cast<uint32_t>(peers_.size())),
                                          .peer = nodes[peer].node.value(),
                                          .address = nodes[peer].endpoint,
                                          .connects = position < peer,
                                          .identity = identity,
                                          .timing = options.timing,
                                          .in_flight_bytes_max = kInFlightBytesMax}),
                        .made = std::nullopt,
                        .retired = false});
    }
  }
}

AllReduceCore::Peer* AllReduceCore::Find(transport::ConnectionId connection) {
  for (Peer& peer : peers_) {
    if (peer.link.Owns(connection)) return &peer;
  }
  return nullptr;
}

AllReduceCore::Peer* AllReduceCore::At(uint32_t position, ChunkId chunk) {
  const auto first = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const Peer& peer) { return peer.position == position; });
  STRATA_REQUIRE(first != peers_.end());
  return &first[ConnectionOf(chunk.value(), connections_)];
}

absl::Status AllReduceCore::Fail(const absl::Status& status, bool by_peer, WireActions* actions) {
  if (status.ok() || failed_) return status;
  failed_ = true;
  const absl::Status named = by_peer ? status : worker::NamedBy(options_.node, status);
  for (Peer& peer : peers_) peer.link.SendError(named, actions);
  return named;
}

absl::Status AllReduceCore::GoOn(const NodeResume& resume) {
  for (const ChunkId id : AllChunks(map_.chunks())) {
    absl::StatusOr<Bytes> weights =
        GoOnFrom(resume.slices, first_clock(), map_, id, &chunks_[id.value()]);
    if (!weights.ok()) {
      return absl::Status(
          weights.status().code(),
          absl::StrCat("the checkpoint's chunk ", id.value(), ": ", weights.status().message()));
    }
    resumed_.push_back(*std::move(weights));
  }
  return absl::OkStatus();
}

// All nodes of a job that resumes have the same weights, which they compare as if each had made
// them.
absl::Status AllReduceCore::Start(absl::Time now, CoreActions* actions) {
  for (Peer& peer : peers_) peer.link.Start(now, &actions->wire);
  if (begin_) {
    StartAfter(now, actions);
    return absl::OkStatus();
  }
  const bool goes_on = !resumed_.empty();
  first_.emplace(map_, peers_.size(), !goes_on && options_.record.takes_first_weights());
  if (goes_on) {
    for (const ChunkId chunk : AllChunks(map_.chunks())) {
      const Bytes weights = std::exchange(resumed_[chunk.value()], Bytes());
      actions->node.push_back(
          {.kind = NodeAction::Kind::kDeliverFirst, .chunk = chunk, .weights = weights});
      AddFirst(chunk, weights, nullptr, now, actions);
    }
    return absl::OkStatus();
  }
  if (TakesFirstWeights(options_.record, options_.node)) return absl::OkStatus();
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    actions->node.push_back({.kind = NodeAction::Kind::kFirstWeights, .chunk = ChunkId(c)});
  }
  return absl::OkStatus();
}

// Means keep no state between clocks, so any first weights will do.
void AllReduceCore::StartAfter(absl::Time now, CoreActions* actions) {
  first_.emplace(map_, peers_.size(), begin_->some_lack);
  if (!begin_->some_lack) {
    const uint32_t count = map_.ElementsOf(ChunkId(0));
    const std::shared_ptr<float> zeros = pool_->AllocateFloats(count);
    std::fill_n(zeros.get(), count, 0.0f);
    for (const ChunkId chunk : AllChunks(map_.chunks())) {
      chunks_[chunk.value()].Seed(AsBytes(zeros, map_.ElementsOf(chunk)));
    }
    phase_ = Phase::kTraining;
    return;
  }
  const std::vector<Bytes> means = std::move(begin_->means);
  for (uint32_t c = 0; c < means.size(); ++c) AddFirst(ChunkId(c), means[c], nullptr, now, actions);
}

void AllReduceCore::AddFirst(ChunkId chunk, const Bytes& weights, const Peer* from, absl::Time now,
                             CoreActions* actions) {
  first_->Add(chunk, weights);
  if (resumed_.empty()) chunks_[chunk.value()].Seed(weights);
  if (first_->are_of_rank_0()) {
    const FirstWeights::Message message = first_->First(chunk, weights);
    for (const uint32_t position : rules_.plan.Peers()) {
      if (from != nullptr && position == from->position) continue;
      At(position, chunk)->link.Send(message.header, message.payload, now, &actions->wire);
    }
  } else if (chunk.value() + 1 == map_.chunks()) {
    for (const FirstWeights::Message& message : first_->Seeds()) {
      for (Peer& peer : peers_) {
        peer.link.Send(message.header, message.payload, now, &actions->wire);
      }
    }
  }
  MaybeTrain();
}

void AllReduceCore::MaybeTrain() {
  if (phase_ == Phase::kSeeding && first_->settled()) phase_ = Phase::kTraining;
}

absl::Status AllReduceCore::OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                                      absl::Time now, CoreActions* actions) {
  if (asked.kind == NodeAction::Kind::kFirstWeights) {
    AddFirst(asked.chunk, payload, nullptr, now, actions);
    return absl::OkStatus();
  }
  if (!rules_.kernels->all_finite(payload.floats(), payload.float_count())) {
    return Fail(
        DivergedError(absl::StrFormat("chunk %d at clock %d: the sum of the gradients has NaN or "
                                      "infinity",
                                      asked.chunk.value(), asked.clock)),
        false, &actions->wire);
  }
  ++counters_.pushes;
  checkpoints_.CutIfDue(asked.chunk);
  ReductionActions what;
  absl::Status status = chunks_[asked.chunk.value()].Begin(std::move(payload), step, &what);
  status.Update(Do(asked.chunk, what, now, actions));
  return Fail(status, false, &actions->wire);
}

absl::Status AllReduceCore::Submit(ChunkId chunk, absl::Time, CoreActions* actions) {
  for (const Peer& peer : peers_) {
    if (peer.made && *peer.made <= chunks_[chunk.value()].clock()) {
      return Fail(HasFinished(peer), false, &actions->wire);
    }
  }
  makes_ = std::max(makes_, chunks_[chunk.value()].clock() + 1);
  window_.Ready(chunk);
  Push(actions);
  return absl::OkStatus();
}

void AllReduceCore::Push(CoreActions* actions) {
  while (std::optional<ChunkId> chunk = window_.Next()) {
    actions->node.push_back({.kind = NodeAction::Kind::kSum,
                             .chunk = *chunk,
                             .clock = chunks_[chunk->value()].clock()});
  }
}

void AllReduceCore::Send(ChunkId chunk, const ReductionActions& what, absl::Time now,
                         CoreActions* actions) {
  for (const ReductionActions::Send& send : what.sends) {
    At(send.peer, chunk)->link.Send(send.header, send.payload, now, &actions->wire);
  }
  CountBytes();
}

// Performs a chunk's actions.
absl::Status AllReduceCore::Do(ChunkId chunk, const ReductionActions& what, absl::Time now,
                               CoreActions* actions) {
  Send(chunk, what, now, actions);
  for (size_t i = 0; i < what.deliveries.size(); ++i) {
    const ReductionActions::Delivery& delivery = what.deliveries[i];
    const bool lands = what.landed && i + 1 == what.deliveries.size();
    actions->node.push_back({.kind = NodeAction::Kind::kDeliver,
                             .chunk = chunk,
                             .clock = chunks_[chunk.value()].clock() - (what.landed ? 1 : 0),
                             .first_element = delivery.first_element,
                             .lands = lands,
                             .weights = delivery.weights,
                             .delta = delivery.delta});
  }
  if (!what.landed) return absl::OkStatus();
  ++counters_.staleness[0];
  window_.Answered(chunk);
  Push(actions);
  return MaybeRetire(now, actions);
}

absl::Status AllReduceCore::OnLinkEvent(const LinkEvent& event, absl::Time now,
                                        CoreActions* actions) {
  switch (event.kind) {
    case LinkEvent::Kind::kStart:
      return Start(now, actions);
    case LinkEvent::Kind::kFrame:
      return OnFrame(event.connection, *event.frame, now, actions);
    case LinkEvent::Kind::kTime:
      return OnTime(now, &actions->wire);
    case LinkEvent::Kind::kConnected:
      peers_[event.link.value()].link.OnConnected(event.connection, now, &actions->wire);
      break;
    case LinkEvent::Kind::kConnectFailed:
      peers_[event.link.value()].link.OnLost(event.why, now, &actions->wire);
      break;
    case LinkEvent::Kind::kLost:
      if (Peer* peer = Find(event.connection)) peer->link.OnLost(event.why, now, &actions->wire);
      break;
    case LinkEvent::Kind::kQueueFull:
      if (Peer* peer = Find(event.connection)) peer->link.OnSendQueueFull(now);
      break;
  }
  return absl::OkStatus();
}

absl::Status AllReduceCore::OnFrame(transport::ConnectionId connection, const wire::Frame& frame,
                                    absl::Time now, CoreActions* actions) {
  Peer* peer = Find(connection);
  if (peer == nullptr || frame.header.op == Op::kHello) {
    return OnStranger(connection, frame, now, actions);
  }
  if (frame.header.node != peer->link.options().peer ||
      frame.header.job != options_.record.job_id()) {
    ++refused_;
    peer->link.OnLost(absl::InvalidArgumentError("a frame of another node or job"), now,
                      &actions->wire);
    return absl::OkStatus();
  }
  const bool was_up = peer->link.is_up();
  absl::StatusOr<bool> next = peer->link.OnFrame(frame, now, &actions->wire);
  if (!next.ok())
    return Fail(next.status(), was_up && frame.header.op == Op::kError, &actions->wire);
  const absl::Status status = *next ? Take(peer, frame, now, actions) : absl::OkStatus();
  MaybeFinish(now);
  return Fail(status, false, &actions->wire);
}

absl::Status AllReduceCore::Take(Peer* peer, const wire::Frame& frame, absl::Time now,
                                 CoreActions* actions) {
  if (frame.header.op == Op::kRetire) return OnRetire(peer, frame.header.clock);
  if (frame.header.op == Op::kSeed) {
    const absl::Status same = first_->OnSeed(peer - peers_.data(), peer->link.Name(), frame);
    MaybeTrain();
    return same;
  }
  if (frame.header.op == Op::kFirst) {
    const absl::StatusOr<bool> is_new = first_->OnFirst(peer->link.Name(), frame);
    if (!is_new.ok() || !*is_new) return is_new.status();
    actions->node.push_back({.kind = NodeAction::Kind::kDeliverFirst,
                             .chunk = ChunkId(frame.header.chunk),
                             .weights = frame.payload});
    AddFirst(ChunkId(frame.header.chunk), frame.payload, peer, now, actions);
    return absl::OkStatus();
  }
  const ChunkId chunk(frame.header.chunk);
  if (barrier_ && chunk == barrier_->chunk()) return OnBarrier(peer, frame, now, actions);
  if (chunk.value() >= chunks_.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %s of %d chunks", peer->link.Name(), wire::Describe(frame.header), chunks_.size()));
  }
  ReductionActions what;
  absl::Status status =
      NamedBy(*peer, chunks_[chunk.value()].OnFrame(peer->position, frame, &what));
  status.Update(Do(chunk, what, now, actions));
  return status;
}

absl::Status AllReduceCore::NamedBy(const Peer& peer, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(peer.link.Name(), ": ", std::string(status.message())));
}

absl::Status AllReduceCore::OnTime(absl::Time now, WireActions* actions) {
  for (Peer& peer : peers_) {
    const absl::Status status = peer.link.OnTime(now, actions);
    if (!status.ok()) return Fail(status, false, actions);
  }
  MaybeFinish(now);
  CountBytes();
  return absl::OkStatus();
}

absl::Time AllReduceCore::deadline() const {
  absl::Time due = finished_at();
  for (const Peer& peer : peers_) due = std::min(due, peer.link.deadline());
  return due;
}

void AllReduceCore::CountBytes() {
  counters_.bytes_pushed = counters_.bytes_answered = 0;
  for (const Peer& peer : peers_) {
    counters_.bytes_pushed += peer.link.bytes_sent(Op::kReduce);
    counters_.bytes_answered += peer.link.bytes_sent(Op::kGather);
  }
}

// The first frame of a connection made by a peer, or another HELLO.
absl::Status AllReduceCore::OnStranger(transport::ConnectionId connection, const wire::Frame& frame,
                                       absl::Time now, CoreActions* actions) {
  const LinkIdentity self = MakeIdentity(options_);
  uint32_t number = 0;
  wire::ErrorCode error = CheckPeerHello(self, frame, &number);
  if (error == wire::ErrorCode::kNone) {
    error = wire::ErrorCode::kWrongRole;
    for (Peer& peer : peers_) {
      if (peer.link.options().peer != frame.header.node || peer.link.options().connects) continue;
      error = wire::ErrorCode::kWrongConnection;
      if (peer.link.options().identity.hello.connection != number) continue;
      // Otherwise the end of one connection would be the end of several links, and only one would
      // be told.
      const Peer* bound = Find(connection);
      if (bound != nullptr && bound != &peer) break;
      return Fail(peer.link.OnHello(connection, frame.header, now, &actions->wire), false,
                  &actions->wire);
    }
  }
  // Nodes learn of a new ring one after the other: the peer tries again.
  const bool comes_again = error == wire::ErrorCode::kWrongView && DropsLost(options_.record.job());
  if (!comes_again) ++refused_;
  actions->wire.push_back(
      {.kind = WireAction::Kind::kSend,
       .link = LinkId(),
       .connection = connection,
       .frame = MakeRefusal(self, comes_again ? Op::kRetry : Op::kError, error)});
  return absl::OkStatus();
}

void AllReduceCore::Close(WireActions* actions) {
  for (Peer& peer : peers_) peer.link.Close(actions);
}

void AllReduceCore::AddActivity(absl::Time now, proto::NodeActivity* activity) const {
  activity->set_refused(activity->refused() + refused_);
  for (size_t first = 0; first < peers_.size(); first += connections_) {
    const PeerLink& link = peers_[first].link;
    if (!link.options().connects) continue;  // the connecting side reports it
    LinkActivity sum = link.Activity(now);
    for (size_t i = 1; i < connections_; ++i) sum.Add(peers_[first + i].link.Activity(now));
    proto::ShardActivity* out = activity->add_shards();
    out->set_address(link.options().address);
    out->set_connected(sum.connected);
    out->set_oldest_ms(absl::ToInt64Milliseconds(sum.down_for));
    out->set_error(sum.error);
  }
}

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

// A peer that has retired has received all of this node's frames but the last; whether it got that
// one cannot be known for certain.
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

SliceCheckpoints::SliceCheckpoints(const proto::JobRecord& record,
                                   const std::vector<ChunkReduction>& chunks)
    : chunks_(chunks),
      clocks_per_cut_(ClocksPerCheckpoint(record.job())),
      first_clock_(record.resume().clock()),
      cuts_(BeginsOf(chunks)) {
  size_t slices = 0;
  for (const ChunkReduction& chunk : chunks_) {
    index_.push_back(chunk.own_begin() ? std::optional(slices++) : std::nullopt);
  }
  has_slices_ = slices > 0;
}

void SliceCheckpoints::CutIfDue(ChunkId id) {
  const ChunkReduction& chunk = chunks_[id.value()];
  const uint64_t clock = chunk.clock();
  if (clocks_per_cut_ == 0 || clock <= first_clock_ || clock % clocks_per_cut_ != 0) return;
  if (index_[id.value()]) cuts_.Add(*index_[id.value()], clock, *chunk.Image());
  if (!has_slices_ && id == ChunkId(0)) empty_.push_back({.clock = clock});
}

uint64_t SliceCheckpoints::CutBytes(OptimizerKind kind) const {
  if (clocks_per_cut_ == 0) return 0;
  uint64_t elements = 0;
  for (const ChunkReduction& chunk : chunks_) elements += chunk.own_elements();
  return elements * sizeof(float) * (1 + StateVectors(kind));
}

std::vector<Cut<ChunkImage>> SliceCheckpoints::Take() {
  return has_slices_ ? cuts_.Take() : std::exchange(empty_, {});
}

absl::StatusOr<Bytes> GoOnFrom(absl::Span<const ChunkImage> slices, uint64_t clock,
                               const ChunkMap& map, ChunkId id, ChunkReduction* chunk) {
  std::optional<ChunkImage> own;
  if (chunk->own_begin()) {
    absl::StatusOr<ChunkImage> joined =
        JoinImages(slices, *chunk->own_begin(), chunk->own_elements());
    if (!joined.ok()) return joined.status();
    own = *std::move(joined);
  }
  if (absl::Status status = chunk->Restore(own, clock); !status.ok()) return status;
  absl::StatusOr<ChunkImage> all = JoinImages(slices, map.OffsetOf(id), map.ElementsOf(id));
  if (!all.ok()) return all.status();
  // If weights travel encoded, nodes have the decoded ones.
  return all->copy.empty() ? all->weights.weights : all->copy;
}

RingBarrier::RingBarrier(const ReductionRules& rules, ChunkId chunk)
    : chunk_(chunk),
      rules_(WithoutTrace(rules)),
      word_(&rules_, LayoutUpTo(chunk), ChunkMap(uint64_t{chunk.value()} + 1, 1), chunk) {
  word_.Seed(Zero());
}

void RingBarrier::StartAt(uint64_t clock) {
  if (!std::exchange(is_started_, true)) word_.StartAt(clock);
}

absl::Status RingBarrier::Enter(uint64_t clocks, ReductionActions* actions) {
  STRATA_REQUIRE(!is_entered_);
  StartAt(clocks);
  is_entered_ = true;
  const absl::Status status = word_.Begin(Zero(), {}, actions);
  is_passed_ = actions->landed;
  return status;
}

absl::Status RingBarrier::OnFrame(uint32_t peer, const wire::Frame& frame,
                                  ReductionActions* actions) {
  StartAt(frame.header.clock);
  const absl::Status status = word_.OnFrame(peer, frame, actions);
  is_passed_ = is_passed_ || actions->landed;
  return status;
}

}  // namespace strata::worker
