#include "tests/sim/lost_process.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/world.h"

namespace strata::sim {
namespace {

constexpr absl::Duration kNoticedMax = absl::Seconds(1);
constexpr absl::Duration kDownMax = absl::Seconds(8);
constexpr absl::Duration kTryAgain = absl::Seconds(1);

}  // namespace

void LoseProcess(World* world, const std::string& daemon,
                 const std::function<void(absl::Duration noticed_after)>& end,
                 std::function<void()> start) {
  world->causes().OnLost(daemon);
  world->Log(18, [&] { return absl::StrCat(daemon, "'s process dies"); });
  const bool host_dies = world->random().Chance(0.5);
  end(host_dies ? absl::InfiniteDuration()
                : world->random().Between(absl::ZeroDuration(), kNoticedMax));
  world->network().After(world->random().Between(absl::ZeroDuration(), kDownMax), std::move(start));
}

void EndRejected(World* world, const std::string& daemon, const std::string& reason,
                 std::function<void()> start_over) {
  if (!absl::StrContains(reason, " is in use by a live daemon") ||
      !world->causes().was_lost(daemon)) {
    world->Fail(absl::StrCat("daemons are let in: ", daemon, ": ", reason));
  }
  world->network().After(kTryAgain, std::move(start_over));
}

}  // namespace strata::sim
