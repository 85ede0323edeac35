#ifndef STRATA_SERVER_DAEMON_STALLING_STORE_H_
#define STRATA_SERVER_DAEMON_STALLING_STORE_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/checkpoint/store.h"
#include "gtest/gtest.h"

namespace strata::server {

// For tests.

inline constexpr absl::Duration kLong = absl::Seconds(20);

// Objects in memory, on a store that fails or stalls when it is told to.
struct Memory {
  absl::Mutex mutex;
  std::map<std::string, std::string> objects ABSL_GUARDED_BY(mutex);
  int opened ABSL_GUARDED_BY(mutex) = 0;
  int gets ABSL_GUARDED_BY(mutex) = 0;
  int at_the_gate ABSL_GUARDED_BY(mutex) = 0;
  bool stalls ABSL_GUARDED_BY(mutex) = false;
  absl::Status answer ABSL_GUARDED_BY(mutex);

  void Set(bool stall, const absl::Status& status = absl::OkStatus()) {
    absl::MutexLock lock(&mutex);
    stalls = stall;
    answer = status;
  }
  absl::Status Enter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    ++at_the_gate;
    mutex.Await(absl::Condition(
        +[](Memory* memory) { return !memory->stalls; }, this));
    return answer;
  }
  void AwaitAtTheGate(int count) {
    const auto are_there = [this, count] {
      mutex.AssertReaderHeld();
      return at_the_gate >= count;
    };
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&are_there), kLong));
  }
};

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  absl::Status Put(const std::string& name,
                   absl::Span<const absl::Span<const char>> pieces) override {
    absl::MutexLock lock(&memory_->mutex);
    if (absl::Status status = memory_->Enter(); !status.ok()) return status;
    std::string& object = memory_->objects[name];
    object.clear();
    for (const absl::Span<const char> piece : pieces) object.append(piece.data(), piece.size());
    return absl::OkStatus();
  }
  absl::Status PutNew(const std::string&, absl::Span<const absl::Span<const char>>) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<Bytes> Get(const std::string& name) override {
    absl::MutexLock lock(&memory_->mutex);
    ++memory_->gets;
    if (absl::Status status = memory_->Enter(); !status.ok()) return status;
    const auto found = memory_->objects.find(name);
    if (found == memory_->objects.end()) return absl::NotFoundError(name);
    const auto text = std::make_shared<std::string>(found->second);
    return Bytes(text, reinterpret_cast<const std::byte*>(text->data()), text->size());
  }
  // Hands on in pieces that fit nothing.
  absl::Status Read(const std::string& name, const TakePiece& take) override {
    const absl::StatusOr<Bytes> content = Get(name);
    if (!content.ok()) return content.status();
    absl::Span<const char> rest(reinterpret_cast<const char*>(content->data()), content->size());
    absl::Status taken;
    for (; taken.ok() && !rest.empty(); rest.remove_prefix(std::min<size_t>(rest.size(), 7))) {
      taken = take(content->size(), rest.subspan(0, 7));
    }
    return taken;
  }
  absl::StatusOr<std::vector<std::string>> List() override { return std::vector<std::string>(); }
  absl::Status Delete(const std::string&) override { return absl::OkStatus(); }
  absl::Status DeleteFolder(const std::string&) override { return absl::OkStatus(); }
  const std::string& where() const override { return where_; }

 private:
  const std::string where_ = "memory";
  const std::shared_ptr<Memory> memory_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_STALLING_STORE_H_
