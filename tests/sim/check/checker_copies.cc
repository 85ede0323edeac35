// The part of JobChecker that knows of shards in two copies: what nodes are told the second copy
// has, and whoever takes over goes on from there.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/sim/check/checker.h"

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
  // Repetitions of what waits, or of what both have, change nothing.
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
  // One process may hold two in turn: the first one's primary has died with it half filled.
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

// What counts is what the backup says that it has: who is told so lets go of it.
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
    // All of a clock, as it was summed.
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

// Of all that a copy may say later, though it has been kept back or asked for again.
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

// What is kept back leaves then, but where the job waits for a second copy.
void JobChecker::OnAlone(const Copy& copy, const std::vector<ShardAction>& actions) {
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
    // What it has and has not confirmed yet, too.
    OnConfirmed(copy.shard, copies.taken);
    copies.awaited.clear();
    BecomePrimary(copy);
  } else {
    TakeAwaited(copy.shard);
  }
  for (const ShardAction& action : actions) OnSaid(copy, action);
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
void JobChecker::OnSaid(const Copy& copy, const ShardAction& said) {
  if (said.kind != ShardAction::Kind::kSend) return;
  const ShardCopies& copies = copies_[copy.shard];
  const wire::Header& header = said.frame.header;
  if (header.op == Op::kPulled) return CheckPulled(said.frame);
  const bool is_primary = copies.primary == copy.process;
  const bool is_backup = copies.has_backup && copies.backup == copy.process;
  if (is_backup && (header.op == Op::kAck || header.op == Op::kHelloOk)) {
    return OnConfirmed(copy.shard, header.received);
  }
  if (header.op == Op::kAck && is_primary && header.received > copies.took_over_with) {
    return Violate("who takes over follows nobody", absl::StrFormat("shard %d", copy.shard));
  }
  if (header.op == Op::kCopy) {
    if (header.clock > 0 || SaysNextCopy(copy, said.frame)) return;
    if (is_primary) OnCopySaid(said.frame);
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
  CheckSaid(said.frame, is_primary);
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

void JobChecker::CheckSaid(const wire::Frame& frame, bool is_primary) {
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
  // Who asks again is given what the last answer led to, and told what has been received since.
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

}  // namespace strata::sim
