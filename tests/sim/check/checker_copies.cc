#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/shard/chunk/chunk_copy.pb.h"
#include "tests/sim/check/checker.h"

// The part of JobChecker that knows of shards in two copies: what nodes are told the second copy
// has, and whoever takes over resumes from there.

namespace strata::sim {

namespace {

using server::ShardAction;
using wire::Op;

constexpr char kToldOnly[] = "nodes learn of nothing that the backup does not have";

bool TellsOfTheShard(Op op) {
  return op == Op::kInitOk || op == Op::kFirst || op == Op::kRetireOk || op == Op::kAnswer ||
         op == Op::kCutAnswer;
}

}  // namespace

void JobChecker::OnInstalled(const Copy& copy, bool is_backup) {
  ShardCopies& copies = copies_[copy.shard];
  (is_backup ? copies.backup : copies.primary) = copy.process;
}

bool JobChecker::IsFilled(uint32_t shard) const {
  return std::all_of(chunks_.begin(), chunks_.end(), [shard](const Chunk& chunk) {
    return chunk.shard != shard || chunk.is_filled;
  });
}

void JobChecker::AwaitBackup(uint32_t shard, transport::ConnectionId connection,
                             const wire::Frame& frame, bool refused, absl::Time now, size_t held) {
  const wire::Header& header = frame.header;
  if (header.op == Op::kPushPull) CheckHeld(shard, &chunks_[header.chunk], held);
  if (refused || header.op == Op::kHello || header.op == Op::kPull) return;
  if (header.op == Op::kInit && (header.flags & wire::kFlagEmpty) != 0) return;
  ShardCopies& copies = copies_[shard];
  if (header.op == Op::kCut) {
    chunks_[header.chunk].cuts[header.node] = header.clock;
    return;
  }
  // Repeated frames change nothing, whether they wait or both copies have them.
  if (header.op == Op::kInit && chunks_[header.chunk].reference != nullptr) return;
  if (header.op == Op::kRetire && retired_[shard][header.node]) return;
  if (header.op == Op::kRetire && header.clock < views_.JoinedAt(NodeId(header.node))) return;
  const bool waits =
      std::any_of(copies.awaited.begin(), copies.awaited.end(),
                  [&](const auto& one) { return IsSameChange(one.frame.header, header); });
  if (waits) return;
  if (header.op == Op::kPushPull) {
    const Chunk& chunk = chunks_[header.chunk];
    const uint64_t received = chunk.received[header.node];
    const bool is_known =
        header.clock + 1 < received ||
        (header.clock + 1 == received && chunk.pushed_by[header.node] == header.incarnation);
    if (is_known) return;
    if (header.clock >= received) PeerOf(header.node, header.chunk).MoveToBack(connection);
  }
  copies.awaited.push_back({frame, now});
}

void JobChecker::AwaitBackup(uint32_t shard, absl::Time now) {
  if (!has_quorum()) return;
  wire::Frame time;
  time.header.op = Op::kApply;
  copies_[shard].awaited.push_back({std::move(time), now});
}

void JobChecker::OnChange(const Copy& copy, const wire::Frame& change, absl::Time now,
                          const std::vector<ShardAction>& actions) {
  ShardCopies& copies = copies_[copy.shard];
  const bool is_refused = std::any_of(actions.begin(), actions.end(), [](const ShardAction& one) {
    return one.frame.header.op == Op::kError;
  });
  if (is_refused || change.header.op == Op::kHello) return;
  // A process may hold two copies in succession: the primary of the first has died while filling
  // it.
  std::optional<NextCopy>* newest = nullptr;
  for (std::optional<NextCopy>* next : {&copies.next, &copies.next_of_backup}) {
    if (!*next || (*next)->process() != copy.process) continue;
    if (newest == nullptr || (*next)->generation() > (*newest)->generation()) newest = next;
  }
  if (newest != nullptr) return OnNextChange(copy.shard, change, *newest);
  if (!copies.has_backup || copies.backup != copy.process) return;
  if (change.header.sequence != copies.taken + 1) return;
  ++copies.taken;
  copies.backup_ahead = TimeIn(change) - now;
  copies.unconfirmed.push_back({change, TimeIn(change)});
}

// The backup's confirmation counts: its receiver then drops the changes.
void JobChecker::OnConfirmed(uint32_t shard, uint64_t received) {
  ShardCopies& copies = copies_[shard];
  if (received < copies.followed || received > copies.taken) {
    Violate("a backup says what it has",
            absl::StrFormat("shard %d: %d changes, it has %d", shard, received, copies.taken));
    return;
  }
  for (; copies.followed < received; ++copies.followed) {
    copies.confirmed.push_back(std::move(copies.unconfirmed.front()));
    copies.unconfirmed.pop_front();
  }
  TakeConfirmed(shard);
}

void JobChecker::TakeChange(uint32_t shard, const wire::Frame& change, absl::Time at) {
  std::deque<ShardCopies::Awaited>& awaited = copies_[shard].awaited;
  const wire::Header& header = change.header;
  const bool is_time = header.op == Op::kApply && has_quorum();
  if (header.op == Op::kCopy) {
    TakeCopied(change);
  } else if (is_time) {
    std::erase_if(awaited, [&](const auto& one) {
      return one.frame.header.op == Op::kApply && one.at <= at;
    });
    TakeUnanswered(shard, change, at);
  } else if (header.op == Op::kApply) {
    // All frames of a clock, as it was summed.
    std::vector<ShardCopies::Awaited> pushes;
    std::erase_if(awaited, [&](const auto& one) {
      const wire::Header& push = one.frame.header;
      const bool is_part =
          push.op == Op::kPushPull && push.chunk == header.chunk && push.clock == header.clock;
      if (is_part) pushes.push_back(one);
      return is_part;
    });
    for (const ShardCopies::Awaited& push : pushes) TakeUnanswered(shard, push.frame, push.at);
  } else {
    const auto found = std::find_if(awaited.begin(), awaited.end(), [&](const auto& one) {
      return IsSameChange(one.frame.header, header);
    });
    if (found == awaited.end()) {
      return Violate("a primary says what it has taken", wire::Describe(header));
    }
    wire::Frame taken = std::move(found->frame);
    awaited.erase(found);
    TakeUnanswered(shard, taken, at);
  }
  Remember(shard);
}

void JobChecker::TakeUnanswered(uint32_t shard, const wire::Frame& frame, absl::Time at) {
  nobody_is_answered_ = true;
  switch (frame.header.op) {
    case Op::kInit:
      TakeInit(frame, /*refused=*/false);
      break;
    case Op::kPushPull:
      TakePush(frame, /*refused=*/false, at, {});
      break;
    case Op::kRetire:
      TakeRetire(shard, frame, at, {}, /*followed=*/true);
      break;
    default:
      for (uint32_t c = 0; c < chunks_.size(); ++c) {
        const bool is_meant = chunks_[c].shard == shard && IsFollowed(chunks_[c]);
        if (is_meant && chunks_[c].reference) TakeTime(c, at, {});
      }
  }
  nobody_is_answered_ = false;
}

void JobChecker::TakeAwaited(uint32_t shard) {
  for (const ShardCopies::Awaited& one : std::exchange(copies_[shard].awaited, {})) {
    TakeUnanswered(shard, one.frame, one.at);
    Remember(shard);
  }
}

// Remembers everything that a copy may send later, because it was delayed or requested again.
void JobChecker::Remember(uint32_t shard) {
  for (Chunk& chunk : chunks_) {
    if (chunk.shard == shard) Remember(&chunk);
  }
}

void JobChecker::Remember(Chunk* chunk) {
  if (!chunk->reference) return;
  PastWeights& past = chunk->past[chunk->reference->version()];
  if (past.weights.empty()) past.weights = chunk->reference->weights();
  for (uint32_t n = 0; n < nodes_; ++n) past.received.emplace(n, chunk->received[n]);
}

// Delayed frames leave then, unless the job waits for a second copy.
void JobChecker::OnAlone(const Copy& copy, const std::vector<ShardAction>& actions) {
  BecomeBackup(copy);
  ShardCopies& copies = copies_[copy.shard];
  const bool takes_over = copies.has_backup && copies.backup == copy.process;
  if (!takes_over && copies.primary != copy.process) return;
  copies.stands_still = plan_.waits_unprotected;
  if (takes_over) copies.took_over_with = copies.next_of_backup ? copies.taken : 0;
  copies.next.reset();
  copies.next_of_backup.reset();
  if (!copies.has_backup) return;
  if (takes_over) {
    if (!IsFilled(copy.shard)) {
      Violate("only a whole copy takes over", absl::StrFormat("shard %d", copy.shard));
    }
    // Includes changes that it has and has not confirmed yet.
    OnConfirmed(copy.shard, copies.taken);
    copies.awaited.clear();
    BecomePrimary(copy);
  } else {
    TakeAwaited(copy.shard);
  }
  for (const ShardAction& action : actions) OnSent(copy, action);
  EndFollowing(copy.shard);
}

void JobChecker::BecomePrimary(const Copy& copy) {
  ShardCopies& copies = copies_[copy.shard];
  copies.primary = copy.process;
  copies.ahead = copies.backup_ahead;
  peers_[copy.shard].assign(nodes_, std::vector<Peer>(plan_.connections));
  held_[copy.shard] = 0;
  for (Chunk& chunk : chunks_) {
    if (chunk.shard != copy.shard) continue;
    chunk.held = 0;
    chunk.cuts.clear();
    chunk.taken_over = chunk.received;
  }
}

// In the step in which it is said, of a shard without a second copy, all is checked already. Who is
// the primary no more may say what it has said before.
void JobChecker::OnSent(const Copy& copy, const ShardAction& said) {
  if (said.kind != ShardAction::Kind::kSend) return;
  const ShardCopies& copies = copies_[copy.shard];
  const wire::Header& header = said.frame.header;
  if (header.op == Op::kPulled) return CheckPulled(said.frame);
  const bool is_primary = copies.primary == copy.process;
  // Who takes over is still the backup here while what it has withheld leaves.
  const bool is_backup = !is_primary && copies.has_backup && copies.backup == copy.process;
  if (is_backup && (header.op == Op::kAck || header.op == Op::kHelloOk)) {
    return OnConfirmed(copy.shard, header.received);
  }
  if (header.op == Op::kAck && is_primary && header.received > copies.took_over_with) {
    return Violate("who takes over follows nobody", absl::StrFormat("shard %d", copy.shard));
  }
  if (header.op == Op::kCopy) {
    if (header.clock > 0 || SaysNextCopy(copy, said.frame)) return;
    if (is_primary) OnCopySent(said.frame);
    return;
  }
  if (is_primary && copies.stands_still && TellsOfTheShard(header.op)) {
    return Violate("nobody is answered while a job that waits has one copy",
                   wire::Describe(header));
  }
  const bool is_told_of_all = header.op == Op::kRetireOk;
  if (is_primary && !copies.has_backup) return;
  if (is_primary && !is_told_of_all && header.chunk < chunks_.size() &&
      !IsFollowed(chunks_[header.chunk])) {
    return;
  }
  const auto tell_only = [&](bool is_there) {
    if (!is_there) Violate(kToldOnly, wire::Describe(header));
  };
  switch (header.op) {
    case Op::kInitOk:
    case Op::kFirst:
      return tell_only(chunks_[header.chunk].reference != nullptr);
    case Op::kRetireOk:
      return tell_only(retired_[copy.shard][header.node] ||
                       header.clock < views_.JoinedAt(NodeId(header.node)));
    case Op::kAnswer:
    case Op::kCutAnswer:
      break;
    default:
      return;
  }
  const auto to = copies.node_of.find(said.connection);
  if (to == copies.node_of.end() || to->second != header.node) {
    Violate("answers go where the node speaks", wire::Describe(header));
  }
  CheckReported(said.frame, is_primary);
}

// Where the backup is told the sums of clocks, it has no push of a clock that is not complete. Who
// asks again is told of its own all the same, and that is answered only with the clock.
bool JobChecker::IsOfOpenClock(const wire::Header& answer, const PastWeights& past) const {
  const bool was_next = past.received.count({answer.node, answer.received - 1}) > 0;
  if (!per_clock() || bound() > 0 || answer.received == 0 || !was_next) return false;
  const Chunk& chunk = chunks_[answer.chunk];
  const std::deque<ShardCopies::Awaited>& awaited = copies_[chunk.shard].awaited;
  return answer.received <= chunk.received[answer.node] ||
         std::any_of(awaited.begin(), awaited.end(), [&](const ShardCopies::Awaited& one) {
           const wire::Header& push = one.frame.header;
           return push.op == Op::kPushPull && push.node == answer.node &&
                  push.chunk == answer.chunk && push.clock + 1 == answer.received;
         });
}

void JobChecker::CheckReported(const wire::Frame& frame, bool is_primary) {
  const wire::Header& answer = frame.header;
  Chunk& chunk = chunks_[answer.chunk];
  const bool is_answer = answer.op == Op::kAnswer;
  const auto past = chunk.past.find(answer.version);
  if (past == chunk.past.end() || (is_answer && answer.clock >= chunk.due[answer.node])) {
    return Violate(kToldOnly, wire::Describe(answer));
  }
  if (!is_answer && Gate(chunk) != kAllRetired) {
    return Violate("CUT waits for all", wire::Describe(answer));
  }
  // A repeated request gets the state after the last answer, and is told what has been received
  // since.
  const bool keeps_answers = codecs_.encodes_answers() || chunk.reference->keeps_bases();
  const bool was_received = is_answer && keeps_answers
                                ? answer.received <= chunk.received[answer.node]
                                : past->second.received.count({answer.node, answer.received}) > 0;
  const bool may_be_of_open_clock = !is_primary && per_clock();
  if (!was_received && !may_be_of_open_clock && !IsOfOpenClock(answer, past->second)) {
    Violate("answers tell what was received", wire::Describe(answer));
  }
  uint64_t& told = chunk.version_told[answer.node];
  if (is_primary && answer.version < told) {
    Violate("answers are monotone",
            absl::StrFormat("%s after version %d", wire::Describe(answer), told));
  }
  if (is_answer || !keeps_answers) told = std::max(told, answer.version);
  std::vector<float> weights = past->second.weights;
  const bool is_encoded = is_answer && codecs_.encodes_answers();
  if (is_encoded) {
    if (const std::string wrong = codecs_.CheckEarlierAnswer(frame, &weights); !wrong.empty()) {
      return Violate("nodes have what the shard thinks that they have",
                     wire::Describe(answer) + ": " + wrong);
    }
  } else if (frame.payload.float_count() != weights.size() ||
             std::memcmp(frame.payload.data(), weights.data(), frame.payload.size()) != 0) {
    return Violate("G2 order of bits", wire::Describe(answer) + ": other weights than the model's");
  }
  if (!is_answer || answer.clock >= layers_.rounds()) return;
  chunk.told[TellingOf(answer.node, answer.clock)].insert(Hash(weights));
  layers_.OnAnswer(answer.node, ChunkId(answer.chunk), answer.clock, weights);
}

// Second copies that are added later: empty, and filled chunk by chunk while nodes continue.

void JobChecker::OnEmptyInstalled(const Copy& copy, uint32_t generation) {
  ShardCopies& copies = copies_[copy.shard];
  const auto [known, is_new] = copies.empty.emplace(generation, copy.process);
  if (!is_new) {
    Violate("a copy is filled once in a generation",
            absl::StrFormat("shard %d is empty again in generation %d", copy.shard, generation));
  }
  if (copies.has_backup && copies.generation == generation) copies.backup = copy.process;
  for (std::optional<NextCopy>* next : {&copies.next, &copies.next_of_backup}) {
    if (*next && (*next)->generation() == generation) (*next)->set_process(copy.process);
  }
}

void JobChecker::OnFill(const Copy& copy, uint32_t generation) {
  ShardCopies& copies = copies_[copy.shard];
  if (copies.primary != copy.process) {
    return Violate("the primary fills its second copy", absl::StrFormat("shard %d", copy.shard));
  }
  const auto empty = copies.empty.find(generation);
  copies.has_backup = true;
  copies.backup = empty == copies.empty.end() ? 0 : empty->second;
  copies.generation = generation;
  copies.taken = copies.followed = 0;
  copies.unconfirmed.clear();
  copies.confirmed.clear();
  copies.backup_ahead = absl::ZeroDuration();
  copies.awaited.clear();
}

void JobChecker::EndFollowing(uint32_t shard) {
  copies_[shard].backup = 0;
  copies_[shard].has_backup = false;
  copies_[shard].unconfirmed.clear();
  copies_[shard].confirmed.clear();
  for (Chunk& chunk : chunks_) {
    if (chunk.shard != shard) continue;
    chunk.is_followed = chunk.is_filled = false;
    chunk.copy_parts = 0;
  }
}

void JobChecker::OnWhole(const Copy& copy) {
  ShardCopies& copies = copies_[copy.shard];
  if (copies.primary != copy.process) return;
  if (!copies.has_backup || !IsFilled(copy.shard)) {
    Violate("a second copy counts when it is whole", absl::StrFormat("shard %d", copy.shard));
  }
  copies.stands_still = false;
}

// From now on the backup follows the chunk. What it is told of nodes is what nodes may be told.
void JobChecker::OnCopySent(const wire::Frame& frame) {
  Chunk& chunk = chunks_[frame.header.chunk];
  const ShardCopies& copies = copies_[chunk.shard];
  if (!copies.has_backup || frame.header.generation != copies.generation) {
    return Violate("a copy is filled once in a generation", wire::Describe(frame.header));
  }
  if (chunk.is_followed) return;  // repeated
  proto::ChunkCopy head;
  const bool is_read =
      head.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  if (!is_read || head.nodes_size() != static_cast<int>(nodes_)) {
    return Violate("a primary says what it has taken", wire::Describe(frame.header));
  }
  for (uint32_t n = 0; n < nodes_; ++n) {
    const uint64_t received = head.nodes(static_cast<int>(n)).received();
    // It has pushed nothing yet, and the primary may not know that it joins.
    const uint64_t joins_at = views_.JoinedAt(NodeId(n));
    if (joins_at > 0 && chunk.received[n] == joins_at && received <= joins_at) continue;
    if (received < chunk.received[n]) TakeBack(&chunk, n, received);
    if (received == chunk.received[n]) continue;
    Violate("a primary says what it has taken",
            absl::StrFormat("chunk %d: %d pushes of node %d, not %d", frame.header.chunk, received,
                            n, chunk.received[n]));
  }
  chunk.is_followed = true;
  chunk.copy_parts = 1 + static_cast<uint64_t>(head.vector_bytes_size());
  chunk.open.clear();
  Remember(chunk.shard);
}

void JobChecker::TakeBack(Chunk* chunk, uint32_t node, uint64_t clock) {
  const bool is_open = MayLeaveOpenClocksOut() && clock >= Gate(*chunk);
  if (!is_open || !chunk->reference) return;
  for (const ShardCopies::Awaited& one : chunk->open) {
    const wire::Header& push = one.frame.header;
    if (push.node != node || push.clock < clock) continue;
    copies_[chunk->shard].awaited.push_back(one);
    --chunk->received[node];
  }
  chunk->reference->TakeBack(node, clock);
}

void JobChecker::TakeCopied(const wire::Frame& part) {
  Chunk& chunk = chunks_[part.header.chunk];
  if (chunk.is_filled || chunk.copy_parts == 0) {
    return Violate("a copy is filled once in a generation", wire::Describe(part.header));
  }
  chunk.is_filled = --chunk.copy_parts == 0;
}

// Shards that leave a server: a copy is filled beside the two and replaces one of them. Until then
// nodes are told nothing that not all copies have.

namespace {

constexpr char kWholeOnly[] = "a next backup counts when it is whole";

}  // namespace

std::optional<NextCopy>* JobChecker::NextOf(const Copy& copy) {
  ShardCopies& copies = copies_[copy.shard];
  if (copies.primary == copy.process) return &copies.next;
  if (copies.has_backup && copies.backup == copy.process) return &copies.next_of_backup;
  return nullptr;
}

void JobChecker::BecomeBackup(const Copy& copy) {
  ShardCopies& copies = copies_[copy.shard];
  const auto is_it = [&](const auto& next) { return next && next->process() == copy.process; };
  if (!is_it(copies.next) && !is_it(copies.next_of_backup)) return;
  const bool stands_still = copies.stands_still;  // for all that the primary knows
  OnNextTaken({copy.shard, is_it(copies.next) ? copies.primary : copies.backup});
  copies.stands_still = stands_still;
}

void JobChecker::OnNext(const Copy& copy, uint32_t generation) {
  BecomeBackup(copy);
  ShardCopies& copies = copies_[copy.shard];
  std::optional<NextCopy>* const next = NextOf(copy);
  if (next == nullptr) return;  // it has been given up and does not know it yet
  std::set<uint32_t> retired;
  for (uint32_t n = 0; n < nodes_; ++n) {
    if (retired_[copy.shard][n]) retired.insert(n);
  }
  const auto& known = next == &copies.next ? copies.awaited : copies.unconfirmed;
  for (const ShardCopies::Awaited& one : known) {
    if (one.frame.header.op == Op::kRetire) retired.insert(one.frame.header.node);
  }
  const auto empty = copies.empty.find(generation);
  next->emplace(generation, empty == copies.empty.end() ? 0 : empty->second, std::move(retired));
}

void JobChecker::OnNextDropped(const Copy& copy) {
  std::optional<NextCopy>* const next = NextOf(copy);
  if (next == nullptr) return;
  next->reset();
  TakeConfirmed(copy.shard);
}

bool JobChecker::IsNextWhole(const Copy& copy) {
  const std::optional<NextCopy>* const next = NextOf(copy);
  return next == nullptr || (*next && (*next)->IsWhole(chunks_on_[copy.shard]));
}

bool JobChecker::SaysNextCopy(const Copy& copy, const wire::Frame& frame) {
  std::optional<NextCopy>* const next = NextOf(copy);
  if (next == nullptr || !*next || (*next)->generation() != frame.header.generation) return false;
  proto::ChunkCopy head;
  const bool is_read =
      head.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  if (is_read && head.nodes_size() == static_cast<int>(nodes_)) {
    (*next)->OnCopySent(frame.header.chunk, head);
  } else {
    Violate("who fills a copy says what it has", wire::Describe(frame.header));
  }
  return true;
}

void JobChecker::OnNextChange(uint32_t shard, const wire::Frame& change,
                              std::optional<NextCopy>& next) {
  const std::string wrong = next->OnTaken(change);
  if (!wrong.empty()) Violate("a copy is filled once in a generation", wrong);
  TakeConfirmed(shard);
}

// A change confirmed by the backup counts once the copy that the primary also fills has it.
void JobChecker::TakeConfirmed(uint32_t shard) {
  ShardCopies& copies = copies_[shard];
  while (!copies.confirmed.empty()) {
    const wire::Header& header = copies.confirmed.front().frame.header;
    if (copies.next && copies.next->Lacks(header)) return;
    for (std::optional<NextCopy>* next : {&copies.next, &copies.next_of_backup}) {
      if (*next) (*next)->Forget(header);
    }
    const ShardCopies::Awaited one = std::move(copies.confirmed.front());
    copies.confirmed.pop_front();
    TakeChange(shard, one.frame, one.at);
  }
}

void JobChecker::OnNextTaken(const Copy& copy) {
  ShardCopies& copies = copies_[copy.shard];
  std::optional<NextCopy>* const next = NextOf(copy);
  if (next == nullptr || !*next) return;
  if (!IsNextWhole(copy)) Violate(kWholeOnly, absl::StrFormat("shard %d", copy.shard));
  const bool takes_over = copies.primary != copy.process;
  NextCopy filled = *std::move(*next);
  copies.next.reset();
  copies.next_of_backup.reset();
  if (takes_over) {
    TakeOverWith(copy, &filled);
  } else {
    GoOnWith(copy.shard, &filled);
  }
  copies.confirmed.clear();
  copies.has_backup = true;
  copies.backup = filled.process();
  copies.generation = filled.generation();
  copies.stands_still = plan_.waits_unprotected;
  for (Chunk& chunk : chunks_) {
    if (chunk.shard == copy.shard) chunk.is_followed = chunk.is_filled = true;
  }
}

// The primary stays: the new backup's state counts, whatever its predecessor had.
void JobChecker::GoOnWith(uint32_t shard, NextCopy* filled) {
  ShardCopies& copies = copies_[shard];
  for (const ShardCopies::Awaited& one : std::exchange(copies.confirmed, {})) {
    if (filled->Lacks(one.frame.header)) continue;
    filled->Forget(one.frame.header);
    TakeChange(shard, one.frame, one.at);
  }
  // Changes that the primary had accepted when it sent the copy, and that the former backup lacked.
  std::deque<ShardCopies::Awaited> later;
  for (ShardCopies::Awaited& one : std::exchange(copies.awaited, {})) {
    if (filled->IsInCopy(one.frame.header)) {
      TakeUnanswered(shard, one.frame, one.at);
      Remember(shard);
    } else {
      later.push_back(std::move(one));
    }
  }
  copies.awaited = std::move(later);
  for (const wire::Frame& change : filled->ahead()) TakeChange(shard, change, TimeIn(change));
  copies.taken = copies.followed = filled->taken();
  copies.unconfirmed.clear();
}

// The backup becomes the primary, and has sent the new backup what it has followed. Nothing else
// remains of what the former primary had received.
void JobChecker::TakeOverWith(const Copy& copy, NextCopy* filled) {
  ShardCopies& copies = copies_[copy.shard];
  std::deque<ShardCopies::Awaited> later;
  for (ShardCopies::Awaited& one : std::exchange(copies.unconfirmed, {})) {
    if (filled->Lacks(one.frame.header)) {
      later.push_back(std::move(one));
    } else {
      TakeChange(copy.shard, one.frame, one.at);
    }
  }
  std::erase_if(copies.awaited, [&](const ShardCopies::Awaited& push) {
    return std::none_of(later.begin(), later.end(), [&](const ShardCopies::Awaited& one) {
      const wire::Header &said = one.frame.header, &taken = push.frame.header;
      const bool is_part = said.op == Op::kApply && taken.op == Op::kPushPull &&
                           said.chunk == taken.chunk && said.clock == taken.clock;
      return is_part || IsSameChange(said, taken);
    });
  });
  BecomePrimary(copy);
  // The former primary is no longer told.
  copies.took_over_with = copies.taken;
  copies.taken = copies.followed = filled->taken();
}

}  // namespace strata::sim
