#include "common/testing/faulty_store.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/buffer_pool.h"
#include "common/require.h"

namespace strata {

// One process's store on the disk.
class FaultyStore final : public Store {
 public:
  explicit FaultyStore(FaultyDisk* disk) : disk_(*disk) {}

  absl::Status Put(const std::string& name,
                   absl::Span<const absl::Span<const char>> pieces) override {
    return disk_.Put(name, Whole(pieces), /*only_new=*/false);
  }
  absl::Status PutNew(const std::string& name,
                      absl::Span<const absl::Span<const char>> pieces) override {
    return disk_.Put(name, Whole(pieces), /*only_new=*/true);
  }
  absl::StatusOr<Bytes> GetAtMost(const std::string& name, uint64_t bytes_max) override {
    const absl::StatusOr<std::string> content = disk_.Get(name);
    if (!content.ok()) return content.status();
    if (content->size() > bytes_max) {
      return absl::InvalidArgumentError(
          absl::StrCat(disk_.Path(name), ": larger than ", bytes_max, " bytes"));
    }
    const std::shared_ptr<std::byte> owner = AlignedMemory(content->size());
    STRATA_REQUIRE(owner != nullptr);
    std::memcpy(owner.get(), content->data(), content->size());
    return Bytes(owner, owner.get(), content->size());
  }
  absl::StatusOr<std::vector<std::string>> List() override { return disk_.List(); }
  absl::Status Delete(const std::string& name) override { return disk_.Delete(name); }
  absl::Status DeleteFolder(const std::string& folder) override {
    return disk_.DeleteFolder(folder);
  }
  const std::string& where() const override { return disk_.where(); }

 private:
  static std::string Whole(absl::Span<const absl::Span<const char>> pieces) {
    std::string whole;
    for (const absl::Span<const char> piece : pieces) whole.append(piece.data(), piece.size());
    return whole;
  }

  FaultyDisk& disk_;
};

std::unique_ptr<Store> FaultyDisk::Open() { return std::make_unique<FaultyStore>(this); }

void FaultyDisk::FailCalls(uint32_t calls, uint32_t after) {
  absl::MutexLock lock(&mutex_);
  calls_to_fail_ = calls;
  calls_to_do_ = after;
}

uint64_t FaultyDisk::failed_calls() const {
  absl::MutexLock lock(&mutex_);
  return failed_calls_;
}

void FaultyDisk::FillUp(uint32_t puts) {
  absl::MutexLock lock(&mutex_);
  puts_without_space_ = puts;
}

void FaultyDisk::CrashAfter(uint32_t writes) {
  absl::MutexLock lock(&mutex_);
  writes_to_crash_ = writes;
}

void FaultyDisk::Crash() {
  absl::MutexLock lock(&mutex_);
  LoseUnsynced();
}

bool FaultyDisk::crashed() const {
  absl::MutexLock lock(&mutex_);
  return crashed_;
}

void FaultyDisk::Restart() {
  absl::MutexLock lock(&mutex_);
  crashed_ = false;
}

void FaultyDisk::Calm() {
  absl::MutexLock lock(&mutex_);
  calls_to_fail_ = puts_without_space_ = 0;
  writes_to_crash_ = UINT32_MAX;
}

std::string FaultyDisk::Damage(const std::string& part) {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> names;
  for (const auto& [name, object] : objects_) {
    if (absl::StrContains(name, part) && !object.content.empty()) names.push_back(name);
  }
  if (names.empty()) return "";
  const std::string& name = names[Below(names.size())];
  Object& object = objects_[name];
  const size_t at = Below(object.content.size());
  if (Below(4) == 0) {
    object.content.resize(at);
  } else {
    object.content[at] = static_cast<char>(object.content[at] ^ (1 << Below(8)));
  }
  object.is_damaged = true;
  return name;
}

absl::Duration FaultyDisk::DrawLatency(absl::Duration most) {
  absl::MutexLock lock(&mutex_);
  return most * (static_cast<double>(Below(1 << 20)) / (1 << 20));
}

std::map<std::string, std::string> FaultyDisk::Contents() const {
  absl::MutexLock lock(&mutex_);
  std::map<std::string, std::string> contents;
  for (const auto& [name, object] : objects_) contents[name] = object.content;
  return contents;
}

std::set<std::string> FaultyDisk::Damaged() const {
  absl::MutexLock lock(&mutex_);
  std::set<std::string> damaged;
  for (const auto& [name, object] : objects_) {
    if (object.is_damaged) damaged.insert(name);
  }
  return damaged;
}

absl::Status FaultyDisk::Crashed() const {
  return absl::AbortedError(absl::StrCat(where_, ": the host has crashed"));
}

absl::Status FaultyDisk::ReadFault(const std::string& name) {
  if (crashed_) return Crashed();
  if (!FailsNow()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(Path(name), ": does not answer"));
}

bool FaultyDisk::FailsNow() {
  if (calls_to_fail_ == 0) return false;
  if (calls_to_do_ > 0) {
    --calls_to_do_;
    return false;
  }
  --calls_to_fail_;
  ++failed_calls_;
  return true;
}

FaultyDisk::Fate FaultyDisk::DrawFate() {
  if (FailsNow()) return Below(2) == 0 ? Fate::kFails : Fate::kFailsButDone;
  if (writes_to_crash_ == UINT32_MAX) return Fate::kDone;
  return writes_to_crash_-- == 0 ? Fate::kCrashes : Fate::kDone;
}

FaultyDisk::Unsynced FaultyDisk::Remember(const std::string& name) {
  const auto old = objects_.find(name);
  if (old == objects_.end()) return {.name = name};
  return {.name = name, .had_old = true, .old = old->second};
}

void FaultyDisk::Undo(const Unsynced& write) {
  if (write.had_old) {
    objects_[write.name] = write.old;
  } else {
    objects_.erase(write.name);
  }
}

void FaultyDisk::Tear(const Unsynced& write) {
  const auto written = objects_.find(write.name);
  if (written == objects_.end()) return;
  switch (Below(4)) {
    case 0:
      return;  // all of it had reached the disk
    case 1:
      return Undo(write);
    case 2:
      objects_.erase(written);
      return;
    default:
      written->second.content.resize(Below(written->second.content.size() + 1));
  }
}

void FaultyDisk::LoseUnsynced() {
  crashed_ = true;
  writes_to_crash_ = UINT32_MAX;
  for (const Unsynced& put : std::exchange(puts_, {})) Tear(put);
  const size_t lost = Below(deletes_.size() + 1);
  for (size_t i = deletes_.size() - lost; i < deletes_.size(); ++i) {
    if (!objects_.contains(deletes_[i].name)) Undo(deletes_[i]);
  }
  deletes_.clear();
}

absl::Status FaultyDisk::Put(const std::string& name, const std::string& content, bool only_new) {
  if (absl::Status fine = CheckObjectName(name); !fine.ok()) return fine;
  absl::MutexLock lock(&mutex_);
  if (crashed_) return Crashed();
  if (puts_without_space_ > 0) {
    --puts_without_space_;
    return absl::ResourceExhaustedError(absl::StrCat(Path(name), ": no space left"));
  }
  const Unsynced write = Remember(name);
  if (only_new && write.had_old) {
    if (write.old.content == content) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat(Path(name), ": is there already"));
  }
  const Fate fate = DrawFate();
  std::erase_if(puts_, [&](const Unsynced& put) { return put.name == name; });
  if (fate != Fate::kFails) objects_[name] = {.content = content};
  switch (fate) {
    case Fate::kDone:
      deletes_.clear();
      return absl::OkStatus();
    case Fate::kFailsButDone:
      puts_.push_back(write);
      [[fallthrough]];
    case Fate::kFails:
      return absl::UnavailableError(absl::StrCat(Path(name), ": does not answer"));
    case Fate::kCrashes:
      puts_.push_back(write);
      LoseUnsynced();
      return Crashed();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FaultyDisk::Get(const std::string& name) {
  if (absl::Status fine = CheckObjectName(name); !fine.ok()) return fine;
  absl::MutexLock lock(&mutex_);
  if (absl::Status fault = ReadFault(name); !fault.ok()) return fault;
  const auto object = objects_.find(name);
  if (object != objects_.end()) return object->second.content;
  return absl::NotFoundError(absl::StrCat(Path(name), ": is not there"));
}

absl::StatusOr<std::vector<std::string>> FaultyDisk::List() {
  absl::MutexLock lock(&mutex_);
  if (absl::Status fault = ReadFault(""); !fault.ok()) return fault;
  std::vector<std::string> names;
  for (const auto& [name, object] : objects_) names.push_back(name);
  return names;
}

absl::Status FaultyDisk::Remove(const std::string& name) {
  if (crashed_) return Crashed();
  const Fate fate = DrawFate();
  const Unsynced write = Remember(name);
  if (fate != Fate::kFails && write.had_old) {
    objects_.erase(name);
    deletes_.push_back(write);
    std::erase_if(puts_, [&](const Unsynced& put) { return put.name == name; });
  }
  if (fate == Fate::kDone) return absl::OkStatus();
  if (fate == Fate::kCrashes) {
    LoseUnsynced();
    return Crashed();
  }
  return absl::UnavailableError(absl::StrCat(Path(name), ": does not answer"));
}

absl::Status FaultyDisk::Delete(const std::string& name) {
  if (absl::Status fine = CheckObjectName(name); !fine.ok()) return fine;
  absl::MutexLock lock(&mutex_);
  return Remove(name);
}

absl::Status FaultyDisk::DeleteFolder(const std::string& folder) {
  if (absl::Status fine = CheckObjectName(folder); !fine.ok()) return fine;
  absl::MutexLock lock(&mutex_);
  if (crashed_) return Crashed();
  std::vector<std::string> names;
  for (const auto& [name, object] : objects_) {
    if (absl::StartsWith(name, folder + "/")) names.push_back(name);
  }
  std::shuffle(names.begin(), names.end(), random_);
  for (const std::string& name : names) {
    if (absl::Status removed = Remove(name); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

}  // namespace strata
