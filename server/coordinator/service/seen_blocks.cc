#include "server/coordinator/service/seen_blocks.h"

#include <algorithm>
#include <set>

#include "server/coordinator/service/stored_value.pb.h"

namespace strata::server {
namespace {

std::string Serialize(const std::vector<SeenBlocks::Entry>& entries) {
  proto::StoredSeenBlock block;
  for (const SeenBlocks::Entry& entry : entries) {
    block.add_daemon_id(entry.daemon_id);
    block.add_attempt(entry.attempt);
  }
  return block.SerializeAsString();
}

}  // namespace

absl::Status SeenBlocks::Restore(uint64_t number, const std::string& value) {
  proto::StoredSeenBlock block;
  if (!block.ParseFromString(value) || block.daemon_id_size() != block.attempt_size() ||
      block.daemon_id_size() > static_cast<int>(kBlockEntries)) {
    return absl::DataLossError("is damaged: no block of registrations");
  }
  std::vector<Entry>& entries = blocks_[number];
  for (int i = 0; i < block.daemon_id_size(); ++i) {
    entries.push_back({.daemon_id = block.daemon_id(i), .attempt = block.attempt(i)});
  }
  next_ = number + 1;
  return absl::OkStatus();
}

void SeenBlocks::Add(const Entry& entry, Change& change) {
  if (blocks_.empty() || blocks_.rbegin()->second.size() >= kBlockEntries) blocks_[next_++];
  auto& [number, entries] = *blocks_.rbegin();
  entries.push_back(entry);
  change.blocks[number];
}

SeenBlocks::Change SeenBlocks::Append(std::vector<Entry> entries) {
  constexpr size_t kMax = SeenRegistrations::kMax;
  if (entries.size() > kMax) entries.erase(entries.begin(), entries.end() - kMax);
  size_t count = entries.size();
  for (const auto& [number, block] : blocks_) count += block.size();
  Change change;
  for (const Entry& entry : entries) Add(entry, change);
  if (count > kLogMax) {
    const std::vector<Entry> newest = Newest();
    change.blocks.clear();
    blocks_.clear();
    for (const Entry& entry : newest) Add(entry, change);
  }
  if (!blocks_.empty()) change.first = blocks_.begin()->first;
  for (auto& [number, value] : change.blocks) value = Serialize(blocks_[number]);
  return change;
}

std::vector<SeenBlocks::Entry> SeenBlocks::Newest() const {
  std::vector<Entry> newest;
  std::set<uint64_t> known;
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    for (auto entry = block->second.rbegin(); entry != block->second.rend(); ++entry) {
      if (newest.size() == SeenRegistrations::kMax) break;
      if (known.insert(entry->daemon_id).second) newest.push_back(*entry);
    }
  }
  std::reverse(newest.begin(), newest.end());
  return newest;
}

}  // namespace strata::server
