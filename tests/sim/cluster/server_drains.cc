#include "tests/sim/cluster/server_drains.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "common/transport/sim/random.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/sim_server.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

constexpr absl::Duration kTryAgain = absl::Milliseconds(300);
// How long a server stays out of service.
constexpr absl::Duration kDrainedMax = absl::Seconds(20);
// Within what a copy takes to be filled, mostly.
constexpr absl::Duration kSoonMax = absl::Seconds(2);
// Beyond what a backup, and then a server, is waited for.
constexpr absl::Duration kApartLong = absl::Seconds(14);
constexpr absl::Duration kRestartMax = absl::Seconds(20);

// Again while nobody answers. `done`: what follows once it is done.
void Ask(const std::string& server, bool undo, const std::function<void()>& done, World* world) {
  // Its shards begin to leave, or to stay, before that is answered.
  world->causes().OnDrainAsked(server, undo);
  const absl::Status asked = world->coordinator().Drain(server, undo);
  if (asked.ok()) {
    world->causes().OnDrainDone(server, undo);
    return done();
  }
  if (!absl::IsUnavailable(asked)) return;  // it has not joined yet
  world->network().After(kTryAgain, [=] { Ask(server, undo, done, world); });
}

class ServerDrains : public std::enable_shared_from_this<ServerDrains> {
 public:
  explicit ServerDrains(World* world) : world_(world), random_(world->scenario().seed ^ 0x647261) {}

  void Next(uint32_t times) {
    if (times == 0) return;
    const absl::Duration wait = absl::Milliseconds(std::exp2(4 + 10 * random_.Fraction()));
    world_->network().After(wait, [self = shared_from_this(), times] {
      self->Drain();
      self->Next(times - 1);
    });
  }

 private:
  // A job that is not placed yet would wait for what is drained, and end by that.
  void Drain() {
    const std::string& server = world_->servers()[random_.Below(world_->servers().size())]->name();
    const absl::Duration pause = random_.Between(absl::ZeroDuration(), kDrainedMax);
    if (world_->checker(1) == nullptr) return Next(1);
    const auto is_drained = [=, self = shared_from_this()] {
      self->world_->Count(Rare::kServerDrain);
      self->world_->network().After(pause, [self, server] {
        Ask(
            server, /*undo=*/true, [] {}, self->world_);
      });
    };
    Ask(server, /*undo=*/false, is_drained, world_);
  }

  World* const world_;
  transport::SimRandom random_;
};

}  // namespace

void DrainServers(World* world) {
  std::make_shared<ServerDrains>(world)->Next(world->scenario().nodes.server_drains);
}

void DisturbMove(const std::vector<std::string>& servers, World* world) {
  if (!world->Takes(Rare::kDisturbedMove)) return;
  transport::SimRandom& random = world->random();
  const std::string name = servers[random.Below(servers.size())];
  const absl::Duration pause = random.Between(absl::ZeroDuration(), kApartLong);
  const absl::Duration down = random.Between(absl::ZeroDuration(), kRestartMax);
  const uint64_t what = random.Below(6);
  world->network().After(random.Between(absl::ZeroDuration(), kSoonMax), [=] {
    const auto& all = world->servers();
    const auto server =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one->name() == name; });
    if (server == all.end()) return;
    if (what < 3) return (*server)->Lose();
    if (what == 3) return (*server)->Stop(pause);
    if (what == 4) return (*server)->CutOff(pause);
    world->coordinator().Restart(down);
  });
}

}  // namespace strata::sim
