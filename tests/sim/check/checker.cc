#include "tests/sim/check/checker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

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

// True if one of the actions sends `frame` back.
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
    // A codec may delay part of a mark, so marks are not whole.
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
  if (copies_[shard].primary != copy.process) return;  // see OnSent
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
  // The frames held by a clock with a quorum are released with it.
  if (chunk.reference->version() != version_before) CheckHeld(chunk.shard, &chunk, 0);
}

void JobChecker::CheckAnswers(const std::vector<ShardAction>& actions) {
  for (const ShardAction& action : actions) {
    if (action.kind != ShardAction::Kind::kSend) continue;
    const Op op = action.frame.header.op;
    if (op != Op::kAnswer && op != Op::kCutAnswer) continue;
    const uint32_t chunk = action.frame.header.chunk;
    if (chunk < chunks_.size() && IsFollowed(chunks_[chunk])) continue;  // see OnSent
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
  // A repeated request gets the state after the last answer, even after the final weights.
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

// Checks of what a node may send, what it is told, and over which connections.

namespace {

using transport::ConnectionId;

// A shard may forget some of a node's connections, but none of so many newest.
constexpr size_t kNewest = 2;

}  // namespace

// Every server is a host of its own with the same link: each has the same share of the chunks, its
// shards as much of that each, as nearly as whole chunks allow.
void JobChecker::CheckPlacement() {
  std::map<std::string, int> shards_of_host;
  const auto host_of = [](const std::string& endpoint) {
    return endpoint.substr(0, endpoint.rfind(':'));
  };
  const auto& endpoints = record_.placement().shard_endpoints();
  for (const std::string& endpoint : endpoints) ++shards_of_host[host_of(endpoint)];
  for (int s = 0; s < endpoints.size(); ++s) {
    const double share = static_cast<double>(chunks_.size()) /
                         static_cast<double>(shards_of_host.size()) /
                         shards_of_host[host_of(endpoints[s])];
    if (std::abs(static_cast<double>(chunks_on_[s]) - share) < 1) continue;
    Violate("chunks lie where they should",
            absl::StrFormat("%d chunks on shard %d, whose share is %g", chunks_on_[s], s, share));
  }
}

void CheckedPeer::MoveToBack(ConnectionId connection) {
  open.erase(std::remove(open.begin(), open.end(), connection), open.end());
  open.push_back(connection);
}

// A process that has been replaced is not heard any more.
void JobChecker::CheckSender(uint32_t shard, ConnectionId connection, const wire::Frame& frame) {
  const wire::Header& header = frame.header;
  std::vector<Peer>& lines = peers_[shard][header.node];
  if (header.incarnation < lines[0].incarnation) {
    return Violate("only the newest process is heard",
                   absl::StrFormat("shard %d took %s, the newest is %d", shard,
                                   wire::Describe(header), lines[0].incarnation));
  }
  if (header.incarnation > lines[0].incarnation) {
    std::fill(lines.begin(), lines.end(), Peer{.incarnation = header.incarnation});
  }
  if (header.op == wire::Op::kHello) {
    wire::Hello hello;
    const absl::Span<const std::byte> bytes(frame.payload.data(), frame.payload.size());
    if (wire::DecodeHello(bytes, &hello).ok() && hello.connection < lines.size()) {
      copies_[shard].node_of[connection] = header.node;
      return lines[hello.connection].MoveToBack(connection);
    }
    return Violate("a node has the connections of its job",
                   absl::StrFormat("shard %d took %s", shard, wire::Describe(header)));
  }
  Peer& peer = header.op == wire::Op::kRetire ? lines[0] : PeerOf(header.node, header.chunk);
  peer.speaks_on = connection;
  if (std::find(peer.open.begin(), peer.open.end(), connection) != peer.open.end()) return;
  Violate("HELLO comes first", absl::StrFormat("shard %d took %s", shard, wire::Describe(header)));
}

// True if answers must reach the node's process: it speaks on a connection that is still there.
bool JobChecker::IsOwed(const Peer& peer) const {
  const size_t newest = std::min(kNewest, peer.open.size());
  return std::find(peer.open.end() - newest, peer.open.end(), peer.speaks_on) != peer.open.end();
}

// In the very step in which it is due: a node that has to ask again would hide that it was not.
void JobChecker::CheckSent(wire::Op op, uint32_t node, uint32_t c, uint64_t clock,
                           const std::vector<ShardAction>& actions) {
  if (nobody_is_answered_ || copies_[chunks_[c].shard].stands_still) return;
  if (!IsOwed(PeerOf(node, c))) return;
  const bool is_there = std::any_of(actions.begin(), actions.end(), [&](const ShardAction& action) {
    const wire::Header& answer = action.frame.header;
    return answer.op == op && answer.node == node && answer.chunk == c && answer.clock == clock;
  });
  if (is_there) return;
  const char* const to = op == wire::Op::kAnswer ? "push" : "CUT";
  Violate("due answers are sent",
          absl::StrFormat("node %d chunk %d: none to %s %d", node, c, to, clock), /*goes_on=*/true);
}

// To the connection that the node speaks on; copies may go to others of the same process.
void JobChecker::CheckReceiver(const ShardAction& answer, const std::vector<ShardAction>& actions) {
  const wire::Header& header = answer.frame.header;
  if (header.node >= nodes_ || header.chunk >= chunks_.size()) return;
  const Peer& peer = PeerOf(header.node, header.chunk);
  if (answer.connection == peer.speaks_on) return;
  const auto open = std::find(peer.open.begin(), peer.open.end(), answer.connection);
  const bool is_there = std::any_of(actions.begin(), actions.end(), [&](const ShardAction& other) {
    const wire::Header& copy = other.frame.header;
    return other.connection == peer.speaks_on && copy.op == header.op && copy.node == header.node &&
           copy.chunk == header.chunk && copy.clock == header.clock;
  });
  if (open != peer.open.end() && (is_there || !IsOwed(peer))) return;
  Violate("answers go where the node speaks", wire::Describe(header));
}

bool JobChecker::IsNewest(const wire::Header& push) const {
  const Chunk& chunk = chunks_[push.chunk];
  if (copies_[chunk.shard].has_backup) return false;  // nobody but the primary knows
  return chunk.received[push.node] == push.clock + 1 && chunk.taken_over[push.node] <= push.clock &&
         chunk.pushed_by[push.node] == push.incarnation;
}

void JobChecker::OnDisconnected(const Copy& copy, ConnectionId connection) {
  for (std::vector<Peer>& lines : peers_[copy.shard]) {
    for (Peer& peer : lines) std::erase(peer.open, connection);
  }
}

// A process that has taken another one's place may be given newer ones.
void JobChecker::OnBegin(uint32_t node, uint32_t incarnation, ChunkId chunk,
                         const std::vector<float>& weights) {
  const auto elements = static_cast<uint32_t>(weights.size());
  if (incarnation != processes_[node].incarnation) return;
  const uint64_t clock = processes_[node].first_clock;
  // A node that starts over after its last step makes no step.
  if (plan_.is_elastic() && !views_.Has(NodeId(node), clock)) return;
  if (plan_.is_elastic() && clock > 0 && is_exact()) {
    const auto past = chunks_[chunk.value()].past.find(clock);
    const bool is_right =
        past != chunks_[chunk.value()].past.end() && past->second.weights == weights;
    if (is_right) return;
    return Violate("who joins begins with the weights of its clock",
                   absl::StrFormat("node %d chunk %d clock %d", node, chunk.value(), clock));
  }
  if (incarnation > 1 || clock > 0 || weights == payload_.FirstWeights(chunk, elements)) return;
  Violate("nodes begin with the first weights",
          absl::StrFormat("node %d chunk %d begins with others", node, chunk.value()));
}

void JobChecker::OnNodeStart(uint32_t node, uint32_t incarnation) {
  if (incarnation < processes_[node].incarnation) return;  // it begins late
  if (incarnation > 1) ++restarts_;
  layers_.OnNodeStart(node, incarnation);
  codecs_.OnNodeStart(node, incarnation);
  processes_[node] = {.incarnation = incarnation,
                      .pushed = std::vector<uint64_t>(chunks_.size(), 0),
                      .answered = std::vector<uint64_t>(chunks_.size(), 0),
                      .unanswered = std::vector<uint32_t>(held_.size(), 0)};
}

void JobChecker::OnFirstClock(uint32_t node, uint32_t incarnation, uint64_t clock) {
  Process& process = processes_[node];
  if (process.incarnation != incarnation) return;
  process.first_clock = clock;
  std::fill(process.pushed.begin(), process.pushed.end(), clock);
  std::fill(process.answered.begin(), process.answered.end(), clock);
}

void JobChecker::OnSum(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t clock,
                       uint32_t samples, absl::Span<const float> sum) {
  for (const LayerModel::Push& push :
       layers_.OnSum(node, incarnation, chunk, clock, samples, sum)) {
    codecs_.OnSum(node, incarnation, push.chunk, push.clock, push.samples, push.values);
  }
}

void JobChecker::OnTaken(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t clock,
                         absl::Span<const float> weights) {
  const std::string wrong = layers_.OnTaken(node, incarnation, chunk, clock, weights);
  if (wrong.empty()) return;
  Violate(layers_.invariant(),
          absl::StrFormat("node %d chunk %d step %d: %s", node, chunk.value(), clock, wrong));
}

void JobChecker::OnPush(uint32_t node, ChunkId id, uint64_t clock) {
  ++pushes_;
  Process& process = processes_[node];
  uint64_t& pushed = process.pushed[id.value()];
  if (clock != pushed || process.answered[id.value()] != pushed) {
    Violate("one push per chunk",
            absl::StrFormat("node %d chunk %d: push %d after %d, answered %d", node, id.value(),
                            clock, pushed, process.answered[id.value()]));
  }
  ++pushed;
  if (plan_.has_layer()) return;  // not what the exchange has in its window
  const uint32_t shard = chunks_[id.value()].shard;
  if (++process.unanswered[shard] <= plan_.window) return;
  Violate("window", absl::StrFormat("node %d has %d unanswered pushes at shard %d, window %d", node,
                                    process.unanswered[shard], shard, plan_.window));
}

void JobChecker::OnWeights(uint32_t node, ChunkId id, uint64_t clock,
                           absl::Span<const float> weights) {
  Process& process = processes_[node];
  Chunk& chunk = chunks_[id.value()];
  uint64_t& answered = process.answered[id.value()];
  if (clock != answered || clock + 1 != process.pushed[id.value()]) {
    return Violate("exactly one delivery",
                   absl::StrFormat("node %d chunk %d: the answer to %d after %d of %d", node,
                                   id.value(), clock, answered, process.pushed[id.value()]));
  }
  ++answered;
  if (!plan_.has_layer()) --process.unanswered[chunk.shard];
  if (!layers_.EndsRound(clock) || layers_.is_own()) return;  // LayerModel knows the weights
  const uint64_t hash = Hash(weights);
  const bool is_first = plan_.double_buffering && clock == 0;
  const uint64_t answer = layers_.RoundOf(clock) - (plan_.double_buffering && !is_first ? 1 : 0);
  if (is_first ? hash != chunk.first_hash : chunk.told[TellingOf(node, answer)].count(hash) == 0) {
    return Violate("answers arrive as they were given",
                   absl::StrFormat("node %d chunk %d clock %d", node, id.value(), clock));
  }
  // Where the gate waits for everyone, the answer is the state after that clock and no other.
  if (!is_exact() || (restarts_ > 0 && !plan_.is_elastic())) return;
  // A process repeats the node's last step where the one before has retired. The others need not
  // wait for it there, so the weights may be newer. Nobody makes a step from them.
  if (retired_[chunk.shard][node] && views_.LeavesAt(NodeId(node)) == clock + 1) return;
  const auto [known, is_new] = chunk.hash_of_clock.emplace(clock, hash);
  if (is_new || known->second == hash) return;
  Violate("G2 order of bits", absl::StrFormat("node %d chunk %d: other weights after clock %d than "
                                              "another node",
                                              node, id.value(), clock));
}

void JobChecker::OnFinalWeights(uint32_t node, ChunkId id, const Bytes& weights) {
  if (!processes_[node].finals.insert(id.value()).second) {
    return Violate("exactly one delivery",
                   absl::StrFormat("node %d chunk %d: final weights twice", node, id.value()));
  }
  if (views_.LeavesAt(NodeId(node)).has_value()) {
    return Violate("who leaves waits for nobody",
                   absl::StrFormat("node %d chunk %d has final weights", node, id.value()));
  }
  const std::string wrong =
      layers_.OnFinal(id, absl::MakeConstSpan(weights.floats(), weights.float_count()));
  if (!wrong.empty()) {
    return Violate(layers_.invariant(),
                   absl::StrFormat("node %d chunk %d: %s", node, id.value(), wrong));
  }
  Chunk& chunk = chunks_[id.value()];
  const uint64_t hash = Hash(weights);
  if (!chunk.final_hash) chunk.final_hash = hash;
  if (*chunk.final_hash == hash) return;
  Violate("one final model",
          absl::StrFormat("node %d chunk %d differs from another node's", node, id.value()));
}

void JobChecker::OnFinished() {
  if (plan_.is_elastic()) return CheckEndOfElastic();
  for (uint32_t n = 0; n < nodes_; ++n) {
    for (uint32_t c = 0; c < chunks_.size(); ++c) {
      const uint64_t answered = processes_[n].answered[c];
      if (answered == plan_.clocks && processes_[n].finals.count(c) == 1) continue;
      return Violate("exactly one delivery",
                     absl::StrFormat("node %d chunk %d: %d answers, not %d, or no final weights", n,
                                     c, answered, plan_.clocks));
    }
  }
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    for (uint32_t n = 0; n < nodes_; ++n) {
      if (chunks_[c].received[n] == layers_.rounds()) continue;
      return Violate("G1 exactly once",
                     absl::StrFormat("chunk %d: %d pushes of node %d, not %d", c,
                                     chunks_[c].received[n], n, layers_.rounds()));
    }
  }
}

uint64_t JobChecker::ModelHash() const {
  uint64_t hash = 1;
  for (const Chunk& chunk : chunks_) hash = hash * 1099511628211 + chunk.final_hash.value_or(0);
  return hash;
}

bool JobChecker::is_reproducible() const { return is_exact() && !plan_.is_elastic(); }

// Nodes that come and go: each clock has one view, for all chunks and copies.

void JobChecker::OnChangeDecided(const proto::ViewChange& change) {
  const uint64_t at = change.at_clock();
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    for (uint32_t n = 0; n < nodes_; ++n) {
      if (chunks_[c].retired[n] || chunks_[c].received[n] <= at) continue;
      return Violate("nobody has begun a clock that gets other nodes",
                     absl::StrFormat("node %d has pushed clock %d of chunk %d, change %d is at %d",
                                     n, chunks_[c].received[n] - 1, c, change.number(), at));
    }
  }
  if (const absl::Status added = views_.Add(change); !added.ok()) {
    return Violate("each clock has one view", std::string(added.message()));
  }
  for (Chunk& chunk : chunks_) {
    if (chunk.reference) chunk.reference->OnChange(change);
    for (const uint32_t node : change.joined()) {
      chunk.received[node] = chunk.due[node] = chunk.taken_over[node] = at;
      chunk.pushed_by[node] = 0;
      chunk.retired[node] = false;
      chunk.cuts.erase(node);
    }
    Remember(&chunk);
  }
  for (std::vector<bool>& retired : retired_) {
    for (const uint32_t node : change.joined()) retired[node] = false;
  }
  for (ShardCopies& copies : copies_) {
    for (std::optional<NextCopy>* next : {&copies.next, &copies.next_of_backup}) {
      for (const uint32_t node : change.joined()) {
        if (*next) (*next)->OnJoined(node);
      }
    }
  }
}

void JobChecker::CheckTakesPart(const wire::Header& push) {
  if (views_.Has(NodeId(push.node), push.clock)) return;
  Violate("each clock has the pushes of its nodes",
          absl::StrFormat("node %d chunk %d clock %d: it takes no part", push.node, push.chunk,
                          push.clock));
}

void JobChecker::CheckPulled(const wire::Frame& frame) {
  const wire::Header& pulled = frame.header;
  if ((pulled.flags & wire::kFlagEmpty) != 0 || codecs_.encodes_answers()) return;
  const Chunk& chunk = chunks_[pulled.chunk];
  if (!chunk.reference || chunk.reference->keeps_bases()) return;
  const auto past = chunk.past.find(pulled.version);
  if (past == chunk.past.end()) {
    return Violate("nodes learn of nothing that the backup does not have", wire::Describe(pulled));
  }
  const bool makes_it = views_.Has(NodeId(pulled.node), pulled.clock);
  if (is_exact() && makes_it && pulled.version != pulled.clock) {
    return Violate("who joins begins with the weights of its clock", wire::Describe(pulled));
  }
  const std::vector<float>& weights = past->second.weights;
  const bool is_same = frame.payload.float_count() == weights.size() &&
                       std::memcmp(frame.payload.data(), weights.data(), frame.payload.size()) == 0;
  if (!is_same) Violate("G2 order of bits", wire::Describe(pulled) + ": other weights");
}

void JobChecker::CheckEndOfElastic() {
  for (uint32_t n = 0; n < nodes_; ++n) {
    const NodeId node(n);
    const bool stays = views_.Has(node, plan_.clocks - 1);
    const uint64_t end = stays ? plan_.clocks : views_.LeavesAt(node).value_or(0);
    for (uint32_t c = 0; c < chunks_.size(); ++c) {
      const Chunk& chunk = chunks_[c];
      if (chunk.received[n] != end) {
        return Violate("G1 exactly once", absl::StrFormat("chunk %d: %d pushes of node %d, not %d",
                                                          c, chunk.received[n], n, end));
      }
      if (!views_.HasEver(node)) continue;
      const bool has_last = !stays || processes_[n].finals.count(c) == 1;
      if (processes_[n].answered[c] == end && has_last) continue;
      return Violate("exactly one delivery",
                     absl::StrFormat("node %d chunk %d: %d answers, not %d, or no final weights", n,
                                     c, processes_[n].answered[c], end));
    }
  }
  for (uint32_t c = 0; is_exact() && c < chunks_.size(); ++c) CheckPlainSum(c);
}

// In another order than the job's: clock by clock, and in each the nodes in theirs.
void JobChecker::CheckPlainSum(uint32_t c) {
  const ChunkId id(c);
  const uint32_t elements = chunks_[c].elements;
  ReferenceChunk plain(record_, id, chunks_[c].past.at(0).weights);
  std::vector<std::vector<float>> gradients(plan_.ranks_per_node, std::vector<float>(elements));
  std::vector<absl::Span<const float>> ranks(gradients.begin(), gradients.end());
  auto change = views_.changes().begin();
  for (uint64_t clock = 0; clock < plan_.clocks; ++clock) {
    for (; change != views_.changes().end() && change->at_clock() == clock; ++change) {
      plain.OnChange(*change);
      for (const uint32_t left : change->left()) plain.OnRetire(left);
    }
    for (const NodeId node : views_.NodesAt(clock)) {
      const uint32_t first_rank = record_.view().nodes(static_cast<int>(node.value())).first_rank();
      for (uint32_t r = 0; r < plan_.ranks_per_node; ++r) {
        payload_.Gradient(first_rank + r, id, clock, plan_.ranks_per_node, 0, elements,
                          gradients[r].data(), views_.RanksAt(clock));
      }
      plain.OnPush({.node = node.value(),
                    .clock = clock,
                    .base_version = plain.version(),
                    .samples = plan_.ranks_per_node,
                    .sum = ReferenceNodeSum(ranks)});
    }
  }
  if (plain.violation().empty() &&
      Hash(absl::MakeConstSpan(plain.weights())) == chunks_[c].final_hash)
    return;
  Violate("the weights are a plain sum over the nodes of each clock",
          absl::StrFormat("chunk %d: %s", c, plain.violation()));
}

// Counts: the mark that each push has left in the weights, its rate, how far it is ahead, the sums
// that a shard holds, and the pushes that it has applied.

// Damping makes the mark of a push smaller; the shard's own count of versions is not asked.
void JobChecker::Mark(Chunk* chunk, const wire::Header& push) {
  const uint64_t behind = chunk->version - push.base_version;
  if (!per_clock()) ++chunk->version;
  const bool damped =
      consistency_.has_async() && consistency_.async().damping() == proto::Async::INVERSE_STALENESS;
  if (!damped || behind < 2 || chunk->ledger == 0) return;
  const proto::LogicalNode& node = record_.view().nodes(static_cast<int>(push.node));
  for (uint32_t rank = node.first_rank(); rank < node.first_rank() + node.ranks(); ++rank) {
    chunk->marks[rank * plan_.clocks + push.clock] = static_cast<float>(1.0 / behind);
  }
}

float JobChecker::CheckedRate(const wire::Header& push) {
  const float rate = plan_.says_rates ? SaidRate(layers_.LastStepOf(push.clock)) : 0;
  if (push.rate != rate) {
    Violate("pushes say the rate of their step",
            absl::StrFormat("node %d chunk %d clock %d: %g, not %g", push.node, push.chunk,
                            push.clock, push.rate, rate));
  }
  return rate;
}

void JobChecker::CheckLedger(const Chunk& chunk, const wire::Frame& frame) {
  const uint64_t gate = Gate(chunk);
  for (const proto::LogicalNode& node : record_.view().nodes()) {
    const uint64_t received = chunk.received[node.node()];
    const uint64_t applied = per_clock() ? std::min(gate, received) : received;
    for (uint32_t rank = node.first_rank(); rank < node.first_rank() + node.ranks(); ++rank) {
      for (uint64_t clock = 0; clock < plan_.clocks; ++clock) {
        const uint64_t element = rank * plan_.clocks + clock;
        const bool counts = clock < applied && views_.Has(NodeId(node.node()), clock);
        const float expected = counts ? chunk.marks[element] : 0.0f;
        const float found = frame.payload.floats()[element];
        if (found == expected) continue;
        // The reciprocal of the number of samples may be rounded.
        if (plan_.is_elastic() && std::abs(found - expected) < 1e-5f) continue;
        return Violate("G1 exactly once",
                       absl::StrFormat("chunk %d: rank %d's gradient of clock %d counts %g, not %g",
                                       frame.header.chunk, rank, clock, found, expected));
      }
    }
  }
}

// Counted from what the shard has really received.
void JobChecker::CheckBound(const Chunk& chunk, const wire::Header& answer) {
  if (!gated() || has_quorum()) return;
  const uint64_t gate = Gate(chunk);
  if (gate >= answer.clock + 1 || answer.clock + 1 - gate <= bound()) return;
  Violate("G3 staleness bound",
          absl::StrFormat("node %d chunk %d: push %d was answered when the slowest had pushed %d",
                          answer.node, answer.chunk, answer.clock, gate));
}

// Bounds the pushes that wait for their clock to complete: fewer than every node's window, because
// the lowest chunk that is held in a reserved slot has been pushed by all nodes that hold a higher
// one in theirs. In lazy mode pushes that were answered before their clock was complete count, too.
// A chunk's clock holds one part per two nodes. With a quorum nodes are in different steps, so that
// no chunk is the lowest of all, and nodes that missed a chunk's last clock may be late for this
// one.
void JobChecker::CheckHeld(uint32_t shard, Chunk* chunk, size_t held) {
  held_[shard] += held - chunk->held;
  chunk->held = held;
  const uint64_t parts = nodes_ > 1 ? (nodes_ + 1) / 2 : 0;
  const bool reserves = reserve_ == worker::PushWindow::Reserve::kLowest && !has_quorum();
  const uint64_t saved = reserves ? 1 : 0;
  const uint64_t windows = nodes_ * uint64_t{plan_.window} * (1 + restarts_) - saved;
  const uint64_t one_clock = per_clock() ? parts * chunks_on_[shard] : 0;
  const uint64_t late =
      has_quorum() ? nodes_ - consistency_.lazy().quorum().nodes() + restarts_ : 0;
  const uint64_t limit =
      std::min(windows, one_clock) + bound() * one_clock + late * chunks_on_[shard];
  if (held_[shard] <= limit) return;
  Violate("window memory",
          absl::StrFormat("shard %d holds %d sums, at most %d", shard, held_[shard], limit),
          /*goes_on=*/true);
}

void JobChecker::OnRemove(const Copy& copy, const server::ShardCounters& counters) {
  const uint32_t shard = copy.shard;
  if (copies_[shard].primary != copy.process) return;
  uint64_t pushes = nodes_ * layers_.rounds();
  if (plan_.is_elastic()) {
    pushes = views_.RankStepsBefore(plan_.clocks) / plan_.ranks_per_node;
  }
  const uint64_t expected = pushes * chunks_on_[shard];
  if (counters.pushes == expected) return;
  Violate("G1 exactly once", absl::StrFormat("shard %d has applied %d pushes, not %d", shard,
                                             counters.pushes, expected));
}

}  // namespace strata::sim
