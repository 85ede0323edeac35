#include "worker/exchange/server/parameter_server_core.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/exchange/connections.h"
#include "common/job/exchange/shard_generation.h"
#include "common/job/exchange/views.h"
#include "common/job/job.h"
#include "compression/job_compression.h"
#include "worker/exchange/server/check_placement.h"
#include "worker/exchange/server/resume_clock.h"

namespace strata::worker {

using Phase = Exchange::Phase;
using wire::Op;

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
      answer_codec_(kernels::WireCodec(options.record.job().pull())),
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
                     absl::Status(encoded.status().code(),
                                  absl::StrFormat("chunk %d at clock %d: sum of the gradients: %s",
                                                  asked.chunk.value(), asked.clock,
                                                  std::string(encoded.status().message()))));
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

// Once every push has been answered: a shard may not count out a node that still has something to
// say.
void ParameterServerCore::MaybeRetire(Shard* shard, absl::Time now, CoreActions* actions) {
  if (phase_ != Phase::kFinishing || shard->retiring) return;
  for (ChunkId chunk : shard->chunks) {
    if (chunks_[chunk.value()].answered < clocks_) return;
  }
  shard->retiring = true;
  wire::Header header;
  header.op = Op::kRetire;
  header.clock = clocks_;
  // Nothing is under way on the other links.
  shard->links[0].Ask(header, Bytes(), now, &actions->wire);
}

void ParameterServerCore::OnConnected(LinkId link, transport::ConnectionId connection,
                                      absl::Time now, WireActions* actions) {
  LinkTo(link)->OnConnected(connection, now, actions);
}

void ParameterServerCore::OnConnectFailed(LinkId link, const absl::Status& why, absl::Time now,
                                          WireActions* actions) {
  LinkTo(link)->OnLost(why, now, actions);
}

void ParameterServerCore::OnLost(transport::ConnectionId connection, const absl::Status& why,
                                 absl::Time now, WireActions* actions) {
  if (ShardLink* link = Find(connection).link) link->OnLost(why, now, actions);
}

void ParameterServerCore::OnSendQueueFull(const WireAction& send, absl::Time now) {
  if (ShardLink* link = Find(send.connection).link) link->OnSendQueueFull(send.frame.header, now);
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

// The node has been given its whole weights meanwhile; what it waits for now it will be given, too,
// when it asks again.
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
      // Final weights are there once all nodes have retired, for whom it does not wait.
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
  absl::StatusOr<kernels::CheckedPayload> delta =
      absl::InvalidArgumentError(absl::StrCat("a payload of ", wire::ToString(codec)));
  const bool is_whole = codec == wire::Codec::kNone;
  if (!is_whole && codec == answer_codec_) {
    delta = kernels::CheckedPayload::Check(
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

}  // namespace strata::worker
