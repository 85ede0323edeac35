// An attacker between the daemons and the coordinator modifies bytes and cuts connections, while a
// job trains.
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/e2e/testing/hostile_job.h"
#include "tests/e2e/testing/recording_relay.h"

namespace strata::tests {
namespace {

using Place = RecordingRelay::Place;

// The minimum that a daemon has sent after TLS's handshake and its registration.
constexpr uint64_t kRegisteredBytes = 1800;
constexpr size_t kDaemons = 3;

// Positions at which a bit of a handshake is flipped: in the head of a record, in the hellos,
// certificates and finished messages, in HTTP/2's preface. Not in bytes 3 and 4, the length of the
// first record: both sides would wait for the rest of it, for longer than a daemon may be away.
struct Target {
  bool forwards;
  uint64_t at;
};
constexpr Target kTargets[] = {{true, 0},    {false, 0},   {true, 5},    {false, 11},
                               {true, 43},   {false, 60},  {true, 200},  {false, 300},
                               {true, 800},  {false, 900}, {true, 1300}, {false, 2000},
                               {true, 1450}, {false, 2700}};

// Once started, it flips a bit in the handshake of every other connection, at each target in turn.
class Damage {
 public:
  void Begin() {
    absl::MutexLock lock(&mutex_);
    active_ = true;
  }

  void Change(const Place& place, char* bytes, size_t size) {
    absl::MutexLock lock(&mutex_);
    if (place.forwards) said_[place.connection] = place.at + size;
    if (!active_) return;
    if (spoil_next_ && place.forwards && IsUp(place.connection)) {
      // In the seal of TLS's record.
      spoil_next_ = false;
      Flip(&bytes[size - 1]);
    }
    // A daemon also checks whether anybody listens, and then sends nothing.
    if (place.forwards && place.at == 0 && ++begun_ % 2 == 1) victim_ = place.connection;
    if (place.connection != victim_ || damaged_.contains(victim_)) return;
    if (next_ == std::size(kTargets)) return;
    const Target& target = kTargets[next_];
    if (place.forwards != target.forwards || target.at < place.at) return;
    if (target.at - place.at >= size) return;
    Flip(&bytes[target.at - place.at]);
    damaged_.insert(place.connection);
    ++next_;
  }

  // Spoils the next bytes of any daemon's session.
  void SpoilNext() {
    absl::MutexLock lock(&mutex_);
    spoil_next_ = true;
  }
  bool has_spoilt() {
    absl::MutexLock lock(&mutex_);
    return !spoil_next_;
  }
  bool is_done() {
    absl::MutexLock lock(&mutex_);
    return next_ == std::size(kTargets);
  }
  // Returns whether, among the connections from this one on, one was left alone and a daemon
  // registered on it.
  bool IsBackSince(size_t connection) {
    absl::MutexLock lock(&mutex_);
    for (auto it = said_.lower_bound(connection); it != said_.end(); ++it) {
      if (IsUp(it->first)) return true;
    }
    return false;
  }
  size_t connections() {
    absl::MutexLock lock(&mutex_);
    return said_.size();
  }

 private:
  bool IsUp(size_t connection) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return said_.at(connection) >= kRegisteredBytes && !damaged_.contains(connection);
  }
  static void Flip(char* byte) { *byte = static_cast<char>(*byte ^ 0x10); }

  absl::Mutex mutex_;
  bool active_ ABSL_GUARDED_BY(mutex_) = false;
  bool spoil_next_ ABSL_GUARDED_BY(mutex_) = false;
  size_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t victim_ ABSL_GUARDED_BY(mutex_) = SIZE_MAX;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;                  // of the targets
  std::map<size_t, uint64_t> said_ ABSL_GUARDED_BY(mutex_);  // bytes by connection
  std::set<size_t> damaged_ ABSL_GUARDED_BY(mutex_);         // connections
};

TEST_F(HostileJob, DamageAndCutsOnTheWayToTheCoordinator) {
  // The relay outlives this function.
  const auto damage = std::make_shared<Damage>();
  Eavesdrop({.change = [damage](const Place& place, char* bytes, size_t size) {
    damage->Change(place, bytes, size);
  }});
  Begin(400, 80);
  damage->Begin();
  int cuts = 0;
  for (; cuts < 60 && !damage->is_done(); ++cuts) {
    const size_t before = relay_->said().size();
    if (cuts % 8 == 7) {
      damage->SpoilNext();
      EXPECT_TRUE(WaitUntil([&] { return damage->has_spoilt(); }));
    } else {
      EXPECT_TRUE(WaitUntil([&] { return relay_->CutOldest(); }));
    }
    // A connection that was about to end by itself may have been replaced before.
    WaitUntil([&] { return damage->IsBackSince(before); }, absl::Seconds(5));
  }
  EXPECT_TRUE(damage->is_done()) << "after " << cuts << " cuts";
  EXPECT_GT(damage->connections(), kDaemons + std::size(kTargets));
  const auto nodes = cluster_.client().ListNodes();
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_EQ(nodes->daemons_size(), static_cast<int>(kDaemons));
  for (const proto::DaemonStatus& daemon : nodes->daemons()) {
    EXPECT_TRUE(daemon.alive()) << daemon.name();
  }
  ExpectUndisturbed();
}

}  // namespace
}  // namespace strata::tests
