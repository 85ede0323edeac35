// The part of JobChecker that knows of shards that leave a server: a copy is filled beside the two,
// and takes the place of one. Until then nodes learn of nothing that not all of them have.
#include <cstdint>
#include <deque>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/shard/copy/chunk_copy.pb.h"
#include "tests/sim/check/checker.h"

namespace strata::sim {
namespace {

using wire::Op;

constexpr char kWholeOnly[] = "a next backup counts when it is whole";

}  // namespace

std::optional<NextCopy>* JobChecker::NextOf(const Copy& copy) {
  ShardCopies& copies = copies_[copy.shard];
  if (copies.primary == copy.process) return &copies.next;
  if (copies.has_backup && copies.backup == copy.process) return &copies.next_of_backup;
  return nullptr;
}

void JobChecker::OnNext(const Copy& copy, uint32_t generation) {
  ShardCopies& copies = copies_[copy.shard];
  std::optional<NextCopy>* const next = NextOf(copy);
  if (next == nullptr) return;  // it has been given up, and has not heard so
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
    (*next)->OnCopySaid(frame.header.chunk, head);
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

// What the backup has confirmed counts once the copy has it that the primary fills besides.
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

// The primary stays: what the new backup has counts, whatever the one before it had.
void JobChecker::GoOnWith(uint32_t shard, NextCopy* filled) {
  ShardCopies& copies = copies_[shard];
  for (const ShardCopies::Awaited& one : std::exchange(copies.confirmed, {})) {
    if (filled->Lacks(one.frame.header)) continue;
    filled->Forget(one.frame.header);
    TakeChange(shard, one.frame, one.at);
  }
  // What the primary had taken when it said the copy, and the backup before did not have.
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

// The backup is the primary from now on, and has said to the new backup what it has followed. Of
// what the primary before it has taken nothing else is left.
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
  // The primary before it hears of that no more.
  copies.took_over_with = copies.taken;
  copies.taken = copies.followed = filled->taken();
}

}  // namespace strata::sim
