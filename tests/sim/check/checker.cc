#include "tests/sim/check/checker.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::sim {
namespace {

using server::ShardAction;
using wire::Op;

std::string Where(const wire::Header& header) {
  return absl::StrFormat("node %d chunk %d clock %d", header.node, header.chunk, header.clock);
}

std::vector<float> FloatsOf(const Bytes& bytes) {
  return {bytes.floats(), bytes.floats() + bytes.float_count()};
}

// Whether one of the actions sends `frame` back.
bool IsRefused(const wire::Header& frame, const std::vector<ShardAction>& actions) {
  for (const ShardAction& action : actions) {
    const wire::Header& header = action.frame.header;
    const bool refusal = header.op == Op::kError || header.op == Op::kRetry;
    if (refusal && header.chunk == frame.chunk && header.clock == frame.clock) return true;
  }
  return false;
}

}  // namespace

uint64_t JobChecker::Hash(const Bytes& bytes) {
  return wire::Checksum(absl::MakeConstSpan(bytes.data(), bytes.size()));
}

uint64_t JobChecker::Hash(absl::Span<const float> floats) {
  return wire::Checksum(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(floats.data()),
                                            floats.size() * sizeof(float)));
}

JobChecker::JobChecker(const JobPlan& plan, const proto::JobRecord& record,
                       worker::PushWindow::Reserve reserve, Fail fail)
    : JobRules(plan, record),
      payload_(plan),
      layers_(record, plan.clocks),
      codecs_(record),
      reserve_(reserve),
      fail_(std::move(fail)),
      nodes_(plan.places()),
      views_(*Views::Of(record)) {
  const ChunkMap map(record.layout().elements(), record.placement().chunk_elements());
  const int shards = record.placement().shard_endpoints_size();
  retired_.assign(shards, std::vector<bool>(nodes_, false));
  peers_.assign(shards, {nodes_, std::vector<Peer>(plan.connections)});
  held_.assign(shards, 0);
  chunks_on_.assign(shards, 0);
  copies_.resize(shards);
  for (int s = 0; s < record.placement().backup_endpoints_size(); ++s) {
    copies_[s].has_backup = !record.placement().backup_endpoints(s).empty();
  }
  processes_.resize(nodes_);
  chunks_.resize(map.chunks());
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    Chunk& chunk = chunks_[c];
    chunk.elements = map.ElementsOf(ChunkId(c));
    chunk.shard = record.placement().shard_of_chunk(static_cast<int>(c));
    // What a codec leaves out of a mark comes later, so that marks are not whole.
    chunk.ledger = codecs_.encodes_pushes() ? 0 : payload_.LedgerElements(chunk.elements);
    chunk.line = chunks_on_[chunk.shard]++ % plan.connections;
    chunk.received.assign(nodes_, 0);
    chunk.pushed_by.assign(nodes_, 0);
    chunk.due.assign(nodes_, 0);
    for (const auto& node : record.view().nodes()) chunk.retired.push_back(node.absent());
    chunk.taken_over.assign(nodes_, 0);
    chunk.is_followed = chunk.is_filled = copies_[chunk.shard].has_backup;
    chunk.version_told.assign(nodes_, 0);
    chunk.told.resize(nodes_ * layers_.rounds());
    chunk.marks.assign(chunk.ledger, 1.0f);
  }
  CheckPlacement();
}

void JobChecker::Violate(const std::string& invariant, const std::string& what, bool goes_on) {
  fail_(absl::StrFormat("%s: job %d: %s", invariant, record_.job_id(), what), goes_on);
}

uint64_t JobChecker::Gate(const Chunk& chunk) const {
  uint64_t least = kAllRetired;
  for (uint32_t n = 0; n < nodes_; ++n) {
    if (!chunk.retired[n]) least = std::min(least, chunk.received[n]);
  }
  return least;
}

void JobChecker::OnShardFrame(const Copy& copy, transport::ConnectionId connection,
                              const wire::Frame& frame, absl::Time now,
                              const std::vector<ShardAction>& actions, size_t held) {
  const uint32_t shard = copy.shard;
  if (copies_[shard].primary != copy.process) return;  // see OnSaid
  const bool refused = IsRefused(frame.header, actions);
  if (!refused) CheckSender(shard, connection, frame);
  now += copies_[shard].ahead;
  const bool is_of_chunk = frame.header.op != Op::kHello && frame.header.op != Op::kRetire;
  if (is_of_chunk ? IsFollowed(chunks_[frame.header.chunk]) : copies_[shard].has_backup) {
    AwaitBackup(shard, connection, frame, refused, now, held);
    if (is_of_chunk) return;
  }
  switch (frame.header.op) {
    case Op::kInit:
      if ((frame.header.flags & wire::kFlagEmpty) == 0) TakeInit(frame, refused);
      break;
    case Op::kPushPull:
      if (TakePush(frame, refused, now, actions)) {
        PeerOf(frame.header.node, frame.header.chunk).MoveToBack(connection);
      }
      CheckHeld(shard, &chunks_[frame.header.chunk], held);
      break;
    case Op::kRetire:
      if (!refused) TakeRetire(shard, frame, now, actions, /*followed=*/false);
      break;
    case Op::kCut:
      if (!refused) TakeCut(frame.header, actions);
      break;
    default:
      break;
  }
  CheckAnswers(actions);
  if (keeps_past()) is_of_chunk ? Remember(&chunks_[frame.header.chunk]) : Remember(shard);
}

void JobChecker::OnShardTime(const Copy& copy, absl::Time now,
                             const std::vector<ShardAction>& actions) {
  const uint32_t shard = copy.shard;
  if (copies_[shard].primary != copy.process) return;
  now += copies_[shard].ahead;
  if (copies_[shard].has_backup) AwaitBackup(shard, now);
  std::vector<ShardAction> own;
  for (const ShardAction& action : actions) {
    const wire::Header& header = action.frame.header;
    if (header.job != record_.job_id() || header.chunk >= chunks_.size()) continue;
    if (chunks_[header.chunk].shard == shard) own.push_back(action);
  }
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    Chunk& chunk = chunks_[c];
    const bool is_own = chunk.shard == shard && chunk.reference && !IsFollowed(chunk);
    if (is_own) TakeTime(c, now, own);
  }
  CheckAnswers(own);
  if (keeps_past()) Remember(shard);
}

void JobChecker::TakeTime(uint32_t c, absl::Time now, const std::vector<ShardAction>& actions) {
  Chunk& chunk = chunks_[c];
  const uint64_t version_before = chunk.reference->version();
  wire::Header none;
  CheckDue(c, chunk.reference->OnTime(now), none, actions);
  // What a clock with a quorum held is gone with it.
  if (chunk.reference->version() != version_before) CheckHeld(chunk.shard, &chunk, 0);
}

void JobChecker::CheckAnswers(const std::vector<ShardAction>& actions) {
  for (const ShardAction& action : actions) {
    if (action.kind != ShardAction::Kind::kSend) continue;
    const Op op = action.frame.header.op;
    if (op != Op::kAnswer && op != Op::kCutAnswer) continue;
    const uint32_t chunk = action.frame.header.chunk;
    if (chunk < chunks_.size() && IsFollowed(chunks_[chunk])) continue;  // see OnSaid
    CheckAnswer(action.frame);
    CheckReceiver(action, actions);
  }
}

void JobChecker::TakeInit(const wire::Frame& frame, bool refused) {
  Chunk& chunk = chunks_[frame.header.chunk];
  if (refused || chunk.reference) return;
  chunk.reference = std::make_unique<ReferenceChunk>(record_, ChunkId(frame.header.chunk),
                                                     FloatsOf(frame.payload));
  for (const proto::ViewChange& change : views_.changes()) chunk.reference->OnChange(change);
  codecs_.OnInit(ChunkId(frame.header.chunk), FloatsOf(frame.payload));
  layers_.OnFirstWeights(ChunkId(frame.header.chunk), FloatsOf(frame.payload));
  chunk.first_hash = Hash(frame.payload);
}

bool JobChecker::TakePush(const wire::Frame& frame, bool refused, absl::Time now,
                          const std::vector<ShardAction>& actions) {
  const wire::Header& push = frame.header;
  Chunk& chunk = chunks_[push.chunk];
  uint64_t& received = chunk.received[push.node];
  const auto who = [&] { return absl::StrFormat("node %d chunk %d", push.node, push.chunk); };
  // Nodes that keep the rules are refused only as a process that has been replaced.
  if (refused) return false;
  if (push.clock > received) {
    Violate("clocks are contiguous",
            absl::StrFormat("%s: push %d was taken, expected %d", who(), push.clock, received));
    return false;
  }
  if (!chunk.reference) {
    Violate("INIT comes first", who());
    return false;
  }
  if (push.clock < received) {
    TakeAgain(push, actions);
    return false;
  }
  CheckTakesPart(push);
  ++received;
  chunk.pushed_by[push.node] = push.incarnation;
  Mark(&chunk, push);
  if (const std::string wrong = layers_.CheckPush(push, codecs_.SumOf(frame)); !wrong.empty()) {
    Violate(layers_.invariant(), absl::StrFormat("%s clock %d: %s", who(), push.clock, wrong));
  }
  if (const std::string wrong = codecs_.CheckPush(frame); !wrong.empty()) {
    Violate("what is lost returns", absl::StrFormat("%s clock %d: %s", who(), push.clock, wrong));
  }
  const std::vector<ReferenceChunk::Due> due =
      chunk.reference->OnPush({.node = push.node,
                               .clock = push.clock,
                               .base_version = push.base_version,
                               .samples = push.sample_count,
                               .rate = CheckedRate(push),
                               .sum = codecs_.SumOf(frame),
                               .at = now});
  if (!chunk.reference->violation().empty()) {
    Violate("only right pushes are taken", chunk.reference->violation());
  }
  CheckDue(push.chunk, due, push, actions);
  if (plan_.replicas > 0 && MayLeaveOpenClocksOut()) {
    chunk.open.push_back({frame, now});
    std::erase_if(chunk.open,
                  [gate = Gate(chunk)](const auto& one) { return one.frame.header.clock < gate; });
  }
  return true;
}

// It must change nothing: every later answer shows that. It is answered where the answer was due
// before, but for a push that the same process would not have made without.
void JobChecker::TakeAgain(const wire::Header& push, const std::vector<ShardAction>& actions) {
  const Chunk& chunk = chunks_[push.chunk];
  const bool is_last = push.clock + 1 == chunk.received[push.node];
  if (has_quorum() && is_last && push.incarnation != chunk.pushed_by[push.node]) {
    const std::vector<ReferenceChunk::Due> due = chunk.reference->OnReplay(push.node);
    if (!due.empty()) CheckDue(push.chunk, due, push, actions);
  }
  const bool is_asked =
      is_last ? push.clock < chunk.due[push.node] : push.incarnation != chunk.pushed_by[push.node];
  if (is_asked) CheckSent(Op::kAnswer, push.node, push.chunk, push.clock, actions);
}

void JobChecker::TakeCut(const wire::Header& cut, const std::vector<ShardAction>& actions) {
  Chunk& chunk = chunks_[cut.chunk];
  if (Gate(chunk) == kAllRetired) {
    CheckSent(Op::kCutAnswer, cut.node, cut.chunk, cut.clock, actions);
  } else {
    chunk.cuts[cut.node] = cut.clock;
  }
}

void JobChecker::TakeRetire(uint32_t shard, const wire::Frame& frame, absl::Time now,
                            const std::vector<ShardAction>& actions, bool followed) {
  const uint32_t node = frame.header.node;
  if (frame.header.clock < views_.JoinedAt(NodeId(node))) return;  // it has left before
  if (followed || !copies_[shard].has_backup) retired_[shard][node] = true;
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    const bool is_meant = chunks_[c].shard == shard && IsFollowed(chunks_[c]) == followed;
    if (!is_meant || chunks_[c].retired[node]) continue;
    chunks_[c].retired[node] = true;
    if (!chunks_[c].reference) continue;
    const uint64_t version_before = chunks_[c].reference->version();
    CheckDue(c, chunks_[c].reference->OnRetire(node, now), frame.header, actions);
    const bool closed = has_quorum() && chunks_[c].reference->version() != version_before;
    if (closed) CheckHeld(shard, &chunks_[c], 0);
    if (Gate(chunks_[c]) < kAllRetired) continue;
    for (const auto& [waits, clock] : std::exchange(chunks_[c].cuts, {})) {
      CheckSent(Op::kCutAnswer, waits, c, clock, actions);
    }
  }
}

// All that is due is answered, and nothing else but what is asked for again.
void JobChecker::CheckDue(uint32_t c, const std::vector<ReferenceChunk::Due>& due,
                          const wire::Header& cause, const std::vector<ShardAction>& actions) {
  for (const ReferenceChunk::Due& d : due) {
    codecs_.OnDue(ChunkId(c), d.node, chunks_[c].reference->weights(), d.version);
  }
  for (const ShardAction& action : actions) {
    const wire::Header& answer = action.frame.header;
    if (answer.op != Op::kAnswer || answer.chunk != c) continue;
    const auto found = std::find_if(due.begin(), due.end(), [&](const ReferenceChunk::Due& d) {
      return d.node == answer.node && d.clock == answer.clock;
    });
    if (found == due.end()) {
      Violate("G3 staleness bound",
              absl::StrFormat("node %d chunk %d: the answer to %d was not due after node %d's %d",
                              answer.node, c, answer.clock, cause.node, cause.clock));
    } else if (found->staleness != answer.staleness) {
      Violate("G3 staleness bound",
              absl::StrFormat("node %d chunk %d: the answer to %d says staleness %d, it is %d",
                              answer.node, c, answer.clock, answer.staleness, found->staleness));
    }
  }
  for (const ReferenceChunk::Due& d : due) {
    chunks_[c].due[d.node] = d.clock + 1;
    CheckSent(Op::kAnswer, d.node, c, d.clock, actions);
  }
}

void JobChecker::CheckAnswer(const wire::Frame& frame) {
  const wire::Header& answer = frame.header;
  const auto where = [&] { return Where(answer); };
  if (answer.job != record_.job_id() || answer.chunk >= chunks_.size() || answer.node >= nodes_) {
    return Violate("jobs do not see each other",
                   absl::StrFormat("answer to %s of job %d", where(), answer.job));
  }
  Chunk& chunk = chunks_[answer.chunk];
  if (!chunk.reference) return Violate("INIT comes first", where());
  // Before what the header says of them.
  if (answer.op == Op::kAnswer && codecs_.encodes_answers()) {
    CheckEncoded(&chunk, frame);
  } else {
    CheckWeights(&chunk, frame);
  }
  const uint64_t gate = Gate(chunk);
  if (answer.op == Op::kCutAnswer) {
    if (gate != kAllRetired)
      Violate("CUT waits for all", where() + " before all nodes have retired");
  } else {
    if (answer.clock >= chunk.received[answer.node]) {
      Violate("answers follow pushes", where() + " was answered before it was received");
    }
    CheckBound(chunk, answer);
  }
  if (answer.received != chunk.received[answer.node]) {
    Violate(
        "answers tell what was received",
        absl::StrFormat("%s: %d, not %d", where(), answer.received, chunk.received[answer.node]));
  }
  uint64_t& told = chunk.version_told[answer.node];
  if (answer.version < told) {
    Violate("answers are monotone",
            absl::StrFormat("%s: version %d after %d", where(), answer.version, told));
  }
  // Who asks again is given what the last answer led to, even after the final weights.
  const bool keeps_answers = codecs_.encodes_answers() || chunk.reference->keeps_bases();
  if (answer.op == Op::kAnswer || !keeps_answers) told = answer.version;
}

void JobChecker::CheckWeights(Chunk* chunk, const wire::Frame& frame) {
  const wire::Header& answer = frame.header;
  const bool is_answer = answer.op == Op::kAnswer;
  const std::vector<float>& weights =
      is_answer ? chunk->reference->WeightsFor(answer.node) : chunk->reference->weights();
  const uint64_t version =
      is_answer ? chunk->reference->VersionFor(answer.node) : chunk->reference->version();
  const auto where = [&] { return Where(answer); };
  // Answers share one buffer.
  const bool seen =
      chunk->checked == frame.payload.data() && chunk->checked_version == answer.version;
  if (!seen) chunk->checked_hash = Hash(frame.payload);
  const bool is_whole = frame.payload.float_count() == chunk->elements;
  const bool is_newest = answer.version == chunk->reference->version();
  if (!seen && is_whole && is_newest && chunk->ledger > 0) CheckLedger(*chunk, frame);
  if (answer.version != version) {
    return Violate("G1 exactly once", absl::StrFormat("%s: version %d, %d updates are due", where(),
                                                      answer.version, version));
  }
  if (answer.op == Op::kAnswer && answer.clock < layers_.rounds()) {
    chunk->told[TellingOf(answer.node, answer.clock)].insert(chunk->checked_hash);
    layers_.OnAnswer(answer.node, ChunkId(answer.chunk), answer.clock, FloatsOf(frame.payload));
  }
  if (seen) return;
  if (!is_whole || std::memcmp(frame.payload.data(), weights.data(), frame.payload.size()) != 0) {
    return Violate("G2 order of bits", where() + ": other weights than the model's");
  }
  chunk->checked = frame.payload.data();
  chunk->checked_version = answer.version;
}

void JobChecker::CheckEncoded(Chunk* chunk, const wire::Frame& frame) {
  const wire::Header& answer = frame.header;
  if (const std::string wrong = codecs_.CheckAnswer(frame); !wrong.empty()) {
    return Violate("nodes have what the shard thinks that they have", Where(answer) + ": " + wrong);
  }
  chunk->told[TellingOf(answer.node, answer.clock)].insert(
      Hash(codecs_.CopyOf(answer.node, ChunkId(answer.chunk))));
  layers_.OnAnswer(answer.node, ChunkId(answer.chunk), answer.clock,
                   codecs_.CopyOf(answer.node, ChunkId(answer.chunk)));
}

}  // namespace strata::sim
