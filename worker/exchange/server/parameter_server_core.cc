#include "worker/exchange/server/parameter_server_core.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/diverged.h"
#include "common/job/arena.h"
#include "common/job/connections.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/placement.h"
#include "common/job/views.h"
#include "common/require.h"
#include "numerics/encoder.h"
#include "proto/record.pb.h"

namespace strata::worker {
namespace {

using Phase = ExchangeCore::Phase;
using wire::Op;

// In `received`: the chunk has no first weights yet.
constexpr uint64_t kUnseeded = UINT64_MAX;
// The clock of a question for no clock: its answer matches no other question.
constexpr uint64_t kNoClock = UINT64_MAX;

bool MayDiffer(const proto::Consistency& consistency) {
  const proto::Lazy& lazy = consistency.lazy();
  return consistency.has_async() || lazy.apply() == proto::Lazy::ON_ARRIVAL || lazy.has_quorum();
}

// Checks that a record places every chunk. Errors: InvalidArgument naming the field.
absl::Status CheckPlacement(const proto::JobRecord& record) {
  const proto::Placement& placement = record.placement();
  if (record.layout().elements() == 0) return absl::InvalidArgumentError("layout is empty");
  if (placement.chunk_elements() == 0) {
    return absl::InvalidArgumentError("placement.chunk_elements is 0");
  }
  if (placement.shard_endpoints().empty()) {
    return absl::InvalidArgumentError("placement.shard_endpoints is empty");
  }
  const uint32_t chunks = ChunkMap(record.layout().elements(), placement.chunk_elements()).chunks();
  if (static_cast<uint32_t>(placement.shard_of_chunk_size()) != chunks) {
    return absl::InvalidArgumentError(
        absl::StrFormat("placement.shard_of_chunk has %d entries for %d chunks",
                        placement.shard_of_chunk_size(), chunks));
  }
  for (uint32_t shard : placement.shard_of_chunk()) {
    if (shard >= static_cast<uint32_t>(placement.shard_endpoints_size())) {
      return absl::InvalidArgumentError(
          absl::StrFormat("placement.shard_of_chunk names shard %d of %d", shard,
                          placement.shard_endpoints_size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterServerCore>> ParameterServerCore::Create(
    const CoreOptions& options, const kernels::Kernels& kernels) {
  if (absl::Status status = CheckPlacement(options.record); !status.ok()) return status;
  ChunkMap map(options.record.layout().elements(), options.record.placement().chunk_elements());
  const auto from =
      options.takes_payloads ? PushEncoder::From::kPayloads : PushEncoder::From::kSums;
  auto encoder = PushEncoder::Create(options.record, options.node, map, kernels, from);
  if (!encoder.ok()) return encoder.status();
  const absl::StatusOr<Views> views = Views::Of(options.record);
  if (!views.ok()) return views.status();
  auto core = absl::WrapUnique(new ParameterServerCore(options, map, kernels, *std::move(encoder)));
  core->leaves_at_ = views->LeavesAt(options.node);
  return core;
}

ParameterServerCore::ParameterServerCore(const CoreOptions& options, ChunkMap map,
                                         const kernels::Kernels& kernels,
                                         std::unique_ptr<PushEncoder> encoder)
    : options_(options),
      map_(map),
      kernels_(kernels),
      encoder_(std::move(encoder)),
      answer_codec_(numerics::WireCodec(options.record.job().pull())),
      window_(std::max<uint32_t>(1, options.record.job().window())),
      has_quorum_(options.record.job().consistency().lazy().has_quorum()),
      takes_first_weights_(TakesFirstWeights(options.record, options.node)),
      rejoins_(Rejoins(options.record, options.node, options.incarnation)),
      chunks_(map.chunks()) {
  const proto::Placement& placement = options.record.placement();
  std::vector<std::vector<ChunkId>> held(placement.shard_endpoints_size());
  for (uint32_t c = 0; c < map.chunks(); ++c) {
    chunks_[c].shard = placement.shard_of_chunk(c);
    held[chunks_[c].shard].push_back(ChunkId(c));
  }
  for (uint32_t s = 0; s < held.size(); ++s) {
    const uint32_t connections = ConnectionsFor(options.record.job(), held[s].size());
    for (size_t i = 0; i < held[s].size(); ++i) {
      chunks_[held[s][i].value()].link = ConnectionOf(i, connections);
    }
    std::vector<ShardLink> links;
    LinkIdentity identity = MakeIdentity(options);
    identity.generation = ShardGeneration(placement, ShardId(s));
    identity.hello.shard = s;
    for (uint32_t i = 0; i < connections; ++i) {
      identity.hello.connection = i;
      const LinkId id(i * static_cast<uint32_t>(held.size()) + s);
      links.emplace_back(id, placement.shard_endpoints(s), identity, options.timing,
                         /*may_move=*/true);
    }
    shards_.push_back({std::move(links), held[s], PushWindow(held[s], window_, options.reserve)});
  }
}

ParameterServerCore::LinkOwner ParameterServerCore::Find(transport::ConnectionId connection) {
  for (Shard& shard : shards_) {
    for (ShardLink& link : shard.links) {
      if (link.Owns(connection)) return {&shard, &link};
    }
  }
  return {};
}

// Shards that hold no chunk of the job are left alone.
absl::Status ParameterServerCore::Start(absl::Time now, CoreActions* actions) {
  for (Shard& shard : shards_) {
    if (shard.chunks.empty()) {
      ++settled_;
      continue;
    }
    for (ShardLink& link : shard.links) link.Start(now, &actions->wire);
    rejoins_ ? Pull(&shard, now, actions) : Seed(&shard, now, actions);
  }
  return absl::OkStatus();
}

void ParameterServerCore::Seed(Shard* shard, absl::Time now, CoreActions* actions) {
  while (shard->next < shard->chunks.size() && shard->next - shard->confirmed < window_) {
    OfferOrAsk(shard->chunks[shard->next++], now, actions);
  }
}

void ParameterServerCore::OfferOrAsk(ChunkId chunk, absl::Time now, CoreActions* actions) {
  if (!takes_first_weights_) {
    return actions->node.push_back({.kind = NodeAction::Kind::kFirstWeights, .chunk = chunk});
  }
  wire::Header header;
  header.op = Op::kInit;
  header.flags = wire::kFlagEmpty;
  header.chunk = chunk.value();
  LinkTo(chunks_[chunk.value()])->Ask(header, Bytes(), now, &actions->wire);
}

absl::Status ParameterServerCore::Submit(ChunkId chunk, absl::Time now, CoreActions* actions) {
  Chunk& state = chunks_[chunk.value()];
  if (has_quorum_) state.base = JoinRound(state.submitted);
  ++state.submitted;
  Shard& shard = shards_[state.shard];
  shard.window.Ready(chunk);
  Push(&shard, actions);
  return absl::OkStatus();
}

uint64_t ParameterServerCore::JoinRound(uint64_t step) {
  if (step < steps_begun_) return round_;
  steps_begun_ = step + 1;
  round_ = chunks_[0].version;
  for (const Chunk& chunk : chunks_) {
    round_ = chunk.received > step ? 0 : std::min(round_, chunk.version);
  }
  return round_;
}

void ParameterServerCore::Push(Shard* shard, CoreActions* actions) {
  while (std::optional<ChunkId> chunk = shard->window.Next()) {
    actions->node.push_back({.kind = NodeAction::Kind::kSum,
                             .chunk = *chunk,
                             .clock = chunks_[chunk->value()].submitted - 1});
  }
}

absl::Status ParameterServerCore::OnPayload(const NodeAction& asked, Bytes payload,
                                            const StepFacts& step, absl::Time now,
                                            CoreActions* actions) {
  const Chunk& chunk = chunks_[asked.chunk.value()];
  wire::Header header;
  header.chunk = asked.chunk.value();
  header.element_count = map_.ElementsOf(asked.chunk);
  if (asked.kind == NodeAction::Kind::kFirstWeights) {
    header.op = Op::kInit;
  } else {
    header.op = Op::kPushPull;
    header.clock = asked.clock;
    header.base_version = has_quorum_ ? chunk.base : chunk.version;
    header.sample_count = step.samples;
    header.rate = step.rate;
    absl::StatusOr<PushEncoder::Encoded> encoded =
        encoder_->Encode(asked.chunk, payload, step.samples);
    if (!encoded.ok()) {
      return NamedBy(options_.node,
                     Prefixed(absl::StrFormat("chunk %d at clock %d: sum of the gradients: ",
                                              asked.chunk.value(), asked.clock),
                              encoded.status()));
    }
    header.codec = encoded->codec;
    payload = std::move(encoded->payload);
    ++counters_.pushes;
  }
  LinkTo(chunk)->Ask(header, std::move(payload), now, &actions->wire);
  CountBytes();
  return absl::OkStatus();
}

absl::Status ParameterServerCore::Finish(uint64_t clocks, absl::Time now, CoreActions* actions) {
  phase_ = Phase::kFinishing;
  clocks_ = clocks;
  settled_ = 0;
  for (Shard& shard : shards_) {
    if (shard.chunks.empty()) {
      ++settled_;
    } else {
      MaybeRetire(&shard, now, actions);
    }
  }
  return absl::OkStatus();
}

// Retires once every push has been answered: a shard must not discount a node that still has
// messages to send.
void ParameterServerCore::MaybeRetire(Shard* shard, absl::Time now, CoreActions* actions) {
  if (phase_ != Phase::kFinishing || shard->retiring) return;
  for (ChunkId chunk : shard->chunks) {
    if (chunks_[chunk.value()].answered < clocks_) return;
  }
  shard->retiring = true;
  wire::Header header;
  header.op = Op::kRetire;
  header.clock = clocks_;
  // Nothing is in flight on the other links.
  shard->links[0].Ask(header, Bytes(), now, &actions->wire);
}

absl::Status ParameterServerCore::OnLinkEvent(const LinkEvent& event, absl::Time now,
                                              CoreActions* actions) {
  switch (event.kind) {
    case LinkEvent::Kind::kStart:
      return Start(now, actions);
    case LinkEvent::Kind::kFrame:
      return OnFrame(event.connection, *event.frame, now, actions);
    case LinkEvent::Kind::kTime:
      return OnTime(now, &actions->wire);
    case LinkEvent::Kind::kConnected:
      LinkTo(event.link)->OnConnected(event.connection, now, &actions->wire);
      break;
    case LinkEvent::Kind::kConnectFailed:
      LinkTo(event.link)->OnLost(event.why, now, &actions->wire);
      break;
    case LinkEvent::Kind::kLost:
      if (ShardLink* link = Find(event.connection).link) {
        link->OnLost(event.why, now, &actions->wire);
      }
      break;
    case LinkEvent::Kind::kQueueFull:
      if (ShardLink* link = Find(event.connection).link) {
        link->OnSendQueueFull(event.frame->header, now);
      }
      break;
  }
  return absl::OkStatus();
}

absl::Status ParameterServerCore::OnFrame(transport::ConnectionId connection,
                                          const wire::Frame& frame, absl::Time now,
                                          CoreActions* actions) {
  const auto [shard, link] = Find(connection);
  if (link == nullptr || IsForStaleCopy(frame.header)) return absl::OkStatus();
  absl::StatusOr<std::optional<wire::Header>> asked = link->OnFrame(frame, now, &actions->wire);
  if (!asked.ok()) return NamedBy(options_.node, asked.status());
  absl::Status status = absl::OkStatus();
  if (asked->has_value()) status = OnAnswer(shard, **asked, frame, now, actions);
  CountBytes();
  return NamedBy(options_.node, status);
}

// The node has received its whole weights meanwhile; the answer that it waits for comes when it
// repeats the request.
bool ParameterServerCore::IsForStaleCopy(const wire::Header& answer) const {
  return answer.op == Op::kAnswer && answer.codec != wire::Codec::kNone &&
         answer.chunk < chunks_.size() && answer.base_version != chunks_[answer.chunk].copy;
}

absl::Status ParameterServerCore::OnAnswer(Shard* shard, const wire::Header& asked,
                                           const wire::Frame& frame, absl::Time now,
                                           CoreActions* actions) {
  const bool is_empty = ((asked.flags | frame.header.flags) & wire::kFlagEmpty) != 0;
  const bool has_weights = asked.op == Op::kPushPull || asked.op == Op::kCut ||
                           (asked.op == Op::kInit && takes_first_weights_) ||
                           (asked.op == Op::kPull && !is_empty);
  const uint32_t elements = has_weights ? map_.ElementsOf(ChunkId(asked.chunk)) : 0;
  if (has_weights && frame.header.element_count != elements) {
    return absl::InternalError(absl::StrFormat(
        "server %s answered chunk %d at clock %d with %d elements instead of %d",
        shard->links[0].address(), asked.chunk, asked.clock, frame.header.element_count, elements));
  }
  switch (asked.op) {
    case Op::kInit:
      if (!rejoins_) return OnInitOk(shard, frame, now, actions);
      PullOf(ChunkId(asked.chunk), now, actions);
      break;
    case Op::kPull:
      return OnPulled(shard, asked, frame, now, actions);
    case Op::kPushPull:
      return OnPushAnswer(shard, asked, frame, now, actions);
    case Op::kRetire:
      // Final weights exist once all nodes have retired, and it does not wait for these.
      if (leaves_at_ == clocks_) {
        OnShardDone(actions);
        break;
      }
      shard->next = shard->confirmed = 0;
      Cut(shard, now, actions);
      break;
    default:
      OnCutAnswer(shard, frame, now, actions);
      break;
  }
  return absl::OkStatus();
}

absl::Status ParameterServerCore::OnInitOk(Shard* shard, const wire::Frame& frame, absl::Time now,
                                           CoreActions* actions) {
  Chunk& chunk = chunks_[frame.header.chunk];
  chunk.version = frame.header.version;
  if (options_.record.has_resume()) chunk.received = frame.header.received;
  if (takes_first_weights_) {
    actions->node.push_back({.kind = NodeAction::Kind::kDeliverFirst,
                             .chunk = ChunkId(frame.header.chunk),
                             .weights = frame.payload});
  }
  ++shard->confirmed;
  Seed(shard, now, actions);
  if (shard->confirmed < shard->chunks.size() || ++settled_ < shards_.size()) {
    return absl::OkStatus();
  }
  phase_ = Phase::kTraining;
  return options_.record.has_resume() ? ResumeClocks() : absl::OkStatus();
}

absl::Status ParameterServerCore::ResumeClocks() {
  std::vector<uint64_t> received;
  for (const Chunk& chunk : chunks_) received.push_back(chunk.received);
  const absl::StatusOr<uint64_t> clock = FindResumeClock(options_.record, received);
  if (!clock.ok()) return clock.status();
  first_clock_ = *clock;
  for (Chunk& chunk : chunks_) chunk.submitted = chunk.answered = first_clock_;
  return absl::OkStatus();
}

absl::Status ParameterServerCore::OnPushAnswer(Shard* shard, const wire::Header& asked,
                                               const wire::Frame& frame, absl::Time now,
                                               CoreActions* actions) {
  const ChunkId id(asked.chunk);
  Chunk& chunk = chunks_[asked.chunk];
  const wire::Codec codec = frame.header.codec;
  absl::StatusOr<numerics::CheckedPayload> delta =
      absl::InvalidArgumentError(absl::StrCat("a payload of ", wire::ToString(codec)));
  const bool is_whole = codec == wire::Codec::kNone;
  if (!is_whole && codec == answer_codec_) {
    delta = numerics::CheckedPayload::Check(
        kernels_, codec, map_.ElementsOf(id),
        absl::MakeConstSpan(frame.payload.data(), frame.payload.size()));
  }
  if (!is_whole && !delta.ok()) {
    return absl::InternalError(absl::StrFormat("server %s answered chunk %d at clock %d with %s",
                                               shard->links[0].address(), asked.chunk, asked.clock,
                                               std::string(delta.status().message())));
  }
  ++chunk.answered;
  chunk.version = frame.header.version;
  chunk.received = frame.header.received;
  chunk.copy = frame.header.base_version + (is_whole ? 0 : 1);
  counters_.bytes_answered += wire::kHeaderBytes + frame.payload.size();
  ++counters_.staleness[std::min<size_t>(frame.header.staleness, kStalenessBins - 1)];
  actions->node.push_back({.kind = NodeAction::Kind::kDeliver,
                           .chunk = id,
                           .clock = asked.clock,
                           .lands = true,
                           .weights = frame.payload,
                           .delta = is_whole ? std::nullopt : std::optional(*delta)});
  shard->window.Answered(id);
  Push(shard, actions);
  MaybeRetire(shard, now, actions);
  return absl::OkStatus();
}

absl::Status ParameterServerCore::OnTime(absl::Time now, WireActions* actions) {
  for (Shard& shard : shards_) {
    for (ShardLink& link : shard.links) {
      if (absl::Status status = link.OnTime(now, actions); !status.ok()) {
        return NamedBy(options_.node, status);
      }
    }
  }
  CountBytes();
  return absl::OkStatus();
}

absl::Time ParameterServerCore::deadline() const {
  absl::Time due = absl::InfiniteFuture();
  for (const Shard& shard : shards_) {
    for (const ShardLink& link : shard.links) due = std::min(due, link.deadline());
  }
  return due;
}

void ParameterServerCore::CountBytes() {
  counters_.bytes_pushed = 0;
  for (const Shard& shard : shards_) {
    for (const ShardLink& link : shard.links) {
      counters_.bytes_pushed += link.bytes_sent(Op::kPushPull);
    }
  }
}

void ParameterServerCore::OnShardMoved(const ShardMove& move, absl::Time now,
                                       CoreActions* actions) {
  if (phase_ == Phase::kFinished || move.shard.value() >= shards_.size()) return;
  Shard& shard = shards_[move.shard.value()];
  if (shard.chunks.empty()) return;
  for (ShardLink& link : shard.links) {
    link.Move(move.address, move.generation, now, &actions->wire);
  }
}

void ParameterServerCore::AddActivity(absl::Time now, proto::NodeActivity* activity) const {
  for (const Shard& shard : shards_) {
    if (shard.chunks.empty()) continue;
    LinkActivity sum = shard.links[0].Activity(now);
    for (size_t i = 1; i < shard.links.size(); ++i) sum.Add(shard.links[i].Activity(now));
    proto::ShardActivity* out = activity->add_shards();
    out->set_address(shard.links[0].address());
    out->set_connected(sum.connected);
    out->set_unanswered(sum.unanswered);
    out->set_oldest_clock(sum.oldest_clock);
    out->set_oldest_chunk(sum.oldest_chunk);
    out->set_oldest_ms(absl::ToInt64Milliseconds(std::max(sum.oldest_age, sum.down_for)));
    out->set_error(sum.error);
  }
}

void ParameterServerCore::Pull(Shard* shard, absl::Time now, CoreActions* actions) {
  while (shard->next < shard->chunks.size() && shard->next - shard->confirmed < window_) {
    PullOf(shard->chunks[shard->next++], now, actions);
  }
}

void ParameterServerCore::PullOf(ChunkId chunk, absl::Time now, CoreActions* actions) {
  wire::Header header;
  header.op = Op::kPull;
  if (!rejoin_clock_) header.flags = wire::kFlagEmpty;
  header.chunk = chunk.value();
  header.clock = rejoin_clock_.value_or(kNoClock);
  LinkTo(chunks_[chunk.value()])->Ask(header, Bytes(), now, &actions->wire);
}

absl::Status ParameterServerCore::OnPulled(Shard* shard, const wire::Header& asked,
                                           const wire::Frame& frame, absl::Time now,
                                           CoreActions* actions) {
  const wire::Header& header = frame.header;
  const ChunkId id(asked.chunk);
  if (header.received == kUnseeded) {
    OfferOrAsk(id, now, actions);
    return absl::OkStatus();
  }
  Chunk& chunk = chunks_[asked.chunk];
  chunk.received = header.received;
  const bool gives = (header.flags & wire::kFlagEmpty) == 0;
  if (gives) {
    chunk.version = header.version;
    chunk.copy = header.base_version;
    actions->node.push_back(
        {.kind = NodeAction::Kind::kDeliverFirst, .chunk = id, .weights = frame.payload});
  } else if (rejoin_clock_ && header.received >= *rejoin_clock_) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "server %s does not have the weights of chunk %d from before clock %d any more, so that "
        "this process cannot take the place of the one that died there",
        shard->links[0].address(), asked.chunk, *rejoin_clock_));
  }
  ++shard->confirmed;
  Pull(shard, now, actions);
  if (shard->confirmed == shard->chunks.size() && ++settled_ == shards_.size()) {
    OnAllPulled(now, actions);
  }
  return absl::OkStatus();
}

void ParameterServerCore::OnAllPulled(absl::Time now, CoreActions* actions) {
  const uint64_t least = std::min_element(chunks_.begin(), chunks_.end(), [](auto& a, auto& b) {
                           return a.received < b.received;
                         })->received;
  if (rejoin_clock_ && least >= *rejoin_clock_) {
    first_clock_ = *rejoin_clock_;
    for (Chunk& chunk : chunks_) chunk.submitted = chunk.answered = first_clock_;
    phase_ = Phase::kTraining;
    return;
  }
  // A server may have died meanwhile whose other copy never had the last pushes: those of a clock
  // whose weights no node has. The process that died will not repeat them.
  rejoin_clock_ = least;
  settled_ = 0;
  for (Shard& shard : shards_) {
    shard.next = shard.confirmed = 0;
    if (shard.chunks.empty()) {
      ++settled_;
    } else {
      Pull(&shard, now, actions);
    }
  }
}

void ParameterServerCore::Cut(Shard* shard, absl::Time now, CoreActions* actions) {
  while (shard->next < shard->chunks.size() && shard->next - shard->confirmed < window_) {
    wire::Header header;
    header.op = Op::kCut;
    header.chunk = shard->chunks[shard->next++].value();
    header.clock = clocks_;
    LinkTo(chunks_[header.chunk])->Ask(header, Bytes(), now, &actions->wire);
  }
}

void ParameterServerCore::OnCutAnswer(Shard* shard, const wire::Frame& frame, absl::Time now,
                                      CoreActions* actions) {
  actions->node.push_back({.kind = NodeAction::Kind::kDeliverFinal,
                           .chunk = ChunkId(frame.header.chunk),
                           .clock = frame.header.clock,
                           .weights = frame.payload});
  ++shard->confirmed;
  Cut(shard, now, actions);
  if (shard->confirmed == shard->chunks.size()) OnShardDone(actions);
}

void ParameterServerCore::OnShardDone(CoreActions* actions) {
  if (++settled_ < shards_.size()) return;
  phase_ = Phase::kFinished;
  Close(actions);
}

void ParameterServerCore::Close(CoreActions* actions) {
  for (Shard& shard : shards_) {
    for (ShardLink& link : shard.links) link.Close(&actions->wire);
  }
}

absl::StatusOr<uint64_t> FindResumeClock(const proto::JobRecord& record,
                                         absl::Span<const uint64_t> received) {
  STRATA_REQUIRE(!received.empty());
  const auto [least, most] = std::minmax_element(received.begin(), received.end());
  if (*least == *most || MayDiffer(record.job().consistency())) {
    // Buckets of rows may have fewer pushes than any chunk.
    const bool is_the_checkpoints = NodesKeepState(record.job()) || record.ranks_keep_state() ||
                                    !record.layout().tables().empty();
    if (is_the_checkpoints && *least < record.resume().clock()) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "the job goes on from a checkpoint of clock %d, which has %d pushes of this node only",
          record.resume().clock(), *least));
    }
    return is_the_checkpoints ? record.resume().clock() : *least;
  }
  const auto place = [&](absl::Span<const uint64_t>::iterator of) {
    const auto chunk = static_cast<int>(of - received.begin());
    const proto::Placement& placement = record.placement();
    return absl::StrFormat(
        "clock %d with chunk %d (server %s)", *of, chunk,
        placement.shard_endpoints(static_cast<int>(placement.shard_of_chunk(chunk))));
  };
  return absl::FailedPreconditionError(absl::StrFormat(
      "the job goes on from a checkpoint at %s, but at %s", place(least), place(most)));
}

}  // namespace strata::worker
